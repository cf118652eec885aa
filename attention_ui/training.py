"""Training in pieces: a model in the session that learns a little at a time while its page is open.

What is learned follows from the text, the kind of tokens, the layers and the seed alone, all of them in the
link; the pieces and pauses change no number. Only one session of the server takes a piece at a time, and for
twice as long as a piece took no other begins: however many readers train, they take a third of one processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from time import perf_counter, sleep

from attention_core.language_model import Shape
from attention_core.learning import Level, Plan, Trainer

PIECE = 0.07  # seconds that a piece aims at; it ends with the step that is then under way
EVERY = 0.5  # seconds from one piece to the next: an edit between them is as quick as ever
CURVE_EVERY = 1.0  # seconds from one drawing of the curve to the next, while it runs
REST = 2.0  # times a piece; so long no other begins
BREATH = 0.001  # seconds between two steps: whoever waits to serve another reader goes first
LATEST = 20  # steps whose mean loss is told
WIDTH, CONTEXT = 32, 24


@dataclass(frozen=True)
class Asked:
    """What a training follows from."""

    text: str
    level: Level
    layers: int
    seed: int

    def trainer(self) -> Trainer:
        """A model that has learned nothing yet. Raises ValueError for a text that cannot be learned."""
        shape = Shape(d_model=WIDTH, n_layers=self.layers, context=CONTEXT)
        return Trainer(self.text, Plan(level=self.level, shape=shape, seed=self.seed))

    def problem(self) -> str:
        """Why the text cannot be learned; "" where it can."""
        try:
            self.trainer()
        except ValueError as reason:
            return f"{str(reason)[:1].upper()}{str(reason)[1:].rstrip('.')}."
        return ""


class Turns:
    """Whose turn it is to take a piece: one at a time, with rests twice as long as the pieces."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._free = 0.0

    def begin(self) -> bool:
        """Whether a piece may be taken now; `end` has to follow."""
        if not self._lock.acquire(blocking=False):
            return False
        if perf_counter() < self._free:
            self._lock.release()
            return False
        return True

    def end(self, seconds: float) -> None:
        """The piece is over; it took so long."""
        self._free = perf_counter() + REST * seconds
        self._lock.release()


TURNS = Turns()


@dataclass
class Training:
    """A model on its way, kept in the session of its reader."""

    asked: Asked
    trainer: Trainer
    running: bool = True
    curve: tuple[int, float] = (0, 0.0)  # steps in the curve on screen, and when it was drawn

    def is_over(self, wanted: int) -> bool:
        return self.trainer.steps >= wanted

    def piece(self, wanted: int, *, turns: Turns = TURNS, seconds: float = PIECE) -> int:
        """Take steps, one at least, for about so many seconds, up to `wanted`; 0 where it is not our turn."""
        if self.is_over(wanted) or not turns.begin():
            return 0
        start, before = perf_counter(), self.trainer.steps
        try:
            self.trainer.step(1)
            while not self.is_over(wanted) and perf_counter() - start < seconds:
                sleep(BREATH)
                self.trainer.step(1)
        finally:
            turns.end(perf_counter() - start)
        return self.trainer.steps - before

    def in_curve(self) -> int:
        """How many steps the curve shows: all, but it is drawn anew once in a while only."""
        steps, drawn = self.curve
        if not self.running or perf_counter() - drawn > CURVE_EVERY:
            self.curve = steps, _ = self.trainer.steps, perf_counter()
        return steps

    @property
    def latest(self) -> float:
        """The mean loss of the latest steps; before any, that of equal shares: the model begins with it."""
        last = self.trainer.losses[-LATEST:]
        return sum(last) / len(last) if last else self.trainer.chance

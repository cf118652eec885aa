"""How much of the server's time one reader has in hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from attention_core.limits import ALONE, AT_A_STRETCH, EVERY, LONGEST_RUN, LONGEST_WAIT, SHARE

PIECE = 20_000  # bytes


@dataclass(eq=False)
class Work:
    """What a server does for its readers; of work for several at once, each has his part of the time."""

    at: float = 0.0
    done: float = 0.0  # seconds of work for each reader whom it worked for
    readers: dict[Allowance, float] = field(default_factory=dict)  # those it works for, and since when
    asked: dict[Allowance, float] = field(default_factory=dict)  # when each has asked last, in that order

    def settle(self, now: float) -> float:
        """Seconds of work so far for each one whom it works for."""
        busy = sum(now - since < LONGEST_RUN for since in self.readers.values())
        self.done += (now - self.at) / max(1, busy)
        self.at = now
        return self.done

    def are_others(self, reader: Allowance, now: float) -> bool:
        """Note that a reader asks for something; whether there are others who would have to wait for it."""
        self.asked.pop(reader, None)
        last = next(reversed(self.asked.values()), -ALONE)
        self.asked[reader] = now
        return now - last < ALONE


@dataclass(eq=False)
class Allowance:
    """Seconds that one reader has in hand.

    They grow by one a second, up to AT_A_STRETCH. Each message takes EVERY of them, and as much again for
    each PIECE of it; while the server works for this reader, 1 / SHARE of them go in a second, and less where
    it works for others at the same time: a busy server is slow, and that is not this reader's doing.
    """

    at: float
    work: Work = field(default_factory=Work)
    left: float = AT_A_STRETCH
    done: float = 0.0  # work, when it was last settled

    def asked(self, now: float, size: int) -> bool:
        """Whether a message of that many bytes, which has just come, has to wait; who is alone does not."""
        self._settle(now)
        self.left = max(-LONGEST_WAIT, self.left - EVERY * (1 + size / PIECE))
        return self.work.are_others(self, now) and self.left < 0

    def told(self, size: int) -> None:
        """A message of that many bytes brought more, for which no run of its own is needed."""
        self.left = max(-LONGEST_WAIT, self.left - EVERY * size / PIECE)

    def missing(self, now: float) -> float:
        """How many seconds it has to wait."""
        self._settle(now)
        return max(0.0, -self.left)

    def begins(self, now: float) -> None:
        """The server sets to work."""
        self._settle(now)
        self.work.readers[self] = now

    def ends(self, now: float) -> None:
        """The work is done."""
        self._settle(now)
        self.work.readers.pop(self, None)

    def gone(self) -> None:
        """The reader has left."""
        self.work.readers.pop(self, None)
        self.work.asked.pop(self, None)

    def never_was(self) -> None:
        """There was no work after all, so it took no time."""
        self.work.readers.pop(self, None)

    def _settle(self, now: float) -> None:
        done = self.work.settle(now)
        worked = done - self.done if self in self.work.readers else 0.0
        self.left = max(-LONGEST_WAIT, min(AT_A_STRETCH, self.left + (now - self.at) - worked / SHARE))
        self.at, self.done = now, done

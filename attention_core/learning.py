"""A small language model that learns a reader's text, a few steps at a time.

Nothing depends on the clock or on what ran before: which pieces of the text a step sees follows from seed
and step, so that training in one go, in steps of one, or resumed from `state` gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attention_core.cross_entropy import cross_entropy
from attention_core.language_model import (
    Ids,
    Shape,
    adam,
    all_windows,
    first_weights,
    forward,
    loss_and_gradient,
    windows,
)
from attention_core.limits import (
    LARGEST_BATCH,
    LARGEST_VOCABULARY,
    LONGEST_TEXT,
    MOST_AT_ONCE,
    MOST_STEPS,
    MOST_WRITTEN,
)
from attention_core.mask_arrays import whole
from attention_core.operations import Array
from attention_core.softmax import softmax

Level = Literal["characters", "words"]


def tokens_of(text: str, level: Level) -> tuple[str, ...]:
    """The characters of a text, or its words as white space parts them. ValueError for any other level."""
    if level not in ("characters", "words"):
        raise ValueError(f"level is characters or words, not {level!r}")
    return tuple(text) if level == "characters" else tuple(text.split())


@dataclass(frozen=True)
class Plan:
    """What is trained, and how. Raises ValueError where something is out of range."""

    level: Level = "characters"
    shape: Shape = field(default_factory=Shape)
    batch: int = 16  # pieces of the text in a step
    rate: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        tokens_of("", self.level)
        if not whole(self.batch) or not 1 <= self.batch <= LARGEST_BATCH:
            raise ValueError(f"batch has to be a whole number from 1 to {LARGEST_BATCH}, not {self.batch!r}")
        if not (isfinite(self.rate) and 0 < self.rate <= 1):
            raise ValueError(f"rate has to be above 0 and at most 1, not {self.rate}")
        if not whole(self.seed) or not 0 <= self.seed < 2**32:
            raise ValueError(f"seed has to be a whole number from 0 to 2³² − 1, not {self.seed!r}")


class Trainer:
    """A model on its way through a text.

    A text shorter than the context makes the context shorter. Raises ValueError for a text of more than 4,000
    characters, with fewer than two different tokens or more than 256, and for a state of another shape.
    """

    def __init__(
        self, text: str, plan: Plan | None = None, *, state: Mapping[str, Array] | None = None
    ) -> None:
        plan = Plan() if plan is None else plan
        if len(text) > LONGEST_TEXT:
            raise ValueError(
                f"the text has {len(text)} characters, and at most {LONGEST_TEXT} can be learned"
            )
        tokens = tokens_of(text, plan.level)
        self.vocabulary = tuple(sorted(set(tokens)))
        if len(self.vocabulary) < 2:
            raise ValueError(
                f"two different {plan.level} or more are needed, and there is nothing to tell apart"
            )
        if len(self.vocabulary) > LARGEST_VOCABULARY:
            raise ValueError(
                f"the text has {len(self.vocabulary)} different {plan.level}, "
                f"and at most {LARGEST_VOCABULARY} can be learned"
            )
        self._number = {token: number for number, token in enumerate(self.vocabulary)}
        self.ids: Ids = np.array([self._number[token] for token in tokens])
        context = min(plan.shape.context, len(tokens) - 1)
        self.plan = replace(plan, shape=replace(plan.shape, context=context))
        self.weights = first_weights(self.plan.shape, len(self.vocabulary), plan.seed)
        self._first = {name: np.zeros_like(w) for name, w in self.weights.items()}
        self._second = {name: np.zeros_like(w) for name, w in self.weights.items()}
        self.losses: tuple[float, ...] = ()
        if state is not None:
            self._resume(state)

    @property
    def steps(self) -> int:
        """How many have been taken."""
        return len(self.losses)

    @property
    def chance(self) -> float:
        """The loss of calling every token equally likely: the logarithm of the size of the vocabulary."""
        return log(len(self.vocabulary))

    @property
    def parameters(self) -> int:
        """How many numbers are learned."""
        return sum(w.size for w in self.weights.values())

    def step(self, k: int = 1) -> tuple[float, ...]:
        """Take k steps, or as many as are left of 2,000; the loss of each, before its change of the weights.

        Raises ValueError unless k is a whole number from 1 to 200.
        """
        if not whole(k) or not 1 <= k <= MOST_AT_ONCE:
            raise ValueError(f"k has to be a whole number of steps from 1 to {MOST_AT_ONCE}, not {k!r}")
        shape, plan = self.plan.shape, self.plan
        losses: list[float] = []
        for number in range(self.steps + 1, min(self.steps + k, MOST_STEPS) + 1):
            places = windows(len(self.ids), shape.context, plan.batch, plan.seed, number)
            seen = self.ids[places]
            loss, gradient = loss_and_gradient(shape, self.weights, seen[:, :-1], seen[:, 1:])
            self.weights, self._first, self._second = adam(
                self.weights, gradient, self._first, self._second, number, plan.rate
            )
            losses.append(loss)
        self.losses += tuple(losses)
        return tuple(losses)

    @property
    def state(self) -> dict[str, Array]:
        """Everything that another Trainer on the same text and plan needs to go on from here, as arrays."""
        kept = {"weights": self.weights, "first": self._first, "second": self._second}
        state = {f"{kind}/{name}": a.copy() for kind, arrays in kept.items() for name, a in arrays.items()}
        return state | {"losses": np.array(self.losses)}

    def loss(self) -> float:
        """The mean loss over the whole text, cut into pieces as long as the context."""
        total, count = 0.0, 0
        for places in all_windows(len(self.ids), self.plan.shape.context, LARGEST_BATCH):
            seen = self.ids[places]
            logits = forward(self.plan.shape, self.weights, seen[:, :-1]).logits
            total += float(cross_entropy(logits, seen[:, 1:], reduction="sum"))
            count += seen[:, 1:].size
        return total / count

    def attention_maps(self, text: str) -> tuple[Array, ...]:
        """The weights of every layer, (n_heads, n, n), for the last tokens of a text."""
        made = forward(self.plan.shape, self.weights, self.numbered(text))
        return tuple(layer.weights for layer in made.layers)

    def next_token(self, text: str) -> Array:
        """(vocabulary,): how likely each token is to come next."""
        return softmax(forward(self.plan.shape, self.weights, self.numbered(text)).logits[-1])

    def numbered(self, text: str) -> Ids:
        """The numbers of the last tokens of a text, as many as the model sees.

        Raises ValueError for an empty text and for tokens that the learned text does not have.
        """
        tokens = tokens_of(text, self.plan.level)
        unknown = sorted(set(tokens) - set(self.vocabulary))
        if unknown:
            listed = ", ".join(repr(token[:20]) for token in unknown[:5])
            raise ValueError(f"the learned text does not have {listed}{', …' if len(unknown) > 5 else ''}")
        if not tokens:
            raise ValueError("a token to begin with is needed")
        return np.array([self._number[token] for token in tokens[-self.plan.shape.context :]])

    def written(self, text: str, many: int, *, temperature: float = 1.0, seed: int = 0) -> tuple[str, ...]:
        """Tokens that follow a text, each drawn from the probabilities after those before it.

        temperature divides the logits; 0 takes the likeliest. Raises ValueError for a temperature below 0 and
        for many outside 1 to 400.
        """
        if not whole(many) or not 1 <= many <= MOST_WRITTEN:
            raise ValueError(f"many has to be a whole number from 1 to {MOST_WRITTEN}, not {many!r}")
        if not (isfinite(temperature) and temperature >= 0):
            raise ValueError(f"temperature has to be a finite number from 0 on, not {temperature}")
        rng, ids, context = np.random.default_rng(seed), self.numbered(text), self.plan.shape.context
        drawn: list[str] = []
        for _ in range(many):
            logits = forward(self.plan.shape, self.weights, ids[-context:]).logits[-1]
            number = int(logits.argmax()) if temperature == 0 else _drawn(logits / temperature, rng)
            ids = np.append(ids, number)
            drawn.append(self.vocabulary[number])
        return tuple(drawn)

    def _resume(self, state: Mapping[str, Array]) -> None:
        mine = self.state
        wrong = sorted(
            name
            for name in {*mine, *state}
            if name not in state
            or name not in mine
            or (name != "losses" and state[name].shape != mine[name].shape)
        )
        if wrong:
            raise ValueError(f"the state does not belong to this text and plan: {', '.join(wrong[:3])}")
        self.losses = tuple(map(float, state["losses"]))
        kinds: dict[str, dict[str, Array]] = {"weights": {}, "first": {}, "second": {}}
        for name, array in state.items():
            kind, _, weight = name.partition("/")
            if kind in kinds:
                kinds[kind][weight] = np.array(array, dtype=np.float64)
        self.weights, self._first, self._second = kinds["weights"], kinds["first"], kinds["second"]


def _drawn(logits: Array, rng: np.random.Generator) -> int:
    """A class drawn with the probabilities of softmax: where a number from 0 to 1 falls among their sums."""
    sums: NDArray[np.float64] = np.cumsum(softmax(logits))
    return int(min(np.searchsorted(sums, rng.random() * sums[-1], side="right"), len(sums) - 1))

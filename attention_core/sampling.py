"""Choosing the next token: temperature, top-k and top-p on a distribution, and a draw from what is left.

The steps are the sheet in sampling_sheet.py. A draw is one number between 0 and 1, from a seed; the token is
the first whose running sum, in the order of the vocabulary, lies above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.mask_arrays import whole
from attention_core.operations import Array
from attention_core.sampling_sheet import ROUNDING, order, running_sum, sampling_sheet
from attention_core.sheet import Sheet, run

SUM_TO_ONE = 1e-9  # how far probabilities may be from adding up to 1


@dataclass(frozen=True, eq=False)
class Distribution:
    """Every step from the logits to the probabilities that a token is drawn from, read-only, each (…, C)."""

    logits: Array
    probabilities: Array  # after the temperature
    order: NDArray[np.intp]  # classes from the likeliest to the least likely
    stays_k: NDArray[np.bool_]  # among the k largest; all True without top_k
    after_k: Array  # shared out again; = probabilities without top_k
    running: Array  # after_k of the class and of all likelier ones added up
    stays_p: NDArray[np.bool_]  # likelier ones do not come to p; = stays_k without top_p
    final: Array  # shared out again: what is drawn from
    sheet: Sheet
    values: Mapping[str, NDArray[Any]]  # every line of the sheet by name


@dataclass(frozen=True, eq=False)
class Draw:
    """One token drawn: the number between 0 and 1, the running sums it was held against, the token."""

    number: float
    sums: Array  # (C,), in the order of the vocabulary
    token: int  # the first whose sum is above the number


def distribution(
    logits: ArrayLike, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Distribution:
    """Logits (…, C) divided by the temperature, shared out, and filtered by top_k and then by top_p.

    temperature 0 gives everything to the largest logit. top_k: how many classes stay, None for all. top_p:
    classes stay, from the likeliest on, until they have this much together; None keeps all.

    Raises ValueError for logits that are not numbers below ∞ with one above −∞ in every row, for a
    temperature below 0 or too small to divide by, for a top_k below 1, and for a top_p of 0 or above 1.
    """
    scores = _checked(logits, temperature)
    if top_k is not None and not (whole(top_k) and top_k >= 1):
        raise ValueError(f"top_k has to be a whole number from 1 on, or None for all, not {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p has to be above 0 and at most 1, or None for all, not {top_p}")
    keep = None if top_k is None else min(int(top_k), scores.shape[-1])
    sheet = sampling_sheet(greedy=temperature == 0, top_k=keep, top_p=top_p is not None)
    given: dict[str, Any] = {"logits": scores, "temperature": temperature, "top_p": top_p}
    values = run(sheet, {line.name: given[line.name] for line in sheet.given})
    after_k = values.get("after_k", values["probabilities"])
    places, running = order(values["probabilities"]), running_sum(after_k)
    stays_k = np.argsort(places, axis=-1) < (scores.shape[-1] if keep is None else keep)
    stays_p = stays_k & (running - after_k < (2.0 if top_p is None else top_p) - ROUNDING)
    for array in (places, stays_k, running, stays_p):
        array.flags.writeable = False
    return Distribution(
        logits=values["logits"],
        probabilities=values["probabilities"],
        order=places,
        stays_k=stays_k,
        after_k=after_k,
        running=running,
        stays_p=stays_p,
        final=values[sheet.stages[-1].name],
        sheet=sheet,
        values=MappingProxyType(values),
    )


def draw(probabilities: ArrayLike, seed: int | Sequence[int]) -> Draw:
    """One class drawn from probabilities (C,), always the same one for the same seed.

    seed is a whole number from 0 on or several of them: (seed, step) gives every step a draw of its own.
    Raises ValueError for probabilities that are below 0 or do not add up to 1.
    """
    shares = np.asarray(probabilities, dtype=np.float64)
    if shares.ndim != 1 or not (shares >= 0).all() or abs(shares.sum() - 1) > SUM_TO_ONE:
        raise ValueError(
            f"probabilities {shares.shape} have to be one row of numbers from 0 on that add up to 1"
        )
    sums = np.cumsum(shares)
    number = float(np.random.default_rng(seed).random())
    inside = np.flatnonzero((sums > number) & (shares > 0))
    token = int(inside[0] if inside.size else np.flatnonzero(shares)[-1])
    return Draw(number, sums, token)


def sample(
    logits: ArrayLike,
    seed: int | Sequence[int],
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> int:
    """The class drawn for one row of logits (C,): `distribution` and `draw` in one call."""
    return draw(distribution(logits, temperature=temperature, top_k=top_k, top_p=top_p).final, seed).token


def _checked(logits: ArrayLike, temperature: float) -> Array:
    """Logits that can be shared out, as float64, and a temperature that they can be divided by."""
    scores = np.asarray(logits)
    if scores.dtype.kind not in "iuf" or scores.ndim == 0:
        raise ValueError(f"logits {scores.shape} hold {scores.dtype}, and rows of numbers are needed")
    if np.isnan(scores).any() or (scores == np.inf).any() or not (scores > -np.inf).any(axis=-1).all():
        raise ValueError(
            f"logits {scores.shape} have to be numbers below ∞, with one above −∞ in every row: "
            "otherwise there is nothing to share out"
        )
    if not (isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature has to be a finite number from 0 on, not {temperature}")
    with np.errstate(over="ignore"):
        largest = np.abs(scores, where=np.isfinite(scores), out=np.zeros(scores.shape)).max(initial=0.0)
        if temperature and not isfinite(np.float64(largest) / temperature):
            raise ValueError(
                f"temperature {temperature} is too small: logits over it cannot be held; 0 takes the largest"
            )
    return scores.astype(np.float64, copy=False)

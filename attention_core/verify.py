"""Numbers that someone has worked out, held against the right ones stage by stage.

The first stage that differs is where the mistake is: what comes after it has inherited it. A known mistake is
recognised by giving the same numbers at every stage that was handed in.

A number agrees when |given − right| ≤ atol + rtol · |right|; −∞ agrees with −∞, and what has no value with
what has none. How far rounding may carry two right programs apart: Higham 2002, Accuracy and Stability of
Numerical Algorithms, chapter 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from attention_core.operations import Array
from attention_core.wrong import RIGHT, STAGES, WRONG, Problem, stages

Outcome = Literal["right", "wrong", "shape", "missing"]


@dataclass(frozen=True)
class Tolerance:
    """How far a number may be from the right one."""

    title: str
    rtol: float
    atol: float


TOLERANCES = {
    "float64": Tolerance("float64", 1e-10, 1e-12),
    "float32": Tolerance("float32", 1e-5, 1e-6),
    "shown": Tolerance("two decimals", 0.0, 0.005),
}


@dataclass(frozen=True)
class Compared:
    """One stage: how it came out, and the cell that is furthest off (row and column from 0)."""

    name: str
    outcome: Outcome
    cell: tuple[int, ...] = ()
    given: float = 0.0
    right: float = 0.0
    wrong: int = 0  # cells that differ
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # as given, as it should be


def agree(given: Array, right: Array, tolerance: Tolerance) -> bool:
    """Whether two matrices have one shape and agree in every cell."""
    return given.shape == right.shape and bool(_close(given, right, tolerance).all())


def compare(
    given: Mapping[str, ArrayLike], right: Mapping[str, Array], tolerance: Tolerance
) -> tuple[Compared, ...]:
    """Every stage of `right` in its order, held against what was given under the same name."""
    return tuple(_compared(name, given.get(name), right[name], tolerance) for name in right)


def first_wrong(compared: tuple[Compared, ...]) -> Compared | None:
    """The first stage that does not come out; one that was not given is passed over."""
    return next((each for each in compared if each.outcome in ("wrong", "shape")), None)


def known_mistakes(given: Mapping[str, ArrayLike], problem: Problem, tolerance: Tolerance) -> tuple[str, ...]:
    """The mistakes, by name, that give the same numbers at every stage given; none where all is right.

    Stages of one head may come without the axis of heads.
    """
    right = of_one_head(stages(problem)) if problem.n_heads == 1 else stages(problem)
    handed = {name: np.asarray(given[name], dtype=np.float64) for name in STAGES if name in given}
    if all(agree(a, right[name], tolerance) for name, a in handed.items()):
        return ()
    found = []
    for name in WRONG:
        made = outcome(name, problem)
        if made is not None and all(agree(a, made[stage], tolerance) for stage, a in handed.items()):
            found.append(name)
    return tuple(found)


def outcome(name: str | None, problem: Problem) -> dict[str, Array] | None:
    """The stages that a mistake makes, or for None the right ones; one head without the axis of heads.

    None where the mistake cannot be made on these shapes.
    """
    try:
        made = stages(problem, RIGHT if name is None else WRONG[name].program)
    except ValueError:
        return None
    return of_one_head(made) if problem.n_heads == 1 else made


def of_one_head(made: Mapping[str, Array]) -> dict[str, Array]:
    """The stages of a single head as matrices."""
    return {name: stage[0] for name, stage in made.items()}


def apart(one: Mapping[str, Array], other: Mapping[str, Array], least: float) -> bool:
    """Whether a weight or a number of the output differs by more than `least`, or lacks a value in one."""
    return any(_further(one[name], other[name], least) for name in ("weights", "output"))


def _further(a: Array, b: Array, least: float) -> bool:
    if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
        return True
    return bool((np.abs(a - b)[~np.isnan(a)] > least).any())


def _close(given: Array, right: Array, tolerance: Tolerance) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        close: np.ndarray = np.isclose(given, right, rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True)
    return close


def _compared(name: str, given: ArrayLike | None, right: Array, tolerance: Tolerance) -> Compared:
    if given is None:
        return Compared(name, "missing")
    a = np.asarray(given, dtype=np.float64)
    if a.shape != right.shape:
        return Compared(name, "shape", shapes=(a.shape, right.shape))
    close = _close(a, right, tolerance)
    if close.all():
        return Compared(name, "right")
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.where(close, -1.0, np.nan_to_num(np.abs(a - right), nan=np.inf, posinf=np.inf))
    cell = tuple(int(place) for place in np.unravel_index(int(off.argmax()), a.shape))
    return Compared(name, "wrong", cell, float(a[cell]), float(right[cell]), int((~close).sum()))

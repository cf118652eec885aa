r"""Gradients beside what trying finds: each number of a matrix a little up, a little down, and both losses.

    tried = (loss with the number + h − loss with the number − h) / 2h        loss = Σ dO ∘ O

The loss says what dO means: a step of 1 in a number of the output moves it by that number of dO. The mistake
that is here under its name treats softmax as if each weight depended on its own score only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import isfinite, isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attention_core.differences import DIFFERENCE
from attention_core.gradient_sheet import gradient_sheet
from attention_core.gradients import STEP
from attention_core.numbers import exact
from attention_core.operations import KEEP, Array, operation, per_cell, same_matrix
from attention_core.sheet import Sheet, Stage, between, follow, given, mark, stage
from attention_core.worked import Cell, Work
from attention_core.written import Show, equals, factor, plain_sign, read, tex

DIGITS = 12  # of a loss in the arithmetic of a cell: the two differ late


class Tried(NamedTuple):
    """A matrix whose gradient is tried: its line, and the axes of both."""

    letter: str
    title: str
    axes: str


TRIED = {
    "v": Tried("V", "V", "key d_v"),
    "weights": Tried("A", "the weights", "query key"),
    "scores": Tried("S", "the scores", "query key"),
    "q": Tried("Q", "Q", "query d_k"),
    "k": Tried("K", "K", "key d_k"),
}


def losses_around(
    sheet: Sheet,
    values: Mapping[str, NDArray[Any]],
    name: str,
    *,
    target: str = "output",
    d_target: str = "d_output",
    step: float = STEP,
) -> tuple[Array, Array]:
    """The losses Σ d_target ∘ target with each number of a matrix (n, d) raised by a step, and lowered.

    Both have the shape of the matrix. All changes go through the stages between it and the target at once,
    along two axes in front. Raises KeyError for a line that is not there.
    """
    matrix = np.asarray(values[name], dtype=np.float64)
    moves = step * np.eye(matrix.size).reshape(matrix.size, *matrix.shape)
    moved = {**values, name: matrix + np.stack([moves, -moves])}
    lines = follow(between(sheet, name, target), moved)
    with np.errstate(all="ignore"):
        losses = (lines[d_target] * lines[target]).sum(axis=(-2, -1))
    above, below = np.broadcast_to(losses, (2, matrix.size)).reshape(2, *matrix.shape)
    return above, below


def _slope(above: Array, below: Array, step: Array) -> Array:
    return same_matrix(above, (above - below) / (2.0 * step))


def slope(here: Cell) -> Work:
    """The difference of two losses over the way between them, with the digits in which they differ."""
    above, below, step = here.number(0), here.number(1), here.number(2)
    high, low, way = (_long(number, here.show) for number in (above, below, step))
    value = here.value(lambda: (above - below) / (2 * step))
    sign = equals([(read(high) - read(low)) / (2 * read(way))], [value])
    return Work(
        f"({high} − {factor(low)}) / (2 × {way}) {plain_sign(sign)} {value}",
        (
            rf"{here.name} &= \frac{{{tex(high)} - {tex(factor(low))}}}{{2 \times {tex(way)}}}",
            f"&{sign} {tex(value)}",
        ),
    )


def _long(number: float, show: Show) -> str:
    """A number with the digits that tell two losses apart, where the formatter leaves them out."""
    text = show(number)
    if read(text) == number or not isfinite(number) or isnan(read(text)):
        return text
    return exact(float(f"{number:.{DIGITS}g}")).replace("-", "−")


# fmt: off
SLOPE = operation("slope found by trying", _slope, "cell cell all", slope, per_cell(3),
                  latex=r"\frac{{{0} - {1}}}{{2\,{2}}}", code="({0} - {1}) / (2 * {2})")

OPERATIONS = (SLOPE,)

H = given("step", "h", mark("h"), "Step", "", 0, (
    "By how much a number is moved to try it.",
    "Small, so that the loss is nearly straight in between; not so small that rounding takes over."))
_ABOVE = ("The loss with this number raised by h, and all others as they are.",
          "One whole calculation for every cell.")
_BELOW = ("The loss with this number lowered by h, and all others as they are.",
          "One whole calculation for every cell.")
_TRIED = ("How much the loss moves with this number, found by moving it up and down.",
          "No rule for gradients is needed for it, only the calculation itself, twice for every number.")
_APART = ("The gradient less what trying finds.",
          "0 but for rounding, where the gradient is right.")
_ALONE = ("The gradient of the weight as it is: nothing has been taken off.",
          "Right only where the average of the row is 0.")
# fmt: on


@cache
def tried_sheet(name: str, *, alone: bool = False) -> Sheet:
    """Attention from q, k, v, its gradients, and the gradient of one of TRIED beside what trying finds.

    loss_above, loss_below and step are given, see `losses_around`. alone: the mistake of leaving the average
    of the row out of softmax's gradient. Raises ValueError for a name that is not one of TRIED.
    """
    if name not in TRIED:
        raise ValueError(f"a gradient of {', '.join(TRIED)} can be tried, not of {name!r}")
    letter, title, axes = TRIED[name]
    whole = backward(alone=alone)

    def around(which: str, sup: str, says: tuple[str, str]) -> tuple[Any, ...]:
        symbol, pieces = rf"\ell^{{{sup}}}_{letter}", mark("ℓ", letter, sup.replace("-", "−"))
        word = "raised" if sup == "+" else "lowered"
        return (f"loss_{which}", symbol, pieces, f"Loss, {title} {word}", axes, 0, says)

    symbol, pieces = rf"\mathrm{{d}}{letter}_{{\text{{tried}}}}", mark(f"d{letter}", "tried")
    found = ("tried", symbol, pieces, f"Gradient of {title}, tried", axes, 0)
    apart = ("apart", "D", mark("D"), "Difference", axes, 0)
    return Sheet(
        (*whole.given, given(*around("above", "+", _ABOVE)), given(*around("below", "-", _BELOW)), H),
        (
            *whole.stages,
            stage(found, SLOPE, "loss_above loss_below step", _TRIED),
            stage(apart, DIFFERENCE, f"d_{name} tried", _APART),
        ),
    )


@cache
def backward(*, alone: bool = False) -> Sheet:
    """The gradients of attention from q, k and v; with the mistake, or without it."""
    sheet = gradient_sheet()
    if not alone:
        return sheet
    return Sheet(sheet.given, tuple(map(_without_average, sheet.stages)))


def _without_average(line: Stage) -> Stage:
    """The line where the average of the row would be taken off, without that."""
    if line.name != "centred":
        return line
    return replace(line, operation=KEEP, inputs=("d_weights",), meaning=_ALONE[0], look=_ALONE[1])

r"""The few operations that every calculation here is made of.

An operation says once: how to compute the whole matrix, how to write it on paper, in NumPy and in
PyTorch, which cells of its inputs one cell is made from, how that cell is worked out by hand, and
what it costs.

Costs count arithmetic on single numbers, and a multiply-add is 2: a product of n × k and k × m costs
2·n·k·m. Of the functions, exp, log and tanh count as 1, and so does a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_core import worked
from attention_core.softmax import logsumexp, softmax
from attention_core.worked import Cell, Work
from attention_core.written import Show

Array = NDArray[np.float64]
Truth = NDArray[np.bool_]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operation:
    """One way of making a matrix out of others.

    `reads` has one pattern per input: which of its cells make cell (i, j), all counted from 0.

    | pattern | cells |
    | --- | --- |
    | row, column, cell, swapped | row i, column j, (i, j), (j, i) |
    | all | every cell, or the one number |
    | first, top | (i, 0): a number per row; (0, j): a number per column |
    | shift K | (i, j + K), none where that is outside; K may be negative |
    | pair, pair W | (i, j) and its neighbour, columns 0 and 1, 2 and 3, …; (i, j) alone from column W on |
    | half W | (i, j) and (i, j ± W/2), both of the first W columns; (i, j) alone from column W on |
    | angle, angle W | (i, j >> 1); none from column W on |
    | angle-half W | (i, j mod W/2); none from column W on |
    | at I R | (R, j) where i is I, none elsewhere |
    | turned R, side C | (R, i); (i, C) |
    | rows R S T … | (R, j) for row 0, (S, j) for row 1, (T, j) for row 2, … |
    | head H D N M | the matrix (N, M·D) cut into M heads without swapping axes: the cell it was in head H |

    `worked(cell)` gives the arithmetic of one cell, `flops(shapes)` the number of operations for inputs of
    these shapes. `helpers` are the functions that `code` calls, for programs to bring along. `arrow` is what
    stands over an arrow to the result: the inputs' symbols go into the braces, {other} is the one of two
    equals that the arrow does not come from.
    """

    name: str
    compute: Callable[..., Array]
    latex: str  # the inputs' symbols go into the braces
    code: str  # NumPy; the inputs' names go into the braces
    torch: str  # PyTorch, likewise
    reads: tuple[str, ...]
    worked: Callable[[Cell], Work]
    flops: Callable[[Sequence[Shape]], int]
    helpers: tuple[Callable[..., Any], ...] = ()
    arrow: str | None = None  # None: the name

    def over_arrow(self, symbols: Sequence[str], place: int = 0) -> str:
        """What stands over an arrow that comes from the input at `place`, with plain symbols for the inputs.

        Where the order of the inputs matters and the arrow comes from a later one, the first is written too:
        ÷ σ from C, C ÷ σ from σ.
        """
        template = self.name if self.arrow is None else self.arrow
        other = next((symbol for at, symbol in enumerate(symbols) if at != place), "")
        text = template.format(*symbols, other=other)
        return f"{symbols[0]} {text}" if place and "{1}" in template else text

    def work(self, inputs: Sequence[Any], i: int, j: int, show: Show, **more: Any) -> Work:
        """The arithmetic of cell (i, j), counted from 0; `more` are further fields of a Cell."""
        return self.worked(Cell(inputs, i, j, show, **more))


def matmul(a: Array, b: Array, masked: Array | None = None) -> Array:
    """a @ b; where `masked` is −∞, that row of b takes no part, not even as 0 × NaN.

    a (…, n, m), b (…, m, d), masked (…, n, m) -> (…, n, d).
    """
    finite = np.isfinite(b)
    if masked is None or finite.all():
        return a @ b
    result: Array = np.matmul(a, np.where(finite, b, 0.0))
    for j in np.flatnonzero(~finite.swapaxes(-1, -2).reshape(-1, b.shape[-2]).all(axis=0)):
        met = (masked[..., :, j, None] != -np.inf) & ~finite[..., None, j, :]
        with np.errstate(invalid="ignore"):
            result = result + np.where(met, a[..., :, j, None] * b[..., None, j, :], 0.0)
    return result


def _transpose(a: Array) -> Array:
    return a.swapaxes(-1, -2)


def _keep(a: Array) -> Array:
    return a


def _softcap(a: Array, cap: Array) -> Array:
    capped: Array = cap * np.tanh(a / cap)
    return capped


def _add(a: Array, b: Array) -> Array:
    return same_matrix(a, a + b)


def _mask(a: Array, may_look: Truth) -> Array:
    if may_look.all():
        return same_matrix(a, np.broadcast_to(a, np.broadcast_shapes(a.shape, may_look.shape)))
    return same_matrix(a, np.where(may_look, a, -np.inf))


def _logsumexp(a: Array, weights: Array | None = None) -> Array:
    """logsumexp of the rows; the largest weight of a row is e^0 / Σ, so its logarithm gives Σ again."""
    if weights is None:
        return logsumexp(a)
    top = a.max(axis=-1, initial=-np.inf)
    result: Array = np.where(np.isinf(top), top, top - np.log(weights.max(axis=-1, initial=0.0)))
    return result


def same_matrix(a: Array, result: Array) -> Array:
    """Refuse a broadcast that would make the matrix itself larger."""
    if result.shape[-2:] != a.shape[-2:]:
        raise ValueError("the last two axes differ")
    return result


def per_cell(count: int) -> Callable[[Sequence[Shape]], int]:
    """The flops of an operation that takes `count` of them for every cell of its first input."""

    def flops(shapes: Sequence[Shape]) -> int:
        return count * prod(shapes[0])

    return flops


FREE = per_cell(0)  # moving numbers is no arithmetic


def _matmul_flops(shapes: Sequence[Shape]) -> int:
    left, right = shapes
    return 2 * prod(np.broadcast_shapes(left[:-2], right[:-2])) * left[-2] * left[-1] * right[-1]


def operation(
    name: str,
    compute: Any,
    reads: str,
    work: Any,
    flops: Any,
    *,
    latex: str,
    code: str,
    torch: str = "",
    helpers: tuple[Callable[..., Any], ...] = (),
    arrow: str | None = None,
) -> Operation:
    """An Operation in one call: patterns of one word each, and PyTorch as NumPy unless it is given."""
    patterns = tuple(reads.split())
    return Operation(name, compute, latex, code, torch or code, patterns, work, flops, helpers, arrow)


# fmt: off
MATMUL = operation("product", matmul, "row column", worked.dot, _matmul_flops,
                   latex=r"{0}\,{1}", code="{0} @ {1}", arrow="× {1}")
TRANSPOSE = operation("transpose", _transpose, "swapped", worked.swap, FREE,
                      latex=r"{0}^\top", code="{0}.swapaxes(-1, -2)")
KEEP = operation("no change", _keep, "cell", worked.keep, FREE,
                 latex="{0}", code="{0}", arrow="")
DIVIDE = operation("division", np.divide, "cell all", worked.quotient, per_cell(1),
                   latex=r"\frac{{{0}}}{{{1}}}", code="{0} / {1}", arrow="÷ {1}")
SCALE = operation("multiplication by a number", np.multiply, "cell all", worked.times, per_cell(1),
                  latex=r"{1}\,{0}", code="{0} * {1}", arrow="× {1}")
SOFTCAP = operation("soft cap", _softcap, "cell all", worked.capped, per_cell(3),
                    latex=r"{1}\,\tanh\left(\frac{{{0}}}{{{1}}}\right)",
                    code="{1} * np.tanh({0} / {1})", torch="{1} * torch.tanh({0} / {1})")
ADD = operation("sum", _add, "cell cell", worked.plus, per_cell(1),
                latex="{0} + {1}", code="{0} + {1}", arrow="+ {other}")
MASK = operation("mask", _mask, "cell cell", worked.mask, per_cell(1),
                 latex="{0} + {1}",
                 code="np.where({1}, {0}, -np.inf)", torch="{0}.masked_fill(~{1}, -torch.inf)",
                 arrow="+ {1}")
SOFTMAX = operation("softmax", softmax, "row", worked.share, per_cell(5),
                    latex=r"\operatorname{{softmax}}\left({0}\right)",
                    code="softmax({0})", torch="torch.softmax({0}, dim=-1)", helpers=(softmax,))
LOGSUMEXP = operation("log-sum-exp", _logsumexp, "row", worked.log_sum, per_cell(4),
                      latex=r"\log \textstyle\sum_j e^{{{0}}}",
                      code="logsumexp({0})", torch="torch.logsumexp({0}, dim=-1)", helpers=(logsumexp,))
# fmt: on

OPERATIONS = (MATMUL, TRANSPOSE, KEEP, DIVIDE, SCALE, SOFTCAP, ADD, MASK, SOFTMAX, LOGSUMEXP)

r"""Two attentions of the same queries to different keys, merged into one: outputs weighed by their sums.

    L = log(e^(L_a) + e^(L_b))        O = e^(L_a − L) O_a + e^(L_b − L) O_b

O and L are the output and the log-sum-exp of each row (Milakov and Gimelshein 2018; Dao et al. 2022). The
result does not depend on the order or on how the keys were dealt out. A part in which a query may look
nowhere has L = −∞ and takes no part; where both have, the output is 0 and L stays −∞.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, inf

import numpy as np
from numpy.typing import ArrayLike

from attention_core import worked
from attention_core.operations import Array, operation, per_cell, same_matrix
from attention_core.softmax import logsumexp
from attention_core.worked import Cell, Work
from attention_core.written import equals, plain_sign, read, tex

Pair = tuple[Array, Array]  # output (…, n_q, d_v), lse (…, n_q)


def merge(output_a: ArrayLike, lse_a: ArrayLike, output_b: ArrayLike, lse_b: ArrayLike) -> Pair:
    """The output (…, n_q, d_v) and lse (…, n_q) of attention to the keys of both parts.

    Raises ValueError naming shapes where an output has not one row for each lse or the two do not broadcast.
    """
    a, b = _checked("a", output_a, lse_a), _checked("b", output_b, lse_b)
    try:
        lse = log_add(a[1], b[1])
    except ValueError:
        raise ValueError(f"lse_a {a[1].shape} and lse_b {b[1].shape} do not broadcast") from None
    weighed = [output * part(mine, lse)[..., None] for output, mine in (a, b)]
    return weighed[0] + weighed[1], lse


def merge_all(pairs: Iterable[Pair]) -> Pair:
    """All parts merged, one after the other. Raises ValueError where there is none."""
    rest = iter(pairs)
    merged = next(rest, None)
    if merged is None:
        raise ValueError("there is nothing to merge")
    for pair in rest:
        merged = merge(*merged, *pair)
    return merged


def log_add(a: Array, b: Array) -> Array:
    """log(e^a + e^b), cell by cell; −∞ where both are."""
    with np.errstate(invalid="ignore"):
        result: Array = np.logaddexp(a, b)
    return result


def part(mine: Array, whole: Array) -> Array:
    """e^(mine − whole), the part of a sum that is mine; 0 where there is nothing to share."""
    with np.errstate(invalid="ignore"):
        result: Array = np.exp(mine - np.where(np.isneginf(whole), 0.0, whole))
    return result


def _checked(name: str, output: ArrayLike, lse: ArrayLike) -> Pair:
    rows, sums = np.asarray(output, dtype=np.float64), np.asarray(lse, dtype=np.float64)
    if rows.ndim < 2 or rows.shape[:-1] != sums.shape:
        raise ValueError(f"output_{name} {rows.shape} and lse_{name} {sums.shape} do not fit: one lse a row")
    return rows, sums


def _log_sum(a: Array) -> Array:
    return logsumexp(a)[..., None]


def _log_add(a: Array, b: Array) -> Array:
    return same_matrix(a, log_add(a, b))


def _part(mine: Array, whole: Array) -> Array:
    return same_matrix(mine, part(mine, whole))


def _times_first(a: Array, column: Array) -> Array:
    if column.shape[-1] != 1:
        raise ValueError("one number per row is needed")
    return same_matrix(a, a * column)


def both(here: Cell) -> Work:
    """The logarithm of the sum of two exponentials."""
    a, b = (float(matrix[here.i, here.j]) for matrix in here.inputs)
    left, right, value = here.show(a), here.show(b), here.value(lambda: _together(a, b))
    if a == b == -inf:
        return Work(f"neither part has anything to look at: {value}", (f"{here.name} &= {tex(value)}",))
    sign = equals([_together(read(left), read(right))], [value])
    return Work(
        f"log(e^({left}) + e^({right})) {plain_sign(sign)} {value}",
        (
            rf"{here.name} &= \log\left(e^{{{tex(left)}}} + e^{{{tex(right)}}}\right)",
            f"&{sign} {tex(value)}",
        ),
    )


def _together(a: float, b: float) -> float:
    return float(log_add(np.array(a), np.array(b)))


def portion(here: Cell) -> Work:
    """e to the power of one logarithm less another."""
    mine, whole = (float(matrix[here.i, here.j]) for matrix in here.inputs)
    value = here.value(lambda: float(part(np.array(mine), np.array(whole))))
    if whole == -inf:
        return Work(f"there is nothing to share: {value}", (f"{here.name} &= {tex(value)}",))
    left, right = here.show(mine), here.show(whole)
    sign = equals([exp(read(left) - read(right))], [value])
    return Work(
        f"e^({left} − ({right})) {plain_sign(sign)} {value}",
        (f"{here.name} &= e^{{{tex(left)} - ({tex(right)})}}", f"&{sign} {tex(value)}"),
    )


# fmt: off
LOG_SUM = operation("log-sum-exp of a row", _log_sum, "row", worked.log_sum, per_cell(4),
                    latex=r"\log \textstyle\sum_j e^{{{0}}}", code="logsumexp({0})[..., None]",
                    torch="torch.logsumexp({0}, dim=-1, keepdim=True)", helpers=(logsumexp,))
LOG_ADD = operation("log of two sums together", _log_add, "cell cell", both, per_cell(4),
                    latex=r"\log\left(e^{{{0}}} + e^{{{1}}}\right)",
                    code="np.logaddexp({0}, {1})", torch="torch.logaddexp({0}, {1})")
PART = operation("part of a sum", _part, "cell cell", portion, per_cell(2),
                 latex=r"e^{{{0} - {1}}}",
                 code="np.exp({0} - np.where(np.isneginf({1}), 0.0, {1}))",
                 torch="torch.exp({0} - {1}.masked_fill(torch.isneginf({1}), 0.0))")
TIMES_FIRST = operation("times a number per row", _times_first, "cell first", worked.times, per_cell(1),
                        latex=r"{0} \odot {1}", code="{0} * {1}", arrow="× {1}")
# fmt: on

OPERATIONS = (LOG_SUM, LOG_ADD, PART, TIMES_FIRST)

r"""Arithmetic cell by cell: a matrix with another, with a number per row or per column, or with one number.

Per-row numbers are a matrix (n, 1): means, deviations. Per-column numbers are a matrix (1, d): gains, biases.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attention_core import worked
from attention_core.operations import Array, operation, per_cell, same_matrix
from attention_core.worked import Cell, Work, ratio, two
from attention_core.written import equals, factor, plain_sign, read, tex, visible


def minus(here: Cell) -> Work:
    """One number minus another."""
    a, b = here.number(0), here.number(1)
    left, right, value = here.show(a), here.show(b), here.value(lambda: a - b)
    return two(left, "−", right, value, read(left) - read(right), here.name)


def over(here: Cell) -> Work:
    """One number divided by another, both visible even where they are small."""
    a, b = here.number(0), here.number(1)
    top, bottom, value = visible(a, here.show), visible(b, here.show), here.value(lambda: ratio(a, b))
    sign = equals([ratio(read(top), read(bottom))], [value])
    return Work(
        f"{top} / {factor(bottom)} {plain_sign(sign)} {value}",
        (rf"{here.name} &= \frac{{{tex(top)}}}{{{tex(bottom)}}}", f"&{sign} {tex(value)}"),
    )


def _per_row(compute: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def checked(a: Array, column: Array) -> Array:
        if column.shape[-1] != 1:
            raise ValueError("one number per row is needed")
        return same_matrix(a, compute(a, column))

    return checked


def _per_column(compute: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def checked(a: Array, row: Array) -> Array:
        if row.shape[-2] != 1:
            raise ValueError("one number per column is needed")
        return same_matrix(a, compute(a, row))

    return checked


def _multiply(a: Array, b: Array) -> Array:
    if a.shape[-2:] != b.shape[-2:]:
        raise ValueError("the last two axes differ")
    result: Array = a * b
    return result


# fmt: off
MULTIPLY = operation("product cell by cell", _multiply, "cell cell", worked.times, per_cell(1),
                     latex=r"{0} \odot {1}", code="{0} * {1}", arrow="× {other}")
MINUS_FIRST = operation("minus a number per row", _per_row(np.subtract), "cell first", minus, per_cell(1),
                        latex="{0} - {1}", code="{0} - {1}", arrow="− {1}")
OVER_FIRST = operation("over a number per row", _per_row(np.divide), "cell first", over, per_cell(1),
                       latex=r"{0} \oslash {1}", code="{0} / {1}", arrow="÷ {1}")
MINUS_TOP = operation("minus a number per column", _per_column(np.subtract), "cell top", minus, per_cell(1),
                      latex="{0} - {1}", code="{0} - {1}", arrow="− {1}")
OVER_TOP = operation("over a number per column", _per_column(np.divide), "cell top", over, per_cell(1),
                     latex=r"{0} \oslash {1}", code="{0} / {1}", arrow="÷ {1}")
TIMES_TOP = operation("times a number per column", _per_column(np.multiply), "cell top", worked.times,
                      per_cell(1), latex=r"{0} \odot {1}", code="{0} * {1}", arrow="× {1}")
PLUS_TOP = operation("plus a number per column", _per_column(np.add), "cell top", worked.plus,
                     per_cell(1), latex="{0} + {1}", code="{0} + {1}", arrow="+ {1}")
PLUS_NUMBER = operation("plus a number", np.add, "cell all", worked.plus, per_cell(1),
                        latex="{0} + {1}", code="{0} + {1}", arrow="+ {1}")
# fmt: on

OPERATIONS = (
    MULTIPLY,
    MINUS_FIRST,
    OVER_FIRST,
    MINUS_TOP,
    OVER_TOP,
    TIMES_TOP,
    PLUS_TOP,
    PLUS_NUMBER,
)

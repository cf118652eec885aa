r"""Operations for a second run with one row changed, and for what differs between two matrices."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np

from attention_core.elementwise import minus
from attention_core.operations import Array, Operation, operation, per_cell, same_matrix
from attention_core.worked import Cell, Work, keep, two
from attention_core.written import read


def _difference(a: Array, b: Array) -> Array:
    if a.shape[-2:] != b.shape[-2:]:
        raise ValueError("the last two axes differ")
    return same_matrix(a, a - b)


DIFFERENCE = operation("difference", _difference, "cell cell", minus, per_cell(1),
                       latex="{0} - {1}", code="{0} - {1}", arrow="− {1}")  # fmt: skip


@cache
def plus_in_row(row: int) -> Operation:
    """The operation that adds the one row of a second matrix to row `row` (from 0) of the first."""

    def compute(a: Array, change: Array) -> Array:
        if change.shape[-2] != 1 or change.shape[-1] != a.shape[-1] or row >= a.shape[-2]:
            raise ValueError(f"{change.shape} is not one row to be added to row {row + 1} of {a.shape}")
        return np.where(np.arange(a.shape[-2])[:, None] == row, a + change, a)

    def work(here: Cell) -> Work:
        if here.i != row:
            return keep(here)
        a, b = here.number(0), float(here.inputs[1][0, here.j])
        left, right, value = here.show(a), here.show(b), here.value(lambda: a + b)
        return two(left, "+", right, value, read(left) + read(right), here.name)

    chosen = "{library}.where({library}.arange({{0}}.shape[-2])[:, None] == {row}, {{0}} + {{1}}, {{0}})"
    return Operation(
        "a change in one row",
        compute,
        rf"{{0}} + e_{{{{{row + 1}}}}}\,{{1}}",
        chosen.format(library="np", row=row),
        chosen.format(library="torch", row=row),
        ("cell", f"at {row} 0"),
        work,
        lambda shapes: prod(shapes[1]),
    )


OPERATIONS = (DIFFERENCE,)

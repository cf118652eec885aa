r"""Operations that take single rows: a word in two sentences, what each key brings, tokens in another order.

A cell of these is made from a fixed row of an input: pattern "at I R" is the cell (R, j) where i = I and
nothing elsewhere; "turned R" is the cell (R, i), "side R" the cell (i, R); "rows 2 0 1" is the cell (2, j)
for i = 0, (0, j) for i = 1, (1, j) for i = 2.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from attention_core.operations import FREE, Array, Operation
from attention_core.worked import Cell, Work, taken, two
from attention_core.written import read


@cache
def with_last_row(n: int) -> Operation:
    """n − 1 rows of one matrix, and under them the last of the n rows of another."""

    def compute(rows: Array, other: Array) -> Array:
        if (rows.shape[-2], other.shape[-2]) != (n - 1, n) or rows.shape[-1] != other.shape[-1]:
            raise ValueError(f"{rows.shape} and {other.shape} are not {n - 1} and {n} rows of one width")
        return np.concatenate([rows, other[..., -1:, :]], axis=-2)

    def work(here: Cell) -> Work:
        return taken(here, int(here.i == n - 1), here.i, here.j)

    return Operation(
        "another sentence with the same last word",
        compute,
        r"\begin{{bmatrix}}{0}\\ \text{{last row of }}{1}\end{{bmatrix}}",
        "np.concatenate([{0}, {1}[..., -1:, :]], axis=-2)",
        "torch.cat([{0}, {1}[..., -1:, :]], dim=-2)",
        ("cell", f"at {n - 1} {n - 1}"),
        work,
        FREE,
    )


@cache
def last_rows(n: int) -> Operation:
    """The last rows of two matrices with n rows each, one under the other."""

    def compute(a: Array, b: Array) -> Array:
        if a.shape != b.shape or a.shape[-2] != n:
            raise ValueError(f"{a.shape} and {b.shape} do not have {n} rows of one width")
        return np.concatenate([a[..., -1:, :], b[..., -1:, :]], axis=-2)

    def work(here: Cell) -> Work:
        return taken(here, here.i, n - 1, here.j)

    return Operation(
        "last rows",
        compute,
        r"\begin{{bmatrix}}\text{{last row of }}{0}\\ \text{{last row of }}{1}\end{{bmatrix}}",
        "np.concatenate([{0}[..., -1:, :], {1}[..., -1:, :]], axis=-2)",
        "torch.cat([{0}[..., -1:, :], {1}[..., -1:, :]], dim=-2)",
        (f"at 0 {n - 1}", f"at 1 {n - 1}"),
        work,
        FREE,
    )


@cache
def brought(row: int, *, down: bool = False) -> Operation:
    """What each key brings to the query `row` (from 0): its weight times its value, one row per key.

    down: the mistake of reading the table of weights down column `row` instead of along the row.
    """
    slice_ = f"[..., :, {row}, None]" if down else f"[..., {row}, :, None]"

    def compute(weights: Array, v: Array) -> Array:
        read_off = weights[..., :, row] if down else weights[..., row, :]
        if read_off.shape[-1] != v.shape[-2]:
            raise ValueError("there are not as many weights as values")
        return read_off[..., None] * v

    def work(here: Cell) -> Work:
        weight = float(here.inputs[0][here.i, row] if down else here.inputs[0][row, here.i])
        value = here.number(1)
        left, right = here.show(weight), here.show(value)
        shown = here.value(lambda: weight * value)
        return two(left, "×", right, shown, read(left) * read(right), here.name)

    return Operation(
        "weight times value",
        compute,
        rf"\text{{{{{'column' if down else 'row'} {row + 1} of }}}}{{0}} \odot {{1}}",
        f"{{0}}{slice_} * {{1}}",
        f"{{0}}{slice_} * {{1}}",
        (f"{'side' if down else 'turned'} {row}", "cell"),
        work,
        lambda shapes: int(np.prod(shapes[1])),
    )


@cache
def taken_rows(order: tuple[int, ...]) -> Operation:
    """The operation that makes row i of its result of row order[i] of a matrix, both counted from 0."""

    def compute(a: Array) -> Array:
        if not order or min(order) < 0 or max(order) >= a.shape[-2]:
            raise ValueError(f"{a.shape} does not have the rows {order}")
        return a[..., list(order), :]

    def work(here: Cell) -> Work:
        return taken(here, 0, order[here.i], here.j)

    code = f"{{0}}[..., {list(order)}, :]"
    listed = ", ".join(str(row + 1) for row in order)
    return Operation(
        f"rows {listed}",
        compute,
        rf"\operatorname{{{{rows}}}}_{{{{{listed}}}}}\left({{0}}\right)",
        code,
        code,
        (f"rows {' '.join(map(str, order))}",),
        work,
        FREE,
    )

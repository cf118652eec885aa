r"""Rows put under one another: how a cache grows by a token a step, and outputs become one matrix again.

    K_t = [ K_{t−1} ; k_t ]

Nothing is worked out, rows are only kept: these operations count as none. Written as a new matrix the cache
is copied; a program that has kept room for the row writes that row alone.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from attention_core.operations import FREE, Array, Operation
from attention_core.worked import Cell, Work, taken


@cache
def appended(past: int) -> Operation:
    """The operation that puts one row under `past` rows of the same width. ValueError for fewer than 1."""
    if past < 1:
        raise ValueError(f"a row is put under 1 row or more, not {past}")

    def compute(rows: Array, row: Array) -> Array:
        if (rows.shape[-2], row.shape[-2]) != (past, 1) or rows.shape[-1] != row.shape[-1]:
            raise ValueError(f"{rows.shape} and {row.shape} are not {past} rows and one of the same width")
        return np.concatenate([rows, row], axis=-2)

    def work(here: Cell) -> Work:
        which, row = (0, here.i) if here.i < past else (1, 0)
        return taken(here, which, row, here.j)

    return Operation(
        f"a row under {past}",
        compute,
        r"\begin{{bmatrix}}{0}\\ {1}\end{{bmatrix}}",
        "np.concatenate([{0}, {1}], axis=-2)",
        "torch.cat([{0}, {1}], dim=-2)",
        ("rows " + " ".join(map(str, [*range(past), -1])), f"at {past} 0"),
        work,
        FREE,
        arrow="new row",
    )


@cache
def one_under_another(rows: int) -> Operation:
    """The operation that puts so many single rows under one another."""

    def compute(*parts: Array) -> Array:
        if len(parts) != rows or any(part.shape[-2] != 1 for part in parts):
            raise ValueError(f"{rows} single rows of one width are needed")
        return np.concatenate(parts, axis=-2)

    def work(here: Cell) -> Work:
        return taken(here, here.i, 0, here.j)

    places = [f"{{{row}}}" for row in range(rows)]
    return Operation(
        f"{rows} rows under one another",
        compute,
        r"\begin{{bmatrix}}" + r"\\ ".join(places) + r"\end{{bmatrix}}",
        f"np.concatenate([{', '.join(places)}], axis=-2)",
        f"torch.cat([{', '.join(places)}], dim=-2)",
        tuple(f"at {row} 0" for row in range(rows)),
        work,
        FREE,
    )

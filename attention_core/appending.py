r"""One row put under the rows that a cache already holds: how keys and values grow by a token a step.

    K_t = [ K_{t−1} ; k_t ]

Nothing is worked out, a row is only kept: the operation counts as none. Written as a new matrix the cache is
copied; a program that has kept room for the row writes that row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from attention_core.operations import Array, Operation
from attention_core.worked import Work
from attention_core.written import Show, cell, tex


@cache
def appended(past: int) -> Operation:
    """The operation that puts one row under `past` rows of the same width. ValueError for fewer than 1."""
    if past < 1:
        raise ValueError(f"a row is put under 1 row or more, not {past}")

    def compute(rows: Array, row: Array) -> Array:
        if (rows.shape[-2], row.shape[-2]) != (past, 1) or rows.shape[-1] != row.shape[-1]:
            raise ValueError(f"{rows.shape} and {row.shape} are not {past} rows and one of the same width")
        return np.concatenate([rows, row], axis=-2)

    def work(
        inputs: Sequence[Any],
        i: int,
        j: int,
        show: Show,
        *,
        name: str = "",
        titles: Sequence[str] = ("the cache", "the new row"),
        symbols: Sequence[str] = ("A", "B"),
        **_: Any,
    ) -> Work:
        which, row = (0, i) if i < past else (1, 0)
        value = show(float(inputs[which][row, j]))
        return Work(
            f"row {row + 1}, column {j + 1} of {titles[which]}: {value}",
            (f"{name} &= {cell(symbols[which], row, j)}", f"&= {tex(value)}"),
        )

    return Operation(
        f"a row under {past}",
        compute,
        r"\begin{{bmatrix}}{0}\\ {1}\end{{bmatrix}}",
        "np.concatenate([{0}, {1}], axis=-2)",
        "torch.cat([{0}, {1}], dim=-2)",
        ("rows " + " ".join(map(str, [*range(past), -1])), f"at {past} 0"),
        work,
        lambda shapes: 0,
    )

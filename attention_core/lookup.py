r"""Operations that take single rows of a matrix, and that look one value up instead of mixing all of them.

A lookup gives weight 1 to the key with the largest score and 0 to all others; of equal scores the first one
counts. Softmax makes such a lookup soft: Graves, Wayne and Danihelka 2014, "Neural Turing Machines", 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from attention_core import worked
from attention_core.operations import FREE, MATMUL, Array, Operation, Shape, operation, per_cell
from attention_core.worked import Cell, Work
from attention_core.written import tex, wrapped


@cache
def one_row(row: int) -> Operation:
    """The operation that takes one row of a matrix, counted from 0."""

    def compute(a: Array) -> Array:
        if row >= a.shape[-2]:
            raise ValueError(f"there is no row {row + 1} in {a.shape}")
        return a[..., row : row + 1, :]

    def work(here: Cell) -> Work:
        return worked.taken(here, 0, row, here.j)

    code = f"{{0}}[..., {row}:{row + 1}, :]"
    shown = rf"\text{{{{row {row + 1} of }}}}{{0}}"
    return Operation("one row", compute, shown, code, code, (f"at 0 {row}",), work, FREE)


@cache
def of_first(n: int) -> Operation:
    """The operation that multiplies the first n rows of a matrix by another one."""

    def compute(a: Array, b: Array) -> Array:
        if n > a.shape[-2]:
            raise ValueError(f"there are no {n} rows in {a.shape}")
        product: Array = a[..., :n, :] @ b
        return product

    def flops(shapes: Sequence[Shape]) -> int:
        (*leading, _, d), right = shapes
        return MATMUL.flops([(*leading, n, d), right])

    code = f"{{0}}[..., :{n}, :] @ {{1}}"
    shown = rf"{{0}}_{{{{1\ldots {n}}}}}\,{{1}}"
    return Operation(
        "product of the first rows", compute, shown, code, code, ("row", "column"), worked.dot, flops
    )


def _picked(a: Array) -> Array:
    picked: Array = (a.argmax(axis=-1)[..., None] == np.arange(a.shape[-1])).astype(np.float64)
    return picked


def picked(here: Cell) -> Work:
    """1 at the largest number of a row, 0 elsewhere."""
    row = here.inputs[0][here.i]
    best = int(row.argmax())
    value, listed = here.show(float(here.j == best)), [here.show(number) for number in row.tolist()]
    verdict = f"the largest is {'' if here.j == best else 'not '}number {here.j + 1}"
    lines = wrapped(r"s &= (", [tex(text) for text in listed], r",\; ")
    return Work(
        f"of {', '.join(listed)} {verdict}: {value}",
        (*lines[:-1], f"{lines[-1]})", rf"{here.name} &= {tex(value)} \quad \text{{{verdict}}}"),
    )


PICK = operation(
    "1 at the largest of a row",
    _picked,
    "row",
    picked,
    per_cell(1),
    latex=r"\operatorname{{largest}}\left({0}\right)",
    code="({0}.argmax(axis=-1)[..., None] == np.arange({0}.shape[-1])).astype(np.float64)",
    torch="F.one_hot({0}.argmax(dim=-1), {0}.shape[-1]).to({0}.dtype)",
)

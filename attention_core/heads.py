r"""Heads: the columns of Q, K and V shared out among several attentions, and their outputs put side by side.

    head_h = Attention(Q_h, K_h, V_h),  MultiHead = [head_1 … head_H] W_O        Vaswani et al. 2017, 3.2.2

The weights of all heads stand side by side in one W_Q, so that head h (counted from 0) owns the columns from
h·d to (h + 1)·d. A program that reshapes (n, H·d) to (H, n, d) without swapping axes cuts by rows instead:
that mistake is here too, under its name.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate

import numpy as np

from attention_core.operations import FREE, Array, Operation
from attention_core.worked import Cell, Work, taken


@cache
def columns(start: int, width: int) -> Operation:
    """The operation that takes `width` columns of a matrix, counted from `start` (from 0)."""
    stop = start + width

    def compute(a: Array) -> Array:
        if stop > a.shape[-1]:
            raise ValueError(f"there are no {stop} columns in {a.shape}")
        return a[..., start:stop]

    def work(here: Cell) -> Work:
        return taken(here, 0, here.i, start + here.j)

    code = f"{{0}}[..., {start}:{stop}]"
    shown = rf"\operatorname{{{{columns}}}}_{{{{{start + 1}\ldots {stop}}}}}\left({{0}}\right)"
    return Operation(
        f"columns {start + 1} to {stop}", compute, shown, code, code, (f"shift {start}",), work, FREE
    )


@cache
def join(widths: tuple[int, ...]) -> Operation:
    """The operation that puts matrices of these widths side by side."""
    starts = [0, *accumulate(widths)][:-1]

    def compute(*parts: Array) -> Array:
        if tuple(part.shape[-1] for part in parts) != widths:
            raise ValueError(f"the widths are not {widths}")
        return np.concatenate(parts, axis=-1)

    def work(here: Cell) -> Work:
        which = max(w for w, start in enumerate(starts) if start <= here.j)
        return taken(here, which, here.i, here.j - starts[which])

    places = [f"{{{which}}}" for which in range(len(widths))]
    listed = ", ".join(places)
    return Operation(
        "side by side",
        compute,
        r"\left[" + r" \;\; ".join(places) + r"\right]",
        f"np.concatenate([{listed}], axis=-1)",
        f"torch.cat([{listed}], dim=-1)",
        tuple(f"shift {-start}" for start in starts),
        work,
        FREE,
    )


@cache
def head_cut(head: int, n_heads: int, d: int, n: int) -> Operation:
    """The mistake: a matrix of n rows reshaped to (n_heads, n, d) without swapping axes; its head `head`.

    Cell (i, j) is number head·n·d + i·d + j of the matrix, counted row by row from 0, and so comes from
    another row than i, except by chance. With one head nothing is wrong.
    """

    def compute(a: Array) -> Array:
        if a.shape[-2:] != (n, n_heads * d):
            raise ValueError(f"{a.shape} is not {n} rows of {n_heads} heads with {d} columns each")
        return a.reshape(*a.shape[:-2], n_heads, n, d)[..., head, :, :]

    def work(here: Cell) -> Work:
        row, column = divmod((head * n + here.i) * d + here.j, n_heads * d)
        return taken(here, 0, row, column)

    code = f"{{0}}.reshape(*{{0}}.shape[:-2], {n_heads}, {n}, {d})[..., {head}, :, :]"
    sizes = rf"{n_heads} \times {n} \times {d}"
    shown = rf"\operatorname{{{{reshape}}}}_{{{{{sizes}}}}}\left({{0}}\right)_{{{{{head + 1}}}}}"
    reads = (f"head {head} {d} {n} {n_heads}",)
    name = f"head {head + 1} of {n_heads}, cut without the transpose"
    return Operation(name, compute, shown, code, code, reads, work, FREE)

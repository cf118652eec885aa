"""How queries and keys are cut into tiles, and which part of the mask and the bias belongs to a tile.

A mask may be an array, which is cut, or a rule: a function of query and key positions, as in
`lambda query, key: key <= query`. A rule is asked tile by tile, so that no table of all pairs is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.fitting import leading_axes, numbers, settings, with_shared_heads
from attention_core.mask_arrays import count
from attention_core.operations import Array, Truth
from attention_core.sheets import Scaling

Positions = NDArray[np.int64]
Rule = Callable[[Positions, Positions], Truth]  # (queries as a column, keys as a row) -> True = may look


@dataclass(frozen=True, eq=False)
class Tiling:
    """The arguments of attention, checked, and how they are cut."""

    q: Array  # (…, n_q, d_k)
    k: Array  # (…, n_k, d_k), shared heads repeated
    v: Array  # (…, n_k, d_v), shared heads repeated
    mask: Truth | Rule | None  # an array has all rows and columns of the scores
    bias: Array | None
    scaling: Scaling  # "sqrt" divides by number, "number" multiplies
    number: float
    softcap: float | None
    queries: tuple[slice, ...]  # the rows of each tile, the last perhaps shorter
    keys: tuple[slice, ...]  # the columns of each tile

    @property
    def leading(self) -> tuple[int, ...]:
        """The leading axes of the scores with mask and bias."""
        beside = [a.shape[:-2] for a in (self.mask, self.bias) if isinstance(a, np.ndarray)]
        return np.broadcast_shapes(self.q.shape[:-2], self.k.shape[:-2], *beside)

    def may_look(self, rows: slice, columns: slice) -> Truth | None:
        """The mask of one tile, None without a mask. Raises ValueError for a rule that gives no tile."""
        return part(self.mask, rows, columns)


def part(mask: Truth | Rule | None, rows: slice, columns: slice) -> Truth | None:
    """The part of a mask that belongs to one tile, None without a mask."""
    if mask is None:
        return None
    if isinstance(mask, np.ndarray):
        return mask[..., rows, columns]
    tile = (rows.stop - rows.start, columns.stop - columns.start)
    allow: Truth = np.asarray(mask(_positions(rows)[:, None], _positions(columns)[None, :]))
    last = (1, 1, *allow.shape)[-2:]
    fits = allow.ndim <= 2 and all(have in (1, need) for have, need in zip(last, tile, strict=True))
    if allow.dtype != np.bool_ or not fits:
        raise ValueError(
            f"the rule gave {allow.dtype} {allow.shape} for {tile[0]} queries and {tile[1]} keys; "
            "True or False is needed for each of them, True = may look"
        )
    return np.broadcast_to(allow, tile)


def tiling(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    mask: ArrayLike | Rule | None,
    bias: ArrayLike | None,
    scale: float | None,
    softcap: float | None,
    block_q: int,
    block_k: int,
) -> Tiling:
    """The arguments of `flash_attention`, checked and cut. Raises ValueError where they do not fit."""
    queries = numbers("q", q)
    keys, values = with_shared_heads(queries, numbers("k", k), numbers("v", v))
    n_q, n_k = queries.shape[-2], keys.shape[-2]
    table = (*leading_axes(queries, keys, values), n_q, n_k)
    rule = mask if callable(mask) else None
    array = np.True_ if mask is None or callable(mask) else mask  # one True in place of a whole table
    given = settings(table, queries.shape[-1], array, bias, scale, softcap)
    return Tiling(
        queries,
        keys,
        values,
        rule if array is np.True_ else given["mask"],
        given.get("bias"),
        "sqrt" if scale is None else "number",
        float(given["divisor" if scale is None else "scale"]),
        softcap,
        cut(n_q, block_q, "block_q"),
        cut(n_k, block_k, "block_k"),
    )


def cut(n: int, block: int, name: str = "block") -> tuple[slice, ...]:
    """n positions in slices of `block`, the last perhaps shorter. Raises ValueError for a block below 1."""
    if count(name, block) < 1:
        raise ValueError(f"{name} must be at least 1, not 0")
    return tuple(slice(start, min(start + block, n)) for start in range(0, n, block))


def _positions(places: slice) -> Positions:
    return np.arange(places.start, places.stop, dtype=np.int64)

"""Attention tile by tile with every number kept: the same calculation as in `tiles`, to be looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.operations import Array
from attention_core.sheet import Sheet, run
from attention_core.tile_sheet import tile_sheet
from attention_core.tiling import Rule, Tiling, tiling

_FIELDS = ("masked", "powers", "factor", "maximum", "total", "mixed", "output", "lse")


@dataclass(frozen=True, eq=False)
class Tile:
    """One tile, read-only. Numbers per query are columns (…, rows, 1)."""

    number: int  # from 0, in the order in which tiles are worked
    rows: slice  # which queries
    columns: slice  # which keys
    skipped: bool  # no query of it may look at any key of it: nothing is computed, nothing changes
    masked: Array  # (…, rows, columns), the scores that go into softmax
    powers: Array  # (…, rows, columns), e^(score − maximum)
    factor: Array  # e^(maximum_before − maximum), what is kept is multiplied by it
    maximum_before: Array
    maximum: Array
    total_before: Array
    total: Array
    mixed_before: Array  # (…, rows, d_v), the accumulator
    mixed: Array
    output: Array  # (…, rows, d_v), mixed / total: final after the last tile of these queries
    lse: Array  # maximum + log total
    sheet: Sheet
    values: Mapping[str, NDArray[Any]]  # every line of the sheet by name; empty where skipped


def flash_steps(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    mask: ArrayLike | Rule | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    block_q: int = 64,
    block_k: int = 64,
) -> Iterator[Tile]:
    """Every tile of `flash_attention`, which has the same arguments: for each block of queries all keys.

    Arguments are checked at once, tiles are worked as they are asked for. Raises ValueError as
    flash_attention does.
    """
    return _worked(tiling(q, k, v, mask, bias, scale, softcap, block_q, block_k))


def _worked(tiles: Tiling) -> Iterator[Tile]:
    sheet = tile_sheet(scaling=tiles.scaling, softcap=tiles.softcap is not None, bias=tiles.bias is not None)
    number = 0
    for rows in tiles.queries:
        before = _nothing(tiles, rows)
        for columns in tiles.keys:
            tile = _tile(tiles, sheet, number, rows, columns, before)
            before = {f"{name}_before": getattr(tile, name) for name in ("maximum", "total", "mixed")}
            yield tile
            number += 1


def _nothing(tiles: Tiling, rows: slice) -> dict[str, Array]:
    """What is kept before the first tile."""
    n = rows.stop - rows.start
    leading = np.broadcast_shapes(tiles.leading, tiles.v.shape[:-2])
    column, nothing = (*tiles.leading, n, 1), np.zeros(())
    return {
        "maximum_before": np.broadcast_to(nothing - np.inf, column),
        "total_before": np.broadcast_to(nothing, column),
        "mixed_before": np.broadcast_to(nothing, (*leading, n, tiles.v.shape[-1])),
    }


def _tile(
    tiles: Tiling, sheet: Sheet, number: int, rows: slice, columns: slice, before: Mapping[str, Array]
) -> Tile:
    allow = tiles.may_look(rows, columns)
    size = (rows.stop - rows.start, columns.stop - columns.start)
    allow = np.ones(size, dtype=bool) if allow is None else allow
    skipped = prod(size) > 0 and not allow.any()
    values: dict[str, NDArray[Any]] = {}
    if not skipped:
        given: dict[str, Any] = {"mask": allow, "q": tiles.q[..., rows, :], **before}
        given |= {"k": tiles.k[..., columns, :], "v": tiles.v[..., columns, :]}
        given["divisor" if tiles.scaling == "sqrt" else "scale"] = tiles.number
        given |= {} if tiles.softcap is None else {"softcap": tiles.softcap}
        given |= {} if tiles.bias is None else {"bias": tiles.bias[..., rows, columns]}
        values = run(sheet, given)
    kept = values or _as_before(before, (*tiles.leading, *size))
    return Tile(
        number=number,
        rows=rows,
        columns=columns,
        skipped=skipped,
        **{name: kept[name] for name in (*before, *_FIELDS)},
        sheet=sheet,
        values=MappingProxyType(values),
    )


def _as_before(before: Mapping[str, Array], table: tuple[int, ...]) -> dict[str, Array]:
    """What a tile that is skipped leaves: everything as it was."""
    maximum, total, mixed = (before[f"{name}_before"] for name in ("maximum", "total", "mixed"))
    with np.errstate(all="ignore"):
        lse = np.where(np.isinf(maximum), maximum, maximum + np.log(total))
    left = {
        "masked": np.full(table, -np.inf),
        "powers": np.zeros(table),
        "factor": np.ones_like(maximum),
        "output": mixed / np.where(total == 0.0, 1.0, total),
        "lse": lse,
    }
    for value in left.values():
        value.flags.writeable = False
    return {**before, "maximum": maximum, "total": total, "mixed": mixed, **left}

r"""Attention tile by tile as a walk: which tiles are worked, what each leaves, and one of them as a sheet.

The lines of a tile are those of tile_sheet.py. Around them stand the whole Q, K and V, the rows of them that
the tile holds, and plain attention over the whole table to compare with. Tiles in which no query may look at
any key are left out of the walk (Dao et al. 2022); where all are, the first one is shown.

`rescale=False` is the mistake of going on with the old sum and accumulator when the maximum has grown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_core.differences import DIFFERENCE
from attention_core.operations import KEEP, Array, Truth
from attention_core.rows import taken_rows
from attention_core.sheet import Given, Sheet, Stage, given, mark, run, stage
from attention_core.sheets import ATTENTION
from attention_core.tile_sheet import tile_sheet
from attention_core.tiling import cut

BEFORE = ("maximum_before", "total_before", "mixed_before")
KEPT = ("maximum", "total", "mixed")
_PARTS = {"q": "q_b", "k": "k_b", "v": "v_b", "mask": "mask_b"}  # of the tile, beside the whole
_AXES = {"query": "query_b", "key": "key_b"}

# fmt: off
_PART_SAYS = (
    "One number of {0} in this tile.",
    "Read from slow memory for this tile; the rest of {0} is not needed now.")
_TILED_SAYS = (
    "One feature of the output, as the last tile of its queries left it.",
    "Queries whose tiles are not all done are not here yet.")
_PLAIN_SAYS = (
    "The same feature by plain attention over the whole table of scores.",
    "Only the rows that are done by tiles, too.")
_DIFFERENCE_SAYS = (
    "How far the two outputs are apart.",
    "0, or a rounding error: 1e−16 is the last digit of a float64.")
_STAYS = (
    "The {0} before, as it was.",
    "Its terms were taken against a smaller maximum than those of this tile.")
# fmt: on


@dataclass(frozen=True, eq=False)
class Step:
    """One tile that is worked: its queries and keys, counted from 0, and every line of its sheet."""

    rows: range
    columns: range
    values: Mapping[str, NDArray[Any]]
    last: bool  # of its queries

    @property
    def before(self) -> dict[str, Array]:
        return {name: self.values[name] for name in BEFORE}


@dataclass(frozen=True, eq=False)
class Walk:
    """All tiles in order."""

    queries: tuple[range, ...]
    keys: tuple[range, ...]
    steps: tuple[Step, ...]
    skipped: tuple[tuple[range, range], ...]
    output: Array  # (n_q, d_v)


def walk(
    q: Array, k: Array, v: Array, mask: Truth, *, block_q: int, block_k: int, rescale: bool = True
) -> Walk:
    """Work q (n_q, d_k), k (n_k, d_k) and v (n_k, d_v) through, block after block of queries.

    Raises ValueError for blocks below 1 and where shapes do not fit.
    """
    queries = tuple(map(_range, cut(len(q), block_q, "block_q")))
    keys = tuple(map(_range, cut(len(k), block_k, "block_k")))
    tiles = [(rows, columns) for rows in queries for columns in keys]
    worked = [tile for tile in tiles if _part(mask, *tile).any()] or tiles[:1]
    output = np.zeros((len(q), v.shape[-1]))
    steps: list[Step] = []
    for number, (rows, columns) in enumerate(worked):
        is_first = number == 0 or worked[number - 1][0] != rows
        before = nothing(len(rows), v.shape[-1]) if is_first else _kept(steps[-1])
        values = run(_tile(rescale), _givens(q, k, v, mask, rows, columns) | before)
        last = number + 1 == len(worked) or worked[number + 1][0] != rows
        steps.append(Step(rows, columns, values, last))
        output[rows.start : rows.stop] = values["output"]
    skipped = tuple(tile for tile in tiles if tile not in worked)
    output.flags.writeable = False
    return Walk(queries, keys, tuple(steps), skipped, output)


def nothing(rows: int, d_v: int) -> dict[str, Array]:
    """What is kept before the first tile: no maximum, an empty sum, an empty accumulator."""
    return dict(
        zip(BEFORE, (np.full((rows, 1), -np.inf), np.zeros((rows, 1)), np.zeros((rows, d_v))), strict=True)
    )


@cache
def walk_sheet(rows: range, columns: range, done: int, *, rescale: bool = True) -> Sheet:
    """One tile among the whole matrices: q, k, v, mask and what was kept before are given.

    done: so many queries have all their tiles behind them; their output by tiles is given as `tiled` and
    compared with plain attention.
    """
    tile = _tile(rescale)
    parts = [_taken(letter, places) for letter, places in (("q", rows), ("k", columns), ("v", columns))]
    lines = [_moved(line) for line in tile.stages]
    whole = [replace(line, step=0) for line in ATTENTION.given]
    kept = [_in_block(line) for line in tile.given if line.name in BEFORE]
    rule = replace(
        next(line for line in tile.given if line.is_rule), name="mask_b", axes=("query_b", "key_b"),
        symbol=r"M_{\text{tile}}", mark=mark("M", "tile"),
    )  # fmt: skip
    compared = _compared(done) if done else ((), ())
    return Sheet((*whole, *kept, rule, *compared[0]), (*parts, *lines, *_plain(), *compared[1]))


@cache
def _tile(rescale: bool) -> Sheet:
    """The sheet of a tile, with the rescaling or without it."""
    sheet = tile_sheet()
    if rescale:
        return sheet
    unscaled = {"kept_total": "sum", "kept": "accumulator"}
    stages = [
        replace(
            line, operation=KEEP, inputs=line.inputs[:1],
            title=line.title.replace("rescaled", "not rescaled"),
            meaning=_STAYS[0].format(unscaled[line.name]), look=_STAYS[1],
        )
        if line.name in unscaled
        else line
        for line in sheet.stages
    ]  # fmt: skip
    return Sheet(sheet.given, tuple(stages))


def _givens(q: Array, k: Array, v: Array, mask: Truth, rows: range, columns: range) -> dict[str, Any]:
    places = slice(columns.start, columns.stop)
    tile = {
        "q": q[rows.start : rows.stop],
        "k": k[places],
        "v": v[places],
        "mask": _part(mask, rows, columns),
    }
    return tile | {"divisor": np.sqrt(q.shape[-1])}


def _part(mask: Truth, rows: range, columns: range) -> Truth:
    return mask[rows.start : rows.stop, columns.start : columns.stop]


def _kept(step: Step) -> dict[str, Array]:
    return dict(zip(BEFORE, (step.values[name] for name in KEPT), strict=True))


def _range(places: slice) -> range:
    return range(places.start, places.stop)


def _taken(letter: str, places: range) -> Stage:
    """The rows of Q, K or V that the tile holds."""
    symbol, axis = letter.upper(), "query_b" if letter == "q" else "key_b"
    line = (
        f"{letter}_b", rf"{symbol}_{{\text{{tile}}}}", mark(symbol, "tile"), f"{symbol} of the tile",
        f"{axis} d_{'v' if letter == 'v' else 'k'}", 0,
    )  # fmt: skip
    return stage(
        line, taken_rows(tuple(places)), letter, (_PART_SAYS[0].format(symbol), _PART_SAYS[1].format(symbol))
    )


def _moved(line: Stage) -> Stage:
    """A line of a tile, made of the tile's parts of the matrices."""
    inputs = tuple(_PARTS.get(name, name) for name in line.inputs)
    return replace(line, inputs=inputs, axes=tuple(_AXES.get(axis, axis) for axis in line.axes))


def _in_block(line: Given) -> Given:
    return replace(line, axes=tuple(_AXES.get(axis, axis) for axis in line.axes))


def _plain() -> tuple[Stage, ...]:
    """Plain attention over the whole table, under names of its own."""
    made = {line.name for line in ATTENTION.stages}

    def name(source: str) -> str:
        return f"plain_{source}" if source in made else source

    return tuple(
        replace(
            line, name=name(line.name), symbol=rf"{{{line.symbol}}}^{{\text{{plain}}}}",
            mark=(*line.mark, ("plain", "sup")), title=f"Plain {line.title[:1].lower()}{line.title[1:]}",
            inputs=tuple(map(name, line.inputs)), aside=line.aside and name(line.aside), step=0,
        )
        for line in ATTENTION.stages
    )  # fmt: skip


def _compared(done: int) -> tuple[tuple[Given, ...], tuple[Stage, ...]]:
    """The output by tiles beside that of plain attention, for the queries that are done."""
    tiled = given(
        "tiled", r"O_{\text{tiles}}", mark("O", "tiles"), "Output by tiles", "query_d d_v", 0, _TILED_SAYS
    )
    plain = ("plain", r"O_{\text{plain}}", mark("O", "plain"), "Output by plain attention", "query_d d_v", 0)
    apart = ("difference", r"\Delta O", mark("ΔO"), "Difference", "query_d d_v", 0)
    return (tiled,), (
        stage(plain, taken_rows(tuple(range(done))), "plain_output", _PLAIN_SAYS),
        stage(apart, DIFFERENCE, "tiled plain", _DIFFERENCE_SAYS),
    )

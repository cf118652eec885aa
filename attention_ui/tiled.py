"""Lesson 10 behind its page: one tile of attention on the board, what is kept, and what is found of it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attention_core.attention import attention
from attention_core.masks import allowed
from attention_core.numbers import show
from attention_core.operations import Array
from attention_core.tile_walk import Step, Walk, walk, walk_sheet
from attention_core.written import visible
from attention_ui import listing, prose, teaching, theme
from attention_ui.bench import Bench, numbers, token_at
from attention_ui.board import Unit
from attention_ui.choices import Amount, Choice, Switch
from attention_ui.desk import Desk
from attention_ui.grids import unit_after
from attention_ui.playing import player
from attention_ui.scene import Scene, worked
from attention_ui.tokens import isolated, literal

SIZES = {size: size for size in ("1", "2", "3", "4", "8")}
QUERIES, KEYS = ("query", "queries"), ("key", "keys")
MOST_STEPS = 256  # 16 queries and 16 keys, one by one

# of exponentials, most of which may be tiny: their colours go to the largest
WIDE = (
    ("powers", "factor"),
    ("total_before", "kept_total", "total"),
    ("mixed_before", "kept", "added", "mixed"),
)

BLOCK_Q = Choice("p10.block_q", "Queries in a tile", SIZES, "2")
BLOCK_K = Choice("p10.block_k", "Keys in a tile", SIZES, "1")
STEP = Amount("p10.step", "Tile", 1, MOST_STEPS, 4)
PLAYER = player(STEP, "p10")
KEEP_OLD = Switch("p10.keep", "Mistake: never rescale")
GUESS = teaching.prediction(
    "p10.guess",
    "A tile brings a larger score than all before. What becomes of the sum and the accumulator so far?",
    {
        "stay": "they stay as they are",
        "factor": "they are multiplied by a number below 1",
        "again": "they are worked out anew",
    },
)


def walk_of(bench: Bench, *, rescale: bool | None = None) -> Walk:
    """The walk over the bench's Q, K and V; without the rescaling where the mistake is switched on."""
    q, k, v = (numbers(bench, letter) for letter in "qkv")
    mask = allowed(bench.mask, bench.n_q, bench.n_k)
    blocks = int(BLOCK_Q.of(bench)), int(BLOCK_K.of(bench))
    rescale = not KEEP_OLD.of(bench) if rescale is None else rescale
    shapes = (q.shape, k.shape, v.shape)
    return _walk(shapes, *(a.tobytes() for a in (q, k, v, mask)), *blocks, rescale)


@lru_cache(maxsize=64)
def _walk(
    shapes: tuple[tuple[int, ...], ...], q: bytes, k: bytes, v: bytes, mask: bytes,
    block_q: int, block_k: int, rescale: bool,
) -> Walk:  # fmt: skip
    """Kept for the parts of a page, which all ask for it: 64 tiles take 5 ms."""
    x, y, z = (np.frombuffer(a).reshape(shape) for a, shape in zip((q, k, v), shapes, strict=True))
    may_look = np.frombuffer(mask, dtype=bool).reshape(len(x), len(y))
    return walk(x, y, z, may_look, block_q=block_q, block_k=block_k, rescale=rescale)


def step_of(bench: Bench) -> Step:
    made = walk_of(bench)
    return made.steps[PLAYER.at(bench, len(made.steps)) - 1]


def done_of(bench: Bench) -> int:
    """How many queries have all their tiles behind them; the tile on the board counts."""
    step, made = step_of(bench), walk_of(bench)
    if step is made.steps[-1]:
        return bench.n_q
    return step.rows.stop if step.last else step.rows.start


def scene_of(desk: Desk) -> Scene:
    bench = desk.bench
    step, made, done = step_of(bench), walk_of(bench), done_of(bench)
    sheet = walk_sheet(step.rows, step.columns, done, rescale=not KEEP_OLD.of(bench))
    mask = allowed(bench.mask, bench.n_q, bench.n_k)
    given = {
        "divisor": np.sqrt(bench.d_k), "mask_b": mask[_cut(step.rows), _cut(step.columns)], **step.before,
        "tiled": made.output[:done],
    }  # fmt: skip
    queries, keys = _words(bench, bench.n_q, query=True), _words(bench, bench.n_k)
    now = worked(
        bench, sheet, {name: value for name, value in given.items() if name in sheet}, mask=None,
        named={
            "query": queries, "key": keys, "query_d": queries[:done],
            "query_b": queries[_cut(step.rows)], "key_b": keys[_cut(step.columns)],
        },
        starts={"query_b": step.rows.start, "key_b": step.columns.start},
        compared=(
            *WIDE, ("k", "k_b", "k_t"), ("q", "q_b"), ("v", "v_b"), ("scores", "scaled", "masked"),
            ("maximum_before", "tile_maximum", "maximum"), ("output", "tiled", "plain", "difference"),
        ),
    )  # fmt: skip
    for family in WIDE:
        largest = max(float(np.abs(now.values[name]).max()) for name in family)
        now.limits[family] = theme.colour_limit([largest])
    return now


def layout_of(desk: Desk, now: Scene) -> list[list[Unit]]:
    """The whole matrices, the tile's scores, and what is kept: how it is rescaled once the answer is open."""
    is_open, rescale = teaching.is_open(desk, GUESS), not KEEP_OLD.of(desk.bench)
    lines = [
        [Unit("q"), Unit("k"), Unit("v")],
        [Unit("scores", left="q_b", top="k_t", corner="k_b"), unit_after(now, "scores", "masked")],
        [Unit("maximum_before"), Unit("tile_maximum"), unit_after(now, "tile_maximum", "maximum")],
        [unit_after(now, "masked", "powers")],
    ]
    if is_open:
        kept_total, kept = (
            unit_after(now, before, name) if rescale else Unit(name, via="as it was")
            for before, name in (("total_before", "kept_total"), ("mixed_before", "kept"))
        )
        lines[3].append(unit_after(now, "maximum_before", "factor"))
        lines += [
            [Unit("total_before"), kept_total, Unit("total", via="+ row sums of E")],
            [Unit("added", left="powers", top="v_b", echo=["powers"])],
            [Unit("mixed_before"), kept, unit_after(now, "kept", "mixed")],
            [unit_after(now, "total", "output")],
        ]
        if "difference" in now.sheet:
            lines.append([Unit("tiled"), Unit("plain"), Unit("difference", via="apart by")])
    else:
        lines += [[Unit("total_before")], [Unit("mixed_before")]]
    return lines


def verdict(desk: Desk) -> None:
    """What the largest change of a maximum on these numbers does to what is kept."""
    made = walk_of(desk.bench, rescale=True)
    found = [
        (float(factor), step, i)
        for step in made.steps
        for i, factor in enumerate(step.values["factor"][:, 0].tolist())
        if np.isfinite(step.values["maximum_before"][i, 0]) and factor < 1
    ]
    if not found:
        teaching.verdict(
            desk, GUESS, "",
            "On these numbers no later tile brings a larger score, so every factor is 1. Change a key, or "
            "the size of the tiles.",
        )  # fmt: skip
        return
    factor, step, i = min(found, key=lambda each: each[0])
    old, new = (float(step.values[name][i, 0]) for name in ("maximum_before", "maximum"))
    query, word = step.rows.start + i, isolated(token_at(desk.bench, step.rows.start + i, query=True))
    teaching.verdict(
        desk, GUESS, "factor",
        f"In tile {made.steps.index(step) + 1} the maximum of query {query + 1}, {word}, rises from "
        f"{show(old)} to {show(new)}. Every term so far was e^(s − {_bracketed(old)}); times "
        f"e^({show(old)} − {_bracketed(new)}) = {visible(factor, show)} it is e^(s − {_bracketed(new)}).",
    )  # fmt: skip


def claims(now: Scene) -> list[tuple[str, bool]]:
    """What holds of attention by tiles, tried on the numbers on screen."""
    bench, values = now.bench, now.values
    made, step = walk_of(bench), step_of(bench)
    apart = np.abs(made.output - values["plain_output"]).max()
    seen = slice(0, step.columns.stop)
    mask = values["mask"][_cut(step.rows), seen]
    so_far = attention(values["q_b"], values["k"][seen], values["v"][seen], mask=mask)
    tops = so_far.masked.max(axis=-1, keepdims=True)
    held, whole = values["masked"].size, values["plain_scores"].size
    return [
        (
            "After all tiles the output is that of plain attention; the largest difference is "
            f"{visible(float(apart), show)}.",
            _close(made.output, values["plain_output"]),
        ),
        (
            f"Accumulator over sum is attention to the {_keys(step)} so far.",
            _close(values["output"], so_far.output),
        ),
        (
            "The running maximum is the largest score of the keys so far.",
            _close(np.exp(values["maximum"] - np.where(np.isinf(tops), 0, tops)), np.isfinite(tops) + 0.0),
        ),
        (
            f"This tile holds {show(held)} of the {show(whole)} scores, and no other scores are held.",
            held == len(step.rows) * len(step.columns) <= whole,
        ),
    ]


def _keys(step: Step) -> str:
    return "one key" if step.columns.stop == 1 else f"{step.columns.stop} keys"


def where(bench: Bench) -> str:
    """Which tile is on the board, in a sentence."""
    made, step = walk_of(bench), step_of(bench)
    number, many = made.steps.index(step) + 1, len(made.steps)
    total = len(made.queries) * len(made.keys)
    text = f"Tile {number} of {many}: {_span(*QUERIES, step.rows)}, {_span(*KEYS, step.columns)}."
    full = int(BLOCK_Q.of(bench)), int(BLOCK_K.of(bench))
    if len(step.rows) < min(full[0], bench.n_q) or len(step.columns) < min(full[1], bench.n_k):
        text += " It is smaller than the others: the sizes do not divide evenly."
    if made.skipped and many < total:
        count = len(made.skipped)
        verb = "is" if count == 1 else "are"
        text += f" {count} of {total} tiles {verb} skipped: no query there may look at any key there."
    if not allowed(bench.mask, bench.n_q, bench.n_k).any():
        text += " No query may look anywhere; the first tile is shown all the same."
    return text


def draw_map(bench: Bench) -> None:
    """All tiles as a table: which are done, now, skipped or still to come."""
    made, step = walk_of(bench), step_of(bench)
    at = made.steps.index(step)
    place = {(each.rows, each.columns): number for number, each in enumerate(made.steps)}

    def word(rows: range, columns: range) -> str:
        if (rows, columns) not in place:
            return "skipped"
        number = place[rows, columns]
        return "now" if number == at else "done" if number < at else "to come"

    heads = ("tile", *(_span(*KEYS, columns) for columns in made.keys))
    table = [
        (_span(*QUERIES, rows), *(word(rows, columns) for columns in made.keys)) for rows in made.queries
    ]
    prose.paragraph(where(bench))
    listing.draw("Map of the tiles", listing.table("All tiles, in the order of the walk", heads, table))


def draw_kept(desk: Desk, now: Scene) -> None:
    """The running maximum and sum of the tile's queries after each of their tiles so far."""
    made, step = walk_of(desk.bench), step_of(desk.bench)
    mine = [each for each in made.steps[: made.steps.index(step) + 1] if each.rows == step.rows]
    heads = ["After"]
    for i in step.rows:
        heads += [f"m′ of query {i + 1}", "c", "z′"]
    rows = []
    for each in mine:
        row = [_span(*KEYS, each.columns)]
        for i in range(len(step.rows)):
            top, factor, total = (float(each.values[name][i, 0]) for name in ("maximum", "factor", "total"))
            row += [show(top), visible(factor, show), show(total)]
        rows.append(row)
    prose.paragraph("Running maximum m′, factor c for what was kept, and running sum z′:", kind="quiet")
    listing.draw("After each tile", listing.table("After each tile of these queries", heads, rows))


def why_wrong(now: Scene) -> str:
    """What going on without the rescaling has done."""
    made = walk_of(now.bench)
    if _close(made.output, now.values["plain_output"]):
        return (
            "On these numbers no maximum grows after the first tile of its queries, and nothing is lost by "
            "not rescaling. Change a key, or the size of the tiles."
        )
    return (
        "Old terms were taken against a smaller maximum and count too much: e^(s − m) in place of "
        "e^(s − m′). No number runs over and no shape is wrong; only the comparison with plain attention "
        "shows it."
    )


def _span(one: str, many: str, places: range) -> str:
    first, last = places.start + 1, places.stop
    return f"{one} {first}" if first == last else f"{many} {first} to {last}"


def _words(bench: Bench, n: int, *, query: bool = False) -> tuple[str, ...]:
    return tuple(literal(token_at(bench, i, query=query)) for i in range(n))


def _cut(places: range) -> slice:
    return slice(places.start, places.stop)


def _bracketed(number: float) -> str:
    text = show(number)
    return f"({text})" if number < 0 else text


def _close(a: Array, b: NDArray[np.float64]) -> bool:
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * (1 + np.abs(b).max(initial=0.0))))

"""Lesson 13, second view: four heads of queries share four, two or one head of keys and values."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from attention_core.attention import attention
from attention_core.multi_head import split_heads
from attention_core.numbers import show
from attention_core.shared_heads import read_by, shared_heads_sheet
from attention_ui import amounts, listing, teaching
from attention_ui.bench import Bench, token_at
from attention_ui.board import Unit
from attention_ui.choices import Choice, Switch
from attention_ui.desk import Desk
from attention_ui.filling import FP16, close
from attention_ui.scene import Scene, worked
from attention_ui.tokens import isolated, literal

N_HEADS = 4
KINDS = {4: "MHA", 2: "GQA", 1: "MQA"}

FEW = Choice(
    "p13.few", "Heads of keys and values", {"4": "4, MHA", "2": "2, GQA", "1": "1, MQA"}, "2",
    help="Multi-head attention, grouped-query attention, multi-query attention.",
)  # fmt: skip
WIDTH = Choice("p13.width", "Columns of a head", {"1": "1", "2": "2"}, "1")
TILE = Switch("p13.tile", "Mistake: tile the heads of keys and values")
GUESS = teaching.prediction(
    "p13.guess_heads",
    "Two heads of queries read the same keys. Will their weights be the same?",
    {"same": "the same", "other": "others"},
)


def few_of(bench: Bench) -> int:
    return int(FEW.of(bench))


def scene_of(desk: Desk) -> Scene:
    return _scene(desk, few_of(desk.bench), tile=TILE.of(desk.bench))


def _scene(desk: Desk, few: int, *, tile: bool = False) -> Scene:
    bench, d, n = desk.bench, int(WIDTH.of(desk.bench)), desk.bench.n_k
    words = tuple(literal(token_at(bench, i)) for i in range(n))
    heads = tuple(f"H{h}" for h in range(1, N_HEADS + 1) for _ in range(d))
    stored = tuple(f"K{g}" for g in range(1, few + 1) for _ in range(d))
    read = tuple(f"H{h} K{g}" for h, g in enumerate(read_by(N_HEADS, few, tile=tile), 1) for _ in range(d))
    return worked(
        bench, shared_heads_sheet(N_HEADS, few, d_head=d, d_value=d, tile=tile), {"divisor": np.sqrt(d)},
        sizes={
            "token": n, "query": n, "key": n, "n_heads·d_k": N_HEADS * d, "n_heads·d_v": N_HEADS * d,
            "n_kv_heads·d_k": few * d, "n_kv_heads·d_v": few * d,
        },
        named={
            **dict.fromkeys(("token", "query", "key"), words),
            "n_heads·d_k": heads, "n_heads·d_v": heads, "n_kv_heads·d_k": stored,
            "n_kv_heads·d_v": _of_values(stored), "read·d_k": read, "read·d_v": _of_values(read),
        },
        compared=(("k", "k_read"), ("v", "v_read", "concatenated")),
    )  # fmt: skip


def _of_values(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.replace("K", "V") for name in names)


def layout_of(desk: Desk) -> list[list[Unit]]:
    """What is stored, what the heads read of it, and once it is open the weights and outputs of all heads."""
    heads = range(1, N_HEADS + 1)
    way = "tile" if TILE.of(desk.bench) else "repeat"
    lines = [
        [Unit("k", left="x", top="w_k"), Unit("k_read", via=way)],
        [Unit("v", left="x", top="w_v", echo=["x"]), Unit("v_read", via=way)],
        [Unit("q", left="x", top="w_q", echo=["x"])],
    ]
    if teaching.is_open(desk, GUESS):
        lines += [[Unit(f"weights_{h}") for h in heads[at : at + 2]] for at in (0, 2)]
        lines.append([Unit("concatenated")])
    return lines


def verdict(desk: Desk, now: Scene) -> None:
    """Whether heads that read the same keys weigh alike, and where two of them differ most."""
    reads = _reads(now)
    pairs = [(a, b) for a, b in combinations(range(N_HEADS), 2) if reads[a] == reads[b]]
    if not pairs:
        teaching.verdict(
            desk, GUESS, "", "Here every head has keys of its own. Choose fewer heads of keys and values."
        )
        return
    weights = [now.values[f"weights_{h + 1}"] for h in range(N_HEADS)]
    apart = {(a, b): np.abs(weights[a] - weights[b]) for a, b in pairs}
    a, b = max(apart, key=lambda pair: float(apart[pair].max()))
    if apart[a, b].max() <= 1e-9:
        why = "the heads’ queries differ, but not in a way that these scores show"
        teaching.verdict(desk, GUESS, "same", f"On these numbers {why}.")
        return
    i, j = np.unravel_index(int(apart[a, b].argmax()), apart[a, b].shape)
    word, key = (isolated(now.labels["query"][int(at)]) for at in (i, j))
    teaching.verdict(
        desk, GUESS, "other",
        f"Heads {a + 1} and {b + 1} both read key head {reads[a]}. Query {int(i) + 1}, {word}, gives key "
        f"{int(j) + 1}, {key}, the weight {show(weights[a][i, j])} in one and {show(weights[b][i, j])} in "
        "the other: each head has queries of its own.",
    )  # fmt: skip


def _reads(now: Scene) -> tuple[int, ...]:
    """The key head that each head reads, as the sheet on screen has it."""
    names = (now.sheet.stage(f"scores_{h}").inputs[1] for h in range(1, N_HEADS + 1))
    return tuple(int(name.rpartition("_")[2]) for name in names)


def claims(now: Scene) -> list[tuple[str, bool]]:
    """What holds of shared heads, tried on the numbers on screen."""
    values, few = now.values, few_of(now.bench)
    heads = (split_heads(letter, values[letter], N_HEADS if letter == "q" else few) for letter in "qkv")
    right = attention(*heads, mask=values["mask"])
    totals = np.array([values[f"weights_{h}"].sum(axis=1) for h in range(1, N_HEADS + 1)])
    own = 2 * values["q"].size
    stored = values["k"].size + values["v"].size
    outputs = np.concatenate(list(right.output), axis=-1)
    return [
        (f"{_runs(few)}.", _reads(now) == read_by(N_HEADS, few)),
        (
            f"The outputs are those of attention in which {show(N_HEADS)} heads of queries share {show(few)} "
            "of keys and values.",
            close(values["concatenated"], outputs),
        ),
        (
            f"K and V hold {show(stored)} numbers; with a key head for each head it would be {show(own)}.",
            stored * N_HEADS == own * few,
        ),
        (
            "In every head the weights of a query that may look anywhere add up to 1.",
            close(totals, np.broadcast_to(values["mask"].any(axis=1), totals.shape).astype(float)),
        ),
    ]


def _runs(few: int) -> str:
    """Who should read what: "Heads 1 and 2 read key head 1, heads 3 and 4 key head 2"."""
    return {
        4: "Every head reads a key head of its own",
        2: "Heads 1 and 2 read key head 1, heads 3 and 4 read key head 2",
        1: "All heads read key head 1",
    }[few]


def why_wrong(now: Scene) -> str:
    """What tiling has done, told by the first head that reads another's keys."""
    few = few_of(now.bench)
    wanted, found = read_by(N_HEADS, few), _reads(now)
    wrong = [h for h in range(N_HEADS) if wanted[h] != found[h]]
    if not wrong:
        return (
            f"With {show(few)} {'head' if few == 1 else 'heads'} of keys and values np.tile and np.repeat "
            "give the same order, and nothing goes wrong yet. Choose 2."
        )
    h = wrong[0]
    return (
        f"np.repeat puts the key heads in the order {_listed(wanted)}, np.tile in the order "
        f"{_listed(found)}. So head {h + 1} reads key head {found[h]} instead of {wanted[h]}, and all shapes "
        "are right: nothing gives it away."
    )


def _listed(heads: tuple[int, ...]) -> str:
    return " ".join(map(str, heads))


def compare(desk: Desk) -> None:
    """MHA, GQA and MQA on the same numbers: what is stored, and what becomes of the last token's output."""
    scenes = {few: _scene(desk, few) for few in KINDS}
    full = scenes[N_HEADS].values["concatenated"]
    rows = []
    for few, now in scenes.items():
        stored = now.values["k"].size + now.values["v"].size
        output = now.values["concatenated"]
        rows.append(
            (
                f"{KINDS[few]}, {few} of {N_HEADS}",
                show(stored),
                amounts.size(FP16 * stored),
                "  ".join(show(number) for number in output[-1].tolist()),
                show(float(np.abs(output - full).max())),
            )
        )
    heads = ("Key heads", "Numbers in K and V", "In FP16", "Output of the last token", "Farthest from MHA")
    tokens = "1 token" if len(full) == 1 else f"{len(full)} tokens"
    caption = f"The same X and W_Q, {tokens}"
    listing.draw("MHA, GQA and MQA", listing.table(caption, heads, rows))

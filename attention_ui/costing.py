"""Lesson 9 behind its page: what is asked, the sheet on the board with its count, and a layer of full size.

Two counts stand side by side. The sheet on the board is counted stage by stage from the shapes on screen; a
layer of full size by the formulas of attention_core/cost.py. Both are estimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isqrt, prod

import numpy as np

from attention_core.accelerators import ACCELERATORS, GIGA, NUMBERS, Accelerator, number_bytes, own
from attention_core.cost import TABLE, Layer, decode, prefill, sheet_costs, total
from attention_core.head_sheets import heads_sheet
from attention_core.limits import LARGEST_SIDE
from attention_core.masks import allowed
from attention_core.one_token_sheet import one_token
from attention_core.operations import MATMUL
from attention_core.sheet import ONE, Cost, Given, Stage
from attention_ui import teaching
from attention_ui.bench import Bench, numbers, token_at
from attention_ui.board import Unit
from attention_ui.choices import Amount, Choice, Switch
from attention_ui.grids import unit_after
from attention_ui.scene import Scene, worked
from attention_ui.tokens import literal

PROJECTIONS = ("q", "k", "v", "output")  # the lines that read learned numbers
PHASES = {"all": "All tokens", "one": "One new token"}

WORK = Choice("p9.work", "On the board", {"all": "all tokens at once", "one": "one new token, cached"}, "all")
HERE = Choice("p9.here", "Heads on the board", {"1": "1", "2": "2"}, "1")
TYPE = Choice("p9.numbers", "Numbers", {word: each.title for word, each in NUMBERS.items()}, "fp16")
BATCH = Choice("p9.batch", "Batch", {"1": "1", "8": "8", "64": "64", "512": "512"}, "1")
N = Choice(
    "p9.n", "Tokens n",
    {"128": "128", "512": "512", "2048": "2,048", "8192": "8,192", "32768": "32,768", "131072": "131,072"},
    "2048",
)  # fmt: skip
D = Choice("p9.d", "Width d_model", {"512": "512", "1024": "1,024", "4096": "4,096", "8192": "8,192"}, "4096")
HEADS = Choice("p9.heads", "Heads", {"1": "1", "8": "8", "32": "32", "64": "64"}, "32")
KV = Choice(
    "p9.kv", "Heads of keys and values", {"each": "one for each", "8": "8", "1": "1 for all"}, "each",
    help="With fewer than there are heads, several heads of queries read the same keys and values.",
)  # fmt: skip
CHIP = Choice(
    "p9.chip", "Accelerator",
    {**{word: each.title for word, each in ACCELERATORS.items()}, "own": "your own"}, "a100", kind="list",
)  # fmt: skip
PEAK = Amount("p9.peak", "Peak rate, 10¹² operations a second", 1, 2000, 100)
BANDWIDTH = Amount("p9.bandwidth", "Bandwidth, 10⁹ bytes a second", 10, 8000, 500, 10)
SINGLY = Switch(
    "p9.singly", "Mistake: count a multiply-add as 1",
    help="Data sheets count the multiplication and the addition, so that half the count looks twice as fast.",
)  # fmt: skip
WEIGHTLESS = Switch(
    "p9.weightless", "Mistake: a new token reads no weights",
    help="As if W_Q, W_K, W_V and W_O were at hand for nothing.",
)  # fmt: skip
GUESS = teaching.prediction(
    "p9.guess",
    "One new token takes a small share of the operations of all tokens. What share of their time?",
    {"same": "about the same share", "more": "a far larger one"},
)
LARGER = 2.0  # a share of the time this many times the share of the operations is far larger


def batch(bench: Bench) -> int:
    return int(BATCH.of(bench))


def is_step(bench: Bench) -> bool:
    """Whether one new token is on the board."""
    return WORK.of(bench) == "one"


# the sheet on the board -------------------------------------------------------------------------


def tokens_here(bench: Bench) -> int:
    """Tokens on the board; one new token has at least one before it."""
    return max(2, bench.n_k) if is_step(bench) else bench.n_k


def width_here(bench: Bench) -> int:
    """Columns of a head on the board; all heads together stay within its edge."""
    return min(bench.d_k, LARGEST_SIDE // int(HERE.of(bench)))


def layer_here(bench: Bench) -> Layer:
    """The layer on the board."""
    heads = int(HERE.of(bench))
    return Layer(bench.d_model, heads, heads, width_here(bench), batch(bench), TYPE.of(bench))


def sizes_here(bench: Bench) -> dict[str, int]:
    """How long each axis of the sheet is."""
    n, heads, width = tokens_here(bench), int(HERE.of(bench)), width_here(bench)
    sizes = {"token": n, "query": 1 if is_step(bench) else n, "key": n, "key_c": n - 1, ONE: 1}
    sizes |= {"d_model": bench.d_model, "d_k": width, "d_v": width}
    wide = ("n_heads·d_k", "n_kv_heads·d_k", "n_heads·d_v", "n_kv_heads·d_v")
    return sizes | dict.fromkeys(wide, heads * width)


def scene_of(bench: Bench) -> Scene:
    """The sheet on the bench's numbers: all tokens at once, or the last one with what a cache has kept."""
    heads, width, sizes = int(HERE.of(bench)), width_here(bench), sizes_here(bench)
    n = sizes["token"]
    given = {"divisor": np.sqrt(width), "mask": allowed(bench.mask, n, n)}
    sheet = heads_sheet(heads, d_head=width, d_value=width)
    if is_step(bench):
        sheet = one_token(n, heads, heads, d_head=width)
        past = numbers(bench, "x", n, bench.d_model)[:-1]
        given["mask"] = given["mask"][-1:]
        given |= {
            f"{letter}_c": past @ numbers(bench, f"w_{letter}", bench.d_model, heads * width)
            for letter in "kv"
        }
    words = tuple(literal(token_at(bench, i)) for i in range(n))
    queries = words[-1:] if is_step(bench) else words
    return worked(
        replace(bench, n_q=sizes["query"], n_k=n), sheet, given, sizes=sizes,
        named={"token": words, "key": words, "key_c": words[:-1], "query": queries},
        compared=(
            ("k", "k_c", "k_n"), ("v", "v_c", "v_n"),
            *(tuple(f"{name}_{head}" for name in ("scores", "scaled", "masked")) for head in (1, 2)),
        ),
    )  # fmt: skip


def layout_of(bench: Bench, now: Scene) -> list[list[Unit]]:
    """The products in the order of the sheet, every head in a line of its own."""
    first: list[list[Unit]] = [[Unit("q", left="x", top="w_q"), Unit("k", top="w_k"), Unit("v", top="w_v")]]
    if is_step(bench):
        rows = [
            Unit("q", left="x_n", top="w_q", echo=["x_n"]),
            Unit("k_n", top="w_k"),
            Unit("v_n", top="w_v"),
        ]
        grown = [[Unit(f"{letter}_c"), unit_after(now, f"{letter}_c", letter)] for letter in "kv"]
        first = [[Unit("x"), Unit("x_n", via="last row")], rows, *grown]
    heads = [line for head in range(1, int(HERE.of(bench)) + 1) for line in _head(now, head)]
    return [*first, *heads, [Unit("output", left="concatenated", top="w_o")]]


def _head(now: Scene, head: int) -> list[list[Unit]]:
    """One head: its table, and what it makes of its values."""
    return [
        [
            Unit(f"scores_{head}", left=f"q_{head}", top=f"k_t_{head}"),
            unit_after(now, f"scores_{head}", f"scaled_{head}"),
            unit_after(now, f"scaled_{head}", f"masked_{head}"),
        ],
        [Unit(f"output_{head}", left=f"weights_{head}", top=f"v_{head}")],
    ]


def counted_here(bench: Bench, now: Scene) -> tuple[Cost, ...]:
    """What every stage of the sheet takes, with the mistakes that are switched on."""
    costs = sheet_costs(now.sheet, sizes_here(bench), numbers=TYPE.of(bench), batch=batch(bench))
    weights = {
        stage.name: learned_bytes(now, stage, number_bytes(TYPE.of(bench))) for stage in now.sheet.stages
    }
    return as_counted(bench, costs, weights if is_step(bench) else {}, _products(now))


def learned_bytes(now: Scene, stage: Stage, bytes_each: int) -> int:
    """What a stage reads of learned numbers."""
    lines = [now.sheet[name] for name in stage.inputs]
    learned = [line.name for line in lines if isinstance(line, Given) and line.is_learned]
    return sum(now.values[name].size for name in learned) * bytes_each


def _products(now: Scene) -> set[str]:
    return {stage.name for stage in now.sheet.stages if stage.operation is MATMUL}


def as_counted(
    bench: Bench, costs: Iterable[Cost], weights: Mapping[str, int], products: Iterable[str]
) -> tuple[Cost, ...]:
    """The costs, less what the mistakes that are switched on forget."""
    products = set(products)
    return tuple(
        replace(
            cost,
            operations=cost.operations // 2
            if SINGLY.of(bench) and cost.name in products
            else cost.operations,
            bytes_read=cost.bytes_read - weights.get(cost.name, 0) * WEIGHTLESS.of(bench),
        )
        for cost in costs
    )


def as_product(now: Scene, stage: Stage, sequences: int, operations: int) -> str:
    """How the operations of a stage come about: 2 × 4 × 3 × 4, times the batch."""
    rows, columns = now.values[stage.name].shape
    sizes = [rows, columns]
    if stage.operation is MATMUL:
        sizes = [rows, now.values[stage.inputs[0]].shape[1], columns]
    each = operations / (sequences * prod(sizes))
    return " × ".join([f"{each:g}", *map(str, sizes), *[f"batch {sequences}"] * (sequences > 1)])


# a layer of full size ---------------------------------------------------------------------------


def layer_of(bench: Bench) -> Layer:
    heads = int(HEADS.of(bench))
    few = heads if KV.of(bench) == "each" else min(heads, int(KV.of(bench)))
    return Layer(int(D.of(bench)), heads, few, int(D.of(bench)) // heads, batch(bench), TYPE.of(bench))


def tokens(bench: Bench) -> int:
    return int(N.of(bench))


def accelerator_of(bench: Bench) -> Accelerator:
    """The one that is chosen; of one's own the peak rate is that of the chosen numbers."""
    if CHIP.of(bench) != "own":
        return ACCELERATORS[CHIP.of(bench)]
    peak = float(PEAK.of(bench))
    return own(peak, peak, float(BANDWIDTH.of(bench)), 80.0)


def weights_read(layer: Layer) -> dict[str, int]:
    """What each of the four projections reads of its learned matrix, by its line."""
    wide, narrow = (heads * layer.d_head for heads in (layer.n_heads, layer.n_kv_heads))
    columns = {"q": wide, "k": narrow, "v": narrow, "output": wide}
    return {name: layer.d_model * width * layer.number_bytes for name, width in columns.items()}


def full(bench: Bench, phase: str) -> tuple[Cost, ...]:
    """The lines of a phase at full size, as they are counted; one new token is the last of n."""
    layer = layer_of(bench)
    lines = prefill(layer, tokens(bench)) if phase == "all" else decode(layer, tokens(bench))
    forgotten = weights_read(layer) if phase == "one" else {}
    return as_counted(bench, lines, forgotten, {*PROJECTIONS, "scores", "heads"})


def parts(layer: Layer, n: int) -> tuple[Cost, Cost]:
    """The four projections together, and the lines that hold the n × n table."""
    lines = prefill(layer, n)
    beside = total(line for line in lines if line.name not in TABLE)
    return beside, total(line for line in lines if line.name in TABLE)


def most_tokens(layer: Layer, accelerator: Accelerator) -> int:
    """The most tokens whose table of scores alone fits in the memory."""
    return isqrt(int(GIGA * accelerator.memory) // (layer.batch * layer.n_heads * layer.number_bytes))

"""Lesson 5, first half: one X shared out among heads. What is asked and what is drawn."""

from __future__ import annotations

import numpy as np

from attention_core.head_sheets import heads_sheet
from attention_core.numbers import show
from attention_ui import teaching
from attention_ui.bench import Bench, token_at
from attention_ui.board import Unit
from attention_ui.choices import Choice, Switch
from attention_ui.desk import Desk
from attention_ui.grids import unit_after
from attention_ui.scene import Scene, worked
from attention_ui.tokens import literal

HEADS = Choice("p5.heads", "Heads", {"1": "1", "2": "2", "4": "4"}, "2")
SHARED = Choice(
    "p5.shared", "Heads of keys and values", {"each": "one for each", "2": "2", "1": "1 for all"}, "each",
    help="With fewer than there are heads, several heads of queries read the same keys and values.",
)  # fmt: skip
WIDTH = Choice(
    "p5.width", "Columns of Q", {"4": "4", "8": "8"}, "4",
    help="The columns of all heads together; the heads share them out equally.",
)  # fmt: skip
OF_TWO = Choice("p5.of_two", "Head in detail", {"1": "1", "2": "2"}, "1")
OF_FOUR = Choice("p5.of_four", "Head in detail", {"1": "1", "2": "2", "3": "3", "4": "4"}, "1")
CUT = Switch("p5.cut", "Mistake: split without the transpose")
GUESS = teaching.prediction(
    "p5.guess",
    "One head of the full width uses the same numbers. Will its output be the same as that of the heads?",
    {"same": "the same", "other": "another"},
)


def n_heads(bench: Bench) -> int:
    return int(HEADS.of(bench))


def n_shared(bench: Bench) -> int:
    """How many heads of keys and values there are: never more than heads of queries."""
    word = SHARED.of(bench)
    return n_heads(bench) if word == "each" else min(int(word), n_heads(bench))


def in_detail(bench: Bench) -> int:
    """The head whose stages are drawn, counted from 1."""
    detail = detail_of(bench)
    return int(detail.of(bench)) if detail else 1


def detail_of(bench: Bench) -> Choice | None:
    """What asks for the head; a single head needs no choice."""
    return {1: None, 2: OF_TWO, 4: OF_FOUR}[n_heads(bench)]


def scene_of(desk: Desk) -> Scene:
    bench = desk.bench
    heads, few, width, n = n_heads(bench), n_shared(bench), int(WIDTH.of(bench)), bench.n_k
    d_head = width // heads
    sheet = heads_sheet(
        heads, few, d_head=d_head, d_value=d_head, mistake="no transpose" if CUT.of(bench) else None,
        n=n if CUT.of(bench) else None,
    )  # fmt: skip
    words = tuple(literal(token_at(bench, i)) for i in range(n))
    of_queries, of_keys = _columns(heads, heads, d_head), _columns(heads, few, d_head)
    return worked(
        bench, sheet, {"divisor": np.sqrt(d_head)},
        sizes={
            "token": n, "query": n, "key": n, "d_k": d_head, "d_v": d_head,
            "n_heads·d_k": width, "n_heads·d_v": width,
            "n_kv_heads·d_k": few * d_head, "n_kv_heads·d_v": few * d_head,
        },
        named={
            **dict.fromkeys(("token", "query", "key"), words),
            **dict.fromkeys(("n_heads·d_k", "n_heads·d_v"), of_queries),
            **dict.fromkeys(("n_kv_heads·d_k", "n_kv_heads·d_v"), of_keys),
        },
        compared=(
            ("q", *each("q", heads)), ("k", *each("k", few), *each("k_t", few)),
            ("v", *each("v", few), *each("output", heads), "concatenated"),
            tuple(name for kind in ("scores", "scaled", "masked") for name in each(kind, heads)),
        ),
    )  # fmt: skip


def layout_of(desk: Desk, now: Scene) -> list[list[Unit]]:
    """Split, the scores of one head, the weights of all heads side by side, their outputs, and the merge."""
    bench = desk.bench
    heads, head = n_heads(bench), in_detail(bench)
    shared = key_head(bench, head)
    weights = [Unit(name) for name in each("weights", heads)]
    outputs = [
        Unit(f"output_{h}", top=f"v_{key_head(bench, h)}", echo=_drawn_before(bench, h))
        for h in range(1, heads + 1)
    ]
    return [
        [Unit("q", left="x", top="w_q"), Unit("k", top="w_k")],
        [
            Unit(f"scores_{head}", left=f"q_{head}", top=f"k_t_{shared}", corner=f"k_{shared}"),
            unit_after(
                now, f"scores_{head}", f"masked_{head}", divisor=f"√{show(int(WIDTH.of(bench)) // heads)}"
            ),
        ],
        *(weights[at : at + 2] for at in range(0, heads, 2)),
        *([[Unit("v", top="w_v"), *outputs]] if heads < 4 else [[Unit("v", top="w_v")], outputs]),
        [Unit("output", left="concatenated", top="w_o") if teaching.is_open(desk, GUESS) else Unit("w_o")],
    ]


def _drawn_before(bench: Bench, head: int) -> list[str]:
    """The values that a head reads, where an earlier head has drawn them and a copy will do."""
    own = key_head(bench, head)
    return [f"v_{own}"] if head > 1 and key_head(bench, head - 1) == own else []


def key_head(bench: Bench, head: int) -> int:
    """The head of keys and values that a head of queries reads, both counted from 1."""
    return (head - 1) // (n_heads(bench) // n_shared(bench)) + 1


def _columns(heads: int, few: int, width: int) -> tuple[str, ...]:
    """Which heads read a column: H1 H1 H2 H2, or H1–2 H3–4 where two heads share each."""
    run = heads // few
    names = (f"H{first}" if run == 1 else f"H{first}–{first + run - 1}" for first in range(1, heads + 1, run))
    return tuple(name for name in names for _ in range(width))


def each(name: str, heads: int) -> tuple[str, ...]:
    """The lines of that name, head by head."""
    return tuple(f"{name}_{head}" for head in range(1, heads + 1))

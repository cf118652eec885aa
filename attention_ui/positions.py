"""Lesson 5, second half: what tells a head where a token stands. What is asked and what is drawn."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from attention_core.limits import LARGEST_SIDE
from attention_core.placed_sheets import PAIRINGS, Kind, Order, Placed, placed_twice
from attention_core.positions import BASE, alibi_slopes, exponents, position_column
from attention_ui import teaching
from attention_ui.bench import Bench, token_at
from attention_ui.board import Unit
from attention_ui.choices import Amount, Choice, Switch
from attention_ui.desk import Desk
from attention_ui.grids import unit_after
from attention_ui.heads import WIDTH
from attention_ui.scene import Scene, worked
from attention_ui.tokens import literal

KIND = Choice(
    "p5.kind", "Positions",
    {
        "none": "none", "sinusoids": "sinusoids", "learned": "learned",
        "rope-interleaved": "RoPE, neighbours", "rope-half": "RoPE, halves", "alibi": "ALiBi",
    },
    "sinusoids",
    help="RoPE turns pairs of columns: 1 with 2, 3 with 4, or column k with the one half a row further on.",
)  # fmt: skip
CHANGE = Choice(
    "p5.change", "What happens",
    {"on": "all positions move on", "swap": "two tokens swap", "reverse": "all tokens reverse"}, "on",
    help="All positions grow by one number; or the first two tokens change places; or all of them do.",
)  # fmt: skip
SHIFT = Amount("p5.shift", "Move on by", 1, 32, 3)
SLOPES = Amount("p5.slopes", "ALiBi heads", 1, 16, 8, help="Any number; each head has a slope of its own.")
SLOPE = Choice("p5.slope", "Slope of", {"first": "the first head", "last": "the last head"}, "first")
MIXED = Switch("p5.mixed", "Mistake: Q in one pairing, K in the other")
MASKED = Switch("p5.masked", "With the mask", help="The mask that stands beside this page. Off: no mask.")
GUESS_SCORES = teaching.prediction(
    "p5.guess_scores",
    "All positions move on by the same number. What becomes of the scores?",
    {"same": "they stay", "other": "they change"},
)
GUESS_ROWS = teaching.prediction(
    "p5.guess_rows",
    "The tokens change places. What becomes of their rows of the output?",
    {"same": "they change places, too", "other": "their numbers change"},
)

ABSOLUTE = ("sinusoids", "learned")


def kind_of(bench: Bench) -> Kind:
    return cast(Kind, KIND.of(bench))


def is_move(bench: Bench) -> bool:
    """Whether all positions move on; otherwise the tokens change places."""
    return CHANGE.of(bench) == "on"


def guess_of(bench: Bench) -> Choice:
    return GUESS_SCORES if is_move(bench) else GUESS_ROWS


def order_of(bench: Bench) -> Order:
    """The row of X that each row is made of after the tokens have changed places."""
    rows = tuple(range(bench.n_k))
    return rows[::-1] if CHANGE.of(bench) == "reverse" else (*rows[1::-1], *rows[2:])


def moved_by(bench: Bench) -> int:
    """How far the positions move on: a learned table has no more than LARGEST_SIDE rows."""
    amount = int(SHIFT.of(bench))
    return min(amount, LARGEST_SIDE - bench.n_k) if KIND.of(bench) == "learned" else amount


def head_of(bench: Bench) -> int:
    return 1 if SLOPE.of(bench) == "first" else int(SLOPES.of(bench))


def placed_of(bench: Bench) -> Placed:
    kind, moves = kind_of(bench), is_move(bench)
    return Placed(
        kind, bench.n_k, bench.d_model, int(WIDTH.of(bench)), None if moves else order_of(bench),
        moved=moved_by(bench) if moves and kind == "learned" else 0,
        mixed=MIXED.of(bench) and kind in PAIRINGS, head=head_of(bench) if kind == "alibi" else 1,
    )  # fmt: skip


def scene_of(desk: Desk) -> Scene:
    bench = desk.bench
    placed = placed_of(bench)
    n, width = placed.n, placed.d_k
    sheet = placed_twice(placed)
    words = tuple(literal(token_at(bench, i)) for i in range(n))
    others = tuple(words[i] for i in placed.order or ())
    in_table = n + placed.moved
    return worked(
        bench, sheet, {name: value for name, value in _given(bench, placed).items() if name in sheet},
        sizes={
            **dict.fromkeys(("token", "query", "key", "token_b", "query_b", "key_b"), n),
            "d_k": width, "d_v": width, "place": in_table,
        },
        named={
            **dict.fromkeys(("token", "query", "key"), words),
            **dict.fromkeys(("token_b", "query_b", "key_b"), others),
            "place": tuple(str(place) for place in range(in_table)),
        },
        compared=(
            ("x", "x_b", "placed", "placed_b"), ("table", "table_b", "places"),
            ("positions", "positions_b", "angles", "angles_b"),
            ("scores", "scores_b", "biased", "biased_b", *("difference",) * is_move(bench)),
            ("alibi", "alibi_b"), ("v", "v_b", "output", "output_b", "back", "difference"),
        ),
    )  # fmt: skip


def _given(bench: Bench, placed: Placed) -> dict[str, Any]:
    """What is given beside the matrices that a reader may change."""
    given: dict[str, Any] = {
        "divisor": np.sqrt(placed.d_k),
        "positions": position_column(placed.n),
        "exponents": exponents(placed.d_model if placed.kind == "sinusoids" else placed.d_k),
        "base": BASE,
        "position_shift": float(moved_by(bench)),
        "slope_exponents": np.round(-np.log2(alibi_slopes(int(SLOPES.of(bench))))[None], 9),
        "two": 2.0,
    }
    if not MASKED.of(bench):
        given["mask"] = np.ones((placed.n, placed.n), dtype=bool)
    return given


def layout_of(desk: Desk, now: Scene) -> list[list[Unit]]:
    kind, is_open = kind_of(desk.bench), teaching.is_open(desk, guess_of(desk.bench))
    return _moves(now, kind, is_open) if is_move(desk.bench) else _reorders(now, kind, is_open)


def _moves(now: Scene, kind: Kind, is_open: bool) -> list[list[Unit]]:
    """The scores before and after all positions have moved on, and what differs."""
    differs = [[Unit("difference")]] * is_open
    if kind in ABSOLUTE:
        return [
            [Unit("x"), Unit("table"), unit_after(now, "table", "placed")],
            [Unit("scores", left="q", top="k_t")],
            [Unit("table_b"), unit_after(now, "table_b", "placed_b")],
            [Unit("scores_b", left="q_b", top="k_t_b")] * is_open + [Unit("difference")] * is_open,
            [Unit("w_q"), Unit("w_k"), *[Unit("places")] * (kind == "learned")],
        ]
    made = [Unit("q", left="x", top="w_q"), Unit("k", top="w_k")]
    if kind == "none":
        return [made, [Unit("scores", left="q", top="k_t", echo=["q"])], *differs]
    if kind == "alibi":
        return [
            made,
            [Unit("scores", left="q", top="k_t", echo=["q"])],
            [Unit("slope_exponents"), unit_after(now, "slope_exponents", "slopes")],
            [Unit("alibi"), unit_after(now, "alibi", "biased")],
            [Unit("alibi_b"), *[unit_after(now, "alibi_b", "biased_b"), Unit("difference")] * is_open],
        ]
    return [
        made,
        [Unit("angles"), Unit("scores", left="turned_q", top="k_t")],
        [Unit("angles_b"), *[Unit("scores_b", left="turned_q_b", top="k_t_b")] * is_open],
        *differs,
    ]


def _reorders(now: Scene, kind: Kind, is_open: bool) -> list[list[Unit]]:
    """The output before and after the tokens have changed places, put back and compared."""
    first = [Unit("x"), Unit("x_b")]
    if kind in ABSOLUTE:
        first = [
            Unit("x"),
            Unit("table"),
            unit_after(now, "table", "placed"),
            Unit("x_b"),
            unit_after(now, "x_b", "placed_b"),
        ]
    beside = {"alibi": [Unit("alibi")], "none": []}.get(kind, [] if kind in ABSOLUTE else [Unit("angles")])
    after = [Unit("output_b", left="weights_b", top="v_b")] * is_open
    return [
        [*first, *beside],
        [Unit("output", left="weights", top="v")],
        after,
        [Unit("back"), Unit("difference")] * is_open,
        [Unit("w_q"), Unit("w_k"), Unit("w_v"), *[Unit("places")] * (kind == "learned")],
    ]

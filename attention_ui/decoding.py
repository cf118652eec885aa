"""Lesson 12 behind its page: what is asked, the sheet of all steps so far, and what is drawn of it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from attention_core.examples import EXAMPLES, token
from attention_core.masks import causal
from attention_core.next_token import next_token
from attention_core.sheet import Sheet
from attention_core.token_by_token import Mistake
from attention_ui import teaching
from attention_ui.bench import Bench, token_at
from attention_ui.board import Unit
from attention_ui.choices import Amount, Switch
from attention_ui.desk import Desk
from attention_ui.grids import unit_after
from attention_ui.scene import Scene, worked
from attention_ui.tokens import literal

MOST = 8  # tokens on this page
VOCABULARY = 8  # words that can come next
MORE_WORDS = ("and", "then", "again", "home", "now", "here", "up", "out")  # where a text has few words

STEP = Amount("p12.step", "Steps done", 1, MOST, 3)
OVER = Switch(
    "p12.over", "Mistake: write each new row over the last one",
    help="The place in the cache does not move on.",
)  # fmt: skip
AS_FIRST = Switch(
    "p12.as_first", "Mistake: mask the new token like a first one",
    help="A causal mask of one row, counted from the first key instead of the last.",
)  # fmt: skip
GUESS = teaching.prediction(
    "p12.guess",
    "A step works out the row of one token only. Will its output be the row that all tokens at once give?",
    {"same": "the same numbers", "other": "other numbers"},
)
TEMPERATURE = Amount(
    "p12.temperature",
    "Temperature T",
    0,
    2,
    1,
    0.1,
    help="At 0 the largest logit is taken, whatever the seed.",
)
TOP_K = Amount("p12.top_k", "Top-k", 1, VOCABULARY, VOCABULARY, help=f"{VOCABULARY} keeps all words.")
TOP_P = Amount("p12.top_p", "Top-p", 0.05, 1.0, 1.0, 0.05, help="1 keeps all words.")
SEED = Amount("p12.seed", "Seed of the draw", 0, 99, 0)


def tokens(bench: Bench) -> int:
    """How many tokens are worked through: the first of the bench's."""
    return min(bench.n_k, MOST)


def steps(bench: Bench) -> int:
    """How many steps are done, never more than there are tokens."""
    return min(int(STEP.of(bench)), tokens(bench))


def mistake(bench: Bench) -> Mistake | None:
    """The mistake that is switched on; one at a time."""
    return "overwritten" if OVER.of(bench) else "as first" if AS_FIRST.of(bench) else None


def is_greedy(bench: Bench) -> bool:
    return float(TEMPERATURE.of(bench)) == 0


def sheet_of(bench: Bench) -> Sheet:
    top_k, top_p = int(TOP_K.of(bench)), float(TOP_P.of(bench))
    return next_token(
        tokens(bench),
        steps(bench),
        mistake=mistake(bench),
        greedy=is_greedy(bench),
        top_k=top_k if top_k < VOCABULARY else None,
        top_p=top_p < 1,
    )


def scene_of(desk: Desk) -> Scene:
    bench = desk.bench
    n, t, sheet = tokens(bench), steps(bench), sheet_of(bench)
    known: dict[str, Any] = {"divisor": np.sqrt(bench.d_k), "mask": causal(n)}
    known |= {"temperature": float(TEMPERATURE.of(bench)), "top_p": float(TOP_P.of(bench))}
    known |= {f"mask_{step}": causal(1, step) for step in range(2, t + 1)}
    words = tuple(literal(token_at(bench, i)) for i in range(n))
    return worked(
        replace(bench, n_q=n, n_k=n), sheet, {name: known[name] for name in known if name in sheet},
        sizes={"token": n, "query": n, "key": n, "vocabulary": VOCABULARY},
        named={
            **dict.fromkeys(("token", "query", "key"), words),
            **{f"query_{step}": words[step - 1 : step] for step in range(1, t + 1)},
            **{f"key_{step}": words[:step] for step in range(1, t + 1)},
            **({"key_1": words[t - 1 : t]} if mistake(bench) == "overwritten" else {}),
            "query_u": words[:t], "vocabulary": vocabulary(bench),
        },
        compared=(
            ("k", f"k_{t}", f"k_{t - 1}", f"new_k_{t}"), ("v", f"v_{t}", f"v_{t - 1}", f"new_v_{t}"),
            ("output", "stepped", "so_far", f"output_{t}", "apart"),
            (f"scores_{t}", f"scaled_{t}", f"masked_{t}"),
            ("probabilities", "kept_k", "after_k", "running", "kept_p", "after_p"),
        ),
    )  # fmt: skip


def vocabulary(bench: Bench) -> tuple[str, ...]:
    """The words that can come next: those of the reader's text, of the example, and a few more."""
    mine = bench.tokens or tuple(token_at(bench, i) for i in range(tokens(bench)))
    return _vocabulary(mine, bench.example)


@lru_cache(maxsize=64)
def _vocabulary(mine: tuple[str, ...], example: str) -> tuple[str, ...]:
    its_own = (token(EXAMPLES[example], i) for i in range(MOST * 2))
    listed = [literal(word) for word in (*mine, *its_own, *MORE_WORDS)]
    return tuple(dict.fromkeys(listed))[:VOCABULARY]


def layout_of(desk: Desk, now: Scene) -> list[list[Unit]]:
    """All tokens at once, the step that was done last, both outputs once it is open, and the next token."""
    t, is_open = steps(desk.bench), teaching.is_open(desk, GUESS)
    at_once = [
        [Unit("q", left="x", top="w_q"), Unit("k", top="w_k"), Unit("v", top="w_v")],
        [Unit("output", left="weights", top="v", echo=["v"]) if is_open else Unit("weights")],
    ]
    compared = [[Unit("stepped"), Unit("so_far"), Unit("apart", via="difference")]] * is_open
    return [*at_once, *_step(now, t), *compared, *_next(now, t)]


def _step(now: Scene, t: int) -> list[list[Unit]]:
    """One step: the new rows, the cache before and after, and the attention of the new token."""
    projected = [
        Unit(f"q_{t}", left=f"x_{t}", top="w_q", echo=["w_q"]),
        Unit(f"new_k_{t}", top="w_k", echo=["w_k"]),
        Unit(f"new_v_{t}", top="w_v", echo=["w_v"]),
    ]
    grown = [_grown(now, letter, t) for letter in "kv"]
    masked = [unit_after(now, f"scaled_{t}", f"masked_{t}")] if f"masked_{t}" in now.values else []
    attends = [
        Unit(f"scores_{t}", left=f"q_{t}", top=f"k_t_{t}", echo=[f"q_{t}"]),
        unit_after(now, f"scores_{t}", f"scaled_{t}"),
        *masked,
    ]
    mixed = [Unit(f"output_{t}", left=f"weights_{t}", top=f"v_{t}", echo=[f"v_{t}"])]
    narrow = now.values[f"k_{t}"].shape[1] + now.values[f"v_{t}"].shape[1] <= 4
    return [projected, *([[*grown[0], *grown[1]]] if narrow else grown), attends, mixed]


def _grown(now: Scene, letter: str, t: int) -> list[Unit]:
    """A cache before a step, and what the step has made of it."""
    before, name = f"{letter}_{t - 1}", f"{letter}_{t}"
    if t == 1:
        return [Unit(name)]
    if mistake(now.bench) == "overwritten":
        return [Unit(before), Unit(name, via="in its place")]
    return [Unit(before), unit_after(now, before, name)]


def _next(now: Scene, t: int) -> list[list[Unit]]:
    """Logits and what is made of them, filter by filter."""
    filters = ("tempered", "probabilities", "kept_k", "after_k", "running", "kept_p", "after_p")
    rows = [[Unit(name)] for name in filters if name in now.values]
    return [[Unit("logits", left=f"output_{t}", top="w_out", echo=[f"output_{t}"])], *rows]

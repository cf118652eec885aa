"""Lesson 13, first view: the cache fills with rows, one token a step. What is asked, drawn and found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attention_core.attention import attention
from attention_core.cache_sheet import step_sheet
from attention_core.numbers import show
from attention_core.operations import Array
from attention_core.sheet import cost
from attention_core.written import visible
from attention_ui import amounts, teaching, workbench
from attention_ui.bench import Bench, numbers, token_at
from attention_ui.board import Grid, Unit
from attention_ui.choices import Amount, Switch
from attention_ui.desk import Desk
from attention_ui.grids import grid, names_in, unit_after
from attention_ui.playing import player
from attention_ui.scene import Scene, worked
from attention_ui.tokens import isolated, literal

EMPTY = "–"  # in a row of the cache that nothing has been written to
FP16 = 2  # bytes of a number

T = Amount("p13.t", "Tokens so far, t", 1, 16, 3)
PLAYER = player(T, "p13")
LATE = Switch("p13.late", "Mistake: look before the new row is written")
GUESS = teaching.prediction(
    "p13.guess_rows",
    "The next token comes. What becomes of the rows of K and V that are there?",
    {"stay": "they stay as they are", "change": "they change"},
)


def tokens_so_far(bench: Bench) -> int:
    return PLAYER.at(bench, bench.n_k)


def kept_rows(bench: Bench, t: int) -> tuple[Array, Array]:
    """K and V of the first t tokens, each row worked out by itself in its own step."""
    x, w_k, w_v = numbers(bench, "x", bench.n_k, bench.d_model), numbers(bench, "w_k"), numbers(bench, "w_v")
    with np.errstate(over="ignore", invalid="ignore"):
        rows = [(x[i : i + 1] @ w_k, x[i : i + 1] @ w_v) for i in range(t)]
    return np.concatenate([k for k, _ in rows]), np.concatenate([v for _, v in rows])


def scene_of(desk: Desk) -> Scene:
    bench, t, n = desk.bench, tokens_so_far(desk.bench), desk.bench.n_k
    given = {"divisor": np.sqrt(bench.d_k)}
    if t > 1:
        k, v = kept_rows(bench, t - 1)
        given |= {"k_b": k, "v_b": v}
    words = words_of(bench, n)
    return worked(
        bench, step_sheet(t, late=LATE.of(bench)), given,
        sizes={"token": n, "query": 1, "key": t},
        named={"token": words, "query": words[t - 1 : t], "key": words[:t], "key_b": words[: t - 1]},
        starts={"query": t - 1},
        compared=(("k", "k_a", "k_b", "k_t"), ("v", "v_a", "v_b", "output"), ("scores", "scaled")),
    )  # fmt: skip


def words_of(bench: Bench, n: int) -> tuple[str, ...]:
    return tuple(literal(token_at(bench, i)) for i in range(n))


def board(desk: Desk) -> None:
    now = scene_of(desk)
    layout = [
        [Unit("x"), Unit("q", left="x_a", top="w_q")],
        [Unit("k_a", left="x_a", top="w_k", echo=["x_a"]), Unit("v_a", top="w_v")],
        [Unit("k"), Unit("v")],
        [Unit("scores", left="q", top="k_t", echo=["q"])],
        [unit_after(now, "scores", "weights"), unit_after(now, "weights", "output")],
    ]
    drawn = {name: grid(now, name, kept=desk.kept) for name in names_in(layout)}
    words = words_of(desk.bench, desk.bench.n_k)
    drawn |= {name: with_empty_rows(drawn[name], words) for name in ("k", "v")}
    workbench.draw_grids(desk, drawn, layout)


def with_empty_rows(drawn: Grid, rows: Sequence[str]) -> Grid:
    """A grid with as many rows as there is room for; those that nothing has been written to are hatched."""
    have, columns = len(drawn.cells), len(drawn.cells[0])
    lacking = len(rows) - have
    return replace(
        drawn,
        cells=[*drawn.cells, *[[EMPTY] * columns] * lacking],
        levels=[*(drawn.levels or []), *[[None] * columns] * lacking],
        rows=rows,
        size=f"{have} of {len(rows)} × {columns}" if lacking else drawn.size,
    )


def verdict(desk: Desk, now: Scene) -> None:
    """Whether the rows that are there stay, tried on the next token, or on the last if there is no next."""
    t = tokens_so_far(desk.bench)
    before, after = (t, t + 1) if t < desk.bench.n_k else (t - 1, t)
    if before < 1:
        teaching.verdict(desk, GUESS, "", "There is one token only, so no rows are there before it.")
        return
    old, new = kept_rows(desk.bench, before), kept_rows(desk.bench, after)
    stay = all(np.array_equal(b[:before], a) for a, b in zip(old, new, strict=True))
    word = isolated(token_at(desk.bench, after - 1))
    teaching.verdict(
        desk, GUESS, "stay" if stay else "change",
        f"Token {after}, {word}, adds row {after}. A row of K is one row of X times W_K, and no other token "
        "takes part in it; so a causal model need not work it out again.",
    )  # fmt: skip


def claims(now: Scene) -> list[tuple[str, bool]]:
    """What holds of a cache, tried on the numbers on screen."""
    values, t = now.values, tokens_so_far(now.bench)
    x = values["x"][:t]
    q, k, v = (x @ values[name] for name in ("w_q", "w_k", "w_v"))
    at_once = attention(q, k, v, mask=np.tri(t, dtype=bool)).output[-1:]
    apart = visible(float(np.abs(values["output"] - at_once).max()), show)
    new, again = _operations(now, 1), _operations(now, t)
    return [
        (
            f"Row by row, the cache holds what X W_K and X W_V give for {_tokens(t)} at once.",
            close(values["k"], k) and close(values["v"], v),
        ),
        (
            f"The output is row {t} of causal attention over {_tokens(t)} at once: the largest difference is "
            f"{apart}.",
            close(values["output"], at_once),
        ),
        (
            f"The new row of K and V took {amounts.whole(new)} operations; all {t} rows again would take "
            f"{amounts.whole(again)}.",
            again == t * new,
        ),
    ]


def held(now: Scene) -> str:
    """What the cache on screen holds, in numbers and bytes."""
    (t, d_k), d_v = now.values["k"].shape, now.values["v"].shape[1]
    count = t * (d_k + d_v)
    return (
        f"The cache holds {t} × (d_k {d_k} + d_v {d_v}) = {count} numbers. In FP16 that is "
        f"{amounts.size(FP16 * count)} for one layer and one head (an estimate from shapes)."
    )


def why_wrong(now: Scene) -> str:
    t = tokens_so_far(now.bench)
    if t == 1:
        return "The first token has nothing before it, so it cannot be late. Go on to the next one."
    return (
        f"The query meets {t - 1} of {t} keys: its own row of K and V is written after it has looked. In "
        "causal attention a token may look at itself."
    )


def _operations(now: Scene, rows: int) -> int:
    """What W_K and W_V take for so many rows of X, counted line by line from the sheet."""
    bench = now.bench
    sizes = {"token": bench.n_k, "query": rows, "key": rows, "key_b": rows}
    sizes |= {axis: getattr(bench, axis) for axis in ("d_model", "d_k", "d_v")}
    return sum(line.operations for line in cost(now.sheet, sizes) if line.name in ("k_a", "v_a"))


def _tokens(t: int) -> str:
    return "one token" if t == 1 else f"{t} tokens"


def close(a: Array, b: Array) -> bool:
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * (1 + np.abs(b).max(initial=0.0))))

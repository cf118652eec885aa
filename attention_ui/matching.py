"""Lesson 2 behind its page: its window of its own, the sheet seen through it, and what can be said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attention_core.attention import attention
from attention_core.matching import matching
from attention_core.numbers import show
from attention_core.sheet import Sheet, run
from attention_core.written import visible
from attention_ui.bench import Bench
from attention_ui.board import Unit
from attention_ui.choices import Amount, Choice, Switch
from attention_ui.grids import PROJECTIONS, unit_after
from attention_ui.naming import named
from attention_ui.scene import Scene, worked
from attention_ui.teaching import prediction

SAME = "same"
MOST = 8  # queries, keys and features in the window

N_Q = Amount("p2.nq", "Queries n_q", 1, MOST, 3)
N_K = Amount("p2.nk", "Keys n_k", 1, MOST, 4)
D_K = Amount("p2.dk", "Width of queries, d_k", 1, MOST, 2)
D_V = Amount("p2.dv", "Width of values, d_v", 1, MOST, 5)
QUERY = Choice("p2.query", "Query on the bench", {"1": "1", "2": "2", "3": "3"}, "1")
KEY = Choice("p2.key", "Key on the bench", {"1": "1", "2": "2", "3": "3", "4": "4"}, "1")
WIDTH = Choice(
    "p2.width",
    "Width of keys",
    {SAME: "as the queries", "1": "1", "2": "2", "3": "3", "4": "4"},
    SAME,
    help="A key that is wider or narrower than a query cannot be compared with it.",
)
UNTURNED = Switch(
    "p2.unturned",
    "Mistake: Q times K, not K transposed",
    help="With as many keys as features (n_k = d_k) nothing refuses it, and the table is still wrong.",
)
GUESS = prediction(
    "p2.guess",
    "The query on the bench has its largest score with one key. What will its row of the output be?",
    {"value": "the value of that key, as it is", "mix": "a mix of several values"},
)


def seen(bench: Bench) -> Bench:
    """The bench through this lesson's window."""
    n_q, n_k, d_k, d_v = (int(size.of(bench)) for size in (N_Q, N_K, D_K, D_V))
    return replace(bench, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)


def key_width(bench: Bench) -> int:
    """How many features a key has."""
    chosen = WIDTH.of(bench)
    return seen(bench).d_k if chosen == SAME else int(chosen)


def pair(bench: Bench) -> tuple[int, int]:
    """The query and the key on the bench, counted from 0; the last one where there are fewer."""
    window = seen(bench)
    return min(int(QUERY.of(bench)), window.n_q) - 1, min(int(KEY.of(bench)), window.n_k) - 1


def sheet_of(bench: Bench, *, scored: bool = True) -> Sheet:
    """The lesson's sheet for what is chosen; scored=False ends before the table."""
    window, (query, key) = seen(bench), pair(bench)
    return matching(
        window.n_q,
        window.n_k,
        query=query,
        key=key,
        from_x=bench.way == "x",
        same_width=key_width(bench) == window.d_k,
        transposed=not UNTURNED.of(bench),
        scored=scored,
    )


def scene_of(bench: Bench) -> Scene:
    """Everything that can be worked out; where shapes do not fit, the scene ends before the table."""
    try:
        return _worked(bench, sheet_of(bench))
    except ValueError:
        return _worked(bench, sheet_of(bench, scored=False))


def _worked(bench: Bench, sheet: Sheet) -> Scene:
    window = seen(bench)
    return worked(
        window,
        sheet,
        {"divisor": np.sqrt(window.d_k)},
        sizes={"token": max(window.n_q, window.n_k), "d_key": key_width(bench)},
        compared=(("q", "k", "k_t"), ("scores", "scaled"), ("v", "looked_up", "output")),
    )


def layout_of(bench: Bench, now: Scene, *, is_open: bool) -> list[list[Unit]]:
    """Three views of X, one query and one key, the table, and what is taken; the mix once it is open."""
    q, k = (f"{name}_{place + 1}" for name, place in zip("qk", pair(bench), strict=True))
    one_pair = [Unit(q), Unit(k)]
    if "match" in now.values:
        one_pair += [unit_after(now, q, "products"), unit_after(now, "products", "match")]
    lines = [_views(now), one_pair]
    right = "k" if UNTURNED.of(bench) else "k_t"
    if "scores" not in now.values:
        return [*lines, [Unit("q", echo=["q"]), Unit(right, echo=["k"])]]
    table = [Unit("scores", left="q", top=right, echo=["q", "k"]), unit_after(now, "scores", "scaled")]
    taken = [Unit("looked_up", left="picked", top="v", echo=["v"])]
    taken += [Unit("output", left="weights", top="v", echo=["v"])] * is_open
    return [*lines, table, taken]


def _views(now: Scene) -> list[Unit]:
    """Q, K and V; X stands beside one that has as many rows, so that row meets row."""
    if "x" not in now.sheet:
        return [Unit("q"), Unit("k"), Unit("v")]
    if len(now.values["q"]) == len(now.values["x"]):
        return PROJECTIONS
    return [Unit("k", left="x", top="w_k"), Unit("v", top="w_v"), Unit("q", top="w_q")]


def refusal(bench: Bench, now: Scene) -> tuple[str, str]:
    """What the core says of shapes that do not fit, and why; two empty texts where they do."""
    q, k = now.values["q"], now.values["k"]
    try:
        if key_width(bench) != seen(bench).d_k:
            attention(q, k, now.values["v"])
        else:
            run(sheet_of(bench), now.values)
    except ValueError as reason:
        return f"Refused: {reason}.", _why_not(bench, q.shape, k.shape)
    return "", ""


def _why_not(bench: Bench, q: tuple[int, ...], k: tuple[int, ...]) -> str:
    if key_width(bench) != seen(bench).d_k:
        return (
            f"Transposing K only swaps its axes, {k[0]} × {k[1]} to {k[1]} × {k[0]}: a key still has "
            f"{_count(k[1], 'feature')}. Feature by feature, some number would have no partner."
        )
    return (
        f"In Q times K, a row of Q ({q[1]} features of one query) would meet a column of K "
        f"({k[0]} numbers, one feature of all keys). K transposed is {k[1]} × {k[0]}: its columns are keys, "
        f"each with {k[1]} features."
    )


def claims(bench: Bench, now: Scene, *, is_open: bool) -> list[tuple[str, bool]]:
    """What the lesson says, tried on the numbers on screen."""
    window, values = seen(bench), now.values
    (n_q, d_k), (n_k, d_key) = values["q"].shape, values["k"].shape
    found = [(f"A query and a key have the same number of features: {d_k} and {d_key}.", d_k == d_key)]
    if "scores" not in values:
        if d_k == d_key:
            found.append(
                (f"A row of Q has as many numbers as a column of K: {d_k} and {n_k}.", bool(d_k == n_k))
            )
        return found
    query, key = pair(bench)
    at = (query, min(key, values["scores"].shape[1] - 1))
    pairs = np.einsum("id,jd->ij", values["q"], values["k"])
    score, match = show(float(values["scores"][at])), show(float(values["match"][0, 0]))
    by_token = now.sheet["scores"].axes == ("query", "key")
    found += [
        (
            f"The dot product on the bench, {match}, stands in row {query + 1} and column {key + 1} "
            f"of the scores: {score}.",
            _close(values["scores"][at], values["match"][0, 0]),
        ),
        (
            "Every score is the dot product of its query and its key.",
            values["scores"].shape == pairs.shape and _close(values["scores"], pairs),
        ),
        (
            f"The table has a row for each of {_count(n_q, 'query')} "
            f"and a column for each of {_count(n_k, 'key')}.",
            by_token and values["scores"].shape == (n_q, n_k),
        ),
        (
            "Every looked-up row is a row of V, as it is.",
            bool(np.array_equal(values["looked_up"], values["v"][values["picked"].argmax(axis=1)])),
        ),
    ]
    if is_open:
        found += [
            (
                f"The output has a row for each query and a column for each feature of a value: "
                f"{n_q} × {window.d_v}.",
                values["output"].shape == (n_q, window.d_v),
            ),
            (
                "No number of the output lies outside the numbers of its column of V.",
                _within(values["output"], values["v"]),
            ),
        ]
    return found


def because(bench: Bench, now: Scene) -> tuple[str, str]:
    """The right answer to the prediction, and the numbers that make it so."""
    query, _ = pair(bench)
    weights = now.values["weights"][query]
    best = int(now.values["picked"][query].argmax())
    word = named(now.labels["key"], np.array([best]))
    if len(weights) == 1:
        return "value", "There is one key only, so it has all the weight."
    rest = _count(len(weights) - 1, "other key", "share") if len(weights) > 2 else "the other key has"
    numbers = (
        f"Query {query + 1} gives its largest weight, {visible(float(weights[best]), show)}, to key {word}; "
        f"{rest} {visible(float(np.delete(weights, best).sum()), show)}."
    )
    if _close(now.values["output"][query], now.values["looked_up"][query]):
        return "value", f"{numbers} Here both rows come to the same numbers."
    ties = int(np.sum(now.values["scaled"][query] == now.values["scaled"][query, best]))
    if ties > 1:
        numbers += f" {ties} keys have that largest score; the lookup takes the first of them."
    return "mix", numbers


def _count(n: int, word: str, verb: str = "") -> str:
    many = f"{word[:-1]}ies" if word.endswith("ry") else f"{word}s"
    return f"{n} {word if n == 1 else many}{verb and ' '}{verb}"


def _close(a: object, b: object) -> bool:
    return bool(np.allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-9))


def _within(output: np.ndarray, v: np.ndarray) -> bool:
    slack = 1e-9 * (1 + np.abs(v).max(axis=0))
    return bool(((output >= v.min(axis=0) - slack) & (output <= v.max(axis=0) + slack)).all())

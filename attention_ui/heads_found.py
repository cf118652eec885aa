"""Lesson 5, first half: what is found of heads, and what holds of them, tried on the numbers on screen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attention_core.head_sheets import heads_sheet
from attention_core.multi_head import multi_head_attention
from attention_core.numbers import show
from attention_core.operations import Array
from attention_core.sheet import parameters
from attention_ui import teaching
from attention_ui.bench import numbers
from attention_ui.desk import Desk
from attention_ui.heads import GUESS, each, n_heads, n_shared
from attention_ui.scene import Scene
from attention_ui.tokens import isolated


def verdict(desk: Desk, now: Scene) -> None:
    """Whether one wide head gives the same output, and where it differs most."""
    bench, output = desk.bench, now.values["output"]
    one = one_head(now)
    if np.allclose(output, one, rtol=1e-9, atol=1e-12):
        because = "This is one head." if n_heads(bench) == 1 else _alike(now)
        teaching.verdict(desk, GUESS, "same", because)
        return
    i, j = np.unravel_index(int(np.abs(output - one).argmax()), output.shape)
    word = isolated(now.labels["query"][int(i)])
    teaching.verdict(
        desk, GUESS, "other",
        f"In row {int(i) + 1}, {word}, column {int(j) + 1} of the output is {show(output[i, j])}; "
        f"with one head it would be {show(one[i, j])}. One head adds up all products of a query and a key "
        "before its softmax; each of the heads has a softmax of its own.",
    )  # fmt: skip


def _alike(now: Scene) -> str:
    tables = [now.values[f"weights_{h}"] for h in range(1, n_heads(now.bench) + 1)]
    if all(np.allclose(tables[0], table, rtol=1e-9, atol=1e-12) for table in tables):
        return "All heads give the same weights here, so that it does not matter which head a column is in."
    return "The weights differ from head to head, but what they bring comes to the same."


def one_head(now: Scene) -> Array:
    """The output of one head as wide as all, on the same X and the same weights."""
    rows, width = now.values["w_q"].shape
    w_k, w_v = (numbers(now.bench, name, rows, width) for name in ("w_k", "w_v"))
    v = now.values
    trace = multi_head_attention(v["x"], v["w_q"], w_k, w_v, v["w_o"], n_heads=1, mask=v["mask"])
    return trace.output


def claims(now: Scene) -> list[tuple[str, bool]]:
    """What holds of heads, tried on the numbers on screen."""
    bench, values = now.bench, now.values
    heads, few = n_heads(bench), n_shared(bench)
    totals = np.array([values[name].sum(axis=1) for name in each("weights", heads)])
    sees = values["mask"].any(axis=1)
    found = [
        ("Row by row, a head holds numbers of its own token only.", rows_are_tokens(now)),
        (
            "The heads of Q put side by side are Q again.",
            np.array_equal(np.hstack([values[name] for name in each("q", heads)]), values["q"]),
        ),
        (
            "In every head the weights of a query that may look anywhere add up to 1.",
            np.allclose(totals, sees, rtol=0, atol=1e-12),
        ),
        (
            "Each head times its rows of W_O, added up, is the output: a head adds its own part.",
            np.allclose(_added(values, heads), values["output"], rtol=1e-9, atol=1e-12 * _size(values)),
        ),
    ]
    return [*found, _sharing(now) if few < heads else _counted(now)]


def rows_are_tokens(now: Scene) -> bool:
    """Whether row i of every head comes from row i, found by cutting the numbers of the rows themselves."""
    for letter in "qkv":
        whole = now.values[letter]
        of_row = np.broadcast_to(np.arange(len(whole), dtype=float)[:, None], whole.shape)
        for stage in now.sheet.stages:
            if stage.inputs == (letter,) and not np.array_equal(
                stage.operation.compute(of_row), of_row[:, : now.values[stage.name].shape[1]]
            ):
                return False
    return True


def _sharing(now: Scene) -> tuple[str, bool]:
    """Shared keys and values against as many as there are heads, with the same columns again and again."""
    heads, few, v = n_heads(now.bench), n_shared(now.bench), now.values
    w_k, w_v = (_repeated(v[name], few, heads // few) for name in ("w_k", "w_v"))
    full = multi_head_attention(v["x"], v["w_q"], w_k, w_v, v["w_o"], n_heads=heads, mask=v["mask"])
    return (
        f"K and V hold {show(few)} of {show(heads)} heads, and the output is what {show(heads)} heads give "
        "where W_K and W_V repeat their columns.",
        np.allclose(full.output, v["output"], rtol=1e-9, atol=1e-12 * _size(v)),
    )


def _repeated(w: Array, few: int, times: int) -> Array:
    """The columns of every head of keys or values, as often as it is read."""
    return np.hstack([part for part in np.split(w, few, axis=1) for _ in range(times)])


def _counted(now: Scene) -> tuple[str, bool]:
    """The learned numbers of these heads and of one head as wide as all of them."""
    rows, width = now.values["w_q"].shape
    whole = heads_sheet(1, d_head=width, d_value=width)
    wide = {axis: width for line in whole.given for axis in line.axes} | {"d_model": rows}
    one = sum(parameters(whole, wide).values())
    here = sum(now.values[line.name].size for line in now.sheet.given if line.is_learned)
    return (
        f"The four weight matrices hold {show(here)} numbers; for one head it would be {show(one)}.",
        here == one,
    )


def _added(values: Mapping[str, Array], heads: int) -> Array:
    """What every head adds to the output: its own output times its rows of W_O."""
    parts = np.split(values["w_o"], heads)
    added: Array = np.sum([values[f"output_{h}"] @ part for h, part in enumerate(parts, start=1)], axis=0)
    return added


def _size(values: Mapping[str, Array]) -> float:
    """How large the products of the last line are; differences far below it are rounding."""
    return max(1.0, float(np.abs(values["concatenated"]).max()) * float(np.abs(values["w_o"]).max()))


def why_wrong(now: Scene) -> str:
    """What the cut without the transpose has done to Q, told at the first number of the last head."""
    heads, (n, columns) = n_heads(now.bench), now.values["q"].shape
    if heads == 1 or n == 1:
        one = "head" if heads == 1 else "token"
        return f"With one {one} both cuts are the same, and nothing goes wrong yet."
    flat = (heads - 1) * n * columns // heads
    row, column = divmod(flat, columns)
    there, here = (isolated(now.labels["query"][i]) for i in (row, 0))
    return (
        f"Reshaped to heads × tokens × columns at once, Q is cut after every {show(n * columns // heads)} "
        f"numbers, counted row by row. So row 1 of head {heads} begins with number {show(flat + 1)} of Q, "
        f"which stands in row {row + 1}, column {column + 1}: it belongs to “{there}”, not to “{here}”. "
        "Reshape to tokens × heads × columns first, then swap the first two."
    )

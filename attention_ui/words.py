"""What a figure shows, for who does not see it, and what the n × n table takes, counted from the shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_core.numbers import show
from attention_core.sheet import Sheet, cost
from attention_ui.naming import alike
from attention_ui.theme import colour_limit, lie_beyond
from attention_ui.tokens import isolated

Values = Mapping[str, NDArray[Any]]
Labels = Mapping[str, Sequence[str]]

MOST_ROWS_IN_WORDS = 8


def alt_text(sheet: Sheet, values: Values, labels: Labels, *, shared: bool = True) -> str:
    """What the four heat maps show: sizes, ranges, blocked cells, and where every query looks most."""
    n_q, n_k = values["scores"].shape
    scores = [values["scores"], values["scaled"]]
    limits = [colour_limit(np.concatenate([a.ravel() for a in scores]) if shared else one) for one in scores]
    lines = [
        f"Four heat maps, {_count(n_q, 'query', 'queries')} down and {_count(n_k, 'key', 'keys')} across."
    ]
    for name, limit in zip(("scores", "scaled"), limits, strict=True):
        lines.append(
            f"{sheet[name].title}: {_span(values[name])}, coloured from {show(-limit)} to {show(limit)}."
        )
    lines.append(f"{sheet['mask'].title}: {_blocked(values['mask'])}.")
    return " ".join([*lines, _looks(sheet["weights"].title, values["weights"], labels)])


def large_alt_text(sheet: Sheet, values: Values) -> str:
    """What the large heat maps show: sizes, ranges and the largest weight."""
    weights = values["weights"]
    n_q, n_k = (tuple(map(str, range(1, n + 1))) for n in weights.shape)
    sizes = f"{_count(len(n_q), 'query', 'queries')} down and {_count(len(n_k), 'key', 'keys')} across"
    return (
        f"Three heat maps without numbers, {sizes}. {sheet['scaled'].title}: {_span(values['scaled'])}. "
        f"{sheet['mask'].title}: {_blocked(values['mask'])}. "
        f"{sheet['weights'].title}: {_largest(weights, n_q, n_k)}."
    )


def beyond(array: NDArray[np.float64], limit: float) -> tuple[str, ...]:
    """A note about the numbers outside −limit to limit, if any."""
    count = int(lie_beyond(array, limit).sum())
    return (f"{count} {'number lies' if count == 1 else 'numbers lie'} beyond",) if count else ()


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def _span(array: NDArray[np.float64]) -> str:
    finite = array[np.isfinite(array)]
    if not finite.size:
        return "no finite number"
    low, high = show(float(finite.min())), show(float(finite.max()))
    return f"all {low}" if low == high else f"from {low} to {high}"


def _blocked(may_look: NDArray[np.bool_]) -> str:
    count = int(np.sum(~may_look))
    if not count:
        return "every query may look at every key"
    return f"{count} of {may_look.size} cells {'is' if count == 1 else 'are'} blocked"


def _looks(title: str, weights: NDArray[np.float64], labels: Labels) -> str:
    """The strongest weight of every query; of a large matrix only the strongest of all."""
    queries, keys = labels["query"], labels["key"]
    if not np.isfinite(weights).all():
        return f"{title}: some have no value, because a score is too large."
    if len(queries) > MOST_ROWS_IN_WORDS:
        places = ([_at(labels, place) for place in range(len(labels))] for labels in (queries, keys))
        return f"{title}: {_largest(weights, *places)}."
    return f"{title}: {'; '.join(_row(weights[i], i, queries, keys) for i in range(len(queries)))}."


def _largest(weights: NDArray[np.float64], queries: Sequence[str], keys: Sequence[str]) -> str:
    if not np.isfinite(weights).all():
        return "some have no value, because a score is too large"
    i, j = divmod(int(np.argmax(weights)), weights.shape[1])
    others = ", among others" if np.sum(weights == weights[i, j]) > 1 else ""
    return f"the largest is {show(float(weights[i, j]))}, of query {queries[i]} for key {keys[j]}{others}"


def _row(row: NDArray[np.float64], i: int, queries: Sequence[str], keys: Sequence[str]) -> str:
    query = f"query {_at(queries, i)}"
    top = float(row.max())
    if top == 0:
        return f"{query} may look nowhere, its row is 0"
    most = np.flatnonzero(alike(row, top)).tolist()
    if len(most) > 3:
        return f"{query} has its largest weight, {show(top)}, at {len(most)} keys alike"
    return f"{query} looks most at {' and '.join(_at(keys, j) for j in most)}, {show(top)}"


def _at(labels: Sequence[str], position: int) -> str:
    return f"{position + 1} {isolated(labels[position])}"


def cost_sentences(sheet: Sheet, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """What the table of every query with every key takes, counted from the shapes.

    sizes: the length of every axis of the sheet. Raises ValueError naming an axis without a size.
    """
    n_q, n_k = sizes["query"], sizes["key"]
    entries = n_q * n_k
    counts = {each.name: each.operations for each in cost(sheet, sizes)}
    tables = [stage.title for stage in sheet.stages if stage.axes == ("query", "key")]
    multiply_adds = (counts["scores"] + counts["output"]) // 2
    return (
        f"{n_q:,} {'query' if n_q == 1 else 'queries'} × {n_k:,} {'key' if n_k == 1 else 'keys'} = "
        f"{entries:,} entries in every table.",
        f"Scores and output: {entries:,} × (d_k {sizes['d_k']} + d_v {sizes['d_v']}) = "
        f"{multiply_adds:,} multiply-adds.",
        f"One table: {_bytes(8 * entries)} in float64, {_bytes(2 * entries)} in float16. "
        f"Written out step by step there are {len(tables)}: {', '.join(tables)}.",
        "Twice as many tokens make four times as many entries. "
        "All of these are counted from the shapes; none is measured.",
    )


def _bytes(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    size, unit = (count / 1024, "KiB") if count < 1024**2 else (count / 1024**2, "MiB")
    return f"{count:,} bytes ({size:.4g} {unit})"

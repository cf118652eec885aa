"""The sheet of lesson 2: one query against one key, the table of scores, and a lookup beside the mixing.

Queries and keys may be different in number, and values may have another width. From X the queries are made of
its first rows, the keys and values likewise.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TypeVar

from attention_core.elementwise import MULTIPLY
from attention_core.lookup import PICK, of_first, one_row
from attention_core.operations import MATMUL, SOFTMAX
from attention_core.sheet import ONE, Given, Sheet, Stage, mark, stage
from attention_core.sheets import OUTPUT, PROJECTIONS, SCORES, TRANSPOSED, WEIGHTS, attention_sheet
from attention_core.softmax_steps import TOTAL

Line = TypeVar("Line", Given, Stage)

_OTHER = "d_key"  # the features of a key, where they are not as many as a query's


@cache
def matching(
    n_q: int,
    n_k: int,
    *,
    query: int = 0,
    key: int = 0,
    from_x: bool = True,
    same_width: bool = True,
    transposed: bool = True,
    scored: bool = True,
) -> Sheet:
    """From Q, K and V, or from X with max(n_q, n_k) rows, to what is looked up and what is mixed.

    query and key, counted from 0, are compared on their own first. Without same_width the features of a key
    have an axis of their own, d_key, and nothing is compared. transposed=False is the mistake of multiplying
    Q by K as it stands: it cannot be worked out unless n_k is d_k. scored=False ends before the table.
    Raises ValueError for a query or a key that is not there.
    """
    if not (0 <= query < n_q and 0 <= key < n_k):
        raise ValueError(f"there is no query {query + 1} of {n_q} or no key {key + 1} of {n_k}")
    whole = attention_sheet(from_x=from_x)
    given = [line for line in whole.given if line.name != "mask"]
    stages = [*_projected(n_q, n_k)] if from_x else []
    stages += _pair(query, key, compared=same_width)
    stages += [TRANSPOSED] * transposed
    if scored and same_width:
        stages += _table(whole.stage("scaled"), transposed)
    if not same_width:
        return Sheet(tuple(map(_wide, given)), tuple(map(_wide, stages)))
    return Sheet(tuple(given), tuple(stages))


def _projected(n_q: int, n_k: int) -> list[Stage]:
    """Q, K and V from X, each from as many of its rows as it has itself."""
    n = max(n_q, n_k)
    rows = {"q": n_q, "k": n_k, "v": n_k}
    return [
        line if rows[line.name] == n else replace(line, operation=of_first(rows[line.name]))
        for line in PROJECTIONS
    ]


# fmt: off
def _pair(query: int, key: int, compared: bool) -> list[Stage]:
    """One query and one key, feature by feature, and what the products add up to."""
    row = f"{ONE} d_k"
    q, k = f"q_{query + 1}", f"k_{key + 1}"
    one_query = stage((q, q, mark("q", str(query + 1)), f"Query {query + 1}", row, 0), one_row(query), "q", (
        "One of the numbers that this query is compared by.",
        "One row of Q."))
    one_key = stage((k, k, mark("k", str(key + 1)), f"Key {key + 1}", row, 0), one_row(key), "k", (
        "One of the numbers that this key is compared by.",
        "One row of K."))
    products = stage(("products", "p", mark("p"), "Products", row, 0), MULTIPLY, f"{q} {k}", (
        "The query's number times the key's, feature by feature.",
        "Positive where both have the same sign, 0 where one of them is 0."))
    total = stage(("match", "s", mark("s"), "Dot product", f"{ONE} {ONE}", 0), TOTAL, "products", (
        "All products of the pair added up: its score.",
        "One number, however many features there are."))
    return [one_query, one_key, *[products, total] * compared]


def _table(scaled: Stage, transposed: bool) -> list[Stage]:
    """Every query against every key, and the two ways to take something from V."""
    scores = SCORES if transposed else replace(SCORES, inputs=("q", "k"))
    picked = stage(("picked", "P", mark("P"), "Picked", "query key", 0), PICK, "scaled", (
        "1 where the score is the largest of its row, 0 elsewhere.",
        "One 1 in every row; of equal scores the first one has it."))
    looked_up = stage(("looked_up", "L", mark("L"), "Looked up", "query d_v", 0), MATMUL, "picked v", (
        "One feature of the value that was picked.",
        "Every row is one row of V, unchanged."))
    weights = replace(WEIGHTS, operation=SOFTMAX, inputs=("scaled",))
    table = [scores, scaled, picked, weights]
    if not transposed:  # a column then stands for a feature of K
        table = [replace(line, axes=("query", "d_k")) for line in table]
    scores, scaled, picked, weights = table
    return [scores, scaled, picked, looked_up, weights, replace(OUTPUT, aside="")]
# fmt: on


def _wide(line: Line) -> Line:
    """A line about keys with their features on an axis of their own."""
    if line.name != "w_k" and not line.name.startswith("k"):
        return line
    return replace(line, axes=tuple(_OTHER if axis == "d_k" else axis for axis in line.axes))

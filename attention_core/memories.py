r"""The sheet of lesson 8: the feed-forward network, run again with one token's row changed.

    FFN(x) = Σ_u f(x · key_u) value_u        key_u: column u of W_1, value_u: row u of W_2

Geva et al. 2021, "Transformer Feed-Forward Layers Are Key-Value Memories". A row of the output is made of the
same row of X alone. The mistake that is here under its name hands the network Xᵀ and turns the result back:
the shapes fit, but every row is then made of all tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from attention_core.differences import DIFFERENCE, plus_in_row
from attention_core.feedforward import GATED, feed_forward_lines, feed_forward_sheet
from attention_core.operations import MATMUL, TRANSPOSE, Array
from attention_core.rows import brought
from attention_core.sheet import ONE, Lines, Sheet, Stage, again, given, mark, run, stage
from attention_core.sheets import X

RESULT = {False: "fed", True: "turned_back"}  # the line that a token's row of the output stands in
TURNED = (
    "A dot product of feature i of all tokens with a column of the weights.",
    "A row no longer belongs to one token: all of them meet in it.",
)

# fmt: off
CHANGE = given("change", r"\Delta", mark("Δ"), "Change", f"{ONE} d_model", 0, (
    "The number that is added to feature j of the chosen token.",
    "One row. Make all its numbers 0, and nothing changes."))


@cache
def one_row_changed(kind: str, row: int, *, turned: bool = False) -> Sheet:
    """The network of that kind (see feedforward) on X, and on X with a change in one row, counted from 0.

    turned: the mistake of handing over Xᵀ. No biases. Raises ValueError for an unknown kind.
    """
    weights, stages = _turned_lines(kind) if turned else feed_forward_lines(kind, biases=False)
    x_b = stage(("x_b", r"{X}^{(b)}", mark("X", sup="(b)"), "X B", "token_b d_model", 0),
                plus_in_row(row), "x change", (
        "One number of a token, after the change.",
        "One row is another than in X; all others are the same."))
    second = again(stages, "b", [line.name for line in weights])
    result = RESULT[turned]
    moved = stage(("moved", r"D", mark("D"), "Difference", "token d_model", 0),
                  DIFFERENCE, f"{result}_b {result}", (
        "What the change has done to feature j of token i.",
        "A row of zeros is a token that has noticed nothing."))
    brings = () if turned else (_brings(kind, row),)
    return Sheet((X, *weights, CHANGE), (*stages, *brings, x_b, *second, moved))


def _brings(kind: str, row: int) -> Stage:
    values = "w_down" if kind in GATED else "w_2"
    return stage(("brings", "C", mark("C"), "Brought by each unit", "d_ff d_model", 0),
                 brought(row), f"active {values}", (
        "What hidden unit i adds to feature j of the chosen token: how active it is, times its value.",
        "The rows add up to the token's row of the output."))


def _turned_lines(kind: str) -> Lines:
    """The network on Xᵀ, and its result turned back."""
    x_t = stage(("x_t", r"X^\top", mark("X", sup="⊤"), "X transposed", "d_model token", 0), TRANSPOSE, "x", (
        "One number of a token; here a row is a feature of all tokens.",
        "With as many tokens as features, no shape gives the mistake away."))
    weights, inner = feed_forward_lines(kind, "x_t", biases=False, axes=("d_model", "token"))
    back = stage(("turned_back", r"F^\top", mark("F", sup="⊤"), "Turned back", "token d_model", 0),
                 TRANSPOSE, "fed", (
        "One number of what should be the row of token i.",
        "The shape is right again; the numbers are not."))
    told = (
        replace(line, meaning=TURNED[0], look=TURNED[1]) if line.operation is MATMUL else line
        for line in inner
    )
    return weights, (x_t, *told, back)
# fmt: on


def row_by_row(kind: str, values: Mapping[str, Array]) -> Array:
    """(n, d_model): every row of values["x"] sent through the network by itself.

    values also holds the weights by their names in feedforward. Raises ValueError where they do
    not fit a row.
    """
    sheet = feed_forward_sheet(kind, biases=False)
    given = {line.name: values[line.name] for line in sheet.given}
    return np.concatenate([run(sheet, given | {"x": row[None]})["fed"] for row in values["x"]])


def strongest(values: Mapping[str, Array], most: int = 3) -> list[int]:
    """The hidden units (from 0) that bring most, those with the largest part first; at most `most`.

    values: those of one_row_changed. A unit that brings nothing is left out.
    """
    sizes = np.abs(values["brings"]).sum(axis=1)
    first = np.argsort(-sizes, kind="stable")[:most]
    return [int(unit) for unit in first if sizes[unit] > 0]

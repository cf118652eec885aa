"""The sheet of lesson 1: the same last word in two sentences, before and after attention.

Sentence A is X. Sentence B has other rows before the same last row. Before mixing, the word has the same
row in both; attention then takes from the neighbours, and the two rows come apart.
"""

from __future__ import annotations

from functools import cache

from attention_core.rows import brought, last_rows, with_last_row
from attention_core.sheet import Sheet, Stage, again, given, mark, stage
from attention_core.sheets import PROJECTED, RULE, W_K, W_Q, W_V, X

SHARED = ("w_q", "w_k", "w_v", "divisor", "mask")

# fmt: off
OTHERS = given("others", r"X^{\text{other}}", mark("X", sup="other"), "Other neighbours",
               "token_o d_model", 0, (
    "One number of a word that stands before the last one in sentence B.",
    "One row per neighbour in sentence B; the word itself is not among them."))


@cache
def two_sentences(n: int, *, down: bool = False) -> Sheet:
    """Both sentences, n words each, from X and the other neighbours to the last word's row in either.

    down: the mistake of reading the last word's weights down its column instead of along its row.
    Raises ValueError for fewer than two words: a single word has no neighbour.
    """
    if n < 2:
        raise ValueError(f"a sentence of {n} has no neighbours; it needs 2 words or more")
    divisor = next(line for line in PROJECTED.given if line.name == "divisor")
    x_b = stage(("x_b", r"{X}^{(b)}", mark("X", sup="(b)"), "X B", "token_b d_model", 0),
                with_last_row(n), "others x", (
        "One number of a word of sentence B.",
        "The last row is the last row of X: the same word."))
    first = [again([line], "a", ("x", *SHARED))[0] for line in PROJECTED.stages]
    second = again(PROJECTED.stages, "b", SHARED)
    return Sheet(
        (X, OTHERS, W_Q, W_K, W_V, divisor, RULE),
        (x_b, *first, *second, *_results(n, down)),
    )


def _results(n: int, down: bool) -> tuple[Stage, ...]:
    before = stage(("before", r"\text{before}", mark("before"), "Before mixing", "sentence d_v", 0),
                   last_rows(n), "v_a v_b", (
        "One number of the word's own value, with nothing taken from its neighbours.",
        "Both rows are the same: the word alone does not know its sentence."))
    brings = [
        stage((f"brought_{letter}", rf"{{C}}^{{({letter})}}", mark("C", sup=f"({letter})"),
               f"Brought {letter.upper()}", f"key_{letter} d_v", 0),
              brought(n - 1, down=down), f"weights_{letter} v_{letter}", (
            "What a word brings to the last one: its weight times its value.",
            "The rows add up to the last word's row of the output."))
        for letter in "ab"
    ]
    after = stage(("after", r"\text{after}", mark("after"), "After mixing", "sentence d_v", 0),
                  last_rows(n), "output_a output_b", (
        "One number of the word's row of the output.",
        "The rows differ wherever the neighbours brought something else."))
    return (before, *brings, after)
# fmt: on

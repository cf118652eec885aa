r"""The sheet of scaled dot-product attention: what every line is called, made of, and says.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k + M) V        Vaswani et al. 2017, equation 1

The order with everything switched on is that of ONNX's Attention operator: scale, soft cap, bias, mask,
softmax. The cap is cap · tanh(s / cap), as in Gemma 2.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from attention_core.operations import (
    ADD,
    DIVIDE,
    KEEP,
    LOGSUMEXP,
    MASK,
    MATMUL,
    SCALE,
    SOFTCAP,
    SOFTMAX,
    TRANSPOSE,
)
from attention_core.sheet import Sheet, given, mark, stage

Scaling = Literal["sqrt", "number", "none"]


# fmt: off
X = given("x", "X", mark("X"), "X", "token d_model", 1, (
    "One number of the vector that stands for a token.",
    "One row per token. Everything below is computed from these rows."))
W_Q = given("w_q", "W_Q", mark("W", "Q"), "W_Q", "d_model d_k", 2, (
    "How much one feature of X counts towards one feature of Q.",
    "The same matrix is used for every token. In a model its numbers are learned."), is_learned=True)
W_K = given("w_k", "W_K", mark("W", "K"), "W_K", "d_model d_k", 2, (
    "How much one feature of X counts towards one feature of K.",
    "It has as many columns as W_Q, because queries and keys will be compared."), is_learned=True)
W_V = given("w_v", "W_V", mark("W", "V"), "W_V", "d_model d_v", 2, (
    "How much one feature of X counts towards one feature of V.",
    "Its number of columns is free: values are never compared with queries or keys."), is_learned=True)

_Q = ("q", "Q", mark("Q"), "Q", "query d_k", 2)
_K = ("k", "K", mark("K"), "K", "key d_k", 2)
_V = ("v", "V", mark("V"), "V", "key d_v", 2)
_Q_SAYS = ("One of the numbers that query i is compared by.",
           "One row per query. Each row will meet every key.")
_K_SAYS = ("One of the numbers that key j is compared by.",
           "One row per key, with as many features as a query has.")
_V_SAYS = ("One of the numbers that key j contributes where it is given weight.",
           "One row per key, with any number of features.")

DIVISOR = given("divisor", r"\sqrt{d_k}", mark("√d", "k"), "Divisor", "", 5, (
    "The square root of the number of features of a key.",
    "One number for the whole table."))
SCALE_NUMBER = given("scale", "c", mark("c"), "Scale", "", 5, (
    "The number that every score is multiplied by.",
    "1 keeps the scores; 1/√d_k is the usual choice."))
CAP = given("softcap", "t", mark("t"), "Soft cap", "", 5, (
    "The size that no capped score exceeds.",
    "A large cap changes little, a small one flattens every row."))
BIAS = given("bias", "B", mark("B"), "Bias", "query key", 6, (
    "The number added to the score of query i and key j.",
    "The same number added to a whole row changes no weight."))
RULE = given("mask", "M", mark("M"), "Mask", "query key", 6, (
    "0 where query i may look at key j, −∞ where it may not.",
    "Row by row: which keys are open to this query."), is_rule=True)

_TABLE = "query key"
_SCORES = ("scores", "S", mark("S"), "Scores", _TABLE, 4)
_SCALED = ("scaled", r"S_{\text{scaled}}", mark("S", "scaled"), "Scaled scores", _TABLE, 5)
_CAPPED = ("capped", r"S_{\text{capped}}", mark("S", "capped"), "Capped scores", _TABLE, 5)
_BIASED = ("biased", r"S_{\text{biased}}", mark("S", "biased"), "Biased scores", _TABLE, 6)
_MASKED = ("masked", r"S_{\text{masked}}", mark("S", "masked"), "Masked scores", _TABLE, 6)

PROJECTIONS = (
    stage(_Q, MATMUL, "x w_q", _Q_SAYS),
    stage(_K, MATMUL, "x w_k", _K_SAYS),
    stage(_V, MATMUL, "x w_v", _V_SAYS),
)
TRANSPOSED = stage(("k_t", r"K^\top", mark("K", sup="⊤"), "K transposed", "d_k key", 3), TRANSPOSE, "k", (
    "One of the numbers that key j is compared by, now in column j.",
    "Each key has become a column, so that a row of Q can meet it."))
SCORES = stage(_SCORES, MATMUL, "q k_t", (
    "The dot product of query i and key j: how well they match.",
    "A score may be negative or large; only differences within a row will matter."))
SCALINGS = {
    "sqrt": stage(_SCALED, DIVIDE, "scores divisor", (
        "The score of query i and key j, divided by √d_k.",
        "The order within a row stays the same; unless d_k is 1, the differences shrink.")),
    "number": stage(_SCALED, SCALE, "scores scale", (
        "The score of query i and key j, multiplied by the chosen number.",
        "A number above 1 pulls the scores of a row apart, one between 0 and 1 brings them together, 0 makes "
        "them equal; a negative one turns their order round.")),
    "none": stage(_SCALED, KEEP, "scores", (
        "The score of query i and key j, not scaled.",
        "Scaling is switched off, so these are the scores themselves.")),
}
_CAPPED_SAYS = ("The scaled score, bent so that it stays between −t and t.",
                "Small scores hardly change; large ones come close to the cap.")
_BIASED_SAYS = ("The score so far plus the bias of query i and key j.",
                "A positive bias favours the key, a negative one holds it back.")
_MASKED_SAYS = ("The score of query i and key j, or −∞ where query i may not look.",
                "Wherever a score has become −∞, the weight will be exactly 0.")
WEIGHTS = stage(("weights", "A", mark("A"), "Weights", _TABLE, 7), SOFTMAX, "masked", (
    "The share of its attention that query i gives to key j.",
    "Every row adds up to 1, or to 0 where the query may look nowhere."))
LOG_SUM = stage(("lse", "L", mark("L"), "Log-sum-exp", "query", 7), LOGSUMEXP, "masked", (
    "The logarithm of the sum of e to the power of each masked score of row i.",
    "It lies between the largest score of the row and that score plus the logarithm of the number of keys."),
    aside="weights")
OUTPUT = stage(("output", "O", mark("O"), "Output", "query d_v", 8), MATMUL, "weights v", (
    "One feature of the average of all values, weighted by row i of the weights.",
    "No number lies outside the range of the values that its row averages."), aside="masked")
# fmt: on


@cache
def attention_sheet(
    *,
    from_x: bool = False,
    scaling: Scaling = "sqrt",
    softcap: bool = False,
    bias: bool = False,
    lse: bool = False,
) -> Sheet:
    """The calculation as a sheet, from Q, K and V or from X and the three weight matrices.

    scaling: "sqrt" divides by √d_k (given as `divisor`), "number" multiplies by `scale`, "none" keeps the
    scores. softcap and bias add a stage each, lse the logarithm of each row's sum of exponentials.
    Raises ValueError for any other scaling.
    """
    if scaling not in SCALINGS:
        raise ValueError(f"scaling is one of {', '.join(SCALINGS)}, not {scaling!r}")
    matrices = (
        (X, W_Q, W_K, W_V) if from_x else (given(*_Q, _Q_SAYS), given(*_K, _K_SAYS), given(*_V, _V_SAYS))
    )
    numbers = {"sqrt": (DIVISOR,), "number": (SCALE_NUMBER,), "none": ()}[scaling]
    givens = (*matrices, *numbers, *(CAP,) * softcap, *(BIAS,) * bias, RULE)

    stages = [*PROJECTIONS * from_x, TRANSPOSED, SCORES, SCALINGS[scaling]]
    if softcap:
        stages.append(stage(_CAPPED, SOFTCAP, f"{stages[-1].name} softcap", _CAPPED_SAYS))
    if bias:
        stages.append(stage(_BIASED, ADD, f"{stages[-1].name} bias", _BIASED_SAYS))
    stages.append(stage(_MASKED, MASK, f"{stages[-1].name} mask", _MASKED_SAYS))
    stages += [WEIGHTS, *(LOG_SUM,) * lse, OUTPUT]
    return Sheet(givens, tuple(stages))


ATTENTION = attention_sheet()
PROJECTED = attention_sheet(from_x=True)

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
from attention_core.sheet import Given, Mark, Sheet, Stage

Scaling = Literal["sqrt", "number", "none"]
TABLE = ("query", "key")


def _mark(text: str, sub: str = "", sup: str = "") -> Mark:
    return tuple(piece for piece in ((text, ""), (sub, "sub"), (sup, "sup")) if piece[0])


X = Given(
    "x",
    "X",
    _mark("X"),
    "X",
    ("token", "d_model"),
    "One number of the vector that stands for a token.",
    "One row per token. Everything below is computed from these rows.",
    1,
)
W_Q = Given(
    "w_q",
    "W_Q",
    _mark("W", "Q"),
    "W_Q",
    ("d_model", "d_k"),
    "How much feature r of X counts towards feature c of Q.",
    "The same matrix is used for every token. In a model its numbers are learned.",
    2,
)
W_K = Given(
    "w_k",
    "W_K",
    _mark("W", "K"),
    "W_K",
    ("d_model", "d_k"),
    "How much feature r of X counts towards feature c of K.",
    "It has as many columns as W_Q, because queries and keys will be compared.",
    2,
)
W_V = Given(
    "w_v",
    "W_V",
    _mark("W", "V"),
    "W_V",
    ("d_model", "d_v"),
    "How much feature r of X counts towards feature c of V.",
    "Its number of columns is free: values are never compared with queries or keys.",
    2,
)

_Q = ("q", "Q", _mark("Q"), "Q")
_K = ("k", "K", _mark("K"), "K")
_V = ("v", "V", _mark("V"), "V")
_Q_SAYS = (
    "Feature r of query i: the numbers that query i is compared by.",
    "One row per query. Row i will be multiplied with every key.",
)
_K_SAYS = (
    "Feature r of key j: the numbers that key j is compared by.",
    "One row per key. Keys need as many features as queries have.",
)
_V_SAYS = (
    "Feature c of value j: what key j contributes when it is given weight.",
    "One row per key. Values may have any number of features.",
)

_SCALARS = {
    "divisor": Given(
        "divisor",
        r"\sqrt{d_k}",
        _mark("√d", "k"),
        "Divisor",
        (),
        "The square root of the number of features of a key.",
        "It is the same number for the whole table.",
        5,
    ),
    "scale": Given(
        "scale",
        "c",
        _mark("c"),
        "Scale",
        (),
        "The number that every score is multiplied by.",
        "1 keeps the scores; 1/√d_k is the usual choice.",
        5,
    ),
    "softcap": Given(
        "softcap",
        "t",
        _mark("t"),
        "Soft cap",
        (),
        "The size that no capped score exceeds.",
        "A large cap changes almost nothing, a small one flattens the row.",
        5,
    ),
}
_BIAS = Given(
    "bias",
    "B",
    _mark("B"),
    "Bias",
    TABLE,
    "The number added to the score of query i and key j.",
    "The same number added to a whole row changes no weight.",
    6,
)
_MASK = Given(
    "mask",
    "M",
    _mark("M"),
    "Mask",
    TABLE,
    "0 where query i may look at key j, −∞ where it may not.",
    "Row by row: which keys are open to this query.",
    6,
    is_rule=True,
)

_SCALED = ("scaled", r"S_{\text{scaled}}", _mark("S", "scaled"), "Scaled scores")
_SCALINGS = {
    "sqrt": Stage(
        *_SCALED,
        DIVIDE,
        ("scores", "divisor"),
        TABLE,
        "The score of query i and key j, divided by √d_k.",
        "The order within a row stays the same; the distances shrink, unless d_k is 1.",
        5,
    ),
    "number": Stage(
        *_SCALED,
        SCALE,
        ("scores", "scale"),
        TABLE,
        "The score of query i and key j, multiplied by the chosen number.",
        "Above 1 the scores of a row move apart, below 1 they move together.",
        5,
    ),
    "none": Stage(
        *_SCALED,
        KEEP,
        ("scores",),
        TABLE,
        "The score of query i and key j, not scaled.",
        "Scaling is switched off, so these are the scores themselves.",
        5,
    ),
}


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
    if scaling not in _SCALINGS:
        raise ValueError(f"scaling is one of {', '.join(_SCALINGS)}, not {scaling!r}")
    extra = [("divisor", scaling == "sqrt"), ("scale", scaling == "number"), ("softcap", softcap)]
    given: list[Given] = (
        [X, W_Q, W_K, W_V]
        if from_x
        else [
            Given(*_Q, ("query", "d_k"), *_Q_SAYS, 2),
            Given(*_K, ("key", "d_k"), *_K_SAYS, 2),
            Given(*_V, ("key", "d_v"), *_V_SAYS, 2),
        ]
    )
    given += [_SCALARS[name] for name, wanted in extra if wanted]
    given += [_BIAS] * bias + [_MASK]

    stages: list[Stage] = (
        []
        if not from_x
        else [
            Stage(*_Q, MATMUL, ("x", "w_q"), ("query", "d_k"), *_Q_SAYS, 2),
            Stage(*_K, MATMUL, ("x", "w_k"), ("key", "d_k"), *_K_SAYS, 2),
            Stage(*_V, MATMUL, ("x", "w_v"), ("key", "d_v"), *_V_SAYS, 2),
        ]
    )
    stages += [
        Stage(
            "k_t",
            r"K^\top",
            _mark("K", sup="⊤"),
            "K transposed",
            TRANSPOSE,
            ("k",),
            ("d_k", "key"),
            "Feature r of key j, now in row r and column j.",
            "Each key has become a column, so that a row of Q can meet it.",
            3,
        ),
        Stage(
            "scores",
            "S",
            _mark("S"),
            "Scores",
            MATMUL,
            ("q", "k_t"),
            TABLE,
            "The dot product of query i and key j: how well they match.",
            "A score may be negative or large; only differences within a row will matter.",
            4,
        ),
        _SCALINGS[scaling],
    ]
    if softcap:
        stages.append(
            Stage(
                "capped",
                r"S_{\text{capped}}",
                _mark("S", "capped"),
                "Capped scores",
                SOFTCAP,
                (stages[-1].name, "softcap"),
                TABLE,
                "The scaled score, bent so that it stays between −t and t.",
                "Small scores hardly change; large ones come close to the cap.",
                5,
            )
        )
    if bias:
        stages.append(
            Stage(
                "biased",
                r"S_{\text{biased}}",
                _mark("S", "biased"),
                "Biased scores",
                ADD,
                (stages[-1].name, "bias"),
                TABLE,
                "The score so far plus the bias of query i and key j.",
                "A positive bias favours the key, a negative one holds it back.",
                6,
            )
        )
    stages += [
        Stage(
            "masked",
            r"S_{\text{masked}}",
            _mark("S", "masked"),
            "Masked scores",
            MASK,
            (stages[-1].name, "mask"),
            TABLE,
            "The score of query i and key j, or −∞ where query i may not look.",
            "Wherever a score has become −∞, the weight will be exactly 0.",
            6,
        ),
        Stage(
            "weights",
            "A",
            _mark("A"),
            "Weights",
            SOFTMAX,
            ("masked",),
            TABLE,
            "The share of its attention that query i gives to key j.",
            "Every row adds up to 1, or to 0 where the query may look nowhere.",
            7,
        ),
    ]
    if lse:
        stages.append(
            Stage(
                "lse",
                "L",
                _mark("L"),
                "Log-sum-exp",
                LOGSUMEXP,
                ("masked",),
                ("query",),
                "The logarithm of the sum of e to the power of each score of row i.",
                "It lies between the largest score of the row and that score plus log n_k.",
                7,
            )
        )
    stages.append(
        Stage(
            "output",
            "O",
            _mark("O"),
            "Output",
            MATMUL,
            ("weights", "v"),
            ("query", "d_v"),
            "Feature c of the average of all values, weighted by row i of the weights.",
            "No output feature lies outside the range of the values that it averages.",
            8,
            part="masked",
        )
    )
    return Sheet(tuple(given), tuple(stages))


ATTENTION = attention_sheet()
PROJECTED = attention_sheet(from_x=True)

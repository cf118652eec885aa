r"""The sheet of the backward pass: how much the loss moves with each number on the way to the output.

    dV = Aᵀ dO      dA = dO Vᵀ      dS = A ∘ (dA − rowsum(A ∘ dA)) / √d_k      dQ = dS K      dK = dSᵀ Q

dO is given: the gradient of the loss for the output. A soft cap t · tanh(s / t) has the slope
1 − (capped / t)². From X further: dW = Xᵀ dQ, and dX adds up what comes back through Q, K and V.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from attention_core import worked
from attention_core.elementwise import MINUS_FIRST
from attention_core.operations import (
    ADD,
    MATMUL,
    TRANSPOSE,
    Array,
    operation,
    per_cell,
    same_matrix,
)
from attention_core.sheet import ONE, Mark, Sheet, Stage, given, mark, stage
from attention_core.sheets import SCALINGS, Scaling, attention_sheet
from attention_core.softmax_steps import TOTAL
from attention_core.worked import Cell, Work
from attention_core.written import equals, factor, plain_sign, read, tex


def _weighed(a: Array, b: Array, masked: Array | None = None) -> Array:
    result = same_matrix(a, a * b)
    return result if masked is None else np.where(masked == -np.inf, 0.0, result)


def _slope(capped: Array, cap: Array) -> Array:
    slope: Array = 1.0 - (capped / cap) ** 2
    return slope


def slope(here: Cell) -> Work:
    """1 − (capped / t)², the slope of the soft cap where the capped score is."""
    score, size = here.number(0), here.number(1)
    x, cap, one = here.show(score), here.show(size), here.show(1.0)
    value = here.value(lambda: 1.0 - (score / size) ** 2)
    sign = equals([read(one) - worked.ratio(read(x), read(cap)) ** 2], [value])
    return Work(
        f"{one} − ({factor(x)} / {cap})² {plain_sign(sign)} {value}",
        (rf"{here.name} &= {one} - \left(\frac{{{tex(x)}}}{{{tex(cap)}}}\right)^2", f"&{sign} {tex(value)}"),
    )


# fmt: off
WEIGHED = operation("product of two tables", _weighed, "cell cell", worked.times, per_cell(1),
                    latex=r"{0} \odot {1}", code="{0} * {1}", arrow="∘ {other}")
SLOPE = operation("slope of the soft cap", _slope, "cell all", slope, per_cell(3),
                  latex=r"1 - \left(\frac{{{0}}}{{{1}}}\right)^2", code="1.0 - ({0} / {1}) ** 2")

OPERATIONS = (WEIGHED, SLOPE)

D_OUTPUT = given("d_output", r"\mathrm{d}O", mark("dO"), "Gradient of the output", "query d_v", 0, (
    "How much the loss moves when this number of the output moves.",
    "It comes from whatever follows the output. Everything below is computed from it."))

_TABLE = "query key"
_GRADIENTS = {  # what each gradient says
    "d_v": ("How much the loss moves with this number of V.",
            "A value that many queries give weight to gets a part from each of them."),
    "d_weights": ("How much the loss moves with the weight of query i on key j.",
                  "The gradient of row i of the output, met with the value of key j. Blocked keys have "
                  "one too, and it goes no further, because their weight is 0."),
    "weighted": ("The gradient of the weight, times the weight itself.",
                 "Row by row, this is what the next column adds up."),
    "row_sum": ("The average of the gradients of row i, by its weights.",
                "One number per query. Softmax makes every weight of a row depend on every score of it."),
    "centred": ("How far the gradient of this weight lies above the average of its row.",
                "Above 0: more weight here would raise the loss more than it does elsewhere in the row."),
    "d_masked": ("How much the loss moves with this score, through softmax.",
                 "Every row adds up to 0: the same number added to a whole row changes no weight. What is "
                 "added to a score, a bias, has the same gradient."),
    "slope": ("How much the capped score moves with the scaled one.",
              "Close to 1 for small scores, close to 0 for scores near the cap."),
    "d_scaled": ("How much the loss moves with the scaled score, through the soft cap.",
                 "A score near the cap is held fast, and hardly anything comes back through it."),
    "d_scores": ("How much the loss moves with the score before scaling.",
                 "Scaling makes the gradient smaller or larger by the same factor as the scores."),
    "d_q": ("How much the loss moves with this number of Q.",
            "Row i adds up the keys, each as much as the gradient of its score says."),
    "d_k": ("How much the loss moves with this number of K.",
            "Row j adds up the queries, each as much as the gradient of its score says."),
}
_TURNED = ("The number of the other matrix with row and column exchanged.",
           "Turned over, so that the product adds up over what it has to.")
_D_WEIGHT = ("How much the loss moves with this number of {0}.",
             "Every token uses the same {0}, so every token adds its part.")
_BACK = ("What comes back to this number of X through {0}.",
         "One of the three ways that X takes to the output.")
_D_X = ("How much the loss moves with this number of X.",
        "What comes back through Q, K and V, added up.")
# fmt: on


@cache
def gradient_sheet(
    *, from_x: bool = False, scaling: Scaling = "sqrt", softcap: bool = False, bias: bool = False
) -> Sheet:
    """Attention as in attention_sheet, then every gradient back to q, k and v, or to x and its weights.

    The line named d_k is the gradient of k, and d_v that of v. Raises ValueError for an unknown scaling.
    """
    whole = attention_sheet(from_x=from_x, scaling=scaling, softcap=softcap, bias=bias)
    back = [*_values(), *_softmax(), *_scores(scaling, softcap), *_keys()]
    if from_x:
        back += [*_projections()]
    return Sheet((*whole.given, D_OUTPUT), (*whole.stages, *back))


def _values() -> Iterator[Stage]:
    """The two factors of the last product: the values and the weights."""
    yield _turned("weights", r"A^\top", mark("A", sup="⊤"), "Weights transposed", "key query")
    yield _gradient("d_v", "V", "V", "key d_v", "weights_t d_output")
    yield _turned("v", r"V^\top", mark("V", sup="⊤"), "V transposed", "d_v key")
    yield _gradient("d_weights", "A", "the weights", _TABLE, "d_output v_t")


def _softmax() -> Iterator[Stage]:
    """Back through softmax, whose every share depends on every score of its row."""
    says = _GRADIENTS
    line = ("weighted", "P", mark("P"), "Weights times gradient", _TABLE, 0)
    yield stage(line, WEIGHED, "weights d_weights", says["weighted"], "masked")
    line = ("row_sum", "r", mark("r"), "Average gradient of the row", f"query {ONE}", 0)
    yield stage(line, TOTAL, "weighted", says["row_sum"])
    line = ("centred", "C", mark("C"), "Gradient less its average", _TABLE, 0)
    yield stage(line, MINUS_FIRST, "d_weights row_sum", says["centred"])
    line = (
        "d_masked",
        r"\mathrm{d}S_{\text{masked}}",
        mark("dS", "masked"),
        "Gradient of the masked scores",
        _TABLE,
        0,
    )
    yield stage(line, WEIGHED, "weights centred", says["d_masked"], "masked")


def _scores(scaling: Scaling, softcap: bool) -> Iterator[Stage]:
    """Back through the soft cap and the scaling."""
    last = "d_masked"
    if softcap:
        line = ("slope", "T", mark("T"), "Slope of the soft cap", _TABLE, 0)
        yield stage(line, SLOPE, "capped softcap", _GRADIENTS["slope"])
        line = (
            "d_scaled",
            r"\mathrm{d}S_{\text{scaled}}",
            mark("dS", "scaled"),
            "Gradient of the scaled scores",
            _TABLE,
            0,
        )
        yield stage(line, WEIGHED, "d_masked slope", _GRADIENTS["d_scaled"], "masked")
        last = "d_scaled"
    forward = SCALINGS[scaling]
    line = ("d_scores", r"\mathrm{d}S", mark("dS"), "Gradient of the scores", _TABLE, 0)
    yield stage(line, forward.operation, " ".join((last, *forward.inputs[1:])), _GRADIENTS["d_scores"])


def _keys() -> Iterator[Stage]:
    """The two factors of the first product: the queries and the keys."""
    yield replace(_gradient("d_q", "Q", "Q", "query d_k", "d_scores k"), aside="masked")
    symbol, pieces = r"\mathrm{d}S^\top", mark("dS", sup="⊤")
    yield _turned("d_scores", symbol, pieces, "Gradient of the scores transposed", "key query")
    yield _gradient("d_k", "K", "K", "key d_k", "d_scores_t q")


def _projections() -> Iterator[Stage]:
    """Back through the products that made Q, K and V of X."""
    yield _turned("x", r"X^\top", mark("X", sup="⊤"), "X transposed", "d_model token")
    for letter, width in (("q", "d_k"), ("k", "d_k"), ("v", "d_v")):
        upper, title = letter.upper(), f"W_{letter.upper()}"
        meaning, look = (text.format(title) for text in _D_WEIGHT)
        line = (f"d_w_{letter}", rf"\mathrm{{d}}W_{upper}", mark("dW", upper), f"Gradient of {title}")
        yield stage((*line, f"d_model {width}", 0), MATMUL, f"x_t d_{letter}", (meaning, look))
    for letter, width in (("q", "d_k"), ("k", "d_k"), ("v", "d_v")):
        upper = letter.upper()
        symbol, pieces = rf"W_{upper}^\top", mark("W", upper, "⊤")
        yield _turned(f"w_{letter}", symbol, pieces, f"W_{upper} transposed", f"{width} d_model")
        line = (f"back_{letter}", f"B_{upper}", mark("B", upper), f"Back through {upper}")
        says = (_BACK[0].format(upper), _BACK[1])
        yield stage((*line, "token d_model", 0), MATMUL, f"d_{letter} w_{letter}_t", says)
    line = ("back_qk", "B_{QK}", mark("B", "QK"), "Back through Q and K")
    yield stage((*line, "token d_model", 0), ADD, "back_q back_k", (_BACK[0].format("Q and K"), _D_X[1]))
    line = ("d_x", r"\mathrm{d}X", mark("dX"), "Gradient of X")
    yield stage((*line, "token d_model", 0), ADD, "back_qk back_v", _D_X)


def _gradient(name: str, letter: str, of: str, axes: str, inputs: str) -> Stage:
    """The gradient of one factor of a product."""
    line = (name, rf"\mathrm{{d}}{letter}", mark(f"d{letter}"), f"Gradient of {of}", axes, 0)
    return stage(line, MATMUL, inputs, _GRADIENTS[name])


def _turned(of: str, symbol: str, pieces: Mark, title: str, axes: str) -> Stage:
    """A matrix with rows and columns exchanged, named as k_t is."""
    return stage((f"{of}_t", symbol, pieces, title, axes, 0), TRANSPOSE, of, _TURNED)

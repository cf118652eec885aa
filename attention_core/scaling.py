r"""The sheet of lesson 3: scores, the same scores divided, and the weights that come of either.

The divisor is √d_k as in Vaswani et al. 2017, or one of three that are mistakes there: 1, d_k and √d_model.
Every row of weights is measured in three ways; see sharpness.py. No mask: every query sees every key.
"""

from __future__ import annotations

from functools import cache

from attention_core.dot_products import DIVISORS
from attention_core.operations import DIVIDE, MATMUL, SOFTMAX
from attention_core.sharpness import ENTROPY, GRADIENT, LARGEST
from attention_core.sheet import Given, Mark, Sheet, Stage, given, mark, stage
from attention_core.sheets import ATTENTION, PROJECTED, TRANSPOSED, W_K, W_Q, X

PLAIN = {"sqrt": "√d_k", "one": "1", "d_k": "d_k", "d_model": "√d_model"}  # a divisor as text
_SYMBOLS: dict[str, tuple[str, Mark]] = {
    "sqrt": (r"\sqrt{d_k}", mark("√d", "k")),
    "one": ("1", mark("1")),
    "d_k": ("d_k", mark("d", "k")),
    "d_model": (r"\sqrt{d_{\text{model}}}", mark("√d", "model")),
}


# fmt: off
@cache
def scaling_sheet(by: str = "sqrt", *, twice: bool = False, from_x: bool = True) -> Sheet:
    """From X, W_Q and W_K, or from Q and K, to weights with the scores divided and without.

    by: one of DIVISORS; the number itself is given as `divisor`. twice: the mistake of dividing twice.
    Raises ValueError for another word.
    """
    if by not in DIVISORS:
        raise ValueError(f"a divisor is {', '.join(DIVISORS)}, not {by!r}")
    symbol, pieces = _SYMBOLS[by]
    divisor = given("divisor", symbol, pieces, "Divisor", "", 0, (
        f"What every score is divided by: {PLAIN[by]}.", "One number for the whole table."))
    start: tuple[Given, ...] = (X, W_Q, W_K) if from_x else ATTENTION.given[:2]
    scores = stage(("scores", "S", mark("S"), "Scores", "query key", 0), MATMUL, "q k_t", (
        "The dot product of query i and key j, not yet divided.",
        "The wider the rows of Q and K, the more products a score adds up."))
    undivided = (
        stage(("weights_1", "A_1", mark("A", "1"), "Weights, not divided", "query key", 0),
              SOFTMAX, "scores", (
            "The share that query i would give to key j if the scores were not divided.",
            "Every row adds up to 1.")),
        *_measured("weights_1", "_1", ", not divided"))
    divided = [_scaled("scaled", "Scaled scores", "scores", PLAIN[by])]
    if twice:
        divided.append(_scaled("scaled_2", "Scaled twice", "scaled", PLAIN[by]))
    weights = stage(("weights", "A", mark("A"), "Weights", "query key", 0), SOFTMAX, divided[-1].name, (
        "The share that query i gives to key j.", "Every row adds up to 1."))
    projections = PROJECTED.stages[:2] * from_x
    return Sheet((*start, divisor), (
        *projections, TRANSPOSED, scores, *undivided, *divided, weights, *_measured("weights", "", "")))


def _scaled(name: str, title: str, source: str, plain: str) -> Stage:
    again = source == "scaled"
    below = "scaled twice" if again else "scaled"
    line = (name, rf"S_{{\text{{{below}}}}}", mark("S", below), title, "query key", 0)
    return stage(line, DIVIDE, f"{source} divisor", (
        f"The score of query i and key j, divided by {plain}{' a second time' * again}.",
        "The order within a row stays the same."))


def _measured(source: str, index: str, where: str) -> tuple[Stage, ...]:
    """How sharp each row of weights is: three columns of one number a query."""
    below = index.removeprefix("_")
    return (
        stage((f"largest{index}", rf"p{index}", mark("p", below), f"Largest weight{where}", "query one", 0),
              LARGEST, source, (
            "The largest weight of row i.",
            "From one over the number of keys (all alike) to 1 (one key has it all).")),
        stage((f"entropy{index}", rf"H{index}", mark("H", below), f"Entropy{where}", "query one", 0),
              ENTROPY, source, (
            "How evenly row i is shared out: minus the sum of every weight times its logarithm.",
            "0 where one key has it all, the logarithm of the number of keys where all weights are alike.")),
        stage((f"gradient{index}", rf"g{index}", mark("g", below), f"Gradient norm{where}", "query one", 0),
              GRADIENT, source, (
            "How much the weights of row i answer to a small change of what goes into softmax.",
            "Near 0, training cannot move them: softmax is saturated.")),
    )
# fmt: on

r"""The sheet of lesson 6: one normalisation, worked line by line, and where it stands around a sub-layer.

    pre-norm    X + f(Norm(X))        the stream X goes through untouched        Xiong et al. 2020
    post-norm   Norm(X + f(X))        the sum is normalised                      Vaswani et al. 2017

Norm is LayerNorm or RMSNorm, with the same ε, gain and shift in both places. The sub-layer f is a single
product here, f(X) = X W_O; in a block it is attention or the feed-forward network.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Literal

from attention_core.normalisation import Variance, layer_norm_lines, rms_norm_lines
from attention_core.operations import ADD, MATMUL
from attention_core.row_statistics import Over
from attention_core.sheet import Lines, Sheet, Stage, given, mark, stage
from attention_core.sheets import X

Kind = Literal["layer", "rms"]
KINDS = {"layer": "LayerNorm", "rms": "RMSNorm"}

# fmt: off
W_O = given("w_o", "W_O", mark("W", "O"), "W_O", "d_model d_model", 0, (
    "How much one feature counts towards another in the sub-layer.",
    "As wide as it is high: what comes out is added to X."), is_learned=True)


@cache
def norm_places(kind: Kind = "layer", *, over: Over = "row", variance: Variance = "population") -> Sheet:
    """A normalisation of X, and the same one before and after the sub-layer.

    over and variance: the mistakes of normalisation.py; RMSNorm has no variance. The normalisation ends
    with the line `shifted` or, for RMSNorm, `gained`; the two places end with `pre` and `post`.
    Raises ValueError for a kind that is not layer or rms.
    """
    if kind not in KINDS:
        raise ValueError(f"a normalisation is layer or rms, not {kind!r}")
    givens, first = _norm(kind, "x", over, variance)
    before = (
        stage(("moved_pre", r"F_{\text{pre}}", mark("F", "pre"), "Sub-layer, pre",
               "token d_model", 0), MATMUL, f"{first[-1].name} w_o", (
            "What the sub-layer makes of the normalised row.",
            "However long the row of X is, the sub-layer sees a normalised one.")),
        stage(("pre", r"X_{\text{pre}}", mark("X", "pre"), "Pre-norm", "token d_model", 0),
              ADD, "x moved_pre", (
            "The number of X plus what the sub-layer adds.",
            "X itself goes through as it is: nothing normalises the sum.")))
    after = (
        stage(("moved_post", r"F_{\text{post}}", mark("F", "post"), "Sub-layer, post", "token d_model", 0),
              MATMUL, "x w_o", (
            "What the sub-layer makes of the row of X as it is.",
            "The longer the row of X, the more the sub-layer adds.")),
        stage(("sum", r"X_{\text{sum}}", mark("X", "sum"), "Sum", "token d_model", 0), ADD, "x moved_post", (
            "The number of X plus what the sub-layer adds.",
            "It is normalised next, X and all.")))
    return Sheet((X, *givens, W_O), (*first, *before, *after, *_post(kind, over, variance)))


def _norm(kind: Kind, source: str, over: Over, variance: Variance, index: str = "") -> Lines:
    where = "of the sum" if index else ""
    if kind == "rms":
        return rms_norm_lines(source, index=index, where=where, epsilon="epsilon" * bool(index), over=over)
    return layer_norm_lines(source, index=index, where=where, epsilon="epsilon" * bool(index), over=over,
                            variance=variance)


def _post(kind: Kind, over: Over, variance: Variance) -> tuple[Stage, ...]:
    """The normalisation of the sum, with the gain and shift of the first one."""
    shared = {"gain_2": "gain", "shift_2": "shift"}
    stages = [
        replace(line, inputs=tuple(shared.get(name, name) for name in line.inputs))
        for line in _norm(kind, "sum", over, variance, "2")[1]
    ]
    stages[-1] = replace(stages[-1], name="post", symbol=r"X_{\text{post}}", mark=mark("X", "post"),
                         title="Post-norm", look="The stream itself is normalised, after every sub-layer.")
    return tuple(stages)
# fmt: on

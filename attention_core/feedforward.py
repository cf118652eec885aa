r"""The feed-forward network of a block: every row on its own, made wider, bent, and made narrow again.

    FFN(x) = f(x W_1 + b_1) W_2 + b_2                       Vaswani et al. 2017, 3.3, with f = ReLU
    GLU(x) = (f(x W_gate) ⊙ x W_up) W_down                  Shazeer 2020, "GLU Variants Improve Transformer"

Column j of W_1 and row j of W_2 belong together: the row is added to the output as often as the column says
(Geva et al. 2021, "Transformer Feed-Forward Layers Are Key-Value Memories").
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attention_core.activations import GELU, GELU_TANH, RELU, SILU
from attention_core.elementwise import MULTIPLY, PLUS_TOP
from attention_core.fitting import numbers
from attention_core.naming import Naming, Symbol
from attention_core.operations import MATMUL, Array, Operation
from attention_core.sheet import ONE, Lines, Sheet, run
from attention_core.sheets import X

PLAIN = {"relu": RELU, "gelu": GELU, "gelu_tanh": GELU_TANH}
GATED = {"swiglu": SILU, "geglu": GELU, "geglu_tanh": GELU_TANH, "reglu": RELU}
KINDS = (*PLAIN, *GATED)

_BENT = {
    RELU: "Everything below 0 becomes 0: that hidden unit adds nothing for this token.",
    GELU: "Large numbers hardly change, numbers far below 0 become almost 0, and the bend between is smooth.",
    GELU_TANH: "Almost the same curve as with erf: a tanh takes its place.",
    SILU: "Large numbers hardly change, numbers far below 0 become almost 0, and the bend between is smooth.",
}


# fmt: off
def feed_forward_lines(
    kind: str = "relu",
    source: str = "x",
    *,
    prefix: str = "",
    index: str = "",
    where: str = "",
    biases: bool = True,
    axes: tuple[str, str] = ("token", "d_model"),
) -> Lines:
    """The network of that kind on the line `source`, whose axes are `axes`. The last stage is the result.

    prefix, index and where tell its lines from others (see Naming). biases are for the kinds without a gate;
    those with one have none. Raises ValueError for a kind that is not in KINDS.
    """
    here = Naming(prefix, index, where)
    if kind in GATED:
        return _gated_lines(here, GATED[kind], source, axes)
    if kind not in PLAIN:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not {kind!r}")
    return _plain_lines(here, PLAIN[kind], source, axes, biases)


def _plain_lines(here: Naming, bend: Operation, source: str, axes: tuple[str, str], biases: bool) -> Lines:
    token, d_model = axes
    wide = (token, "d_ff")
    w_1 = here.given("w_1", Symbol("W", sub="1"), "W_1", (d_model, "d_ff"), (
        "How much feature i counts towards hidden unit j.",
        "Column j is what hidden unit j looks for in a token's row."), is_learned=True)
    b_1 = here.given("b_1", Symbol("b", sub="1"), "b_1", (ONE, "d_ff"), (
        "The number added to hidden unit j.",
        "The same row is added for every token."), is_learned=True)
    w_2 = here.given("w_2", Symbol("W", sub="2"), "W_2", ("d_ff", d_model), (
        "How much hidden unit i counts towards feature j.",
        "Row i is what hidden unit i adds to the output, times how active it is."), is_learned=True)
    b_2 = here.given("b_2", Symbol("b", sub="2"), "b_2", (ONE, d_model), (
        "The number added to feature j of the output.",
        "The same row is added for every token."), is_learned=True)
    met = ("The dot product of row i and column j of W_1: how well the token fits hidden unit j.",
           "Each row is made of one token alone.")
    added = ("One feature of the rows of W_2, added up with the active numbers of row i.",
             "Each row is made of one token alone.")
    active = here.stage("active", Symbol("G"), "Active", wide, bend, (here.name("hidden"),), (
        f"{bend.name} of the hidden number.", _BENT[bend]))
    hidden = ("hidden", Symbol("H"), "Hidden", wide)
    fed = ("fed", Symbol("F"), "Feed-forward", axes)
    if not biases:
        return (w_1, w_2), (
            here.stage(*hidden, MATMUL, (source, w_1.name), met),
            active,
            here.stage(*fed, MATMUL, (active.name, w_2.name), added),
        )
    widened = here.stage("widened", Symbol("U"), "Widened", wide, MATMUL, (source, w_1.name), met)
    narrowed = here.stage("narrowed", Symbol("D"), "Narrowed", axes, MATMUL, (active.name, w_2.name), added)
    return (w_1, b_1, w_2, b_2), (
        widened,
        here.stage(*hidden, PLUS_TOP, (widened.name, b_1.name), (
            "How well the token fits hidden unit j, plus the bias of the unit.",
            "A negative bias keeps the unit quiet unless the token fits well.")),
        active,
        narrowed,
        here.stage(*fed, PLUS_TOP, (narrowed.name, b_2.name), (
            "One feature of what the network makes of token i.",
            "Editing the row of one token leaves the rows of all others as they are.")),
    )


def _gated_lines(here: Naming, bend: Operation, source: str, axes: tuple[str, str]) -> Lines:
    token, d_model = axes
    wide = (token, "d_ff")
    w_gate = here.given("w_gate", Symbol("W", sub="gate"), "W_gate", (d_model, "d_ff"), (
        "How much feature i counts towards gate j.",
        "Column j is what opens the gate of hidden unit j."), is_learned=True)
    w_up = here.given("w_up", Symbol("W", sub="up"), "W_up", (d_model, "d_ff"), (
        "How much feature i counts towards hidden unit j.",
        "Column j is what comes through where gate j is open."), is_learned=True)
    w_down = here.given("w_down", Symbol("W", sub="down"), "W_down", ("d_ff", d_model), (
        "How much hidden unit i counts towards feature j.",
        "Row i is what hidden unit i adds to the output, times how active it is."), is_learned=True)
    gate = here.stage("gate", Symbol("H", sub="gate"), "Gate", wide, MATMUL, (source, w_gate.name), (
        "The dot product of row i and column j of W_gate.",
        "Each row is made of one token alone."))
    opened = here.stage("opened", Symbol("G", sub="gate"), "Gate opened", wide, bend, (gate.name,), (
        f"{bend.name} of the gate's number.", _BENT[bend]))
    up = here.stage("up", Symbol("H", sub="up"), "Up", wide, MATMUL, (source, w_up.name), (
        "The dot product of row i and column j of W_up.",
        "No function is applied to these numbers: the gate beside them does the bending."))
    active = here.stage("active", Symbol("G"), "Active", wide, MULTIPLY, (opened.name, up.name), (
        "What comes up for hidden unit j, times how far its gate is open.",
        "Where the gate is 0, the unit adds nothing, whatever came up."))
    fed = here.stage("fed", Symbol("F"), "Feed-forward", axes, MATMUL, (active.name, w_down.name), (
        "One feature of the rows of W_down, added up with the active numbers of row i.",
        "Editing the row of one token leaves the rows of all others as they are."))
    return (w_gate, w_up, w_down), (gate, opened, up, active, fed)
# fmt: on


@cache
def feed_forward_sheet(kind: str = "relu", *, biases: bool = True) -> Sheet:
    """The network of that kind on X as a sheet of its own. Raises ValueError for an unknown kind."""
    givens, stages = feed_forward_lines(kind, biases=biases)
    return Sheet((X, *givens), stages)


def feed_forward(
    x: ArrayLike,
    w_1: ArrayLike,
    w_2: ArrayLike,
    b_1: ArrayLike | None = None,
    b_2: ArrayLike | None = None,
    *,
    kind: str = "relu",
) -> Array:
    """f(x w_1 + b_1) w_2 + b_2, row by row, with f of that kind: relu, gelu or gelu_tanh.

    x (…, n, d_model), w_1 (d_model, d_ff), w_2 (d_ff, d_model), b_1 (d_ff,), b_2 (d_model,). A bias that is
    not given is 0. Raises ValueError naming arguments and shapes, and for another kind.
    """
    if kind not in PLAIN:
        raise ValueError(f"kind is one of {', '.join(PLAIN)}, not {kind!r}")
    given: dict[str, Any] = {"x": numbers("x", x), "w_1": numbers("w_1", w_1), "w_2": numbers("w_2", w_2)}
    biases = b_1 is not None or b_2 is not None
    if biases:
        given["b_1"] = _row(b_1, given["w_1"].shape[-1])
        given["b_2"] = _row(b_2, given["w_2"].shape[-1])
    return run(feed_forward_sheet(kind, biases=biases), given)["fed"]


def gated_feed_forward(
    x: ArrayLike, w_gate: ArrayLike, w_up: ArrayLike, w_down: ArrayLike, *, kind: str = "swiglu"
) -> Array:
    """(f(x w_gate) ⊙ x w_up) w_down, row by row, with the f of swiglu, geglu, geglu_tanh or reglu.

    x (…, n, d_model), w_gate and w_up (d_model, d_ff), w_down (d_ff, d_model). Raises ValueError naming
    arguments and shapes, and for another kind.
    """
    if kind not in GATED:
        raise ValueError(f"kind is one of {', '.join(GATED)}, not {kind!r}")
    weights = {"w_gate": w_gate, "w_up": w_up, "w_down": w_down}
    given = {name: numbers(name, a) for name, a in ({"x": x} | weights).items()}
    return run(feed_forward_sheet(kind), given)["fed"]


def _row(bias: ArrayLike | None, width: int) -> Array:
    """(1, width): a bias as the one row that is added to every row."""
    row = np.zeros(width) if bias is None else np.asarray(bias, dtype=np.float64)
    return row[None] if row.ndim == 1 else row

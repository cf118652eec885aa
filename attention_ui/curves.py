"""The curves of the functions between the two layers, with the hidden numbers of one token as points on one.

The curves are drawn where the points lie, at least from −4 to 4 and at most to ±12.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attention_core.activations import gelu, gelu_tanh, relu, swish
from attention_core.numbers import show
from attention_ui.graphs import Line, Panel

Array = NDArray[np.float64]

CURVES: dict[str, tuple[str, Callable[[Array], Array], str]] = {
    "relu": ("ReLU", relu, "solid"),
    "gelu": ("GELU", gelu, "dash"),
    "gelu_tanh": ("GELU with tanh", gelu_tanh, "dashdot"),
    "swiglu": ("SiLU", swish, "dot"),
}  # what a curve is called, the function, and how its line tells it apart
NARROWEST, WIDEST = 4.0, 12.0
STEPS = 240


def panel(hidden: Array, kind: str) -> Panel:
    """All curves, that of `kind` strongest, with the numbers of hidden (d,) as points on it."""
    reach = reach_of(hidden)
    curves = [_curve(each, each == kind, reach) for each in CURVES]
    return Panel("", [*curves, _points(hidden, kind, reach)], x_title="hidden number", body=300)


def reach_of(hidden: Array) -> float:
    """How far the figure goes to either side: a whole number that takes the points in, within limits."""
    farthest = float(np.abs(hidden).max(initial=0.0))
    return float(np.ceil(min(max(farthest, NARROWEST), WIDEST)))


def alt_text(hidden: Array, kind: str) -> str:
    """What the figure shows: the curves, the points, and how many lie beyond its edge."""
    name, function, _ = CURVES[kind]
    reach = reach_of(hidden)
    beyond = int((np.abs(hidden) > reach).sum())
    others = ", ".join(title for each, (title, *_) in CURVES.items() if each != kind)
    with np.errstate(all="ignore"):
        quiet = int((function(hidden) <= 0).sum())
    text = (
        f"Curves of {name}, drawn strongest, and of {others}, from {show(-reach)} to {show(reach)}. "
        f"{len(hidden)} points on {name}, one for each hidden unit of the token; "
        f"{quiet} of them come out at 0 or below."
    )
    return text + (f" {beyond} lie beyond the edge." if beyond else "")


def twin(hidden: Array, kind: str) -> pd.DataFrame:
    """The points as a table: the hidden number of every unit, and what each function makes of it."""
    with np.errstate(all="ignore"):
        columns = {"hidden": hidden} | {title: function(hidden) for title, function, _ in CURVES.values()}
    texts = {name: [show(x) for x in values.tolist()] for name, values in columns.items()}
    return pd.DataFrame(texts, index=[f"unit {unit}" for unit in range(1, len(hidden) + 1)], dtype=str)


@lru_cache(maxsize=64)
def _line(kind: str, reach: float) -> tuple[Array, Array]:
    x = np.linspace(-reach, reach, STEPS + 1)
    return x, CURVES[kind][1](x)


def _curve(kind: str, chosen: bool, reach: float) -> Line:
    name, _, dash = CURVES[kind]
    x, y = _line(kind, reach)
    return Line(name, x.tolist(), y.tolist(), strong=chosen, dash=dash)


def _points(hidden: Array, kind: str, reach: float) -> Line:
    name, function, _ = CURVES[kind]
    inside = np.abs(hidden) <= reach
    x = hidden[inside]
    y = function(x)
    hover = [
        f"hidden unit {unit + 1}: {name}({show(a)}) = {show(b)}"
        for unit, a, b in zip(np.flatnonzero(inside).tolist(), x.tolist(), y.tolist(), strict=True)
    ]
    return Line("hidden units of the token", x.tolist(), y.tolist(), strong=True, points=True, hover=hover)

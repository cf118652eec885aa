"""The curves of the functions between the two layers, with the hidden numbers of one token as points on one.

The curves are drawn where the points lie, at least from −4 to 4 and at most to ±12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from attention_core.activations import gelu, gelu_tanh, relu, swish
from attention_core.numbers import show
from attention_ui import canvas
from attention_ui.canvas import FONT
from attention_ui.theme import SURFACES

Array = NDArray[np.float64]

CURVES: dict[str, tuple[str, Callable[[Array], Array], str]] = {
    "relu": ("ReLU", relu, "solid"),
    "gelu": ("GELU", gelu, "dash"),
    "gelu_tanh": ("GELU with tanh", gelu_tanh, "dashdot"),
    "swiglu": ("SiLU", swish, "dot"),
}  # what a curve is called, the function, and how its line tells it apart
NARROWEST, WIDEST = 4.0, 12.0
STEPS = 240


def activation_curves(hidden: Array, kind: str, *, theme: str = "light") -> go.Figure:
    """All curves, that of `kind` strongest, with the numbers of hidden (d,) as points on it."""
    reach = reach_of(hidden)
    traces = [_curve(each, each == kind, reach, theme) for each in CURVES]
    inside = [(unit, x) for unit, x in enumerate(hidden.tolist(), 1) if abs(x) <= reach]
    return canvas.figure([*traces, _points(inside, kind, theme)], _layout(reach, theme))


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


def _curve(kind: str, chosen: bool, reach: float, theme: str) -> dict[str, Any]:
    name, _, dash = CURVES[kind]
    x, y = _line(kind, reach)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": y,
        "line": {
            "color": SURFACES[theme]["accent" if chosen else "quiet"],
            "width": 3 if chosen else 1.5,
            "dash": dash,
        },
        "hovertemplate": f"{name}(%{{x:.3~g}}) = %{{y:.3~g}}<extra></extra>",
    }


def _points(inside: Sequence[tuple[int, float]], kind: str, theme: str) -> dict[str, Any]:
    name, function, _ = CURVES[kind]
    x = np.array([x for _, x in inside])
    y = function(x)
    hover = [
        f"hidden unit {unit}<br>{name}({show(a)}) = {show(b)}"
        for (unit, a), b in zip(inside, y.tolist(), strict=True)
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "hidden units of the token",
        "x": x,
        "y": y,
        "hovertext": hover,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "marker": {
            "size": 11,
            "color": SURFACES[theme]["paper"],
            "line": {"width": 2, "color": SURFACES[theme]["accent"]},
        },
    }


def _layout(reach: float, theme: str) -> dict[str, Any]:
    surface = SURFACES[theme]
    font = {"family": FONT, "size": 14, "color": surface["text"]}
    axis = {
        "gridcolor": surface["line"], "zerolinecolor": surface["quiet"], "zerolinewidth": 1,
        "fixedrange": True,
    }  # fmt: skip
    return {
        "height": 360,
        "margin": {"l": 44, "r": 8, "t": 8, "b": 44},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": font,
        "xaxis": axis | {"title": {"text": "hidden number"}, "range": [-reach, reach]},
        "yaxis": axis | {"title": {"text": "active"}},
        "legend": {"x": 0.02, "y": 0.98, "bgcolor": "rgba(0,0,0,0)"},
        "hoverlabel": {"bgcolor": surface["raised"], "bordercolor": surface["line"], "font": font},
    }

"""Panels of curves and bars as one figure: what Plotly is given is what it takes, and quick to draw twice."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest

from attention_ui.curves import CURVES, panel
from attention_ui.graphs import Line, Panel, stacked
from attention_ui.theme import THEMES

PANELS = [
    Panel("bars", bars=([0.0, 1.0, 2.0], [2.0, 5.0, 1.0], 1.0), marks=(1.5,)),
    Panel(
        "lines",
        [
            Line("strong", [1, 10, 100], [0.0, 2.0, float("nan")], strong=True, dash="dot"),
            Line("points", [1, 10], [3.0, 1e-7], points=True, symbol="diamond", hover=("first", "second")),
        ],
        x_title="number",
        x_log=(1, 10, 100),
        y_log=True,
        y_from=(1.0,),
    ),
]


def figures(theme: str) -> list[go.Figure]:
    hidden = np.array([-2.5, 0.0, 40.0])
    return [stacked(PANELS, theme=theme), *(stacked([panel(hidden, kind)], theme=theme) for kind in CURVES)]


@pytest.mark.parametrize("theme", THEMES)
def test_plotly_takes_every_entry_of_the_curves_and_bars(theme):
    for figure in figures(theme):
        go.Figure(figure.to_dict())  # checks what canvas.figure leaves unchecked


def test_plotly_is_told_that_curves_drawn_twice_have_not_changed():
    for figure in figures("light"):
        assert figure.layout.datarevision is not None
        assert figure.to_dict()["layout"]["template"] is None


def test_a_number_that_an_axis_cannot_hold_leaves_a_gap():
    strong = next(trace for trace in stacked(PANELS).data if trace.name == "strong")
    assert list(strong.y) == [None, 2.0, None]

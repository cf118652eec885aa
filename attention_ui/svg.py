"""Panels of curves as HTML and SVG: figures that stand in a passage and follow every edit together with it.

Plotly takes longer to draw a figure anew than all the rest of a page. The panels are those of graphs.py,
with the same axes and the same numbers beside them. A panel is as wide as there is room: lines are stretched,
while strokes, points and letters keep their size. Under the pointer each place on the axis says its numbers.
Bars and upright marks are drawn by Plotly alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import compress
from math import log10
from typing import Any

from attention_ui.graphs import Line, Panel, axes, is_held, told

DASHES = {"solid": "", "dash": "9 6", "dot": "2 5", "dashdot": "9 5 2 5"}  # with round ends
_SIDE = 1000  # units of the drawing from edge to edge, before it is stretched
_MOST_SAID = 60  # points of a line, up to which each says its numbers


def stacked(panels: Sequence[Panel], alt: str) -> str:
    """The panels, the first on top, below the names of their lines; `alt` is for who does not see them."""
    drawn = "".join(map(_panel, panels))
    return f'<div class="chart" role="img" aria-label="{escape(alt)}">{_names(panels)}{drawn}</div>'


def _names(panels: Sequence[Panel]) -> str:
    """What each line is called, beside a piece of it."""
    lines = {line.name: line for panel in panels for line in panel.lines}
    if len(lines) < 2:
        return ""
    items = "".join(
        f'<li><svg viewBox="0 0 32 12">{_stroke(line, [(2, 6), (30, 6)] if not line.points else [(16, 6)])}'
        f"</svg>{escape(name)}</li>"
        for name, line in lines.items()
    )
    return f"<ul>{items}</ul>"


def _panel(panel: Panel) -> str:
    x_axis, y_axis = axes(panel, "light")  # which theme it is makes no difference to where things are
    across, up = _place(x_axis), _place(y_axis)
    inside = [(across(x), text) for x, text in zip(x_axis["tickvals"], x_axis["ticktext"], strict=True)]
    beside = [(1 - up(y), text) for y, text in zip(y_axis["tickvals"], y_axis["ticktext"], strict=True)]
    grid = "".join(_rule(at, at, 0, 1) for at, _ in inside) + "".join(_rule(0, 1, at, at) for at, _ in beside)
    lines, said = "", dict[float, list[str]]()
    for line in panel.lines:
        held = [is_held(y, y_log=panel.y_log) for y in line.y]
        points = compress(zip(line.x, line.y, strict=True), held)
        units = [(_SIDE * across(x), _SIDE * (1 - up(y))) for x, y in points]
        lines += _stroke(line, units)
        if len(units) <= _MOST_SAID:
            for (x, _), text in zip(units, compress(told(line, ", "), held), strict=True):
                said.setdefault(x, []).append(text)
    lines += "".join(map(_pointed_at, said, said.values()))
    right = "".join(f'<span style="top: {100 * at:.2f}%">{escape(text)}</span>' for at, text in beside)
    below = "".join(f'<span style="left: {100 * at:.2f}%">{escape(text)}</span>' for at, text in inside)
    heading = f"<strong>{escape(panel.title)}</strong>" if panel.title else ""
    under = f"<em>{escape(panel.x_title)}</em>" if panel.x_title else ""
    return (
        f'{heading}<div class="panel" style="height: {panel.body}px"><div class="beside">{right}</div>'
        f'<svg viewBox="0 0 {_SIDE} {_SIDE}" preserveAspectRatio="none">{grid}{lines}</svg></div>'
        f'<div class="under">{below}</div>{under}'
    )


def _place(axis: dict[str, Any]) -> Any:
    """Where a number stands along an axis, from 0 to 1."""
    (low, high), log = axis["range"], axis.get("type") == "log"
    return lambda number: ((log10(number) if log else number) - low) / (high - low)


def _pointed_at(x: float, texts: list[str]) -> str:
    """What the pointer finds at one place of the horizontal axis."""
    return f'<path class="said" d="M{x:.6g} 0V{_SIDE}"><title>{escape(chr(10).join(texts))}</title></path>'


def _stroke(line: Line, units: list[tuple[float, float]]) -> str:
    strong = " strong" if line.strong else ""
    if line.points:
        dots = "".join(_dot(x, y) for x, y in units)
        return f'<path class="points{strong}" d="{dots}"/><path class="hollow" d="{dots}"/>'
    path = "L".join(f"{x:.6g} {y:.6g}" for x, y in units)
    dash = f' stroke-dasharray="{DASHES[line.dash]}"' if DASHES[line.dash] else ""
    return f'<path class="line{strong}" d="M{path}"{dash}/>'


def _dot(x: float, y: float) -> str:
    return f"M{x:.6g} {y:.6g}h0"


def _rule(x0: float, x1: float, y0: float, y1: float) -> str:
    ends = (
        f'{name}="{_SIDE * at:.6g}"'
        for name, at in zip(("x1", "x2", "y1", "y2"), (x0, x1, y0, y1), strict=True)
    )
    return f"<line {' '.join(ends)}/>"

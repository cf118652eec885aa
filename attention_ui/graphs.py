"""Panels one below the other in one Plotly figure: curves over a common axis, and a histogram.

Heights are in pixels; the width is the browser's. A line is told apart by its dash as well as its colour,
and its name stands in one list above the panels. Every number beside an axis or under the pointer is
written by attention_core.numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any

import plotly.graph_objects as go

from attention_core.numbers import show
from attention_core.written import visible
from attention_ui import canvas
from attention_ui.canvas import FONT
from attention_ui.theme import SURFACES

_TITLE, _BODY, _FOOT, _AXIS = (
    30,
    150,
    26,
    20,
)  # heights: a panel’s title, its body, its numbers, its axis title
_NAMES = 22  # height of a line of names; two names a line
_MOST_TICKS = 6


@dataclass(frozen=True)
class Line:
    """Points joined by a line, or left alone; a number that an axis cannot hold leaves a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    strong: bool = False  # what the reader has chosen
    dash: str = "solid"
    width: float = 0.0  # in pixels; 0: as wide as what is chosen, or is not
    points: bool = False  # points without a line between them
    symbol: str = "circle"  # of a point, in Plotly's words
    size: int = 9  # of a point, in pixels
    hover: Sequence[str] = ()  # what is said of each point in place of its numbers


@dataclass(frozen=True)
class Panel:
    """One pair of axes over `x_title`. `bars` are (left edges, heights, width) of a histogram."""

    title: str
    lines: Sequence[Line] = ()
    x_title: str = ""
    x_log: Sequence[float] = ()  # the numbers written on a logarithmic axis; empty: an even one
    y_log: bool = False
    y_from: tuple[float, ...] = ()  # numbers that the vertical axis takes in, whatever the lines do
    bars: tuple[Sequence[float], Sequence[float], float] | None = None
    marks: tuple[float, ...] = ()  # upright lines at these numbers
    body: int = _BODY  # height in pixels


def stacked(panels: Sequence[Panel], *, theme: str = "light") -> go.Figure:
    """The panels as one figure, the first on top."""
    names = {line.name for panel in panels for line in panel.lines}
    starts, top = [], float(_NAMES * ceil(len(names) / 2) if len(names) > 1 else 0)
    for panel in panels:
        starts.append(top + _TITLE)
        top += _TITLE + panel.body + _FOOT + _AXIS * bool(panel.x_title)
    traces: list[dict[str, Any]] = []
    layout = _frame(top, theme)
    told: set[str] = set()
    for index, (panel, start) in enumerate(zip(panels, starts, strict=True)):
        number = str(index + 1) if index else ""  # Plotly’s first axis has no number
        place = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        x_axis, y_axis = axes(panel, theme)
        layout[f"xaxis{number}"] = x_axis | {"anchor": f"y{number}"}
        layout[f"yaxis{number}"] = y_axis | {
            "anchor": f"x{number}", "domain": [1 - (start + panel.body) / top, 1 - start / top]
        }  # fmt: skip
        layout["annotations"].append(_heading(panel.title, 1 - start / top, theme))
        layout["shapes"] += [_mark(mark, number, theme) for mark in panel.marks]
        if panel.bars:
            traces.append(_bars(panel.bars, theme) | place)
        for line in panel.lines:
            trace = _line(line, theme, y_log=panel.y_log) | place
            traces.append(trace | {"showlegend": len(names) > 1 and line.name not in told})
            told.add(line.name)
    return canvas.figure(traces, layout)


def ticks(low: float, high: float) -> list[float]:
    """A few round numbers from low to high: multiples of 1, 2, 2.5 or 5 times a power of ten."""
    if not (isfinite(low) and isfinite(high) and high > low):
        return [low]
    raw = (high - low) / (_MOST_TICKS - 1)
    power = 10.0 ** floor(log10(raw))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= raw * (1 - 1e-9))
    return [k * step for k in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _decades(numbers: Sequence[float]) -> tuple[list[float], list[float]]:
    """The span of a logarithmic axis around these numbers, and the powers of ten written beside it."""
    low, high = log10(min(numbers)), log10(max(numbers))
    if high - low < 1.5:  # so that there are two powers of ten at least
        low, high = min(low, floor(low + 0.1)), max(high, floor(low + 0.1) + 1)
    edge = 0.04 * (high - low)
    step = max(1, ceil((high - low) / (_MOST_TICKS - 1)))
    first = ceil(low - edge)
    return [low - edge, high + edge], [10.0**k for k in range(first, floor(high + edge) + 1, step)]


def axes(panel: Panel, theme: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The axes of a panel in Plotly's words: the span, of a logarithmic one in powers, and its numbers."""
    xs = [x for line in panel.lines for x in line.x]
    ys = [y for line in panel.lines for y in line.y if isfinite(y)] + list(panel.y_from)
    if panel.bars:
        edges, heights, width = panel.bars
        xs += [edges[0], edges[-1] + width]
        ys += [0.0, *heights]
    if panel.x_log:
        edge = 0.04 * (log10(max(xs)) - log10(min(xs)))
        span = [log10(min(xs)) - edge, log10(max(xs)) + edge]
        x_axis = {"type": "log", "range": span} | _written(panel.x_log)
    else:
        edge = 0.0 if panel.bars else 0.02 * (max(xs) - min(xs) or 1.0)
        x_axis = {"range": [min(xs) - edge, max(xs) + edge]} | _written(ticks(min(xs), max(xs)))
    if panel.y_log:
        span, written = _decades([y for y in ys if y > 0] or [1.0])
        y_axis = {"type": "log", "range": span} | _written(written)
    else:
        low, high = min(ys), max(ys)
        margin = 0.06 * (high - low or 1.0)
        y_axis = {"range": [low - margin * (low < 0 or not panel.bars), high + margin]} | _written(
            ticks(low, high)
        )
    if panel.x_title:
        quiet = {"size": 12, "color": SURFACES[theme]["quiet"]}
        x_axis |= {"title": {"text": panel.x_title, "standoff": 4, "font": quiet}}
    return _plain(theme) | x_axis, _plain(theme) | y_axis


def told(line: Line, between: str) -> Sequence[str]:
    """What is said of each point: its own words, or the line's name and the point's two numbers."""
    return line.hover or [
        f"{line.name}{between}{visible(x, show)}: {visible(y, show)}"
        for x, y in zip(line.x, line.y, strict=True)
    ]


def is_held(number: float, *, y_log: bool) -> bool:
    """Whether an axis can hold a number."""
    return isfinite(number) and not (y_log and number <= 0)


def _written(numbers: Sequence[float]) -> dict[str, Any]:
    """Tick marks at these numbers, written as everywhere; tiny ones as 1e−5."""
    return {"tickmode": "array", "tickvals": list(numbers), "ticktext": [visible(x, show) for x in numbers]}


def _plain(theme: str) -> dict[str, Any]:
    surface = SURFACES[theme]
    return {
        "gridcolor": surface["line"], "zeroline": False, "showline": False, "ticks": "", "fixedrange": True,
        "tickfont": {"size": 12, "color": surface["quiet"]}, "automargin": False,
    }  # fmt: skip


def _frame(height: float, theme: str) -> dict[str, Any]:
    surface = SURFACES[theme]
    font = {"family": FONT, "size": 13, "color": surface["text"]}
    return {
        "height": height + 8, "margin": {"l": 56, "r": 8, "t": 0, "b": 8}, "font": font, "bargap": 0,
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "dragmode": False,
        "legend": {
            "orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "top", "itemclick": False,
            "itemdoubleclick": False, "font": {"size": 13}, "entrywidthmode": "fraction", "entrywidth": 0.45,
        },
        "hoverlabel": {
            "bgcolor": surface["raised"], "bordercolor": surface["line"], "align": "left", "font": font,
        },
        "annotations": [], "shapes": [],
    }  # fmt: skip


def _heading(text: str, y: float, theme: str) -> dict[str, Any]:
    return {
        "text": f"<b>{text}</b>", "x": 0, "y": y, "xref": "paper", "yref": "paper", "xanchor": "left",
        "yanchor": "bottom", "yshift": 4, "showarrow": False,
        "font": {"size": 14, "color": SURFACES[theme]["text"]},
    }  # fmt: skip


def _mark(x: float, number: str, theme: str) -> dict[str, Any]:
    return {
        "type": "line", "xref": f"x{number}", "yref": f"y{number} domain", "x0": x, "x1": x, "y0": 0, "y1": 1,
        "line": {"color": SURFACES[theme]["quiet"], "width": 1, "dash": "dot"},
    }  # fmt: skip


def _line(line: Line, theme: str, *, y_log: bool) -> dict[str, Any]:
    surface = SURFACES[theme]
    held = [y if is_held(y, y_log=y_log) else None for y in line.y]
    colour = surface["accent" if line.strong else "quiet"]
    return {
        "type": "scatter", "mode": "markers" if line.points else "lines", "name": line.name,
        "x": list(line.x), "y": held, "hovertext": list(told(line, "<br>")),
        "hovertemplate": "%{hovertext}<extra></extra>",
        "line": {"color": colour, "width": line.width or (3 if line.strong else 1.5), "dash": line.dash},
        "marker": {"color": colour, "size": line.size, "symbol": line.symbol},
    }  # fmt: skip


def _bars(bars: tuple[Sequence[float], Sequence[float], float], theme: str) -> dict[str, Any]:
    edges, heights, width = bars
    hover = [
        f"{visible(edge, show)} to {visible(edge + width, show)}: {show(height)}"
        for edge, height in zip(edges, heights, strict=True)
    ]
    return {
        "type": "bar", "x": [edge + width / 2 for edge in edges], "y": list(heights), "width": width,
        "hovertext": hover, "hovertemplate": "%{hovertext}<extra></extra>", "showlegend": False,
        "marker": {
            "color": SURFACES[theme]["accent"], "line": {"width": 1, "color": SURFACES[theme]["paper"]},
        },
    }  # fmt: skip

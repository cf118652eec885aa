"""The roofline of lesson 9, in lines, words and as a table: what an accelerator can reach at an intensity.

    rate at most = min(peak rate, bandwidth × operations per byte)        Williams et al. 2009

Everything here is an estimate from shapes and data sheets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from attention_core.accelerators import ACCELERATORS, TERA, Accelerator
from attention_core.cost import TITLES, bound, intensity, seconds, total
from attention_core.numbers import show
from attention_core.sheet import Cost
from attention_core.written import visible
from attention_ui import amounts
from attention_ui.graphs import Line, Panel, stacked

Table = tuple[list[str], list[list[str]]]  # headings and rows

LOW, HIGH = 0.1, 10_000.0  # operations per byte that the figure shows at least
WRITTEN = (0.01, 0.1, 1, 10, 100, 1000, 10_000, 100_000)
OTHERS, CHOSEN = "others", "chosen"
PER_BYTE = "operations per byte"
HEIGHT = 330


@dataclass(frozen=True)
class Phase:
    """A kind of work, its lines, and how its points are drawn."""

    name: str
    short: str  # beside its points
    costs: tuple[Cost, ...]
    symbol: str

    @property
    def intensity(self) -> float:
        return intensity(total(self.costs))


def figure(
    accelerator: Accelerator, numbers: str, phases: Sequence[Phase], *, theme: str = "light"
) -> go.Figure:
    """The roof of one accelerator, those of the others behind it, and a small point on it for every line.

    A phase as a whole is a large point: its operations over its time, line after line.
    """
    found = [intensity(cost) for phase in phases for cost in phase.costs]
    low, high = min(LOW, *found), max(HIGH, *found)
    roofs = [
        _roof(OTHERS, other, numbers, low, high)
        for other in ACCELERATORS.values()
        if other.title != accelerator.title
    ]
    roofs.append(_roof(CHOSEN, accelerator, numbers, low, high, strong=True))
    points = [line for phase in phases for line in _points(phase, accelerator, numbers)]
    panel = Panel(
        "Rate at most, 10¹² operations a second", [*roofs, *points], x_title=PER_BYTE, body=HEIGHT,
        x_log=tuple(x for x in WRITTEN if low <= x <= high), y_log=True,
    )  # fmt: skip
    return stacked([panel], theme=theme)


def _roof(
    name: str, accelerator: Accelerator, numbers: str, low: float, high: float, *, strong: bool = False
) -> Line:
    ridge = accelerator.ridge(numbers)
    x = [low, ridge, high]
    y = [accelerator.roof(numbers, at) / TERA for at in x]
    said = f"{accelerator.title}: {show(y[1])} × 10¹² a second from {show(ridge)} {PER_BYTE} on"
    return Line(name, x, y, strong=strong, width=0.0 if strong else 0.75, hover=[said] * 3)


def _points(phase: Phase, accelerator: Accelerator, numbers: str) -> list[Line]:
    """A small point for every line, and a large one for all of them, one after the other."""
    lines = [cost for cost in phase.costs if cost.operations]
    small = Line(
        f"{phase.short}, lines", [intensity(cost) for cost in lines],
        [_rate([cost], accelerator, numbers) / TERA for cost in lines], points=True,
        symbol=f"{phase.symbol}-open", size=8,
        hover=[_said(phase.name, TITLES[cost.name], [cost], accelerator, numbers) for cost in lines],
    )  # fmt: skip
    large = Line(
        f"{phase.short}, total", [phase.intensity], [_rate(lines, accelerator, numbers) / TERA],
        points=True, strong=True, symbol=phase.symbol, size=15,
        hover=[_said(phase.name, "together", lines, accelerator, numbers)],
    )  # fmt: skip
    return [small, large]


def _rate(costs: Sequence[Cost], accelerator: Accelerator, numbers: str) -> float:
    """Operations a second, the lines one after the other."""
    return total(costs).operations / seconds(costs, accelerator, numbers)


def _said(name: str, line: str, costs: Sequence[Cost], accelerator: Accelerator, numbers: str) -> str:
    per_byte, rate = intensity(total(costs)), _rate(costs, accelerator, numbers)
    return f"{name}: {line}<br>{visible(per_byte, show)} {PER_BYTE}<br>{amounts.whole(rate)} a second"


def alt_text(accelerator: Accelerator, numbers: str, phases: Sequence[Phase]) -> str:
    """What the figure shows, in its own numbers."""
    told = [
        f"{phase.name} makes {visible(phase.intensity, show)} {PER_BYTE} and reaches "
        f"{amounts.whole(_rate(phase.costs, accelerator, numbers))} operations a second at most."
        for phase in phases
    ]
    return (
        f"Roofline of {accelerator.title}, on logarithmic axes: the rate rises with the operations per byte "
        f"up to {show(accelerator.ridge(numbers))}, and from there on stays at "
        f"{amounts.whole(accelerator.peak(numbers))} operations a second. {' '.join(told)}"
    )


def table(accelerator: Accelerator, numbers: str, phases: Sequence[Phase]) -> Table:
    """The points as a table: every line of every phase, and each phase together."""
    heads = ["line", PER_BYTE, "rate at most, a second", "set by"]
    rows = [
        [
            f"{phase.name}: {TITLES[cost.name]}",
            visible(intensity(cost), show),
            amounts.whole(_rate([cost], accelerator, numbers)),
            bound(cost, accelerator, numbers),
        ]
        for phase in phases
        for cost in phase.costs
    ]
    rows += [
        [
            f"{phase.name}: together",
            visible(phase.intensity, show),
            amounts.whole(_rate(phase.costs, accelerator, numbers)),
            "line by line",
        ]
        for phase in phases
    ]
    return heads, rows

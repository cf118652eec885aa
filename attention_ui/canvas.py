"""Where heat maps stand on one pair of axes, with their titles and labels, and how a cell is marked.

Plotly's work grows with the axes and with the texts it must measure. So all maps lie on one grid of cells,
and titles and labels are points with a text. Rows are as high as the numbers need; only the browser knows
the width. Rows stand for the same queries in every map, so only the maps at the left edge name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from attention_ui.theme import ROLES, SURFACES
from attention_ui.tokens import isolated, plotly_text

FONT = '"Source Sans", "Source Sans Pro", sans-serif'  # Streamlit's; Plotly's own rules stop "inherit" short
LETTER = 6.5  # pixels of a letter
LONGEST_NAME = {True: 8, False: 14}  # characters of a token beside its row, on a narrow screen and elsewhere
WIDTH = {True: 270, False: 800}  # pixels of all cells side by side, a guess that decides where heads are cut
HEADS, LINE, BELOW = 42, 16, 18  # pixels: two lines of column heads, a line of a title, the air below a map
NEAR = 3  # pixels between a head and its column
EDGE = {"l": 4, "r": 6, "t": 4, "b": 4}


@dataclass(frozen=True)
class Title:
    """The title above a map, in the colour of a role, and the lines below it."""

    text: str
    role: str
    notes: tuple[str, ...]

    def written(self, theme: str) -> str:
        """Both in Plotly's language."""
        colour, quiet = ROLES[theme][self.role], SURFACES[theme]["quiet"]
        name = f'<span style="font-size:15px;color:{colour}"><b>{plotly_text(self.text)}</b></span>'
        return "<br>".join(
            [name, *(f'<span style="color:{quiet}">{plotly_text(note)}</span>' for note in self.notes)]
        )


@dataclass(frozen=True)
class Plan:
    """The places of maps of the same size on one grid of cells, `across` of them side by side.

    Columns and rows count from 0 at the first map's first cell; a column of nothing parts two maps.
    """

    queries: int
    keys: int
    maps: int
    across: int
    row: int  # pixels of a row
    head: int  # pixels of a title and the column heads

    @property
    def above(self) -> int:
        """Rows of the grid between a map and the one below it."""
        return -(-(self.head + BELOW) // self.row)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns from the first map's first cell to the last map's last."""
        lines = -(-self.maps // self.across)
        return lines * (self.queries + self.above) - self.above, self.across * (self.keys + 1) - 1

    @property
    def height(self) -> int:
        """Pixels of all cells, titles and heads."""
        return self.shape[0] * self.row + self.head

    def corner(self, number: int) -> tuple[int, int]:
        """Row and column of a map's first cell."""
        line, place = divmod(number, self.across)
        return line * (self.queries + self.above), place * (self.keys + 1)

    def place(self, number: int) -> tuple[slice, slice]:
        """The rows and the columns of a map."""
        row, column = self.corner(number)
        return slice(row, row + self.queries), slice(column, column + self.keys)

    def spread(self, maps: Sequence[NDArray[Any]], empty: Any) -> NDArray[Any]:
        """One field of every map, put in its place on the grid."""
        grid = np.full(self.shape, empty, dtype=maps[0].dtype)
        for number, each in enumerate(maps):
            grid[self.place(number)] = each
        return grid


def plan_for(queries: int, keys: int, across: int, titles: Sequence[Title]) -> Plan:
    """The plan of maps with these titles."""
    row = 38 if queries <= 6 else 32 if queries <= 10 else 26
    head = HEADS + LINE * (1 + max(len(title.notes) for title in titles)) + 6
    return Plan(queries, keys, len(titles), across, row, head)


def names(queries: Sequence[str], narrow: bool) -> list[str]:
    """What stands beside the rows: position and token."""
    return [_numbered(i, query, " ", LONGEST_NAME[narrow]) for i, query in enumerate(queries)]


def heads(keys: Sequence[str], columns: int, narrow: bool) -> list[str]:
    """What stands above the columns: the position and below it as much of the token as there is room for."""
    room = int((WIDTH[narrow] / columns - 4) / LETTER)
    return [_numbered(j, key, "<br>", room) if room > 2 else str(j + 1) for j, key in enumerate(keys)]


def letter_size(longest: int, columns: int, narrow: bool) -> int | None:
    """Pixels of the letters of numbers this long in a cell; None where Plotly's own choice is good.

    Plotly allows for letters of two thirds of their height. Digits take half of it, which a telephone needs.
    """
    return min(12, int(WIDTH[narrow] / columns / (0.5 * longest))) if narrow else None


def _numbered(position: int, label: str, between: str, longest: int) -> str:
    cut = label if len(label) <= longest else label[: longest - 1] + "…"
    return f"{position + 1}{between}{plotly_text(isolated(cut))}"


def labels(
    plan: Plan, names: Sequence[str], heads: Sequence[str], titles: Sequence[str], theme: str
) -> dict[str, Any]:
    """All titles, heads and names as one trace of points with a text."""
    points: list[tuple[float, float, str, str, int]] = []
    for number, title in enumerate(titles):
        top, left = plan.corner(number)
        points.append((left - 0.5, top - 0.5 - HEADS / plan.row, title, "top right", 12))
        points += [
            (left + j, top - 0.5 - NEAR / plan.row, head, "top center", 13) for j, head in enumerate(heads)
        ]
        if number % plan.across == 0:
            points += [(-0.5, top + i, f"{name}\u2002", "middle left", 13) for i, name in enumerate(names)]
    x, y, text, places, sizes = (list(field) for field in zip(*points, strict=True))
    font = {"size": sizes, "color": SURFACES[theme]["text"]}
    return {
        "type": "scatter", "mode": "text", "x": x, "y": y, "text": text, "textposition": places,
        "textfont": font, "hoverinfo": "skip", "cliponaxis": False,
    }  # fmt: skip


def grid_layout(plan: Plan, names: Sequence[str], theme: str) -> dict[str, Any]:
    """The layout of a figure that has all its maps on one grid."""
    rows, columns = plan.shape
    edge = max(len(name.replace("&", "").split(";")[-1]) for name in names)
    return layout(theme, plan.height, int(LETTER * edge) + 12) | {
        "xaxis": AXIS | {"range": [-0.5, columns - 0.5], "showticklabels": False},
        "yaxis": AXIS | {"range": [rows - 0.5, -0.5 - plan.head / plan.row], "showticklabels": False},
    }


AXIS = {
    "type": "linear", "showgrid": False, "zeroline": False, "showline": False, "ticks": "",
    "fixedrange": True, "automargin": False,
}  # fmt: skip


def layout(theme: str, height: int, left: int) -> dict[str, Any]:
    """What the layouts of heat maps have in common; height and left margin in pixels."""
    surface = SURFACES[theme]
    font = {"family": FONT, "size": 13, "color": surface["text"]}
    return {
        "height": height + EDGE["t"] + EDGE["b"],
        "margin": EDGE | {"l": left},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "dragmode": False,
        "font": font,
        "hoverlabel": {
            "bgcolor": surface["raised"],
            "bordercolor": surface["line"],
            "align": "left",
            "font": font,
        },
    }


def figure(traces: Iterable[dict[str, Any]], layout: dict[str, Any]) -> go.Figure:
    """A figure that is quickly made and drawn; every figure of the pages comes from here.

    Streamlit hands every figure to Plotly twice. With a data revision that is the same both times, and
    without the template, whose 7 kB differ each time Plotly looks, it sees that nothing has changed, which
    takes 15 ms in place of 100. Plotly's check of every entry takes 5 ms, more than all the rest; tests make
    it in place of each edit.
    """
    drawn = go.Figure(data=list(traces), layout={"datarevision": 1} | layout, _validate=False)
    drawn.layout.template = None
    return drawn


def scale(palette: Sequence[str]) -> list[list[float | str]]:
    """A Plotly colour scale through these colours at even distances."""
    last = max(len(palette) - 1, 1)
    return [
        [step / last, colour] for step, colour in enumerate(palette if len(palette) > 1 else [*palette] * 2)
    ]


def hatch(hatched: NDArray[np.bool_], theme: str) -> dict[str, Any]:
    """One shape of strokes behind the hatched cells of a grid; where a cell is clear they show."""
    return {
        "type": "path", "path": _strokes(hatched.tobytes(), hatched.shape), "layer": "below",
        "xref": "x", "yref": "y", "line": {"color": SURFACES[theme]["line"], "width": 1.5},
    }  # fmt: skip


@lru_cache(maxsize=64)  # a mask stays while numbers are edited
def _strokes(hatched: bytes, shape: tuple[int, int]) -> str:
    """An SVG path along four diagonals a cell, through the hatched cells only."""
    cells = np.frombuffer(hatched, dtype=bool).reshape(shape)
    rows, columns = shape
    path = []
    for diagonal in np.arange(
        0.25, rows + columns, 0.25
    ):  # along it, the places right and down add up to this
        first, last = max(0.0, diagonal - rows), min(float(columns), diagonal)
        crossed = np.arange(np.ceil(first), last + 1)
        edges = np.unique(np.concatenate([[first, last], crossed, diagonal - np.arange(rows + 1)]))
        edges = edges[(edges >= first) & (edges <= last)]
        middles = (edges[1:] + edges[:-1]) / 2
        inside = cells[(diagonal - middles).astype(int), middles.astype(int)]
        turns = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]])))
        for start, end in edges[turns].reshape(-1, 2).tolist():
            points = ((at - 0.5, diagonal - at - 0.5) for at in (start, end))
            path.append("M{0[0]:g},{0[1]:g}L{1[0]:g},{1[1]:g}".format(*points))
    return "".join(path)


def strokes(x: list[float | None], y: list[float | None], theme: str) -> dict[str, Any]:
    """Quiet thin lines through these points, broken at None."""
    line = {"color": SURFACES[theme]["quiet"], "width": 1}
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "line": line,
        "opacity": 0.35,
        "hoverinfo": "skip",
    }


def folded_corners(cells: NDArray[np.bool_], theme: str) -> dict[str, Any]:
    """One trace that folds down the upper right corner of these cells, as the board does beyond its range."""
    x: list[float | None] = []
    y: list[float | None] = []
    for i, j in np.argwhere(cells).tolist():
        x += [j + 0.3, j + 0.5, j + 0.5, j + 0.3, None]
        y += [i - 0.5, i - 0.5, i - 0.2, i - 0.5, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "fill": "toself",
        "fillcolor": SURFACES[theme]["paper"],
        "line": {"color": SURFACES[theme]["paper"], "width": 0},
        "hoverinfo": "skip",
    }

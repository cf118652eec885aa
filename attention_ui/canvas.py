"""Where the heat maps of a figure stand, with their titles and labels, and how a cell is hatched.

Heights are in pixels, widths in shares of a width that only the browser knows. Rows stand for the same
queries in every map, so only the maps at the left edge carry the row labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_ui.theme import ROLES, SURFACES
from attention_ui.tokens import isolated, plotly_text

LONGEST_LABEL = 14  # characters of a token beside its row; all of them are in the hover text
FONT = '"Source Sans", "Source Sans Pro", sans-serif'  # Streamlit's; Plotly's own rules stop "inherit" short
LETTER, GAP, BELOW = 7, 0.05, 14  # pixels of a letter; share of the width between maps; pixels below one
_PLAIN_WIDTH = 840  # pixels of all maps side by side, a guess that decides whether column labels are turned


@dataclass(frozen=True)
class Title:
    """The title above a map, in the colour of a role, and the lines below it."""

    text: str
    role: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The places of maps that have the same rows and columns, `across` of them side by side."""

    names: tuple[str, ...]  # beside the rows
    heads: tuple[str, ...]  # above the columns
    upright: bool  # whether the heads are turned
    across: int
    maps: int
    title: int  # height of a title with its notes
    head: int  # height of the heads
    body: int  # height of the cells
    first: int = 0  # where on the axes the first cell stands
    step: int = 1  # and how far apart the cells are

    @property
    def line(self) -> int:
        return self.title + self.head + self.body + BELOW

    @property
    def height(self) -> int:
        return self.line * -(-self.maps // self.across)

    def domain(self, number: int) -> tuple[list[float], list[float]]:
        """The shares of width and height, from the left and from below, that the cells of a map take."""
        row, column = divmod(number, self.across)
        width = (1 - GAP * (self.across - 1)) / self.across
        left, above = column * (width + GAP), row * self.line + self.title + self.head
        return [left, min(left + width, 1.0)], [
            1 - (above + self.body) / self.height,
            1 - above / self.height,
        ]


def plan_for(queries: Sequence[str], keys: Sequence[str], across: int, titles: Sequence[Title]) -> Plan:
    """The plan of maps whose rows and columns are labelled with their position and token."""
    longest = max(len(_cut(key)) for key in keys)
    upright = LETTER * longest + 6 > _PLAIN_WIDTH / across / len(keys)
    return Plan(
        names=tuple(_numbered(i, query, " ") for i, query in enumerate(queries)),
        heads=tuple(_numbered(j, key, " " if upright else "<br>") for j, key in enumerate(keys)),
        upright=upright,
        across=across,
        maps=len(titles),
        title=title_height(titles),
        head=LETTER * (longest + 3) + 10 if upright else 40,
        body=len(queries) * (38 if len(queries) <= 6 else 32 if len(queries) <= 10 else 26),
    )


def plan_without_labels(shape: tuple[int, ...], block: int, across: int, titles: Sequence[Title]) -> Plan:
    """The plan of large maps of this many drawn cells, each standing for `block` cells a side.

    The axes count positions from 1, and a few of them are written.
    """
    names, heads = (_a_few(count, block) for count in shape)
    return Plan(
        names, heads, False, across, len(titles), title_height(titles), head=24, body=340, first=1, step=block
    )


def _a_few(count: int, block: int) -> tuple[str, ...]:
    """Positions from 1 at about every quarter, and empty labels between them."""
    quarter = max(count // 4, 1)
    return tuple(
        str(j * block + 1) if j % quarter == 0 and j <= count - quarter else "" for j in range(count)
    )


def title_height(titles: Sequence[Title]) -> int:
    return 26 + 17 * max(len(title.notes) for title in titles)


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _numbered(position: int, label: str, between: str) -> str:
    return f"{position + 1}{between}{plotly_text(isolated(_cut(label)))}"


def layout(plan: Plan, titles: Sequence[Title], theme: str) -> dict[str, Any]:
    """The figure's layout: its height, every map's axes and title, and colours by role."""
    surface = SURFACES[theme]
    edge = max((len(name) for name in plan.names), default=3)
    font = {"family": FONT, "size": 13, "color": surface["text"]}
    return _axes(plan) | {
        "annotations": [_title(plan, number, title, theme) for number, title in enumerate(titles)],
        "height": plan.height + 8,
        "margin": {"l": LETTER * edge + 14, "r": 6, "t": 4, "b": 4},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "font": font,
        "hoverlabel": {
            "bgcolor": surface["raised"],
            "bordercolor": surface["line"],
            "align": "left",
            "font": font,
        },
    }


def _axes(plan: Plan) -> dict[str, Any]:
    axes: dict[str, Any] = {}
    for number in range(plan.maps):
        across, down = plan.domain(number)
        key, query = f"x{number + 1}", f"y{number + 1}"
        axes[f"xaxis{number + 1}"] = _axis(plan, plan.heads) | {
            "domain": across,
            "anchor": query,
            "side": "top",
            "tickangle": -90 if plan.upright else 0,
        }
        axes[f"yaxis{number + 1}"] = _axis(plan, plan.names, downwards=True) | {
            "domain": down,
            "anchor": key,
            "showticklabels": number % plan.across == 0,
            "ticklabelstandoff": 4,
        }
    return axes


def _axis(plan: Plan, labels: Sequence[str], *, downwards: bool = False) -> dict[str, Any]:
    bare = {
        "type": "linear", "showgrid": False, "zeroline": False, "showline": False, "ticks": "",
        "fixedrange": True, "automargin": False,
    }  # fmt: skip
    edges = [plan.first - 0.5 * plan.step, plan.first + (len(labels) - 0.5) * plan.step]
    written = {plan.first + j * plan.step: label for j, label in enumerate(labels) if label}
    ticks = {"tickmode": "array", "tickvals": list(written), "ticktext": list(written.values())}
    return bare | ticks | {"range": edges[::-1] if downwards else edges}


def _title(plan: Plan, number: int, title: Title, theme: str) -> dict[str, Any]:
    across, down = plan.domain(number)
    quiet = SURFACES[theme]["quiet"]
    lines = [f"<b>{plotly_text(title.text)}</b>"]
    lines += [
        f'<span style="font-size:12px;color:{quiet}">{plotly_text(note)}</span>' for note in title.notes
    ]
    return {
        "text": "<br>".join(lines), "x": across[0], "y": down[1], "xref": "paper", "yref": "paper",
        "xanchor": "left", "yanchor": "top", "yshift": plan.head + plan.title - 4, "align": "left",
        "showarrow": False, "font": {"size": 15, "color": ROLES[theme][title.role]},
    }  # fmt: skip


def scale(palette: Sequence[str]) -> list[list[float | str]]:
    """A Plotly colour scale through these colours at even distances."""
    last = max(len(palette) - 1, 1)
    return [
        [step / last, colour] for step, colour in enumerate(palette if len(palette) > 1 else [*palette] * 2)
    ]


def hatch(hatched: NDArray[np.bool_], theme: str) -> dict[str, Any]:
    """One trace of strokes over the hatched cells; they run past the middle, where the number stands."""
    x: list[float | None] = []
    y: list[float | None] = []
    for i, j in np.argwhere(hatched).tolist():
        x += [j - 0.5, j, None, j, j + 0.5, None]
        y += [i, i - 0.5, None, i + 0.5, i, None]
    return _strokes(x, y, theme)


def coarse_hatch(hatched: NDArray[np.bool_], plan: Plan, theme: str) -> dict[str, Any]:
    """The same for cells without numbers: one stroke along every eighth diagonal, through all its cells."""
    rows, columns = hatched.shape
    x: list[float | None] = []
    y: list[float | None] = []
    for diagonal in range(0, rows + columns - 1, 8):
        i = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        inside = np.concatenate([[False], hatched[i, diagonal - i], [False]])
        edges = np.flatnonzero(inside[1:] != inside[:-1]) + i[0] - 0.5
        for top, bottom in edges.reshape(-1, 2).tolist():
            x += [plan.first + plan.step * (diagonal - end) for end in (top, bottom)] + [None]
            y += [plan.first + plan.step * end for end in (top, bottom)] + [None]
    return _strokes(x, y, theme)


def _strokes(x: list[float | None], y: list[float | None], theme: str) -> dict[str, Any]:
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

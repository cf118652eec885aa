"""Scores, scaled scores, mask and weights as heat maps with their numbers, in one Plotly figure.

Cells are placed by position and only labelled by token, so a token may occur twice. Colours are the board's
own steps. Where a query may not look the cell is hatched, and its number is written all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from attention_core.numbers import show
from attention_core.sheet import Sheet, reads, work
from attention_ui.canvas import Title, hatch, layout, plan_for, scale
from attention_ui.large import large_map
from attention_ui.theme import SIGNED, STEPS, SURFACES, WEIGHT, ZERO, colour_range, ink, level
from attention_ui.tokens import isolated, plotly_text
from attention_ui.words import alt_text, beyond, cost_sentences, large_alt_text

__all__ = ["CONFIG", "alt_text", "cost_sentences", "heat_maps", "large_alt_text", "large_map"]

Values = Mapping[str, NDArray[Any]]
Labels = Mapping[str, Sequence[str]]

SHOWN = ("scores", "scaled", "mask", "weights")  # the heat maps, in reading order
LARGEST_WRITTEN = 16  # cells a side that leave room for numbers
WIDEST_PAIR = 10  # columns up to which two maps fit side by side with readable numbers
CONFIG = {"displayModeBar": False, "scrollZoom": False, "doubleClick": False, "showTips": False}


@dataclass(frozen=True)
class _Map:
    """One heat map: its title, its cells as written, and their colours."""

    title: Title
    texts: list[list[str]]
    hover: list[list[str]]
    steps: NDArray[np.float64]  # (rows, columns), an index into the palette, NaN where there is no number
    palette: Sequence[str]
    hatched: NDArray[np.bool_]


def heat_maps(
    sheet: Sheet,
    values: Values,
    labels: Labels,
    *,
    theme: str = "light",
    shared: bool = True,
    across: int = 2,
) -> go.Figure:
    """The scores, scaled scores, mask and weights as one figure.

    across: how many stand side by side at most; with many columns one stands below the other, because
    the numbers would be too small to read.
    shared: both scores have one colour range; else each has its own. The ranges stand below the titles.
    Raises ValueError when a side has more than 16 cells: `large_map` draws those, without numbers.
    """
    n_q, n_k = values["scores"].shape
    if max(n_q, n_k) > LARGEST_WRITTEN:
        raise ValueError(f"{n_q} × {n_k} cells leave no room for numbers: large_map draws them without")
    maps = _maps(sheet, values, labels, theme, shared)
    titles = [each.title for each in maps]
    across = min(across, 4 if n_k <= WIDEST_PAIR // 2 else 2 if n_k <= WIDEST_PAIR else 1)
    plan = plan_for(labels["query"], labels["key"], across, titles)
    characters = max(len(text) for each in maps for row in each.texts for text in row)
    traces = [
        trace | {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        for number, each in enumerate(maps, 1)
        for trace in (*_cells(each, characters, theme), hatch(each.hatched, theme))
    ]
    return go.Figure(data=traces, layout=layout(plan, titles, theme))


# the four maps --------------------------------------------------------------------------------


def _maps(sheet: Sheet, values: Values, labels: Labels, theme: str, shared: bool) -> list[_Map]:
    both = np.concatenate([values["scores"].ravel(), values["scaled"].ravel()])
    maps = []
    for name in SHOWN:
        title, hover = sheet[name].title, _hover(sheet, values, labels, name)
        if name == "mask":
            maps.append(_mask(title, values["mask"], hover, theme))
        elif name == "weights":
            maps.append(_weights(title, values["weights"], values["mask"], hover, theme))
        else:
            limit = colour_range(both if shared else values[name])[0]
            whose = "one range for both" if shared else "its own range"
            maps.append(_scores(title, values[name], limit, whose, hover, theme))
    return maps


def _scores(
    title: str, array: NDArray[np.float64], limit: float, whose: str, hover: list[list[str]], theme: str
) -> _Map:
    below = np.isneginf(array)
    notes = (f"colour {show(-limit)} to {show(limit)}", whose, *beyond(array, limit))
    steps = np.where(np.isnan(array) | below, np.nan, level(array, limit) + STEPS)
    return _Map(Title(title, "plain", notes), _texts(array), hover, steps, SIGNED[theme], below)


def _weights(
    title: str,
    array: NDArray[np.float64],
    may_look: NDArray[np.bool_],
    hover: list[list[str]],
    theme: str,
) -> _Map:
    notes = ("colour 0 to 1", _row_note(array, may_look))
    steps = np.rint(array * STEPS)
    return _Map(Title(title, "weights", notes), _texts(array), hover, steps, WEIGHT[theme], ~may_look)


def _row_note(array: NDArray[np.float64], may_look: NDArray[np.bool_]) -> str:
    """What the rows of the weights add up to, in a few letters."""
    empty = np.flatnonzero(~may_look.any(axis=1)) + 1
    if not np.isfinite(array).all():
        return "some have no value"
    if empty.size > 3:
        return f"{empty.size} rows look nowhere"
    return f"row {', '.join(map(str, empty))}: nowhere" if empty.size else "each row adds up to 1"


def _mask(title: str, may_look: NDArray[np.bool_], hover: list[list[str]], theme: str) -> _Map:
    texts = [["0" if look else "−∞" for look in row] for row in may_look.tolist()]
    palette = (ZERO[theme], SURFACES[theme]["line"])
    notes = ("0: may look", "−∞: may not look")
    return _Map(Title(title, "plain", notes), texts, hover, np.where(may_look, 0.0, 1.0), palette, ~may_look)


def _texts(array: NDArray[np.float64]) -> list[list[str]]:
    return [[show(value) for value in row] for row in array.tolist()]


def _hover(sheet: Sheet, values: Values, labels: Labels, name: str) -> list[list[str]]:
    """For every cell: the matrix, both tokens with their positions, the arithmetic, the number in full."""
    title, shown = plotly_text(sheet[name].title), cache(show)  # a row's numbers occur in each of its cells
    rows, columns = (
        [_place(axis, position, token) for position, token in enumerate(labels[axis])]
        for axis in ("query", "key")
    )
    return [
        [
            f"<b>{title}</b><br>{row}, {column}<br>{_made(sheet, values, name, i, j, shown)}"
            for j, column in enumerate(columns)
        ]
        for i, row in enumerate(rows)
    ]


def _place(axis: str, position: int, label: str) -> str:
    return f"{axis} {position + 1} {plotly_text(isolated(label))}"


def _made(sheet: Sheet, values: Values, name: str, i: int, j: int, shown: Callable[[float], str]) -> str:
    """How the cell was worked out, and its number with every digit."""
    if name == "mask":
        return "0: may look" if values["mask"][i, j] else "−∞: may not look"
    value = float(values[name][i, j])
    key = (sheet.stage(name).operation.name, name, i, j, value, *_sources(sheet, values, name, i, j))
    if key not in _WORKED:
        if len(_WORKED) >= MOST_WORKED:
            _WORKED.clear()
        _WORKED[key] = _written_out(work(sheet, values, name, i, j, shown).text, value)
    return _WORKED[key]


_WORKED: dict[tuple[Any, ...], str] = {}  # an edit changes a row or two; the other cells' texts are kept
MOST_WORKED = 1 << 13


def _sources(sheet: Sheet, values: Values, name: str, i: int, j: int) -> Iterator[bytes]:
    """The numbers that a cell is made from, as a key."""
    parts: dict[str, Any] = {
        "row": (i, slice(None)),
        "column": (slice(None), j),
        "cell": (i, j),
        "swapped": (j, i),
    }
    for source, pattern in reads(sheet, name):
        array = values[source]
        yield (array[parts[pattern]] if pattern in parts else array).tobytes()


def _written_out(text: str, value: float) -> str:
    lines = wrap(text, 60, max_lines=6, placeholder=" …") if len(text) > 60 else [text]
    if np.isfinite(value):
        lines.append(f"in full {value!r}".replace("-", "−"))
    return "<br>".join(plotly_text(line) for line in lines)


def _cells(each: _Map, characters: int, theme: str) -> Iterable[dict[str, Any]]:
    """Heat-map traces of one map: one for each text colour, so that every number keeps its contrast."""
    inks = np.array([ink(colour, theme) for colour in each.palette])
    known = ~np.isnan(each.steps)
    of_cell = np.where(known, inks[np.where(known, each.steps, 0).astype(int)], "")
    for colour in sorted(set(of_cell.ravel().tolist())):
        mine = of_cell == colour
        yield {
            "type": "heatmap",
            "z": np.where(mine, each.steps if colour else 0.0, np.nan),
            "zmin": 0,
            "zmax": max(len(each.palette) - 1, 1),
            "colorscale": scale(each.palette if colour else [SURFACES[theme]["raised"]]),
            "showscale": False,
            "xgap": 1,
            "ygap": 1,
            "text": _with_fillers(_only(each.texts, mine), characters),
            "texttemplate": "%{text}",
            "textfont": {"color": colour or SURFACES[theme]["text"]},
            "hovertext": _only(each.hover, mine),
            "hovertemplate": "%{hovertext}<extra></extra>",
            "hoverongaps": False,
        }


def _only(texts: list[list[str]], mine: NDArray[np.bool_]) -> list[list[str]]:
    rows = zip(texts, mine.tolist(), strict=True)
    return [[text if own else "" for text, own in zip(*row, strict=True)] for row in rows]


def _with_fillers(texts: list[list[str]], characters: int) -> list[list[str]]:
    """The texts with a few made longer by characters without width, so that all maps have one letter size.

    Plotly makes the letters as large as a trace's longest text and the distance of its cells allow.
    """
    for i, j in ((0, 0), (0, 1), (1, 0)):
        if i < len(texts) and j < len(texts[0]):
            texts[i][j] = texts[i][j].ljust(characters, "\u200b")
    return texts

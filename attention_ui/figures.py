"""Scores, scaled scores, mask and weights as heat maps with their numbers, in one Plotly figure.

Cells are placed by position and only labelled by token, so a token may occur twice. Colours are the board's
own steps. Where a query may not look the cell is hatched, and its number is written all the same.

The figure is drawn anew for every edit, so it is made of little: one image for all cells, whose colours are
whole numbers on one palette, the numbers in their two colours, the strokes, and the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from attention_core.numbers import show
from attention_core.sheet import Sheet, reads, work
from attention_ui import canvas
from attention_ui.canvas import Plan, Title, plan_for, scale
from attention_ui.large import large_map
from attention_ui.theme import SIGNED, STEPS, SURFACES, WEIGHT, ZERO, colour_limit, ink, level, lie_beyond
from attention_ui.tokens import isolated, plotly_text
from attention_ui.words import alt_text, beyond, cost_sentences, large_alt_text

__all__ = ["CONFIG", "alt_text", "cost_sentences", "heat_maps", "large_alt_text", "large_map"]

Values = Mapping[str, NDArray[Any]]
Labels = Mapping[str, Sequence[str]]

SHOWN = ("scores", "scaled", "mask", "weights")  # the heat maps, in reading order
LARGEST_WRITTEN = 16  # cells a side that leave room for numbers
WIDEST_PAIR = 10  # columns up to which two maps fit side by side with readable numbers
LONGEST_SUM = 150  # characters of arithmetic beside a cell: a dot product of eight terms
WIDEST_NARROW = 10  # columns up to which numbers can be read on a narrow screen
CLEAR = "rgba(0,0,0,0)"  # what is behind a cell shows
CONFIG = {"displayModeBar": False, "scrollZoom": False, "doubleClick": False, "showTips": False}

PALETTE = {
    theme: (
        *SIGNED[theme],
        *WEIGHT[theme],
        ZERO[theme],
        SURFACES[theme]["raised"],
        CLEAR,
    )
    for theme in SIGNED
}
WEIGHTS = len(SIGNED["light"])  # where the weights' colours begin on the palette
OPEN, NOTHING, BLOCKED = (WEIGHTS + len(WEIGHT["light"]) + i for i in range(3))


@dataclass(frozen=True)
class _Map:
    """One heat map: its title, and of each cell what is written, what it says, its colour and its marks."""

    title: Title
    texts: NDArray[np.object_]
    hover: NDArray[np.object_]
    colours: NDArray[np.int64]  # places on the palette
    hatched: NDArray[np.bool_]
    beyond: NDArray[np.bool_]  # outside the colour range


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
    the numbers would be too small to read. 1 says that the screen is narrow; there more than 10 columns
    have no numbers in their cells.
    shared: both scores have one colour range; else each has its own. The ranges stand below the titles.
    Raises ValueError when a side has more than 16 cells: `large_map` draws those, without numbers.
    """
    n_q, n_k = values["scores"].shape
    if max(n_q, n_k) > LARGEST_WRITTEN:
        raise ValueError(f"{n_q} × {n_k} cells leave no room for numbers: large_map draws them without")
    narrow = across == 1
    maps = _maps(sheet, values, labels, theme, shared, 40 if narrow else 60)
    across = min(across, 4 if n_k <= WIDEST_PAIR // 2 else 2 if n_k <= WIDEST_PAIR else 1)
    plan = plan_for(n_q, n_k, across, [each.title for each in maps])
    names = canvas.names(labels["query"], narrow)
    heads = canvas.heads(labels["key"], plan.shape[1], narrow)
    titles = [each.title.written(theme) for each in maps]
    return canvas.figure(
        [
            *_cells(maps, plan, theme, narrow),
            *_folded_corners(maps, plan, theme),
            canvas.labels(plan, names, heads, titles, theme),
        ],
        canvas.grid_layout(plan, names, theme) | _hatch(maps, plan, theme),
    )


# the four maps --------------------------------------------------------------------------------


def _maps(sheet: Sheet, values: Values, labels: Labels, theme: str, shared: bool, width: int) -> list[_Map]:
    both = np.concatenate([values["scores"].ravel(), values["scaled"].ravel()])
    maps = []
    for name in SHOWN:
        title, hover = sheet[name].title, _hover(sheet, values, labels, name, width)
        if name == "mask":
            maps.append(_mask(title, values["mask"], hover))
        elif name == "weights":
            maps.append(_weights(title, values["weights"], values["mask"], hover))
        else:
            limit = colour_limit(both if shared else values[name])
            whose = "one range for both" if shared else "its own range"
            maps.append(_scores(title, values[name], limit, whose, hover))
    return maps


def _scores(
    title: str, array: NDArray[np.float64], limit: float, whose: str, hover: NDArray[np.object_]
) -> _Map:
    below = np.isneginf(array)
    notes = (f"colour {show(-limit)} to {show(limit)}", whose, *beyond(array, limit))
    colours = np.where(below, BLOCKED, np.where(np.isnan(array), NOTHING, level(array, limit) + STEPS))
    far = lie_beyond(array, limit)
    return _Map(Title(title, "plain", notes), _texts(array), hover, colours, below, far)


def _weights(
    title: str, array: NDArray[np.float64], may_look: NDArray[np.bool_], hover: NDArray[np.object_]
) -> _Map:
    notes = ("colour 0 to 1", _row_note(array, may_look))
    with np.errstate(invalid="ignore"):
        steps = np.where(np.isnan(array), NOTHING, WEIGHTS + np.rint(array * STEPS)).astype(np.int64)
    steps = np.where(may_look, steps, BLOCKED)
    never = np.zeros_like(may_look)
    return _Map(Title(title, "weights", notes), _texts(array), hover, steps, ~may_look, never)


def _row_note(array: NDArray[np.float64], may_look: NDArray[np.bool_]) -> str:
    """What the rows of the weights add up to, in a few letters."""
    empty = np.flatnonzero(~may_look.any(axis=1)) + 1
    if not np.isfinite(array).all():
        return "some have no value"
    if empty.size > 3:
        return f"{empty.size} rows look nowhere"
    return f"row {', '.join(map(str, empty))}: nowhere" if empty.size else "each row adds up to 1"


def _mask(title: str, may_look: NDArray[np.bool_], hover: NDArray[np.object_]) -> _Map:
    texts = np.where(may_look, "0", "−∞").astype(object)
    notes = ("0: may look", "−∞: may not look")
    colours, never = np.where(may_look, OPEN, BLOCKED), np.zeros_like(may_look)
    return _Map(Title(title, "plain", notes), texts, hover, colours, ~may_look, never)


def _texts(array: NDArray[np.float64]) -> NDArray[np.object_]:
    return np.array([[show(value) for value in row] for row in array.tolist()], dtype=object)


def _hover(sheet: Sheet, values: Values, labels: Labels, name: str, width: int) -> NDArray[np.object_]:
    """For every cell: both tokens with their positions, the arithmetic, the number in full."""
    shown = cache(show)  # a row's numbers occur in each of its cells
    rows, columns = (
        [_place(axis, position, token) for position, token in enumerate(labels[axis])]
        for axis in ("query", "key")
    )
    texts = [
        [
            f"{row}, {column}<br>{_made(sheet, values, name, i, j, shown, width)}"
            for j, column in enumerate(columns)
        ]
        for i, row in enumerate(rows)
    ]
    return np.array(texts, dtype=object)


def _place(axis: str, position: int, label: str) -> str:
    return f"{axis} {position + 1} {plotly_text(isolated(label))}"


def _made(
    sheet: Sheet, values: Values, name: str, i: int, j: int, shown: Callable[[float], str], width: int
) -> str:
    """How the cell was worked out, and its number with every digit."""
    if name == "mask":
        return "0: may look" if values["mask"][i, j] else "−∞: may not look"
    value = float(values[name][i, j])
    operation = sheet.stage(name).operation.name
    key = (operation, name, i, j, value, width, *_sources(sheet, values, name, i, j))
    if key not in _WORKED:
        if len(_WORKED) >= MOST_WORKED:
            _WORKED.clear()
        _WORKED[key] = _written_out(work(sheet, values, name, i, j, shown).text, value, width)
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


def _written_out(text: str, value: float, width: int) -> str:
    lines = wrap(_abridged(text), width)
    if np.isfinite(value) and float(show(value).replace("−", "-")) != value:
        lines.append(f"in full {value!r}".replace("-", "−"))
    return "<br>".join(plotly_text(line) for line in lines)


def _abridged(text: str) -> str:
    """A long sum with its first two terms and its last; a selected cell of the board shows them all."""
    terms = text.split(" + ")
    if len(text) <= LONGEST_SUM or len(terms) <= 4:
        return text
    return " + ".join([*terms[:2], "…", terms[-1]])


# what they are drawn with ---------------------------------------------------------------------


def _cells(maps: Sequence[_Map], plan: Plan, theme: str, narrow: bool) -> Iterator[dict[str, Any]]:
    """One image of all cells, with the numbers in one text colour, and a clear one with the other numbers.

    A trace has one colour for its texts, and every number must keep its contrast.
    """
    palette = PALETTE[theme]
    z = plan.spread([each.colours.astype(np.float32) for each in maps], np.nan)
    cells = {
        "type": "heatmap", "z": z, "zmin": 0, "zmax": len(palette) - 1, "colorscale": scale(palette),
        "showscale": False, "xgap": 1, "ygap": 1, "hoverongaps": False,
        "hovertext": plan.spread([each.hover for each in maps], "").tolist(),
        "hovertemplate": "%{hovertext}<extra></extra>",
    }  # fmt: skip
    if narrow and plan.keys > WIDEST_NARROW:
        yield cells
        return
    texts = plan.spread([each.texts for each in maps], "")
    inks = np.array([ink(SURFACES[theme]["paper"] if c == CLEAR else c, theme) for c in palette])
    colours = plan.spread([inks[each.colours] for each in maps], "")
    size = canvas.letter_size(max(map(len, texts.ravel())), plan.shape[1], narrow)
    first, *others = sorted(set(colours.ravel().tolist()) - {""})
    yield cells | _numbers(texts, colours == first, first, size)
    for other in others:
        numbers = _numbers(texts, colours == other, other, size)
        written = np.array(numbers["text"], dtype=object) != ""
        yield numbers | {
            "type": "heatmap", "z": np.where(written, 0, np.nan).astype(np.float32), "zmin": 0, "zmax": 1,
            "colorscale": scale([CLEAR]), "showscale": False, "xgap": 1, "ygap": 1, "hoverinfo": "skip",
        }  # fmt: skip


def _numbers(
    texts: NDArray[np.object_], mine: NDArray[np.bool_], colour: str, size: int | None
) -> dict[str, Any]:
    """Some of the texts, in this colour, a few of them made longer by characters without width.

    Plotly makes the letters as large as a trace's longest text and the distance of its texts allow, and
    all numbers are to have one size.
    """
    longest = max(map(len, texts.ravel()))
    shown = np.where(mine, texts, "")
    for i, j in ((0, 0), (0, 1), (1, 0)):
        if i < shown.shape[0] and j < shown.shape[1]:
            shown[i, j] = shown[i, j].ljust(longest, "\u200b")
    return {
        "text": shown.tolist(),
        "texttemplate": "%{text}",
        "textfont": {"color": colour} | ({"size": size} if size else {}),
    }


def _folded_corners(maps: Sequence[_Map], plan: Plan, theme: str) -> Iterator[dict[str, Any]]:
    """A mark on every cell beyond its map's colour range, if any."""
    beyond = plan.spread([each.beyond for each in maps], False)
    if beyond.any():
        yield canvas.folded_corners(beyond, theme)


def _hatch(maps: Sequence[_Map], plan: Plan, theme: str) -> dict[str, Any]:
    """Strokes where a query may not look or a score is −∞, if anywhere."""
    hatched = plan.spread([each.hatched for each in maps], False)
    return {"shapes": [canvas.hatch(hatched, theme)]} if hatched.any() else {}

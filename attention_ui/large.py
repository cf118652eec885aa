"""Large matrices as plain heat maps without numbers, coarser where there are more cells than can be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from attention_core.numbers import show
from attention_core.sheet import Sheet
from attention_ui.canvas import AXIS, LINE, Title, figure, layout, scale, strokes
from attention_ui.theme import SIGNED, SURFACES, WEIGHT, ZERO, colour_limit
from attention_ui.tokens import plotly_text
from attention_ui.words import beyond

Values = Mapping[str, NDArray[Any]]

LARGEST_DRAWN = 128  # cells a side that are drawn one by one
BODY, BETWEEN = 340, 0.05  # pixels of a map's height; share of the width between two maps


def large_map(sheet: Sheet, values: Values, *, theme: str = "light", across: int = 3) -> go.Figure:
    """Scaled scores, mask and weights of any size as plain heat maps without numbers, in one figure.

    Above 128 cells a side a drawn cell is the mean of a block of cells; the titles say so. Where
    every cell of a block is blocked the block is hatched.
    """
    block = block_of(values["mask"].shape)
    may_look = pooled(values["mask"].astype(np.float64), block)
    blocked = may_look == 0
    size = _size_note(values["mask"].shape, block)
    maps = [
        _large_scores(sheet["scaled"].title, pooled(values["scaled"], block), size, theme),
        _large_mask(sheet["mask"].title, may_look, size, theme),
        _large_weights(sheet["weights"].title, pooled(values["weights"], block), size, theme),
    ]
    traces = []
    for number, (title, trace) in enumerate(maps, 1):
        axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        traces.append(_placed(trace, block, title.text) | axes)
        if number > 1:
            traces.append(coarse_hatch(blocked, block, theme) | axes)
    return figure(traces, _layout([title for title, _ in maps], blocked.shape, block, across, theme))


def block_of(shape: tuple[int, ...]) -> int:
    """How many cells a side are drawn as one so that at most 128 a side are drawn."""
    return -(-max(shape) // LARGEST_DRAWN)


def pooled(array: NDArray[np.float64], block: int) -> NDArray[np.float64]:
    """The means of block × block cells; blocks at the lower and right edge may be smaller."""
    if block == 1:
        return array
    down, right = (np.arange(0, n, block) for n in array.shape)
    sums = np.add.reduceat(np.add.reduceat(array, down, axis=0), right, axis=1)
    heights, widths = (np.diff([*starts, n]) for starts, n in zip((down, right), array.shape, strict=True))
    means: NDArray[np.float64] = sums / (heights[:, None] * widths[None, :])
    return means


def _size_note(shape: tuple[int, ...], block: int) -> str:
    whole = f"{shape[0]} × {shape[1]} cells"
    if block == 1:
        return whole
    return f"{whole}, drawn as means of {block} × {block}"


def _large_scores(
    title: str, array: NDArray[np.float64], size: str, theme: str
) -> tuple[Title, dict[str, Any]]:
    limit = colour_limit(array)
    notes = (size, f"colour {show(-limit)} to {show(limit)}", *beyond(array, limit))
    return Title(title, "plain", notes), {
        "z": array.astype(np.float32), "zmin": -limit, "zmax": limit, "colorscale": scale(SIGNED[theme]),
    }  # fmt: skip


def _large_mask(
    title: str, may_look: NDArray[np.float64], size: str, theme: str
) -> tuple[Title, dict[str, Any]]:
    return Title(title, "plain", (size, "hatched: may not look")), {
        "z": may_look.astype(np.float32), "zmin": 0, "zmax": 1,
        "colorscale": scale([SURFACES[theme]["line"], ZERO[theme]]),
    }  # fmt: skip


def _large_weights(
    title: str, array: NDArray[np.float64], size: str, theme: str
) -> tuple[Title, dict[str, Any]]:
    """Most weights of a long row are small, so the range ends where all but one in 200 lie within it."""
    within = np.nanquantile(array, 0.995, method="higher") if array.size else 0.0
    limit = min(colour_limit(within), 1.0)
    return Title(title, "weights", (size, f"colour 0 to {show(limit)}", *beyond(array, limit))), {
        "z": array.astype(np.float32), "zmin": 0, "zmax": limit, "colorscale": scale(WEIGHT[theme]),
    }  # fmt: skip


def _placed(trace: dict[str, Any], block: int, title: str) -> dict[str, Any]:
    """The trace with its cells at the positions that they stand for, and the hover text."""
    where = "query %{y}, key %{x}" if block == 1 else f"{block} × {block} cells from query %{{y}}, key %{{x}}"
    hover = f"<b>{plotly_text(title)}</b><br>{where}<br>%{{z:.4~g}}<extra></extra>"
    places = {"x0": 1, "dx": block, "y0": 1, "dy": block}
    return (
        {"type": "heatmap", "showscale": False, "hoverongaps": False, "hovertemplate": hover} | places | trace
    )


# where the maps stand -------------------------------------------------------------------------


def _layout(
    titles: Sequence[Title], shape: tuple[int, ...], block: int, across: int, theme: str
) -> dict[str, Any]:
    """Axes that count positions from 1, with a few of them written, and a title above each pair."""
    above = 60 + LINE * max(len(title.notes) for title in titles)
    height = (above + BODY) * -(-len(titles) // across)
    made: dict[str, Any] = {"annotations": []}
    for number, title in enumerate(titles):
        line, place = divmod(number, across)
        width = (1 - BETWEEN * (across - 1)) / across
        left, top = place * (width + BETWEEN), 1 - (line * (above + BODY) + above) / height
        names, heads = (_axis(count, block) for count in shape)
        made[f"xaxis{number + 1}"] = heads | {
            "domain": [left, min(left + width, 1.0)], "anchor": f"y{number + 1}", "side": "top",
        }  # fmt: skip
        made[f"yaxis{number + 1}"] = names | {
            "domain": [max(top - BODY / height, 0.0), top], "anchor": f"x{number + 1}",
            "range": names["range"][::-1], "showticklabels": place == 0, "ticklabelstandoff": 4,
        }  # fmt: skip
        made["annotations"].append(_title(title.written(theme), left, top, above - 12, theme))
    return layout(theme, height, 36) | made


def _title(text: str, left: float, top: float, lift: int, theme: str) -> dict[str, Any]:
    return {
        "text": text, "x": left, "y": top, "xref": "paper", "yref": "paper", "xanchor": "left",
        "yanchor": "top", "yshift": lift, "align": "left", "showarrow": False,
        "font": {"size": 12, "color": SURFACES[theme]["text"]},
    }  # fmt: skip


def _axis(count: int, block: int) -> dict[str, Any]:
    """An axis of this many drawn cells, written at about every quarter."""
    written = [j * block + 1 for j in range(0, count - max(count // 4, 1) + 1, max(count // 4, 1))]
    return AXIS | {
        "range": [1 - 0.5 * block, 1 + (count - 0.5) * block],
        "tickmode": "array", "tickvals": written, "ticktext": list(map(str, written)), "tickangle": 0,
    }  # fmt: skip


def coarse_hatch(hatched: NDArray[np.bool_], block: int, theme: str) -> dict[str, Any]:
    """One stroke along every eighth diagonal of the drawn cells, through all that are hatched."""
    rows, columns = hatched.shape
    x: list[float | None] = []
    y: list[float | None] = []
    for diagonal in range(0, rows + columns - 1, 8):
        i = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        inside = np.concatenate([[False], hatched[i, diagonal - i], [False]])
        edges = np.flatnonzero(inside[1:] != inside[:-1]) + i[0] - 0.5
        for top, bottom in edges.reshape(-1, 2).tolist():
            x += [1 + block * (diagonal - end) for end in (top, bottom)] + [None]
            y += [1 + block * end for end in (top, bottom)] + [None]
    return strokes(x, y, theme)

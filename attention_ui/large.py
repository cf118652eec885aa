"""Large matrices as plain heat maps without numbers, coarser where there are more cells than can be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from attention_core.numbers import show
from attention_core.sheet import Sheet
from attention_ui.canvas import Title, coarse_hatch, layout, plan_without_labels, scale
from attention_ui.theme import SIGNED, SURFACES, WEIGHT, ZERO, colour_range
from attention_ui.tokens import plotly_text
from attention_ui.words import beyond

Values = Mapping[str, NDArray[Any]]

LARGEST_DRAWN = 128  # cells a side that are drawn one by one


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
    titles = [title for title, _ in maps]
    plan = plan_without_labels(blocked.shape, block, across, titles)
    figure = go.Figure(layout=layout(plan, titles, theme))
    for number, (title, trace) in enumerate(maps, 1):
        axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        figure.add_trace(_placed(trace, block, title.text) | axes)
        if number > 1:
            figure.add_trace(coarse_hatch(blocked, plan, theme) | axes)
    return figure


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
    limit = colour_range(array)[0]
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
    limit = min(colour_range(within)[0], 1.0)
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

"""What a training looks like: the curve of its loss, and where its heads look, drawn again while it learns.

The maps are small tables of colours that a browser fills anew without a flicker, several times a second;
Plotly would set up a figure each time. The curve is Plotly's, as everywhere, and follows at longer steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from attention_core.numbers import show
from attention_ui.graphs import Line, Panel, stacked
from attention_ui.theme import WEIGHT, level
from attention_ui.tokens import isolated

Array = NDArray[np.float64]

MEAN_OF = 20  # steps in the even curve
MOST_POINTS = 250
LONGEST = 6  # letters of a token beside a row


def curve(losses: Sequence[float], chance: float, *, theme: str = "light") -> go.Figure:
    """The loss of every step, the mean of the latest ones, and the loss of equal shares."""
    last = max(len(losses), 2)
    steps, each, even = points(losses)
    return stacked(
        [
            Panel(
                "Loss",
                [
                    Line("each step", steps, each),
                    Line(f"mean of {MEAN_OF}", steps, even, strong=True),
                    Line("equal shares, log V", [1, last], [chance, chance], dash="dash"),
                ],
                x_title="step", y_from=(0.0,),
            )
        ],
        theme=theme,
    )  # fmt: skip


def points(losses: Sequence[float]) -> tuple[list[float], list[float], list[float]]:
    """Steps, their losses and the means up to them; of a long training every few steps only."""
    every = -(-len(losses) // MOST_POINTS) or 1
    sums = np.concatenate([[0.0], np.cumsum(losses)])
    ends = np.arange(1, len(losses) + 1)
    starts = np.maximum(ends - MEAN_OF, 0)
    even = (sums[ends] - sums[starts]) / (ends - starts)
    kept = slice((len(losses) - 1) % every if losses else 0, None, every)
    return ends[kept].astype(float).tolist(), list(losses)[kept], even[kept].tolist()


def curve_alt(losses: Sequence[float], chance: float) -> str:
    """What the curve shows, in its own numbers."""
    if not losses:
        return f"No step has been taken yet. Equal shares have the loss {show(chance)}."
    _, _, even = points(losses)
    return (
        f"Loss over {len(losses)} steps, from {show(losses[0])} to {show(even[-1])} on average over the last "
        f"{min(MEAN_OF, len(losses))}; equal shares have {show(chance)}."
    )


def maps(weights: Sequence[Array], labels: Sequence[str], *, theme: str = "light") -> str:
    """The weights of every layer, each (heads, n, n), as small tables of colours: a line for each layer."""
    colours = "".join(f"--w{step}: {colour}; " for step, colour in enumerate(WEIGHT[theme]))
    lines = "".join(_line(row, layer, labels) for row, layer in enumerate(weights, 1))
    alt = escape(maps_alt(weights, labels))
    return f'<div class="maps" role="img" aria-label="{alt}" style="{colours}">{lines}</div>'


def _line(row: int, layer: Array, labels: Sequence[str]) -> str:
    """The heads of one layer side by side; where there is room, only the first shows the tokens."""
    tables = "".join(
        f"<table><caption>layer {row}, head {head}</caption>{_rows(table, labels)}</table>"
        for head, table in enumerate(layer, 1)
    )
    return f"<div>{tables}</div>"


def _rows(table: Array, labels: Sequence[str]) -> str:
    steps = level(table, 1.0).tolist()
    cells = ["".join(f'<td class="w{step}"></td>' for step in row) for row in steps]
    return "".join(
        f"<tr><th>{_short(label)}</th>{row}</tr>" for label, row in zip(labels, cells, strict=True)
    )


def _short(label: str) -> str:
    return escape(isolated(label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"))


def maps_alt(weights: Sequence[Array], labels: Sequence[str]) -> str:
    """Where each head looks most, on average over the tokens: how far back."""
    told = []
    for row, layer in enumerate(weights, 1):
        for head, table in enumerate(layer, 1):
            told.append(f"layer {row}, head {head}: {show(_back(table))} tokens back on average")
    return f"Attention of {len(labels)} tokens to themselves and those before them; {'; '.join(told)}."


def _back(table: Array) -> float:
    """How far back a head looks, its weights taken as shares."""
    i, j = np.indices(table.shape)
    return float((table * (i - j)).sum() / len(table))

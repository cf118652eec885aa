"""The two figures of lesson 3, in lines, words and tables: how scores spread, how sharp weights are."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import plotly.graph_objects as go

from attention_core.dot_products import (
    D_MODEL,
    DIVISORS,
    KEYS,
    QUERIES,
    WIDTHS,
    Sharpness,
    draws,
    expected,
    sharpness,
)
from attention_core.numbers import show
from attention_core.scaling import PLAIN
from attention_ui.graphs import Line, Panel, stacked

Table = tuple[list[str], list[list[str]]]  # headings and rows

BARS = 40
DASHES = {"sqrt": "solid", "one": "dash", "d_k": "dot", "d_model": "dashdot"}
WRITTEN = (1, 4, 16, 64, 256)  # widths beside the axis
TWICE = "{}, twice"


@lru_cache(maxsize=32)
def spread_figure(entries: str, seed: int, width: int, *, theme: str = "light") -> go.Figure:
    """Mean and variance of q·k against d_k, and a histogram of the scores at one width."""
    products = draws(entries, seed).products
    means, variances = products.mean(axis=1).tolist(), products.var(axis=1).tolist()
    worked_out = [expected(entries, d) for d in WIDTHS]
    scores = products[WIDTHS.index(width)]
    heights, edges = np.histogram(scores, bins=BARS)
    mean, variance = expected(entries, width)
    marks = (float(width),)
    return stacked(
        [
            Panel(
                "Mean of q·k",
                [
                    Line("worked out", WIDTHS, [m for m, _ in worked_out]),
                    Line("measured", WIDTHS, means, strong=True, points=True),
                ],
                y_from=(-30.0, 30.0), x_log=WRITTEN, marks=marks,
            ),
            Panel(
                "Variance of q·k",
                [
                    Line("worked out", WIDTHS, [v for _, v in worked_out]),
                    Line("d_k itself", WIDTHS, list(map(float, WIDTHS)), dash="dot"),
                    Line("measured", WIDTHS, variances, strong=True, points=True),
                ],
                x_title="d_k, the width of q and k", y_log=True, x_log=WRITTEN, marks=marks,
            ),
            Panel(
                f"Scores q·k at d_k = {width}, how many of {len(scores):,}",
                x_title="score; dotted: mean, ± one deviation",
                bars=(edges[:-1].tolist(), heights.tolist(), float(edges[1] - edges[0])),
                marks=(mean - variance**0.5, mean, mean + variance**0.5),
            ),
        ],
        theme=theme,
    )  # fmt: skip


def spread_alt(entries: str, seed: int, width: int) -> str:
    """What the first figure shows, in its own numbers."""
    products = draws(entries, seed).products
    scores, (mean, variance) = products[WIDTHS.index(width)], expected(entries, width)
    first, last = products[0], products[-1]
    return (
        f"Mean and variance of q·k against d_k from {WIDTHS[0]} to {WIDTHS[-1]}, measured on "
        f"{len(scores):,} scores beside what is worked out. The mean goes from {show(first.mean())} to "
        f"{show(last.mean())}, the variance from {show(first.var())} to {show(last.var())}. Histogram at "
        f"d_k = {width}: from {show(scores.min())} to {show(scores.max())}, mean {show(scores.mean())} "
        f"({show(mean)} worked out), variance {show(scores.var())} ({show(variance)} worked out)."
    )


def spread_table(entries: str, seed: int) -> Table:
    """The same as a table: a row for each width."""
    heads = ["d_k", "mean, measured", "mean, worked out", "variance, measured", "variance, worked out"]
    rows = [
        [str(d), show(p.mean()), show(expected(entries, d)[0]), show(p.var()), show(expected(entries, d)[1])]
        for d, p in zip(WIDTHS, draws(entries, seed).products, strict=True)
    ]
    return heads, rows


@lru_cache(maxsize=32)
def sharp_figure(
    entries: str, seed: int, by: str, width: int, *, twice: bool = False, theme: str = "light"
) -> go.Figure:
    """Entropy, largest weight and gradient norm against d_k for all divisors, the chosen one strongest."""
    lines = _divided(entries, seed, by, twice)
    marks = (float(width),)
    panels = [
        Panel(
            title,
            [
                Line(name, WIDTHS, getattr(found, field).tolist(), strong=strong, dash=dash)
                for name, found, strong, dash in lines
            ],
            y_from=limits, x_title="d_k, the width of q and k" if field == "gradient" else "",
            x_log=WRITTEN, marks=marks,
        )
        for field, title, limits in (
            ("entropy", "Entropy of a row of weights", (0.0, float(np.log(KEYS)))),
            ("largest", "Largest weight of a row", (0.0, 1.0)),
            ("gradient", "Gradient norm of softmax", (0.0, 0.4)),
        )
    ]  # fmt: skip
    return stacked(panels, theme=theme)


def _divided(entries: str, seed: int, by: str, twice: bool) -> list[tuple[str, Sharpness, bool, str]]:
    """(name, measured, whether chosen, dash) of every line; the chosen one last, so that it lies on top."""
    lines = [
        (PLAIN[word], sharpness(entries, seed, word), word == by and not twice, DASHES[word])
        for word in DIVISORS
    ]
    if twice:
        lines.append((TWICE.format(PLAIN[by]), sharpness(entries, seed, by, twice=True), True, "solid"))
    return sorted(lines, key=lambda line: line[2])


def sharp_alt(entries: str, seed: int, by: str, *, twice: bool = False) -> str:
    """What the second figure shows, in its own numbers."""
    told = [
        f"Divided by {name}{', the chosen divisor' * strong}: entropy {show(found.entropy[0])} to "
        f"{show(found.entropy[-1])}, largest weight {show(found.largest[0])} to {show(found.largest[-1])}, "
        f"gradient norm {show(found.gradient[0])} to {show(found.gradient[-1])}."
        for name, found, strong, _ in _divided(entries, seed, by, twice)
    ]
    return (
        f"Entropy, largest weight and gradient norm of softmax against d_k from {WIDTHS[0]} to "
        f"{WIDTHS[-1]}, averaged over {QUERIES:,} rows of {KEYS} keys; d_model is {D_MODEL}. "
        + " ".join(told)
    )


def sharp_table(entries: str, seed: int, by: str, *, twice: bool = False) -> Table:
    """The same as a table: a row for each width and divisor."""
    rows = [
        [
            f"{d}, divided by {name}",
            *(show(getattr(found, field)[k]) for field in ("entropy", "largest", "gradient")),
        ]
        for k, d in enumerate(WIDTHS)
        for name, found, *_ in _divided(entries, seed, by, twice)
    ]
    return ["d_k and divisor", "entropy", "largest weight", "gradient norm"], rows

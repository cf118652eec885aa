"""The figure of lesson 6, in lines, words and as a table: lengths and gradients along the residual stream."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attention_core.numbers import show
from attention_core.stream import Norm, Stream, streams
from attention_core.written import visible
from attention_ui.graphs import Line, Panel

Array = NDArray[np.float64]
Table = tuple[list[str], list[list[str]]]  # headings and rows

NAMES = {True: "with the skip", False: "without"}
DASHES = {True: "solid", False: "dash"}


def both_ways(x: Array, layers: int, norm: Norm, seed: int) -> Mapping[bool, Stream]:
    """The stream with the skip connection (True) and without it (False)."""
    return dict(zip((True, False), _kept(x.tobytes(), x.shape, layers, norm, seed), strict=True))


@lru_cache(maxsize=64)  # 8 ms for 4 tokens of 16 features and 24 layers
def _kept(numbers: bytes, shape: tuple[int, int], layers: int, norm: Norm, seed: int) -> tuple[Stream, ...]:
    x = np.frombuffer(numbers, dtype=np.float64).reshape(shape)
    return streams(x, layers, (True, False), norm=norm, seed=seed)


def panels(found: Mapping[bool, Stream]) -> list[Panel]:
    """The mean length of a row, and how much of a small change arrives at the output, on log axes."""
    return [
        Panel("Mean length of a row", _lines(found, "lengths"), y_log=True),
        Panel(
            "Gradient from there to the output", _lines(found, "gradients"), y_log=True,
            x_title="layers passed; 0 is X",
        ),
    ]  # fmt: skip


def _lines(found: Mapping[bool, Stream], field: str) -> list[Line]:
    places = list(range(len(found[True].lengths)))
    return [
        Line(NAMES[skip], places, getattr(found[skip], field).tolist(), strong=skip, dash=DASHES[skip])
        for skip in (False, True)
    ]


def alt_text(found: Mapping[bool, Stream]) -> str:
    """What the figure shows, in its own numbers."""
    layers = len(found[True].lengths) - 1
    told = [
        f"{NAMES[skip].capitalize()} the mean length of a row goes from {written(way.lengths[0])} to "
        f"{written(way.lengths[-1])}, and of a small change in X {written(way.gradients[0])} times as much "
        "arrives at the output."
        for skip, way in found.items()
    ]
    return f"Lengths and gradients over {layers} layers, on logarithmic axes. {' '.join(told)}"


def table(found: Mapping[bool, Stream]) -> Table:
    """The same as a table: a row for each number of layers passed."""
    heads = ["layers passed"]
    heads += [f"{what}, {NAMES[skip]}" for what in ("length", "gradient") for skip in (True, False)]
    columns = [getattr(found[skip], field) for field in ("lengths", "gradients") for skip in (True, False)]
    rows = [[str(place), *map(written, numbers)] for place, numbers in enumerate(zip(*columns, strict=True))]
    return heads, rows


def written(number: float) -> str:
    """A number as everywhere, a tiny one as 1e−5."""
    return visible(float(number), show)

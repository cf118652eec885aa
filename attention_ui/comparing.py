"""Two scenes on one board: what differs between their masks stands side by side, with the difference."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from attention_core.examples import MATRICES
from attention_core.numbers import show, show_table
from attention_ui import theme
from attention_ui.board import Grid
from attention_ui.comparison import difference
from attention_ui.grids import Kept, grid, width_of
from attention_ui.scene import Attention

PAIRED = ("mask", "weights", "output")
SUFFIX = ("a", "b")


def grids(a: Attention, b: Attention, kept: Kept | None = None) -> dict[str, Grid]:
    """The grids of the comparison: mask_a, mask_b, …, the changes B − A, and the numbers both start from."""
    kept = Kept() if kept is None else kept
    found = {}
    for scene, suffix in zip((a, b), SUFFIX, strict=True):
        for name in PAIRED:
            made = grid(scene, name, title=f"{scene.sheet.titles[name]} {suffix.upper()}", kept=kept)
            here = f"{name}_{suffix}"
            found[here] = kept.grid(here, (made,), partial(_beside, made, suffix))
    changed = difference(a.trace, b.trace)
    for name, values in (("weights", changed.weights), ("output", changed.output)):
        both = (found[f"{name}_a"], found[f"{name}_b"])
        make = partial(_change, both[0], a.sheet.titles[name], name, values)
        found[f"{name}_change"] = kept.grid(f"{name}_change", both, make)
    for name in ("scaled", *MATRICES[a.bench.way]):
        found[name] = grid(a, name, kept=kept)
    return found


def _beside(made: Grid, suffix: str) -> Grid:
    """A grid that stands beside that of the other mask: it has a title, and reads what is on its own side."""
    reads = [(f"{source}_{suffix}" if source in PAIRED else source, how) for source, how in made.reads]
    return replace(made, label=((made.name, ""),), reads=reads)


def _change(like: Grid, title: str, name: str, values: NDArray[np.float64]) -> Grid:
    """B − A for one matrix, on a signed scale; a cell reads the same cell of both."""
    limit = 1.0 if name == "weights" else theme.colour_limit(values)
    cells = show_table(values)
    return replace(
        like,
        name=f"{title}, B − A",
        label=((f"{title} B − A", ""),),
        role="plain",
        cells=cells,
        levels=theme.levels(values, limit),
        clipped=(),
        scale="signed",
        legend=f"colour {show(-limit)} to {show(limit)}",
        width=width_of(cells),
        reads=[(f"{name}_a", "cell"), (f"{name}_b", "cell")],
        sums=None,
        notes={},
        meaning=f"how much mask B changes each entry of {title.lower()}",
    )

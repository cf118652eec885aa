"""A scene as grids on the board: what each matrix shows, and how the matrices stand to each other.

Everything about a stage is read from the sheet. A product is a corner: the left factor beside the
result, the right factor above it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from math import isclose
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attention_core.masks import as_matrix
from attention_core.numbers import exact, show, show_table
from attention_core.sheet import ONE, Given, Mark, Stage, arrow, reads
from attention_core.written import read
from attention_ui import theme
from attention_ui.board import Grid, Pattern, Unit
from attention_ui.scene import Scene, is_token

# a line's role is its name's: q and q_2 have the colour of queries
ROLES = {"x": "x", "q": "q", "k": "k", "k_t": "k", "v": "v", "weights": "weights", "output": "output"}
NARROWEST = (5, 4)  # characters, up to FEW columns and beyond
FEW = 8
EDGES = {"query": "n_q", "key": "n_k", "token": "n"}
NOWHERE = "may look nowhere"
ROUNDED = "row sum (cells are rounded)"
PROJECTIONS = [Unit("q", left="x", top="w_q"), Unit("k", top="w_k"), Unit("v", top="w_v")]


def matrices(scene: Scene) -> tuple[str, ...]:
    """The names of the lines that are drawn as matrices, in the order of the sheet."""
    return tuple(line.name for line in scene.sheet if len(line.axes) == 2)


class Kept:
    """The grids of one session's last board. One that is as it was is not made again.

    Half of the matrices stay as they are when a number changes, and each takes a quarter of a millisecond to
    be written out. What a board does not ask for is given up with the next.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[Hashable, Grid]] = {}
        self._now: dict[str, tuple[Hashable, Grid]] = {}

    def grid(self, name: str, source: Hashable, make: Callable[[], Grid]) -> Grid:
        """The grid of that name, made anew where it does not come from an equal source."""
        found = self._last.get(name)
        if found is None or found[0] != source:
            found = (source, make())
        self._now[name] = found
        return found[1]

    def drawn(self) -> None:
        """All grids of a board have been asked for."""
        self._last, self._now = self._now, {}


def grid(
    scene: Scene, name: str, *, editable: bool = True, title: str = "", kept: Kept | None = None
) -> Grid:
    """One matrix of the scene as the board draws it; `title` stands in for its name beside a second mask."""
    line, values = scene.sheet[name], scene.values[name]
    rule = isinstance(line, Given) and line.is_rule
    given = editable and name in scene.editable
    drawn = scene.mask is not None and scene.mask.kind == "custom" and scene.mask.second is None
    source = _Source(
        line=line,
        name=title or line.title,
        kind="given" if given else "switch" if editable and rule and drawn else "computed",
        dims=" × ".join(_edge(scene, axis) for axis in line.axes),
        rows=_edge_labels(scene, line.axes[0]),
        cols=_edge_labels(scene, line.axes[1]),
        first_row=scene.starts.get(line.axes[0], 0) + 1,
        first_col=scene.starts.get(line.axes[1], 0) + 1,
        reads=_reads(scene, name),
        limit=_limit(scene, name),
        shape=values.shape,
        numbers=values.tobytes(),
    )
    return kept.grid(title or name, source, source.grid) if kept else source.grid()


class _Source(NamedTuple):
    """All that a grid is made of."""

    line: Given | Stage
    name: str
    kind: Literal["given", "computed", "switch"]
    dims: str
    rows: tuple[str, ...]
    cols: tuple[str, ...]
    first_row: int
    first_col: int
    reads: tuple[tuple[str, Pattern], ...]
    limit: float
    shape: tuple[int, ...]
    numbers: bytes

    def grid(self) -> Grid:
        """The grid: texts, colours, and what is said of it."""
        line = self.line
        rule = isinstance(line, Given) and line.is_rule
        weights = role_of(line.name) == "weights"
        dtype = np.bool_ if rule else np.float64
        values: NDArray[Any] = np.frombuffer(self.numbers, dtype).reshape(self.shape)
        numbers = as_matrix(values) if rule else values
        beyond = np.isfinite(values) & theme.lie_beyond(numbers, self.limit)
        cells = show_table(numbers)
        shades = "0 to 1" if weights else f"{show(-self.limit)} to {show(self.limit)}"
        return Grid(
            name=self.name,
            label=_label(line),
            size=f"{self.shape[0]} × {self.shape[1]}",
            dims=self.dims,
            role=role_of(line.name),
            kind=self.kind,
            rows=self.rows,
            cols=self.cols,
            row_axis=_axis(line.axes[0]),
            col_axis=_axis(line.axes[1]),
            first_row=self.first_row,
            first_col=self.first_col,
            cells=cells,
            exact=[[exact(v) for v in row] for row in numbers.tolist()] if self.kind == "given" else None,
            levels=theme.levels(numbers, 1.0 if weights else self.limit),
            clipped=[] if rule or weights else [(int(i), int(j)) for i, j in np.argwhere(beyond)],
            scale="none" if rule else "weight" if weights else "signed",
            legend="" if rule else f"colour {shades}",
            width=width_of(cells),
            reads=self.reads,
            sums=[show(total) for total in numbers.sum(axis=-1)] if weights else None,
            sums_label="row sum" if not weights or _add_up(cells, numbers) else ROUNDED,
            notes={i: NOWHERE for i, row in enumerate(values) if not row.any()} if weights or rule else {},
            meaning=line.meaning,
        )


def _add_up(cells: Sequence[Sequence[str]], values: NDArray[np.float64]) -> bool:
    """Whether the numbers as they are shown add up to the sums as they are shown, row by row."""
    sums = [show(total) for total in values.sum(axis=-1)]
    return all(
        isclose(sum(map(read, row)), read(total), abs_tol=1e-9)
        for row, total in zip(cells, sums, strict=True)
    )


def _edge_labels(scene: Scene, axis: str) -> tuple[str, ...]:
    """Tokens, or the words of a lesson; features are numbered."""
    return scene.labels[axis] if is_token(axis) or axis in scene.named else ()


def role_of(name: str) -> str:
    """The role of a line: its own name's, or that of the name before a suffix such as _1 or _b.

    Queries and keys that RoPE has turned are queries and keys still.
    """
    base = re.sub(r"_[0-9a-h]$", "", name).removeprefix("turned_")
    return ROLES.get(base, "plain")


def _reads(scene: Scene, name: str) -> tuple[tuple[str, Pattern], ...]:
    """Which cells of which matrices make a cell of this one; single numbers are not drawn."""
    sheet = scene.sheet
    return tuple((source, how) for source, how in reads(sheet, name) if len(sheet[source].axes) == 2)


def width_of(cells: Sequence[Sequence[str]]) -> int:
    """Characters that a column needs, wide enough for small changes so that columns do not jump."""
    return max(NARROWEST[len(cells[0]) > FEW], *(len(cell) for row in cells for cell in row))


def everything(scene: Scene) -> list[list[Unit]]:
    """The whole sheet: the projections in one line, the calculation in the next."""
    tail = [
        unit_after(scene, "scores", "scaled"),
        Unit("mask"),
        unit_after(scene, "scaled", "masked"),
        Unit("output", left="weights", top="v", echo=_echo(scene, "v")),
    ]
    if scene.bench.way == "qkv":
        return [[Unit("scores", left="q", top="k_t", corner="k"), *tail]]
    return [PROJECTIONS, [Unit("scores", left="q", top="k_t", echo=["q"]), *tail]]


def unit_after(scene: Scene, since: str, name: str, **said: str) -> Unit:
    """A matrix with an arrow to it that says how it follows from an earlier one; `said` as in sheet.arrow."""
    return Unit(name, via=arrow(scene.sheet, since, name, **said))


def _echo(scene: Scene, name: str) -> Sequence[str]:
    """A matrix that already stands in the first line is repeated as a quiet copy."""
    return [name] if scene.bench.way == "x" else []


def step(scene: Scene, number: int) -> list[list[Unit]]:
    """The matrices that take part in one of the eight steps."""
    from_x = scene.bench.way == "x"
    given = [Unit("q"), Unit("k"), Unit("v")]
    layouts = {
        1: [Unit("x")] if from_x else given,
        2: PROJECTIONS if from_x else given,
        3: [Unit("k"), Unit("k_t")],
        4: [Unit("scores", left="q", top="k_t")],
        5: [Unit("scores"), unit_after(scene, "scores", "scaled")],
        6: [Unit("scaled"), Unit("mask"), unit_after(scene, "scaled", "masked")],
        7: [Unit("masked"), unit_after(scene, "masked", "weights")],
        8: [Unit("output", left="weights", top="v")],
    }
    return [layouts[number]]


def names_in(layout: Iterable[Iterable[Unit]]) -> list[str]:
    """The matrices that a layout draws, each once."""
    found = [
        n for line in layout for unit in line for n in (unit.corner, unit.top, unit.left, unit.result) if n
    ]
    return list(dict.fromkeys(found))


def _limit(scene: Scene, name: str) -> float:
    """The limit of a matrix's colours, worked out once for all that are compared with it."""
    if scene.values[name].dtype == np.bool_:
        return 1.0
    family = next((names for names in scene.compared if name in names), (name,))
    if family not in scene.limits:
        together = np.concatenate([scene.values[name].ravel() for name in family if name in scene.values])
        scene.limits[family] = theme.colour_limit(together)
    return scene.limits[family]


def _label(line: Given | Stage) -> Mark:
    """The visible heading: "Weights A", but "Q" and "W_Q" where the name is the symbol, and Kᵀ."""
    plain = "".join(text for text, _ in line.mark)
    if line.title in (plain, "K transposed") or re.match(r"[A-Za-z]_\w", line.title):
        return line.mark
    return ((line.title, ""),) if len(plain) > 1 else ((f"{line.title} ", ""), *line.mark)


def _axis(axis: str) -> str:
    """What is written at an edge: the tokens of a second sentence are tokens, too; nothing counts one."""
    return axis.partition("_")[0] if is_token(axis) else "" if axis == ONE else axis


def _edge(scene: Scene, axis: str) -> str:
    """How long an edge is, in the letters of the field; a number where it has none."""
    size = len(scene.labels[axis])
    if is_token(axis):
        same = scene.bench.n_q == scene.bench.n_k
        return EDGES[axis] if axis in EDGES and not same else "n" if axis in EDGES else str(size)
    return axis if axis.startswith("d_") else str(size)

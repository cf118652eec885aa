"""A run of a sheet's lines as units of the board: every line beside what it is made from.

A product is a corner and begins a new line of the board, and so does what is made from one matrix of another
place. What follows cell by cell, or row by row, stands after its input with an arrow between them that says
what its operation does; a row of biases or gains stands above what it is used in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attention_core.operations import MATMUL, TRANSPOSE
from attention_core.sheet import Sheet, Stage, arrow
from attention_ui.board import Unit


def arranged(sheet: Sheet, names: Sequence[str]) -> list[list[Unit]]:
    """The lines of these names in their order, and every matrix that they are made from."""
    stages = [line for name in names if isinstance(line := sheet[name], Stage)]
    inside = {input_ for stage in stages if stage.operation is MATMUL for input_ in stage.inputs}
    shown: list[Stage] = [s for s in stages if not (s.operation is TRANSPOSE and s.name in inside)]
    lines: list[list[Unit]] = [[]]
    drawn: set[str] = set()
    for stage in shown:
        if _begins(sheet, stage, names):
            lines.append([])
        lines[-1] += _units(sheet, stage, drawn, lines[-1])
    return [line for line in lines if line]


def givens(sheet: Sheet, names: Iterable[str]) -> list[list[Unit]]:
    """Given matrices by themselves: those with many rows first, then the rows of one number a feature."""
    rows = [name for name in names if sheet[name].axes[0] == "one"]
    return [[Unit(name) for name in names if name not in rows], [Unit(name) for name in rows]]


def _begins(sheet: Sheet, stage: Stage, names: Sequence[str]) -> bool:
    """Whether a stage begins a new line of the board."""
    inputs = _matrices(sheet, stage)
    return stage.operation is MATMUL or (len(inputs) == 1 and inputs[0] not in names)


def _matrices(sheet: Sheet, stage: Stage) -> list[str]:
    """The inputs that the board draws."""
    return [name for name in stage.inputs if len(sheet[name].axes) == 2]


def _units(sheet: Sheet, stage: Stage, drawn: set[str], line: Sequence[Unit]) -> list[Unit]:
    """A stage, after those of its inputs that are not on the board yet; `line` is what stands before."""
    inputs = _matrices(sheet, stage)
    echo = [name for name in inputs if name in drawn]
    drawn.update(inputs, {stage.name})
    if stage.operation is MATMUL:
        left, top = inputs
        return [Unit(stage.name, left=left, top=top, echo=echo)]
    above = [name for name in inputs[1:] if sheet[name].axes[0] == "one"]  # used once: never drawn before
    before = [Unit(name) for name in inputs if name not in (*echo, *above)]
    since = line[-1].result if line and line[-1].result in inputs else inputs[0]
    via = arrow(sheet, since, stage.name)
    return [*before, Unit(stage.name, top=above[0] if above else None, via=via)]

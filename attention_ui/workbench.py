"""The board on a page: a layout of matrices, wired to the desk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attention_ui import board, live
from attention_ui.bench import Cell
from attention_ui.board import Board, Grid, Steps, Toolbar, Unit
from attention_ui.controls import BOARD
from attention_ui.desk import Desk
from attention_ui.grids import grid, names_in
from attention_ui.links import to_query
from attention_ui.scene import Scene


def draw(
    desk: Desk,
    scene: Scene,
    layout: Sequence[Sequence[Unit]],
    *,
    toolbar: bool = True,
    steps: Steps | None = None,
) -> None:
    """Draw the matrices of a scene that a layout names."""
    named = {name: grid(scene, name, kept=desk.kept) for name in names_in(layout)}
    draw_grids(desk, named, layout, toolbar=toolbar, steps=steps)


def draw_grids(
    desk: Desk,
    grids: Mapping[str, Grid],
    layout: Sequence[Sequence[Unit]],
    *,
    toolbar: bool = True,
    steps: Steps | None = None,
) -> None:
    """Draw any grids, with the toolbar of the desk above them."""
    desk.kept.drawn()
    desk.board = {
        name: (grid.name, len(grid.cells), len(grid.cells[0]) if grid.cells else 0)
        for name, grid in grids.items()
    }
    buttons = Toolbar(bool(desk.past), bool(desk.future), desk.can_reset, desk.bench.seed)
    board.draw(
        Board(
            grids=grids,
            layout=layout,
            session=desk.session,
            ack=desk.ack,
            toolbar=buttons if toolbar else None,
            steps=steps,
            selected=_in_range(desk.bench.selected, grids),
            messages=desk.messages,
            query=to_query(desk.bench),
            then=live.alone() and bool(desk.parts),
            passages=live.texts(desk),
            turn=desk.turn,
        ),
        key=BOARD,
        on_drawn=live.follow,
    )


def _in_range(selected: Cell | None, grids: Mapping[str, Grid]) -> Cell | None:
    """The selected cell where its grid is drawn, moved into the grid's range."""
    if selected is None or selected[0] not in grids:
        return None
    name, row, column = selected
    cells = grids[name].cells
    return name, min(row, len(cells) - 1), min(column, len(cells[0]) - 1)

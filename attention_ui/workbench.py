"""The board on a page: a layout of matrices, wired to the desk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attention_ui import board, live
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
    named = {name: grid(scene, name) for name in names_in(layout)}
    draw_grids(desk, named, layout, scene, toolbar=toolbar, steps=steps)


def draw_grids(
    desk: Desk,
    grids: Mapping[str, Grid],
    layout: Sequence[Sequence[Unit]],
    scene: Scene,
    *,
    toolbar: bool = True,
    steps: Steps | None = None,
) -> None:
    """Draw any grids, with the toolbar of the desk above them."""
    buttons = Toolbar(bool(desk.past), bool(desk.future), desk.can_reset, desk.bench.seed)
    board.draw(
        Board(
            grids=grids,
            layout=layout,
            session=desk.session,
            ack=desk.ack,
            toolbar=buttons if toolbar else None,
            steps=steps,
            selected=scene.selected if scene.selected and scene.selected[0] in grids else None,
            messages=desk.messages,
            query=to_query(desk.bench),
            then=live.alone(),
        ),
        key=BOARD,
        on_drawn=live.follow,
    )

"""Two masks on the same numbers, side by side."""

from __future__ import annotations

import streamlit as st

from attention_core.examples import MATRICES
from attention_ui import comparison, live, prose, workbench
from attention_ui.board import Unit
from attention_ui.comparing import grids
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.mask_controls import draw_mask
from attention_ui.scene import Attention, scene


def both(desk: Desk) -> tuple[Attention, Attention]:
    return scene(desk.bench), scene(desk.bench, desk.bench.against)


def board(desk: Desk) -> None:
    a, b = both(desk)
    layout = [
        [Unit("mask_a"), Unit("mask_b")],
        [Unit("weights_a"), Unit("weights_b"), Unit("weights_change")],
        [Unit("output_a"), Unit("output_b"), Unit("output_change")],
        [Unit("scaled"), *(Unit(name) for name in MATRICES[desk.bench.way])],
    ]
    workbench.draw_grids(desk, grids(a, b, desk.kept), layout)


def row_by_row(desk: Desk) -> None:
    a, b = both(desk)
    prose.header("Row by row")
    prose.paragraph(comparison.summary(a.mask, b.mask, a.trace, b.trace))
    prose.bullets(comparison.row_sentences(a.labels, a.mask, b.mask, a.trace, b.trace))


def masks(desk: Desk) -> None:
    left, right = st.columns(2)
    with left:
        draw_mask(desk.bench, "mask", "Mask A", live.mover(desk))
    with right:
        draw_mask(desk.bench, "against", "Mask B", live.mover(desk))


@lesson(__file__)
def compare(desk: Desk) -> None:
    st.markdown(
        "Both calculations start from the same scores. Only the mask differs, so every difference in the "
        "weights and in the output comes from it."
    )
    live.aside("masks", masks)
    live.first(board)
    live.words("row-by-row", row_by_row)

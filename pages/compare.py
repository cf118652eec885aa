"""Two masks on the same numbers, side by side."""

from __future__ import annotations

import streamlit as st

from attention_ui import comparison, prose, workbench
from attention_ui.board import Unit
from attention_ui.comparing import grids
from attention_ui.frame import open_lesson
from attention_ui.grids import WAY_MATRICES
from attention_ui.mask_controls import draw_mask
from attention_ui.scene import scene

desk = open_lesson(__file__)
bench = desk.bench
a, b = scene(bench), scene(bench, bench.against)

st.markdown(
    "Both calculations start from the same scores. Only the mask differs, so every difference in the "
    "weights and in the output comes from it."
)
left, right = st.columns(2)
with left:
    draw_mask(bench, "mask", "Mask A")
with right:
    draw_mask(bench, "against", "Mask B")

given = [Unit(name) for name in WAY_MATRICES[bench.way]]
workbench.draw_grids(
    desk,
    grids(a, b),
    [
        [Unit("mask_a"), Unit("mask_b")],
        [Unit("weights_a"), Unit("weights_b"), Unit("weights_change")],
        [Unit("output_a"), Unit("output_b"), Unit("output_change")],
        [Unit("scaled"), *given],
    ],
    a,
)
st.header("Row by row", anchor=False)
prose.paragraph(comparison.summary(a.mask, b.mask, a.trace, b.trace))
prose.bullets(comparison.row_sentences(a.labels, a.mask, b.mask, a.trace, b.trace))

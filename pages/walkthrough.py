"""The eight steps of the walk-through, one after the other or all at once."""

from __future__ import annotations

import streamlit as st

from attention_ui import grids, panels, steps, workbench
from attention_ui.frame import open_lesson
from attention_ui.scene import scene

desk = open_lesson(__file__)
now = scene(desk.bench)

with st.container(horizontal=True, key="choices"):
    st.segmented_control(
        "View",
        ["steps", "all"],
        key="view",
        format_func={"steps": "Step by step", "all": "Everything at once"}.get,
    )
    st.segmented_control("Start from", ["x", "qkv"], key="way", format_func={"x": "X", "qkv": "Q, K, V"}.get)

if desk.bench.view == "steps":
    step = desk.bench.step
    steps.draw(now, step)
    workbench.draw(desk, now, grids.step(now, step), steps=steps.stepper(step))
else:
    workbench.draw(desk, now, grids.everything(now))
panels.arithmetic(now)
panels.below(now)

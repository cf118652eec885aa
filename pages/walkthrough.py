"""The eight steps of the walk-through, one after the other or all at once."""

from __future__ import annotations

import streamlit as st

from attention_ui import grids, live, panels, steps, workbench
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.scene import scene

VIEWS = {"steps": "Step by step", "all": "Everything at once"}
WAYS = {"x": "X", "qkv": "Q, K, V"}


def board(desk: Desk) -> None:
    now, number = scene(desk.bench), desk.bench.step
    if desk.bench.view == "all":
        workbench.draw(desk, now, grids.everything(now))
    else:
        steps.draw(now, number)
        workbench.draw(desk, now, grids.step(now, number), steps=steps.stepper(number))


def arithmetic(desk: Desk) -> None:
    panels.arithmetic(scene(desk.bench))


def panel(desk: Desk) -> None:
    panels.draw(scene(desk.bench))


@lesson(__file__)
def walkthrough(desk: Desk) -> None:
    with st.container(horizontal=True, key="choices"):
        st.segmented_control("View", list(VIEWS), key="view", format_func=VIEWS.__getitem__)
        st.segmented_control("Start from", list(WAYS), key="way", format_func=WAYS.__getitem__)
    live.first(board)
    live.words("arithmetic", arithmetic)
    panels.choose(desk.bench)
    if desk.bench.panel != "none":
        live.then("panel", panel)

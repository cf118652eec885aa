"""The words of one step: what is worked out, its formula, and what to look at, all read from the sheet."""

from __future__ import annotations

import streamlit as st

from attention_core.sheet import Stage
from attention_core.steps import STEPS
from attention_ui import prose
from attention_ui.board import Steps
from attention_ui.scene import Scene


def draw(scene: Scene, number: int) -> None:
    """Write the words of a step above the board."""
    lines = [line for line in scene.sheet if line.step == number and (line.axes or isinstance(line, Stage))]
    with st.container(key="step_words"):
        st.header(f"Step {number} of {len(STEPS)} · {STEPS[number - 1].title}", anchor=False)
        step = STEPS[number - 1]
        st.markdown(step.without_x if scene.bench.way == "qkv" and step.without_x else step.text)
        formulas = [
            f"{line.symbol} = {scene.sheet.formula(line.name)}" for line in lines if isinstance(line, Stage)
        ]
        if formulas:
            st.latex(r" \qquad ".join(formulas))
        prose.terms([(line.title, f"{line.meaning} {line.look}") for line in lines])


def stepper(number: int) -> Steps:
    return Steps([step.title for step in STEPS], number)

"""The beginning: what this is, a live miniature, and the contents."""

from __future__ import annotations

import streamlit as st

from attention_ui import live, prose, workbench
from attention_ui.board import Unit
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.lessons import LESSONS
from attention_ui.scene import scene


def miniature(desk: Desk) -> None:
    now = scene(desk.bench)
    workbench.draw(desk, now, [[Unit(_first(desk)), Unit("weights"), Unit("output")]])


def contents() -> None:
    st.page_link("pages/walkthrough.py", label="See every step between them")
    st.header("Contents", anchor=False)
    for other in LESSONS[1:]:
        st.page_link(f"pages/{other.slug}.py", label=other.title)
        prose.paragraph(other.question, kind="quiet")


def _first(desk: Desk) -> str:
    """The matrix that the miniature starts from."""
    return "x" if desk.bench.way == "x" else "q"


@lesson(__file__)
def home(desk: Desk) -> None:
    st.markdown(
        "A Transformer lets every token look at other tokens and take something from them. "
        f"Change a number in {_first(desk).upper()}: the weights say how much each token looks at each other "
        "one, and the output is what it takes."
    )
    live.first(miniature)
    contents()

"""The beginning: what this is, a live miniature, and the contents."""

from __future__ import annotations

import streamlit as st

from attention_ui import prose, workbench
from attention_ui.board import Unit
from attention_ui.frame import open_lesson
from attention_ui.lessons import LESSONS
from attention_ui.scene import scene

desk = open_lesson(__file__)
now = scene(desk.bench)
first = "x" if now.bench.way == "x" else "q"

st.markdown(
    "A Transformer lets every token look at other tokens and take something from them. "
    f"Change a number in {now.sheet.titles[first]}: the weights say how much each token looks at each other "
    "one, and the output is what it takes."
)
workbench.draw(desk, now, [[Unit(first), Unit("weights"), Unit("output")]])
st.page_link("pages/walkthrough.py", label="See every step between them")

st.header("Contents", anchor=False)
for lesson in LESSONS[1:]:
    st.page_link(f"pages/{lesson.slug}.py", label=lesson.title)
    prose.paragraph(lesson.question, kind="quiet")

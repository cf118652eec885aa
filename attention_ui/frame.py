"""The frame around every page: navigation, the shared controls, the address, and the way back into it."""

from __future__ import annotations

from contextvars import ContextVar
from itertools import groupby
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page

from attention_ui import address, controls, prose
from attention_ui.desk import Desk
from attention_ui.lessons import LESSONS, Lesson, lesson_of
from attention_ui.links import to_query
from attention_ui.theme import SURFACES

_desk: ContextVar[Desk | None] = ContextVar("desk", default=None)
_STYLE = (Path(__file__).parent / "frame.css").read_text(encoding="utf-8")
TITLE = "Attention, live"


def run() -> None:
    """Draw everything: called by app.py, once per rerun."""
    st.set_page_config(page_title=TITLE, layout="wide")
    st.html(f"<style>{_surfaces()}{_STYLE}</style>")
    page, lesson = _navigation()
    desk = controls.take_up()
    token = _desk.set(desk)
    try:
        page.run()  # the board goes out before the controls beside it
    finally:
        _desk.reset(token)
    controls.sidebar(desk, mask=not lesson.draws_masks)


def open_lesson(file: str) -> Desk:
    """Write a page's heading and return the desk, with everything the reader did applied.

    On a fresh server a deep link runs pages/*.py without app.py. Declaring the navigation
    and running again puts the frame back, with the page and the link as they were.
    """
    desk = _desk.get()
    if desk is None:
        _navigation()
        st.rerun()
    lesson = lesson_of(Path(file).stem)
    with st.container(horizontal=True, vertical_alignment="bottom", key="heading"):
        st.title(lesson.title, anchor=False)
        address.draw(to_query(desk.bench))
    if desk.notice:
        prose.notice(desk.notice)
    return desk


def _surfaces() -> str:
    """The theme's surface colours as CSS variables, for what is drawn outside the board."""
    kind = "dark" if st.context.theme.type == "dark" else "light"
    return ":root { " + " ".join(f"--{name}: {colour};" for name, colour in SURFACES[kind].items()) + " }"


def _navigation() -> tuple[Page, Lesson]:
    """Declare every lesson to Streamlit; the page that is open, and its lesson."""
    pages = {
        lesson: st.Page(
            f"pages/{lesson.slug}.py", title=lesson.title, url_path=lesson.slug,
            default=lesson is LESSONS[0],
        )
        for lesson in LESSONS
    }  # fmt: skip
    sections = {
        section: [pages[lesson] for lesson in lessons]
        for section, lessons in groupby(LESSONS, key=lambda lesson: lesson.section)
    }
    page = st.navigation(sections)
    return page, next((lesson for lesson in LESSONS if pages[lesson] == page), LESSONS[0])

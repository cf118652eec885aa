"""The frame around every page: navigation, the shared controls, the address, and the way back into it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page

from attention_ui import address, board, controls, live, prose
from attention_ui.lessons import LESSONS, Lesson, lesson_of
from attention_ui.theme import SURFACES

_STYLE = (Path(__file__).parent / "frame.css").read_text(encoding="utf-8")
TITLE = "Attention, live"


def run() -> None:
    """Draw everything: called by app.py for every change but those inside a page."""
    st.set_page_config(page_title=TITLE, layout="wide")
    st.html(f"<style>{_surfaces()}{_STYLE}</style>")
    board.provide()
    page, lesson = _navigation()
    desk = controls.take_up()
    controls.hand_out(desk)
    desk.page, desk.parts = live.page_now(), []
    desk.framed = controls.framing(desk)
    token = live.desk.set(desk)
    try:
        page.run()  # the board goes out before the controls beside it
    finally:
        live.desk.reset(token)
    controls.sidebar(desk, mask=not lesson.draws_masks)


def lesson(file: str) -> Callable[[live.Draw], None]:
    """Draw a lesson: `@lesson(__file__)` above the function that draws its page from the desk.

    On a fresh server a link runs pages/*.py without app.py. Declaring the navigation and running
    again puts the frame back, with the page and the link as they were.
    """
    desk = live.desk.get()
    if desk is None:
        _navigation()
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="bottom", key="heading"):
        st.title(lesson_of(Path(file).stem).title, anchor=False)
        address.draw()
    if desk.notice:
        prose.notice(desk.notice)
    return lambda draw: draw(desk)


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

"""The frame around every page: navigation, the shared controls, the address, and the way back into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from itertools import groupby
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page

from attention_ui import address, board, controls, live, prose, quicker, turns
from attention_ui.lessons import LESSONS, Lesson, lesson_of
from attention_ui.theme import SURFACES

# on one line: Streamlit searches all of it in every run of a page
_STYLE = re.sub(r"/\*.*?\*/|\s+", " ", (Path(__file__).parent / "frame.css").read_text(encoding="utf-8"))
TITLE = "Attention, live"


def run() -> None:
    """Draw everything: called by app.py for every change but those inside a page."""
    with turns.turn():
        _draw()


def _draw() -> None:
    st.set_page_config(page_title=TITLE, layout="wide")
    st.html(f"<style>{_surfaces()}{_STYLE}</style>")
    board.provide()
    page, lesson = _navigation()
    desk = controls.take_up()
    here = live.page_now()
    controls.hand_out(desk, here, lesson.controls)
    address.release(desk, here)
    desk.page, desk.beside, desk.parts, desk.passages = here, lesson.controls, [], {}
    desk.quick, desk.asides = lesson.quick and quicker.is_installed(), []
    desk.turn += 1
    desk.framed = controls.framing(desk)
    token = live.desk.set(desk)
    try:
        page.run()  # the board goes out before the controls beside it
        with st.sidebar:
            live.aside("shared", lambda found: controls.shared(found, lesson.controls, live.mover(found)))
        desk.has_sent()
    finally:
        live.desk.reset(token)
    if controls.catch_up(desk):
        st.rerun()


def lesson(file: str, sources: Sequence[tuple[str, str]] = ()) -> Callable[[live.Draw], None]:
    """Draw a lesson: `@lesson(__file__)` above the function that draws its page from the desk.

    A part of the series begins with its question and ends with its sources (title, address) and the way to
    the parts beside it. On a fresh server a link runs pages/*.py without app.py. Declaring the navigation
    and running again puts the frame back, with the page and the link as they were.
    """
    desk = live.desk.get()
    if desk is None:
        _navigation()
        st.rerun()
    found = lesson_of(Path(file).stem)
    with st.container(horizontal=True, vertical_alignment="bottom", key="heading"):
        st.title(found.title, anchor=False)
        address.draw()
    if desk.notice:
        prose.notice(desk.notice)

    def draw_page(draw: live.Draw) -> None:
        if found.part:
            prose.paragraph(found.question, kind="question")
        draw(desk)
        if found.part:
            _end(found, sources)

    return draw_page


def _end(lesson: Lesson, sources: Sequence[tuple[str, str]]) -> None:
    """The sources of a part, and the parts before and after it."""
    with st.container(key="sources"):
        st.header("Sources", anchor=False)
        prose.links(sources)
    place = LESSONS.index(lesson)
    with st.container(horizontal=True, horizontal_alignment="distribute", key="neighbours"):
        st.page_link(_file(LESSONS[place - 1]), label=f"← {LESSONS[place - 1].title}")
        if place + 1 < len(LESSONS):
            st.page_link(_file(LESSONS[place + 1]), label=f"{LESSONS[place + 1].title} →")


def _file(lesson: Lesson) -> str:
    return f"pages/{lesson.slug}.py"


def _surfaces() -> str:
    """The theme's surface colours as CSS variables, for what is drawn outside the board."""
    kind = "dark" if st.context.theme.type == "dark" else "light"
    return ":root { " + " ".join(f"--{name}: {colour};" for name, colour in SURFACES[kind].items()) + " }"


def _navigation() -> tuple[Page, Lesson]:
    """Declare every lesson to Streamlit; the page that is open, and its lesson."""
    pages = {lesson: copy(page) for lesson, page in _pages().items()}  # each run marks the one that it opens
    sections = {
        section: [pages[lesson] for lesson in lessons]
        for section, lessons in groupby(LESSONS, key=lambda lesson: lesson.section)
    }
    page = st.navigation(sections, position="top")
    return page, next((lesson for lesson in LESSONS if pages[lesson] == page), LESSONS[0])


@cache
def _pages() -> dict[Lesson, Page]:
    """Every lesson's page, made once: finding their files took an eighth of a run's time."""
    return {
        lesson: st.Page(
            _file(lesson), title=lesson.title, url_path=lesson.slug,
            default=lesson is LESSONS[0],
        )
        for lesson in LESSONS
    }  # fmt: skip

"""The parts of a page that follow an edit: the board at once, words and figures right after it.

Streamlit runs a whole script for every change. Here an edit runs one fragment, the board. When the
browser has painted it, it says so, and the other parts follow: the arithmetic, a figure. Only a change
that some control has to follow (another size by undo, another mask) runs the whole page. Controls stand
outside the parts: a server that was started anew does not know the parts of a page that is still open.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from attention_ui import address, board, controls
from attention_ui.desk import Desk

FIRST = "first"

Draw = Callable[[Desk], None]
desk: ContextVar[Desk | None] = ContextVar("desk", default=None)  # in a run of the whole page


def first(draw: Draw) -> None:
    """Draw the board of a page; an edit draws it again."""
    st.fragment(_draw_board, key=FIRST)(draw)


def then(name: str, draw: Draw) -> None:
    """Draw a part that follows once the board has been painted. Names differ on a page."""
    found = desk.get()
    if found is not None and name not in found.parts:
        found.parts.append(name)
    st.fragment(_draw, key=name)(draw)


def page_now() -> str:
    """Which page this run is about."""
    context = get_script_run_ctx()
    return context.page_script_hash if context else ""


def alone() -> bool:
    """Whether a part of the page is running by itself."""
    return desk.get() is None


def follow() -> None:
    """What the board calls when it has been painted: the other parts, and the board if it must again."""
    found: Desk = st.session_state["desk"]
    if found.page != page_now():
        return  # the reader has gone to another page, which draws itself
    # an operation that came meanwhile may have been applied by a run that was stopped before it drew
    behind = found.drawn != found.ack or board.pending(controls.BOARD, found.session, found.ack)
    if behind or found.parts:
        st.rerun(scope=[FIRST, *found.parts] if behind else found.parts)


def _draw_board(draw: Draw) -> None:
    _draw(draw)
    found: Desk = st.session_state["desk"]
    found.drawn = found.ack


def _draw(draw: Draw) -> None:
    """Draw from the desk; where a part runs alone, with everything the reader did applied."""
    found = desk.get()
    if found is None:
        found = st.session_state["desk"]
        address.release(found, page_now())
        controls.take_operations(found)
        if found.framed != controls.framing(found):
            st.rerun()  # which also gives the controls their new values
    draw(found)

"""The parts of a page that follow an edit: the board, the words with it, and Streamlit's elements after it.

Streamlit runs a whole script for every change. Here an edit runs one fragment, which answers with one
message: the board and all words of the page (passages.py). A part made of Streamlit's own elements, a figure
of Plotly's or a download, follows in a run of its own when the browser has painted the board and says so:
drawn together, the board would wait for it. A change that controls within the page have to follow (another
example, another size by undo) runs the whole page. A shared control that is moved runs the board, on pages
where nothing else follows it (lessons.py, `quick`), and the shared controls only where they show something
else then. On the other pages controls stand outside the parts.

A server that was started anew does not know the parts of a page that is still open: the gate has the first
run of every connection be one of the whole page.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from attention_ui import address, board, controls, mask_controls, passages, prose, quicker, turns
from attention_ui.desk import Desk

FIRST = "first"

Draw = Callable[[Desk], None]
desk: ContextVar[Desk | None] = ContextVar("desk", default=None)  # in a run of the whole page


def first(draw: Draw) -> None:
    """Draw the board of a page; an edit draws it again."""
    st.fragment(_draw_board, key=FIRST)(draw)


def then(name: str, draw: Draw) -> None:
    """Draw a part made of Streamlit's elements; it follows once the board has been painted. Names differ."""
    found = desk.get()
    if found is not None and name not in found.parts:
        found.parts.append(name)
    st.fragment(_draw, key=name)(draw)


def words(name: str, draw: Draw) -> None:
    """Draw a part of sentences and tables alone; it comes together with the board. Names differ on a page."""
    found = desk.get()
    assert found is not None, "passages stand outside the parts"
    found.passages[name] = draw
    passages.place(name, prose.collected(lambda: draw(found)), found.session, found.turn)


def aside(name: str, draw: Draw) -> None:
    """Draw shared controls with their words, on a page that is quick as a part of their own."""
    found = desk.get()
    assert found is not None, "shared controls stand outside the other parts"
    if not found.quick:
        draw(found)
        return
    found.asides.append(name)
    st.fragment(_draw_aside, key=name)(name, draw)


def mover(found: Desk) -> mask_controls.Moved:
    """What a shared control calls when it is moved; nothing where that runs the page."""
    return moved if found.quick else None


def moved() -> None:
    """Draw what follows a shared control that was moved."""
    found: Desk | None = st.session_state.get("desk")
    if found is None or found.page != page_now() or found.framed != controls.framing(found):
        st.rerun()  # something else has to be drawn besides
    follows = controls.follow(found)
    if follows == "page":
        st.rerun()
    found.expected = controls.framing(found)
    if follows == "board":
        found.framed = found.expected
        st.rerun(scope=[FIRST])
    st.rerun(scope=[*found.asides, FIRST])  # in this order, so that the board finds them drawn


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


def texts(found: Desk) -> dict[str, str]:
    """What the words of the page say after an edit; a run of the whole page makes them where they stand."""
    passages = found.passages if alone() else {}
    return {name: prose.collected(partial(draw, found)) for name, draw in passages.items()}


def _draw_board(draw: Draw) -> None:
    _draw(draw)
    found: Desk = st.session_state["desk"]
    found.drawn = found.ack


def _draw_aside(name: str, draw: Draw) -> None:
    found: Desk = desk.get() or st.session_state["desk"]
    draw(found)
    if name == found.asides[-1]:
        found.has_sent()
        if found.expected == controls.framing(found):
            found.framed = found.expected


def _draw(draw: Draw) -> None:
    """Draw from the desk; where a part runs alone, with everything the reader did applied."""
    found = desk.get()
    if found is not None:
        draw(found)
        quicker.hurry()  # a reader sees the board while what stands around it is being made
        return
    with turns.turn():
        found = st.session_state["desk"]
        found.turn += 1
        address.release(found, page_now())
        controls.take_operations(found)
        if found.framed != controls.framing(found):
            st.rerun()  # which also gives the controls their new values
        draw(found)

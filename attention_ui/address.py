"""The button that copies the link; the address bar itself follows the board at every moment."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from attention_ui.desk import Desk

_HTML = '<div><button type="button">Copy link</button><span role="status"></span></div>'
_CSS = """
div { display: flex; flex-direction: row-reverse; align-items: center; gap: 0.75rem; font: inherit; }
button {
  font: inherit; font-size: 0.875rem; color: var(--st-text-color); background: transparent; cursor: pointer;
  border: 1px solid var(--st-border-color); border-radius: var(--st-button-radius, 0.5rem);
  padding: 0.35rem 0.8rem;
  white-space: nowrap; min-height: 2.5rem;
}
button:hover { border-color: var(--st-primary-color); color: var(--st-primary-color); }
button:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 2px; }
span { font-size: 0.875rem; color: var(--st-text-color); }
@media print { div { display: none; } }
"""

_address = st.components.v2.component(
    "attention_address",
    html=_HTML,
    css=_CSS,
    js=(Path(__file__).parent / "address.js").read_text(encoding="utf-8"),
)


def draw() -> None:
    """Offer the address of the page for copying."""
    _address(key="address", data={"copied": "Link copied.", "failed": "Copy the link from the address bar."})


def release(desk: Desk, page: str) -> None:
    """Have Streamlit in the browser forget the query that a page was opened with, once for each visit.

    It would send that one to a server that starts anew, and everything changed since would be lost. When it
    knows none, it sends what the address bar holds. The board's program keeps it from emptying that.
    """
    if desk.page != page:  # the first run of a page: the program may not be there yet
        desk.released = False
    elif not desk.released:
        if st.query_params:
            st.query_params.clear()
        desk.released = True

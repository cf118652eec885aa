"""Passages: the sentences and tables of a page that speak of the numbers on its board.

A passage is HTML with every text escaped, made by prose.py and its like, and so needs no run of its own: the
answer to an edit holds all passages of the page beside the board (live.py), and the browser puts each into
the place that a run of the whole page has made for it here.
"""

from __future__ import annotations

import json

import streamlit as st

from attention_ui import board

_place = st.components.v2.component("attention_passage", js=board.loader("place"), isolate_styles=False)


def place(name: str, html: str, session: str, turn: int) -> None:
    """Make the place of a passage on the page, with what it says in this run."""
    data = json.dumps({"name": name, "html": html, "session": session, "turn": turn}, ensure_ascii=False)
    _place(key=f"passage-{name}", data=data.encode())

"""Sentences that hold a reader's own words or numbers: always shown literally.

Streamlit's Markdown would read a token such as **b**, $x$ or :smile: as its own language. These go
through html.escape into st.html or into a passage (passages.py), and neither runs a script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from html import escape

import streamlit as st

_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


def html(text: str) -> None:
    """Show HTML in which every text is escaped; where it is being collected, add it to that."""
    found = _collected.get()
    if found is None:
        st.html(text)
    else:
        found.append(text)


def collected(draw: Callable[[], None]) -> str:
    """What this draws, as HTML, in place of showing it. It may draw nothing but what this module draws."""
    found: list[str] = []
    token = _collected.set(found)
    try:
        draw()
    finally:
        _collected.reset(token)
    return "".join(found)


def header(text: str) -> None:
    """The heading of a section."""
    html(f"<h2>{escape(text)}</h2>")


def paragraph(text: str, *, kind: str = "plain") -> None:
    """One paragraph; kind is "plain", "quiet", "strong" or "question"."""
    html(f'<p class="prose prose-{kind}">{escape(text)}</p>')


def bullets(sentences: Sequence[str]) -> None:
    """A list, one sentence a line."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    html(f'<ul class="prose">{items}</ul>')


def terms(pairs: Sequence[tuple[str, str]]) -> None:
    """What each of some names means."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in pairs)
    html(f'<dl class="prose prose-quiet">{items}</dl>')


def links(sources: Sequence[tuple[str, str]]) -> None:
    """Where something comes from, as (title, address); nothing is fetched until a reader follows one."""
    items = "".join(
        f'<li><a href="{escape(address)}" rel="noopener noreferrer" target="_blank">{escape(title)}</a></li>'
        for title, address in sources
    )
    html(f'<ul class="prose prose-quiet">{items}</ul>')


def notice(text: str) -> None:
    """One sentence that the reader should not miss; screen readers hear it at once."""
    html(f'<div class="prose prose-notice" role="alert">{escape(text)}</div>')

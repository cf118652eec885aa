"""Small tables of words and numbers that are not matrices of a sheet, as HTML with every text escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st


def table(
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    links: Mapping[int, str] | None = None,
) -> str:
    """A table with a caption and column headings; the first cell of a row is its heading.

    links: the address that the heading of a row (counted from 0) leads to.
    """
    links = links or {}
    sides = ("left", *("right",) * (len(heads) - 1))
    head = "".join(
        f'<th scope="col" style="text-align: {side}">{escape(text)}</th>'
        for side, text in zip(sides, heads, strict=True)
    )
    body = "".join(_row(*row, link=links.get(place, "")) for place, row in enumerate(rows))
    return (
        f'<table class="twin"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _row(first: str, *cells: str, link: str) -> str:
    heading = escape(first)
    if link:
        heading = f'<a href="{escape(link)}" target="_self">{heading}</a>'
    others = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{heading}</th>{others}</tr>'


def draw(label: str, html: str) -> None:
    """Show a table; a wide one scrolls in its own box."""
    st.html(f'<div class="twin-box" role="region" tabindex="0" aria-label="{escape(label)}">{html}</div>')

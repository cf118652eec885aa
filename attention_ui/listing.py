"""Small tables and lists of links that are not matrices of a sheet, as HTML with every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from attention_ui import prose


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a caption and column headings; the first cell of a row is its heading.

    Raises ValueError for a column without a heading: a screen reader would call its cells nothing.
    """
    if not all(heads):
        raise ValueError(f"every column of “{caption}” needs a heading")
    sides = ("left", *("right",) * (len(heads) - 1))
    head = "".join(
        f'<th scope="col" style="text-align: {side}">{escape(text)}</th>'
        for side, text in zip(sides, heads, strict=True)
    )
    body = "".join(_row(*row) for row in rows)
    return (
        f'<table class="twin"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _row(first: str, *cells: str) -> str:
    others = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(first)}</th>{others}</tr>'


def draw(label: str, html: str) -> None:
    """Show a table; a wide one scrolls in its own box."""
    prose.html(_box(label, html))


def _box(label: str, html: str) -> str:
    return f'<div class="twin-box" role="region" tabindex="0" aria-label="{escape(label)}">{html}</div>'


def fold(title: str, label: str, html: str) -> None:
    """A table that is shown when its title is opened."""
    prose.html(f"<details><summary>{escape(title)}</summary>{_box(label, html)}</details>")


def draw_contents(groups: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> None:
    """Titles with links (text, address) after each, as (title, links); a link opens in the same window."""
    rows = "".join(
        f"<div><dt>{escape(title)}</dt><dd>{' · '.join(_link(*link) for link in links)}</dd></div>"
        for title, links in groups
    )
    prose.html(f'<dl class="prose prose-quiet">{rows}</dl>')


def _link(text: str, address: str) -> str:
    return f'<a href="{escape(address)}" target="_self" style="white-space: nowrap">{escape(text)}</a>'

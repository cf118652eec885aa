"""The table twin of a matrix: labelled rows and columns for a screen reader, and CSV with exact numbers.

Rows and columns carry their position and their token, "1 the" and "3 the", so that equal tokens stay apart.
The screen's table is HTML of our own: st.table would read a token such as **b** or :smile: as Markdown.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attention_core.numbers import show
from attention_core.sheet import Sheet
from attention_ui.tokens import isolated

Values = Mapping[str, NDArray[Any]]
Labels = Mapping[str, Sequence[str]]


def word(axis: str) -> str:
    """What one row or column along an axis is called."""
    base = axis.partition("_")[0]
    return base if base in ("query", "key", "token") else "feature"


def frame(sheet: Sheet, values: Values, labels: Labels, name: str) -> pd.DataFrame:
    """One matrix as a table of the texts that the screen shows; a rule is written 0 and −∞.

    Raises KeyError when the sheet has no line of that name, ValueError when it is a single number.
    """
    rows, columns = _edges(sheet, labels, name, values[name].shape, isolated)
    cells = [[_shown(value) for value in row] for row in values[name].tolist()]
    index = pd.Index(rows, name=_corner(sheet, name))
    return pd.DataFrame(cells, index=index, columns=pd.Index(columns), dtype=str)


def to_html(sheet: Sheet, values: Values, labels: Labels, name: str) -> str:
    """The same table as HTML with row and column headings, every text escaped; `alt` is its caption."""
    table = frame(sheet, values, labels, name)
    heads = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    body = "".join(
        f'<tr><th scope="row">{escape(row)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for row, *cells in table.itertuples(name=None)
    )
    corner = escape(_corner(sheet, name))
    return (
        f'<table class="twin"><caption>{escape(alt(sheet, values, name))}</caption>'
        f'<thead><tr><th scope="col">{corner}</th>{heads}</tr></thead><tbody>{body}</tbody></table>'
    )


def alt(sheet: Sheet, values: Values, name: str) -> str:
    """What the table holds: its name, its size and what one entry says."""
    line = sheet[name]
    rows, columns = values[name].shape
    what = f"one row per {word(line.axes[0])}, one column per {word(line.axes[1])}"
    meaning = line.meaning[:1].lower() + line.meaning[1:].rstrip(".")
    return f"{line.title}: {rows} × {columns}, {what}. Each entry: {meaning}."


def to_csv(sheet: Sheet, values: Values, labels: Labels, name: str) -> str:
    """The matrix as CSV: a head line, then a line a row, with every number to its last digit.

    −∞ is written -inf. Labels begin with their position, so that no spreadsheet takes one for a formula.
    """
    rows, columns = _edges(sheet, labels, name, values[name].shape, str)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([_corner(sheet, name), *columns])
    for row, numbers in zip(rows, values[name].tolist(), strict=True):
        writer.writerow([row, *map(_exact, numbers)])
    return text.getvalue()


def _edges(
    sheet: Sheet, labels: Labels, name: str, shape: tuple[int, ...], written: Callable[[str], str]
) -> tuple[list[str], list[str]]:
    axes = sheet[name].axes
    if len(axes) != 2:
        raise ValueError(f"{name} is not a matrix but has the axes {axes}")
    rows, columns = (_numbered(labels[axis], axis, written) for axis in axes)
    if (len(rows), len(columns)) != shape:
        raise ValueError(f"{name} {shape} has {len(rows)} row labels and {len(columns)} column labels")
    return rows, columns


def _numbered(labels: Sequence[str], axis: str, written: Callable[[str], str]) -> list[str]:
    """Position and token; a feature has no token, so the word stands before its position."""
    if word(axis) == "feature":
        return [f"feature {position}" for position in range(1, len(labels) + 1)]
    return [f"{position} {written(label)}" for position, label in enumerate(labels, 1)]


def _corner(sheet: Sheet, name: str) -> str:
    down, across = (word(axis) for axis in sheet[name].axes)
    return f"{down} ↓ {across} →"


def _shown(value: bool | float) -> str:
    return ("0" if value else "−∞") if isinstance(value, bool) else show(value)


def _exact(value: bool | float) -> str:
    """The shortest text from which the same float is read: repr, so -inf, inf and nan are words."""
    return repr((0.0 if value else -np.inf) if isinstance(value, bool) else value)

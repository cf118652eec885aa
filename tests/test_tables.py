"""The table twin shows what the board shows, and its CSV gives back every digit."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import numpy as np
import pytest

from attention_core.attention import attention, attention_from_x
from attention_core.numbers import show
from attention_ui import listing
from attention_ui.tables import alt, frame, to_csv, to_html

HOSTILE = ("<img src=x onerror=alert(1)>", "**b**", "=1+1", "@x", "قطة", ":smile:", '"quoted", with comma')


def scene(tokens=("the", "cat", "the"), d_k=4, d_v=2, mask=None):
    random, n = np.random.default_rng(0), len(tokens)
    q, k, v = random.normal(size=(n, d_k)), random.normal(size=(n, d_k)), random.normal(size=(n, d_v))
    trace = attention(q, k, v, mask=np.tri(n, dtype=bool) if mask is None else mask)
    features = {axis: tuple(map(str, range(1, size + 1))) for axis, size in (("d_k", d_k), ("d_v", d_v))}
    return trace.sheet, trace.values, {"query": tokens, "key": tokens, "token": tokens} | features


def read(text):
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    return head, rows


def test_equal_tokens_stay_apart():
    table = frame(*scene(), "weights")
    assert list(table.index) == ["1 the", "2 cat", "3 the"]
    assert list(table.columns) == ["1 the", "2 cat", "3 the"]


def test_the_cells_are_the_texts_of_the_screen():
    sheet, values, labels = scene()
    table = frame(sheet, values, labels, "masked")
    assert table.iloc[0, 1] == "−∞"
    assert table.map(str).to_numpy().tolist() == [[show(x) for x in row] for row in values["masked"]]


def test_a_mask_is_written_as_on_paper():
    assert frame(*scene(), "mask").to_numpy().tolist() == [
        ["0", "−∞", "−∞"],
        ["0", "0", "−∞"],
        ["0", "0", "0"],
    ]


def test_features_are_counted_and_not_called_tokens():
    table = frame(*scene(), "k_t")
    assert list(table.index) == ["feature 1", "feature 2", "feature 3", "feature 4"]
    assert list(table.columns) == ["1 the", "2 cat", "3 the"]


def test_every_matrix_of_both_sheets_has_a_table_and_a_csv():
    random = np.random.default_rng(0)
    trace = attention_from_x(*(random.normal(size=shape) for shape in ((7, 5), (5, 3), (5, 3), (5, 2))))
    sizes = {"query": 7, "key": 7, "token": 7, "d_model": 5, "d_k": 3, "d_v": 2}
    labels = {axis: tuple(f"{axis}{i}" for i in range(size)) for axis, size in sizes.items()}
    for line in trace.sheet:
        if len(line.axes) != 2:
            continue
        array = trace.values[line.name]
        assert frame(trace.sheet, trace.values, labels, line.name).shape == array.shape
        assert f"{line.title}: {array.shape[0]} × {array.shape[1]}" in alt(
            trace.sheet, trace.values, line.name
        )
        _, rows = read(to_csv(trace.sheet, trace.values, labels, line.name))
        numbers = np.array([[float(cell) for cell in row[1:]] for row in rows])
        expected = np.where(array, 0.0, -np.inf) if array.dtype == bool else array
        assert np.array_equal(numbers, expected)


def test_the_csv_writes_blocked_scores_as_inf_with_a_sign():
    _, rows = read(to_csv(*scene(), "masked"))
    assert rows[0][2] == "-inf"


def test_no_label_in_a_csv_begins_like_a_formula():
    text = to_csv(*scene(HOSTILE), "weights")
    head, rows = read(text)
    labels = head + [row[0] for row in rows]
    assert not any(label.startswith(("=", "+", "-", "@", "\t", "\r")) for label in labels)
    assert head[1:] == [f"{i} {token}" for i, token in enumerate(HOSTILE, 1)]


def test_a_single_number_is_not_a_table():
    sheet, values, labels = scene()
    single = next(line.name for line in sheet.given if not line.axes)
    with pytest.raises(ValueError, match=f"{single} is not a matrix"):
        frame(sheet, values, labels, single)


def test_labels_that_do_not_fit_are_refused():
    sheet, values, labels = scene()
    with pytest.raises(ValueError, match=r"weights \(3, 3\) has 2 row labels and 3 column labels"):
        frame(sheet, values, labels | {"query": ("a", "b")}, "weights")


class Reader(HTMLParser):
    """Tags with their attributes, and the text of every cell."""

    def __init__(self):
        super().__init__()
        self.tags, self.cells = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def test_the_html_table_has_headings_and_holds_tokens_literally():
    sheet, values, labels = scene(HOSTILE)
    reader = Reader()
    reader.feed(to_html(sheet, values, labels, "weights"))
    table = frame(sheet, values, labels, "weights")
    assert {tag for tag, _ in reader.tags} == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    scopes = [attrs["scope"] for tag, attrs in reader.tags if tag == "th"]
    assert scopes == ["col"] * 8 + ["row"] * 7
    expected = [[label, *row] for label, row in zip(table.index, table.to_numpy().tolist(), strict=True)]
    assert reader.cells[1:8] == list(table.columns)
    assert reader.cells[8:] == [cell for row in expected for cell in row]


def test_a_small_table_has_a_heading_for_every_column():
    with pytest.raises(ValueError, match="needs a heading"):
        listing.table("Shares", ["word", ""], [["cat", "0.50"]])
    assert '<th scope="row">cat</th><td>0.50</td>' in listing.table(
        "Shares", ["word", "share"], [["cat", "0.50"]]
    )

"""What the board tells the browser, and what it believes of what the browser says."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_ui import board, theme
from attention_ui.board import Board, Grid, Message, Steps, Toolbar, Unit, operations

SESSION = "k3f9"
EDIT = [8, "edit", "q", 0, 1, "0,5"]


def told(*ops: object) -> dict[str, object]:
    return {"session": SESSION, "ops": list(ops)}


def test_operations_are_taken_in_the_order_of_their_numbers_each_once():
    ops = [[9, "undo"], EDIT, [9, "undo"], [10, "step", 3]]
    assert operations(told(*ops), SESSION, 7) == [EDIT, [9, "undo"], [10, "step", 3]]


def test_what_was_acknowledged_is_not_taken_again():
    assert operations(told(EDIT, [9, "undo"]), SESSION, 8) == [[9, "undo"]]
    assert operations(told(EDIT), SESSION, 8) == []


def test_operations_of_another_session_wait_until_the_browser_has_counted_anew():
    assert operations(told(EDIT), "another", 0) == []


@pytest.mark.parametrize(
    "op",
    [
        [8, "edit", "q", 0, 1, "1"],
        [8, "paste", "q", 0, 1, "1\t2\n3\t4"],
        [8, "toggle", "mask", 3, 0],
        [8, "select", "scores", 1, 2],
        [8, "step", 2],
        [8, "undo"],
        [8, "redo"],
        [8, "reset"],
        [8, "new"],
    ],
)
def test_every_kind_of_operation_is_understood_and_nothing_may_be_missing(op):
    assert operations(told(op), SESSION, 7) == [op]
    assert operations(told(op[:-1] if len(op) > 2 else [*op, 1]), SESSION, 7) == []


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        "edit",
        7,
        [],
        [8],
        [True, "undo"],
        ["8", "undo"],
        [8, 9],
        [8, "format", "c"],
        [8, "edit", "q", -1, 0, "1"],
        [8, "edit", "q", 0.5, 0, "1"],
        [8, "edit", "q", 0, 0, 1],
        [8, "edit", ["q"], 0, 0, "1"],
    ],
)
def test_what_is_not_an_operation_is_left_out(nonsense):
    assert operations(told(nonsense, EDIT), SESSION, 7) == [EDIT]


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_a_browser_says_never_raises(value):
    operations(value, SESSION, 0)
    operations({"session": SESSION, "ops": value}, SESSION, 0)


def small() -> Board:
    grids = {"q": Grid("Q", [["1", "−∞"]], levels=[[10, None]], kind="given", notes={0: "may look nowhere"})}
    return Board(
        grids,
        [[Unit("q", via="÷ √d_k")]],
        SESSION,
        ack=7,
        toolbar=Toolbar(undo=True),
        steps=Steps(["X", "Scores"], 2),
        selected=("q", 0, 1),
        messages=[Message(1, "q", 0, 0, "no")],
    )


def test_the_data_is_plain_json_and_names_the_board():
    data = json.loads(small().message("walk"))
    assert data["key"] == "walk"
    assert (data["session"], data["ack"]) == (SESSION, 7)
    assert data["selected"] == {"grid": "q", "row": 0, "col": 1}
    assert data["grids"]["q"]["notes"] == {"0": "may look nowhere"}
    assert data["grids"]["q"]["levels"] == [[10, None]]
    assert data["layout"][0][0]["via"] == "÷ √d_k"
    assert data["steps"] == {"titles": ["X", "Scores"], "now": 2}
    assert data["messages"][0]["kind"] == "refused"


def test_a_board_without_bar_or_selection_says_so_with_nulls():
    data = json.loads(Board({}, [], SESSION).message("walk"))
    assert data["toolbar"] is data["steps"] is data["selected"] is None


def test_every_role_of_the_theme_has_its_place_in_the_style_sheet():
    named = set(re.findall(r"\[data-role=(\w+)\]", board.STYLE))
    assert named == set(theme.ROLES["light"]) - {"plain"}


def test_the_style_sheet_uses_only_variables_that_exist():
    used = set(re.findall(r"var\(--([\w-]+)", board.STYLE))
    made = set(re.findall(r"--([\w-]+):", board.STYLE)) | {"head", "chars", "st-background-color", "st-font"}
    assert used <= made


def test_the_program_fetches_nothing_and_writes_no_html():
    for word in (
        "fetch(",
        "XMLHttpRequest",
        "http:",
        "https:",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "eval(",
    ):
        assert word not in board.PROGRAM
    for word in ("http:", "https:", "@import", "url("):
        assert word not in board.STYLE

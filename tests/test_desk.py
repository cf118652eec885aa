"""The desk: what the board asks for is done exactly once, refused in words, and can be taken back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_core.limits import MOST_UNDO
from attention_core.masks import allowed
from attention_ui import board
from attention_ui.bench import givens, numbers, opened, with_sizes, with_way
from attention_ui.desk import Desk


@pytest.fixture
def desk() -> Desk:
    bench, _ = with_way(opened("tokens"), "qkv")
    return Desk(with_sizes(bench, n_q=4, n_k=4, d_k=4, d_v=3))


def send(desk: Desk, *operations: list) -> None:
    """Send operations as the board would: numbered on from the last acknowledgement."""
    told = {"session": desk.session, "ops": [[desk.ack + k, *op] for k, op in enumerate(operations, start=1)]}
    desk.receive(board.operations(told, desk.session, desk.ack))


def test_four_edits_in_one_message_all_stay(desk):
    send(
        desk,
        *(["edit", "q", i, j, text] for i, j, text in [(0, 0, "1"), (0, 1, "2"), (0, 2, "3"), (1, 0, "4")]),
    )
    q = numbers(desk.bench, "q")
    assert q[0, :3].tolist() == [1, 2, 3] and q[1, 0] == 4


def test_operations_told_again_are_not_applied_again(desk):
    told = {"session": desk.session, "ops": [[1, "new"], [2, "edit", "q", 0, 0, "7"]]}
    for _ in range(3):
        desk.receive(board.operations(told, desk.session, desk.ack))
    assert desk.bench.seed == 1 and desk.ack == 2 and len(desk.past) == 2


def test_operations_of_another_session_are_left_alone(desk):
    desk.receive(board.operations({"session": "other", "ops": [[1, "reset"]]}, desk.session, desk.ack))
    assert desk.ack == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".5", 0.5),
        ("0,5", 0.5),
        ("1e3", 1000),
        ("-2.25", -2.25),
        ("1/3", 1 / 3),
        ("−2", -2),
        ("sqrt(2)", 2**0.5),
    ],
)
def test_a_number_means_what_it_says(desk, text, value):
    send(desk, ["edit", "q", 1, 2, text])
    assert numbers(desk.bench, "q")[1, 2] == value and not desk.messages


@pytest.mark.parametrize(
    "text", ["abc", "1e999", "nan", "inf", "", "   ", "1/0", "1e61", "<b>1</b>", "1,000.5"]
)
def test_anything_else_is_refused_by_cell_and_the_old_number_stays(desk, text):
    before = numbers(desk.bench, "q")
    send(desk, ["edit", "q", 1, 2, text])
    np.testing.assert_array_equal(numbers(desk.bench, "q"), before)
    (message,) = desk.messages
    assert message.kind == "refused" and message.text.startswith("Q, row 2, column 3: ")
    assert "stays" in message.text and not desk.past


def test_a_pasted_block_fills_what_fits_and_says_what_did_not(desk):
    send(desk, ["paste", "q", 1, 1, "1\t2\t3\n4\t5\t6\n7\t8\t9"])
    assert numbers(desk.bench, "q")[1:, 1:].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert not desk.messages
    send(desk, ["paste", "q", 1, 1, "\n".join("\t".join(["9"] * 5) for _ in range(5))])
    assert (numbers(desk.bench, "q")[1:, 1:] == 9).all()
    (message,) = desk.messages
    assert (
        message.kind == "note"
        and "9 numbers were filled in, 16 lie beyond the edge of Q (4 × 4)" in message.text
    )
    send(desk, ["undo"])
    assert numbers(desk.bench, "q")[1, 1] == 1


def test_a_block_with_a_word_in_it_changes_nothing(desk):
    before = numbers(desk.bench, "k")
    send(desk, ["paste", "k", 0, 0, "1\t2\nx\t4"])
    np.testing.assert_array_equal(numbers(desk.bench, "k"), before)
    assert desk.messages[0].text.startswith("K, row 2, column 1: “x” is not a number")


def test_undo_and_redo_walk_through_every_change(desk):
    benches = [desk.bench]
    for op in (
        ["edit", "q", 0, 0, "5"],
        ["new"],
        ["toggle", "mask", 0, 1],
        ["edit", "v", 0, 0, "1/3"],
        ["reset"],
    ):
        send(desk, op)
        benches.append(desk.bench)
    for bench in reversed(benches[:-1]):
        send(desk, ["undo"])
        assert replace(desk.bench, selected=None) == replace(bench, selected=None)
    send(desk, ["undo"])  # nothing left: no harm
    for bench in benches[1:]:
        send(desk, ["redo"])
        assert replace(desk.bench, selected=None) == replace(bench, selected=None)


def test_looking_elsewhere_is_not_a_change(desk):
    send(desk, ["select", "q", 1, 1], ["step", 5], ["edit", "q", 0, 0, "3"], ["step", 7], ["undo"])
    assert desk.bench.step == 7 and len(desk.future) == 1


def test_the_undo_list_is_bounded(desk):
    for k in range(MOST_UNDO + 50):
        send(desk, ["edit", "q", 0, 0, str(k + 10)])
    assert len(desk.past) == MOST_UNDO


def test_reset_brings_the_example_back_and_can_be_undone(desk):
    send(desk, ["edit", "q", 0, 0, "5"], ["reset"])
    assert not desk.can_reset
    for name, values in givens(opened("tokens")).items():
        np.testing.assert_array_equal(numbers(desk.bench, name), values)
    send(desk, ["undo"])
    assert numbers(desk.bench, "q")[0, 0] == 5


def test_a_toggled_cell_of_the_mask_changes_over(desk):
    before = allowed(desk.bench.mask, 4, 4)
    send(desk, ["toggle", "mask", 0, 3])
    after = allowed(desk.bench.mask, 4, 4)
    assert after[0, 3] != before[0, 3] and (after != before).sum() == 1


@given(
    st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.text(max_size=8),
            st.sampled_from(["edit", "q"]),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=7), st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
        max_leaves=20,
    )
)
def test_whatever_a_forged_message_holds_nothing_raises(value):
    desk = Desk()
    for told in (value, {"session": desk.session, "ops": value}, {"session": desk.session, "ops": [value]}):
        desk.receive(board.operations(told, desk.session, desk.ack))


@given(
    st.sampled_from(["edit", "paste", "toggle", "select", "step"]),
    st.sampled_from(["q", "mask", "nothing", "w_q", ""]),
    st.integers(0, 2**60),
    st.integers(0, 2**60),
    st.text(max_size=20),
)
def test_a_well_formed_operation_on_any_cell_raises_nothing(kind, grid, row, column, text):
    desk = Desk()
    arguments = {"edit": [grid, row, column, text], "paste": [grid, row, column, text], "step": [row]}
    send(desk, [kind, *arguments.get(kind, [grid, row, column])])
    for matrix in givens(desk.bench).values():
        assert np.isfinite(matrix).all()

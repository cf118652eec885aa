"""Controls that were moved: what of a browser's message is news."""

from __future__ import annotations

from typing import Any

import pytest
import streamlit as st

from attention_ui import controls
from attention_ui.desk import Desk


@pytest.fixture(params=[False, True], ids=["forwards", "backwards"])
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The session's state, as one message after another leaves it; Streamlit lists it in any order."""
    state: dict[str, Any] = {"desk": Desk()}

    class State(dict[str, Any]):
        given: set[str]  # in the last run

        def __setitem__(self, key: str, value: Any) -> None:
            super().__setitem__(key, value)
            self.given.add(key)

        def to_dict(self) -> dict[str, Any]:
            return dict(reversed(self.items())) if request.param else dict(self)

    session = State(state)
    session.given = set()
    monkeypatch.setattr(st, "session_state", session)
    return session


def run(told: dict[str, Any], drawn: bool = True, **moved: Any) -> Desk:
    """A run after a message; `drawn` to its end."""
    told.update(moved)
    told.given.clear()
    desk = controls.take_up()
    controls.hand_out(desk, desk.page)
    if drawn:
        desk.has_sent()
    return desk


def wait(desk: Desk) -> None:
    """Until the browser has surely had the answer."""
    desk.sent -= 2 * controls.ON_THE_WAY


def test_an_old_value_beside_a_moved_control_is_not_news(told: dict[str, Any]) -> None:
    before = run(told)
    tokens = told["tokens"]
    assert run(told, n=5).bench.n_k == 5
    assert told["tokens"] != tokens
    desk = run(told, n=6, tokens=tokens)  # sent before the browser had the tokens of n = 5
    assert (desk.bench.n_k, told["n"]) == (6, 6)
    assert len(told["tokens"].split()) == 6
    assert before is desk


def test_an_old_value_by_itself_is_what_the_reader_chose(told: dict[str, Any]) -> None:
    run(told)
    desk = run(told, n=5)
    desk.undo()
    run(told)
    assert told["n"] == 4
    wait(desk)
    assert run(told, n=5).bench.n_k == 5
    tokens = told["tokens"]
    run(told, n=6)
    run(told)  # the browser has seen the tokens of n = 6
    wait(desk)
    assert run(told, tokens=tokens).bench.n_k == 5


@pytest.mark.parametrize("drawn", [True, False])
def test_an_old_value_by_itself_is_nothing_while_the_answer_is_on_its_way(
    told: dict[str, Any], drawn
) -> None:
    """A slider was moved and a cell edited at once, or a link followed: the tokens are still those before."""
    run(told)
    tokens = told["tokens"]
    run(told, drawn=drawn, n=5)
    desk = run(told, tokens=tokens)
    assert (desk.bench.n_k, len(told["tokens"].split())) == (5, 5)
    assert "tokens" in told.given and "n" not in told.given


def test_what_may_have_come_after_a_message_is_given_again(told: dict[str, Any]) -> None:
    """There and back before the first answer: the tokens of n = 5 come after the old ones were told."""
    run(told)
    tokens = told["tokens"]
    run(told, n=5)
    desk = run(told, n=4, tokens=tokens)
    assert told["tokens"] == tokens and "tokens" in told.given
    assert "n" not in told.given  # the browser shows it
    desk.undo()
    run(told)
    assert told["n"] == 5
    run(told, n=7)  # from 4 or from 5: the browser may show 5 by now
    assert "n" in told.given and desk.bench.n_k == 7
    run(told, n=8, tokens=told["tokens"])
    assert "n" not in told.given and desk.bench.n_k == 8


def test_what_a_run_did_not_get_to_draw_is_given_by_the_next(told: dict[str, Any]) -> None:
    run(told)
    run(told, drawn=False, n=5)
    assert "tokens" in told.given
    wait(run(told))
    assert "tokens" in told.given
    run(told)
    assert not told.given

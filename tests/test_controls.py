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
        def to_dict(self) -> dict[str, Any]:
            return dict(reversed(self.items())) if request.param else dict(self)

    session = State(state)
    monkeypatch.setattr(st, "session_state", session)
    return session


def run(told: dict[str, Any], **moved: Any) -> Desk:
    told.update(moved)
    desk = controls.take_up()
    controls.hand_out(desk, desk.page)
    return desk


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
    controls.hand_out(desk, desk.page)
    assert told["n"] == 4
    assert run(told, n=5).bench.n_k == 5
    tokens = told["tokens"]
    run(told, n=6)
    run(told)  # the browser has seen the tokens of n = 6
    assert run(told, tokens=tokens).bench.n_k == 5

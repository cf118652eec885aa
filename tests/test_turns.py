"""One run at a time, and nobody waits for a long one."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from attention_ui import turns

LONG = 20.0  # seconds after which a test has failed


def test_runs_go_one_after_the_other(monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE", LONG)
    inside, most, order = [], [], []

    def run(number):
        with turns.turn() as mine:
            assert mine
            inside.append(number)
            most.append(len(inside))
            Event().wait(0.002)
            inside.remove(number)
            order.append(number)

    threads = [Thread(target=run, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert sorted(order) == list(range(20)) and set(most) == {1}


def test_a_long_run_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE", 0.01)
    began, end, ended = Event(), Event(), Event()

    def long_run():
        with turns.turn():
            began.set()
            end.wait(LONG)
        ended.set()

    Thread(target=long_run, daemon=True).start()
    assert began.wait(LONG)
    for _ in range(3):
        with turns.turn() as mine:
            assert not mine and not ended.is_set()
    end.set()
    assert ended.wait(LONG)
    with turns.turn() as mine:
        assert mine


def test_a_run_that_fails_or_is_stopped_gives_its_turn_back():
    with pytest.raises(KeyboardInterrupt), turns.turn():
        raise KeyboardInterrupt
    with turns.turn() as mine:
        assert mine

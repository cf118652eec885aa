"""Timing in bounded steps, with a clock that a test can turn."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core import timing
from attention_core.attention import attention
from attention_core.tiles import flash_attention
from attention_core.timing import LONGEST_ALL, LONGEST_CALL, REPEATS, SIZES, WAYS, machine, plan, step


class Clock:
    """Every call of a way takes what `seconds` says for so many tokens."""

    def __init__(self, seconds) -> None:
        self.seconds, self.now, self.calls = seconds, 0.0, []

    def run(self, found, patch):
        def call(way, n, d, clock):
            self.calls.append((way, n))
            return self.seconds(way, n)

        patch.setattr(timing, "_call", call)
        while not found.is_done:
            before = found.share
            found = step(found)
            assert found.share >= before
        return found


def test_a_whole_run_calls_every_way_and_size_as_often(monkeypatch):
    clock = Clock(lambda way, n: 1e-6 * n)
    found = clock.run(plan(16), monkeypatch)
    assert not found.left_out and found.share == 1.0
    assert {call: len(taken) for call, taken in found.taken.items()} == {
        (way, n): REPEATS for way in WAYS for n in SIZES
    }
    assert found.median("plain", 512) == pytest.approx(512e-6)
    assert found.spent == pytest.approx(sum(map(sum, found.taken.values())))


def test_the_median_does_not_follow_one_slow_call(monkeypatch):
    times = iter([0.001, 0.5, 0.002, 0.001, 0.002] + [0.001] * 100)
    found = Clock(lambda way, n: next(times) if (way, n) == ("plain", 128) else 1e-5).run(
        plan(16), monkeypatch
    )
    assert found.median("plain", 128) == 0.002


def test_a_size_that_would_take_too_long_is_left_out_without_a_call(monkeypatch):
    clock = Clock(lambda way, n: (3e-6 if way == "plain" else 1e-9) * n * n)
    found = clock.run(plan(64), monkeypatch)
    assert found.left_out == (("plain", 256), ("plain", 512), ("plain", 1024))
    assert max(max(taken) for taken in found.taken.values()) < LONGEST_CALL
    assert found.median("plain", 1024) is None and found.median("tiled", 1024) is not None


def test_all_calls_together_are_bounded(monkeypatch):
    monkeypatch.setattr(timing, "LONGEST_ALL", 1.0)
    found = Clock(lambda way, n: {128: 0.01, 256: 0.03}.get(n, 0.13)).run(plan(16), monkeypatch)
    assert 1.0 <= found.spent < 1.0 + LONGEST_CALL
    assert found.is_done and found.left_out == (("plain", 1024), ("tiled", 1024))
    assert len(found.taken["plain", 512]) < REPEATS
    assert LONGEST_ALL <= 2.0 and LONGEST_CALL <= 0.15


def test_a_call_times_what_its_name_says(monkeypatch):
    called = []

    def noted(name, work):
        return lambda *a, **k: (called.append((name, a[0].shape)), work(*a, **k))[1]

    monkeypatch.setattr(timing, "attention", noted("plain", attention))
    monkeypatch.setattr(timing, "flash_attention", noted("tiled", flash_attention))
    found = step(step(plan(16)))
    assert called == [("plain", (128, 16)), ("tiled", (128, 16))]
    assert all(seconds > 0 for taken in found.taken.values() for seconds in taken)


def test_both_ways_are_timed_on_the_same_numbers_and_agree():
    q, k, v = timing.inputs(256, 16)
    np.testing.assert_allclose(flash_attention(q, k, v)[0], attention(q, k, v).output, rtol=1e-9, atol=1e-12)


def test_a_step_after_the_last_changes_nothing(monkeypatch):
    found = Clock(lambda way, n: 1e-6).run(plan(16), monkeypatch)
    assert step(found) is found


def test_another_width_is_refused():
    with pytest.raises(ValueError, match="16, 64"):
        plan(17)


def test_the_machine_has_a_name_and_cores():
    assert "cores" in machine() and f"NumPy {np.__version__}" in machine()
    assert timing.processor()

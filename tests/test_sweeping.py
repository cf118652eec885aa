"""What readers leave behind is given up when nobody is there any more, or when many have left."""

from __future__ import annotations

import asyncio
import gc
import weakref
from types import SimpleNamespace

import pytest
from streamlit.runtime.memory_session_storage import TTLCache

from attention_ui import metrics, sweeping


class Left:
    """A session that only a garbage collection can take away."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time as the sessions are kept by, and one session that expires after ten seconds."""
    clock = [0.0]
    kept: TTLCache[str, Left] = TTLCache(128, 10, timer=lambda: clock[0])
    kept["a"] = Left()
    runtime = SimpleNamespace(_session_mgr=SimpleNamespace(_session_storage=SimpleNamespace(_cache=kept)))
    monkeypatch.setattr(sweeping, "exists", lambda: True)
    monkeypatch.setattr(sweeping, "get_instance", lambda: runtime)
    monkeypatch.setitem(metrics.OPEN.numbers, "", 0)
    monkeypatch.setitem(metrics.SESSIONS.numbers, "", 1)
    clock.append(weakref.ref(kept["a"]))  # type: ignore[arg-type]
    return clock


def swept() -> None:
    """Sweep a few times."""

    async def story() -> None:
        task = asyncio.create_task(sweeping.sweep(0.001))
        await asyncio.sleep(0.1)
        task.cancel()

    gc.disable()
    try:
        asyncio.run(story())
    finally:
        gc.enable()


def test_a_session_that_has_expired_is_given_up(now):
    swept()
    assert now[1]() is not None  # it may still come back
    now[0] = 11
    swept()
    assert now[1]() is None


@pytest.mark.parametrize(
    ("here", "gone", "is_swept"), [(10, 19, False), (10, 20, True), (200, 49, False), (200, 50, True)]
)
def test_while_others_are_there_many_have_to_have_left(now, monkeypatch, here, gone, is_swept):
    monkeypatch.setitem(metrics.OPEN.numbers, "", here)
    monkeypatch.setitem(metrics.SESSIONS.numbers, "", here + gone)
    now[0] = 11
    swept()
    assert (now[1]() is None) == is_swept


def test_a_session_that_may_come_back_does_not_count_as_left(now, monkeypatch):
    collected = []
    monkeypatch.setattr(sweeping.gc, "collect", lambda: collected.append(1))
    swept()
    assert not collected


def test_where_nobody_has_been_since_nothing_is_collected_again(now, monkeypatch):
    now[0], collected = 11, []
    monkeypatch.setattr(sweeping.gc, "collect", lambda: collected.append(1))
    swept()
    assert len(collected) == 1

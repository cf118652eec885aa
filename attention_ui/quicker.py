"""What Streamlit 1.67 does again and again for one run, done once.

Each of these is a detail of that version, replaced while a server starts, without a change in what a browser
is told. tests/test_quicker.py compares every one with Streamlit's own, and fails where it is no longer used.

| what | how often it is done | processor time of a change that it takes |
|---|---|---|
| reading a session's whole state, to look at one key | for each slider, list and text field | 8 % |
| reading all settings, to tell the browser the theme | six times a run | 4 % |
| waking the loop that sends messages | twice for each message, 31 in a run of a whole page | 5 % |
| making a class of its own to show a component's state in | for every component, once or twice a run | 3 % |
| emptying lists of messages that are empty | for every reader, whenever one of them is sent something | 3 % |
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context
from typing import Any

from streamlit.components.v2.bidi_component import main as components
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.NewSession_pb2 import CustomThemeConfig
from streamlit.runtime import app_session
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.runtime.state.session_state import SessionState, Value

TOGETHER = 0.004
"""Seconds for which messages of a run wait for others of it, unless `hurry` says that nothing is to wait."""

NOTHING = Value(None)
Call = Callable[..., object]

_all_of_it = SafeSessionState.filtered_state.fget  # type: ignore[attr-defined]
_write_theme = app_session._populate_theme_msg
_flush = ForwardMsgQueue.flush
_make_presenter = components.make_bidi_component_presenter  # type: ignore[attr-defined]
_themes: dict[str, CustomThemeConfig] = {}
_waking: list[Waking] = []


def install(loop: asyncio.AbstractEventLoop) -> None:
    """Take the place of Streamlit's own; called on the loop that serves."""
    replaced: list[tuple[object, str, object]] = [
        (SafeSessionState, "filtered_state", property(State)),
        (app_session, "_populate_theme_msg", write_theme),
        (ForwardMsgQueue, "flush", flush),
        (components, "make_bidi_component_presenter", presenter),
    ]
    # another loop than Python's own wakes up in its own way, and a loop that is debugged checks every call
    if isinstance(loop, asyncio.SelectorEventLoop) and not loop.get_debug():
        waking = Waking(loop)
        replaced += [
            (loop, "call_soon_threadsafe", waking.at_once),
            (AppSession, "_call_soon_on_event_loop", lambda _session, callback: waking.together(callback)),
        ]
        _waking[:] = [waking]
    for owner, name, ours in replaced:
        setattr(owner, name, ours)


def is_installed() -> bool:
    """Whether this process serves readers; a test of a page by itself does not."""
    return app_session._populate_theme_msg is write_theme


class State(Mapping[str, Any]):
    """A session's state under the names that a script knows: one value read for each that is asked for."""

    def __init__(self, state: SafeSessionState) -> None:
        self.state = state

    def __getitem__(self, key: str) -> Any:
        with self.state._lock:
            return self.state._state[key]

    def __iter__(self) -> Iterator[str]:
        return iter(_all_of_it(self.state))

    def __len__(self) -> int:
        return len(_all_of_it(self.state))


def write_theme(message: CustomThemeConfig, section: str = "theme") -> None:
    """Write a section of the theme's settings into a message; they are read once."""
    if section not in _themes:
        _themes[section] = CustomThemeConfig()
        _write_theme(_themes[section], section)
    message.MergeFrom(_themes[section])


def presenter(
    triggers: str, component: str | None = None, keys: set[str] | None = None
) -> Callable[[object, SessionState], object]:
    """How a component's state is shown to a script: what it told of itself, and what it has just triggered.

    Streamlit's own can also be written to, and makes a class for that each time; with triggers it still does.
    """
    whole = _make_presenter(triggers, component, keys)

    def present(value: object, state: SessionState) -> object:
        triggered = state._new_widget_state.states.get(triggers, NOTHING)
        return dict(value) if isinstance(value, dict) and triggered == NOTHING else whole(value, state)

    return present


def flush(queue: ForwardMsgQueue) -> list[ForwardMsg]:
    """The messages that wait for one reader, who then has none."""
    return _flush(queue) if queue._queue else []


class Waking:
    """Wakes a loop for what runs want done there, once for all that comes within TOGETHER.

    A run gives the loop its messages one by one, and waking it takes as long as making a small message. The
    first wakes it; those that follow are done when TOGETHER is over, in their order. Python's own
    `call_soon_threadsafe` likewise puts a call into the loop's list from the other thread, and then wakes it:
    even where the loop itself calls it, and so is awake.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.wake = loop.call_soon_threadsafe
        self.thread = threading.get_ident()
        self.awake = False  # the loop will look at its list within TOGETHER

    def at_once(self, callback: Call, *args: Any, context: Context | None = None) -> asyncio.Handle:
        """What `call_soon_threadsafe` does, without waking what is awake."""
        own = threading.get_ident() == self.thread
        return (self.loop.call_soon if own else self.wake)(callback, *args, context=context)

    def together(self, callback: Call) -> None:
        """Have something done for a session; a server that has stopped does it no more."""
        try:
            self.loop.call_soon(callback)
            if not self.awake:
                self.awake = True
                self.wake(self.loop.call_later, TOGETHER, self.rest)
        except RuntimeError:
            if not self.loop.is_closed():
                raise

    def rest(self) -> None:
        """Whatever comes next wakes the loop."""
        self.awake = False


def hurry() -> None:
    """Have the next message sent at once, and with it all that wait: the board, and the end of a run."""
    for waking in _waking:
        waking.rest()

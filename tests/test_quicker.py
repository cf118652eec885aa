"""What takes the place of Streamlit's own tells the same, and is still used by this version."""

from __future__ import annotations

import asyncio
import inspect
import threading
from functools import partial

import pytest
from streamlit import config
from streamlit.components.v2.bidi_component import main as components
from streamlit.elements.widgets import selectbox, slider, text_widgets
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.NewSession_pb2 import CustomThemeConfig
from streamlit.runtime import runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.state import SessionState
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.safe_session_state import SafeSessionState

from attention_ui import quicker
from attention_ui.quicker import State, Waking, write_theme

LAST = 5
SECTIONS = ["theme", *(f"theme.{category.value}" for category in config.CustomThemeCategories)]


@pytest.fixture
def state() -> SafeSessionState:
    inner = SessionState()
    inner["desk"], inner["none"] = 1, None
    return SafeSessionState(inner, lambda: None)


def test_the_state_has_the_same_values(state):
    whole = state.filtered_state
    view = State(state)
    assert dict(view) == whole == {"desk": 1, "none": None}
    assert len(view) == len(whole)


@pytest.mark.parametrize("key", ["desk", "none", "nothing"])
def test_one_value_is_told_alike(state, key):
    whole, view = state.filtered_state, State(state)
    assert (key in view) == (key in whole)
    assert view.get(key, "not there") == whole.get(key, "not there")


@pytest.mark.parametrize("section", SECTIONS)
def test_the_theme_is_told_alike_every_time(section):
    own, first, second = (CustomThemeConfig() for _ in range(3))
    quicker._write_theme(own, section)
    write_theme(first, section)
    write_theme(second, section)
    assert own == first == second


def test_the_themes_of_this_app_are_not_empty():
    told = CustomThemeConfig()
    write_theme(told, "theme.dark")
    assert told.background_color


TOLD = {"ops": {"session": "s", "ops": [[1, "undo"]]}}
TRIGGERED = [{"event": "drawn", "value": 3}]


@pytest.mark.parametrize("value", [TOLD, {}, None, "not a mapping"])
@pytest.mark.parametrize("triggered", ["absent", None, [], TRIGGERED])
def test_a_components_state_is_shown_alike(value, triggered):
    state = SessionState()
    told = WidgetMetadata(
        "triggers", lambda given: given, lambda given: given, value_type="json_trigger_value"
    )
    state._new_widget_state.set_widget_metadata(told)
    if triggered != "absent":
        state._new_widget_state.set_from_value("triggers", triggered)
    own = quicker._make_presenter("triggers", "board", {"ops"})(value, state)
    ours = quicker.presenter("triggers", "board", {"ops"})(value, state)
    assert ours == own
    tells_triggers = isinstance(value, dict) and triggered is TRIGGERED
    assert (isinstance(ours, dict) and "drawn" in ours) == tells_triggers


def test_what_a_script_does_with_a_components_state_leaves_what_was_told():
    shown = quicker.presenter("triggers")(TOLD, SessionState())
    shown["ops"] = None  # type: ignore[index]
    assert TOLD["ops"]


def test_messages_that_wait_are_taken_once():
    message, queue = ForwardMsg(), ForwardMsgQueue()
    message.delta.new_element.text.body = "for a reader"
    message.metadata.delta_path[:] = [0, 0]
    assert quicker.flush(queue) == []
    for _ in range(2):  # the second takes the place of the first, and so once more after they were taken
        queue.enqueue(message)
        queue.enqueue(message)
        assert quicker.flush(queue) == [message]
    assert quicker.flush(queue) == []


def used_in(what: object) -> str:
    return inspect.getsource(what)  # type: ignore[arg-type]


def test_streamlit_still_uses_what_is_replaced():
    assert "presenter = make_bidi_component_presenter(" in used_in(components)
    for module in (slider, selectbox, text_widgets):
        assert "get_session_state().filtered_state" in used_in(module)
    assert "_populate_theme_msg(" in used_in(AppSession._create_new_session_message)
    assert "self._call_soon_on_event_loop(" in used_in(AppSession._on_scriptrunner_event)
    assert "return self._browser_queue.flush()" in used_in(AppSession.flush_browser_queue)
    assert "call_soon_threadsafe(async_objs.need_send_data.set)" in used_in(runtime.Runtime)


class Story:
    """A loop that sleeps, and a thread beside it that asks for work on it."""

    def __init__(self, hurries: bool = False) -> None:
        self.done: list[int] = []
        self.woken = 0
        asyncio.run(self._tell(hurries))

    async def _tell(self, hurries: bool) -> None:
        waking, all_done = Waking(asyncio.get_running_loop()), asyncio.Event()
        plain, own = waking.wake, threading.get_ident()

        def wake(*asked):
            self.woken += 1
            return plain(*asked)

        def do(which: int) -> None:
            assert threading.get_ident() == own
            self.done.append(which)
            if which == LAST:
                all_done.set()

        def run() -> None:
            for which in range(LAST + 1):
                waking.together(partial(do, which))
                if hurries:
                    waking.rest()

        waking.wake = wake
        thread = threading.Thread(target=run)
        thread.start()
        await asyncio.wait_for(all_done.wait(), 30)  # where nothing wakes the loop, this does, too late
        thread.join()


def test_what_comes_together_is_done_in_its_order_and_wakes_the_loop_once(monkeypatch):
    monkeypatch.setattr(quicker, "TOGETHER", 1.0)
    story = Story()
    assert story.done == list(range(LAST + 1))
    assert story.woken == 1


def test_what_comes_first_is_not_forgotten_while_more_comes():
    assert Story().done == list(range(LAST + 1))


def test_in_a_hurry_each_wakes_the_loop():
    assert Story(hurries=True).woken == LAST + 1


def test_on_its_own_thread_a_loop_is_not_woken():
    async def story() -> list[int]:
        waking, done = Waking(asyncio.get_running_loop()), []
        waking.wake = None  # type: ignore[assignment]
        waking.at_once(done.append, 1)
        await asyncio.sleep(0)
        return done

    assert asyncio.run(story()) == [1]


def test_a_server_that_has_stopped_does_nothing_more():
    loop = asyncio.new_event_loop()
    waking = Waking(loop)
    loop.close()
    waking.together(lambda: None)

"""The gate: beyond a limit a reader is refused, closed or slowed down, and nobody else is."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

from attention_core import limits
from attention_core.limits import ALONE
from attention_ui import gate, wire
from attention_ui.allowance import Allowance, Work
from attention_ui.gate import Gate, Visit, closing, is_last, most_readers

STREAM = {"type": "websocket", "path": "/_stcore/stream", "headers": []}


def request(told: str = "", path: str = "") -> bytes:
    """A browser's request for a run; `told` is what a component says, as JSON."""
    message = BackMsg()
    message.rerun_script.query_string = path
    if told:
        message.rerun_script.widget_states.widgets.append(WidgetState(id="board", json_value=told))
    return bytes(message.SerializeToString())


def finished(how: int = ForwardMsg.FINISHED_SUCCESSFULLY) -> bytes:
    return bytes(ForwardMsg(script_finished=how).SerializeToString())


def listening(asked: list[ClientState]):
    """An app that accepts, notes what it is asked for and answers every message with the end of a run."""

    async def app(scope: dict, receive, send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            asked.append(BackMsg.FromString(message["bytes"]).rerun_script)
            await send({"type": "websocket.send", "bytes": finished()})

    return app


echo = listening([])


class Browser:
    """The other end of a websocket that passes the gate."""

    def __init__(self, stands: Gate) -> None:
        self.gate = stands
        self.told: asyncio.Queue[dict] = asyncio.Queue()
        self.heard: asyncio.Queue[dict] = asyncio.Queue()
        self.task = asyncio.ensure_future(stands(STREAM, self.told.get, self.heard.put))
        self.told.put_nowait({"type": "websocket.connect"})

    async def hear(self) -> dict:
        return await asyncio.wait_for(self.heard.get(), 5)

    def say(self, data: bytes) -> None:
        self.told.put_nowait({"type": "websocket.receive", "bytes": data})

    async def reader(self) -> Browser:
        """Connect and ask for a page."""
        assert (await self.hear())["type"] == "websocket.accept"
        self.say(request())
        assert (await self.hear())["type"] == "websocket.send"
        return self

    async def leave(self) -> None:
        self.told.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await asyncio.wait_for(self.task, 5)


async def answered(stands: Gate, path: str, accept: str = "*/*", method: str = "GET") -> tuple[int, bytes]:
    """Status and body of an answer to a request that is not a websocket; 0 where the app itself answers."""
    heard: list[dict] = []

    async def send(message: dict) -> None:
        heard.append(message)

    scope = {"type": "http", "path": path, "method": method, "headers": [(b"accept", accept.encode())]}
    await stands(scope, asyncio.Queue().get, send)
    return (heard[0]["status"], heard[1]["body"]) if heard else (0, b"")


async def silence(scope: dict, receive, send) -> None:
    if scope["type"] == "websocket":
        await echo(scope, receive, send)


@pytest.fixture(autouse=True)
def two_readers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(gate.SETTING, "2")
    monkeypatch.setattr(gate, "MOST_SILENT", 2)
    most_readers.cache_clear()
    yield
    most_readers.cache_clear()


def test_one_reader_more_than_there_is_room_for_is_refused_until_another_leaves() -> None:
    async def story() -> None:
        stands = Gate(echo)
        first, _second = await Browser(stands).reader(), await Browser(stands).reader()
        assert await Browser(stands).hear() == {"type": "websocket.close", "code": wire.LATER}
        await first.leave()
        await Browser(stands).reader()

    asyncio.run(story())


def test_a_full_server_says_so_in_one_sentence_and_answers_everything_else_as_ever() -> None:
    async def story() -> None:
        stands = Gate(silence)
        for _ in range(2):
            assert await answered(stands, "/walkthrough", "text/html") == (0, b"")
            await Browser(stands).reader()
        sentence = "This server is full. Readers that it takes at once: 2. It tries again by itself."
        status, body = await answered(stands, "/walkthrough", "text/html,*/*")
        assert status == 503 and sentence.encode() in body
        status, body = await answered(stands, "/_stcore/host-config")
        assert status == 503 and json.loads(body) == sentence
        for path in ("/_stcore/health", "/ready", "/static/js/index.js"):
            assert await answered(stands, path) == (0, b"")

    asyncio.run(story())


def test_two_that_came_before_there_was_a_full_house_are_told_when_they_ask_for_a_page() -> None:
    async def story() -> None:
        stands = Gate(echo)
        late = Browser(stands)
        assert (await late.hear())["type"] == "websocket.accept"
        for _ in range(2):
            await Browser(stands).reader()
        late.say(request())
        assert await late.hear() == {"type": "websocket.close", "code": wire.LATER}
        await asyncio.wait_for(late.task, 5)

    asyncio.run(story())


def test_of_too_many_silent_connections_the_first_is_sent_away_and_readers_still_come() -> None:
    async def story() -> None:
        stands = Gate(echo)
        silent = [Browser(stands) for _ in range(5)]
        for browser in silent:
            assert (await browser.hear())["type"] == "websocket.accept"
        for browser in silent[:3]:
            assert await browser.hear() == {"type": "websocket.close", "code": wire.LATER}
        await Browser(stands).reader()  # silent at first, too
        assert (await silent[3].hear())["code"] == wire.LATER
        assert len(stands.readers) == 1 and len(stands.silent) == 1
        await silent[4].leave()
        assert not stands.silent

    asyncio.run(story())


def test_what_the_app_still_says_after_it_has_closed_a_websocket_goes_nowhere() -> None:
    async def closing(scope: dict, receive, send) -> None:
        await receive()
        for message in ({"type": "websocket.accept"}, {"type": "websocket.close", "code": 1003}):
            await send(message)
        await send({"type": "websocket.send", "bytes": finished()})

    async def story() -> None:
        browser = Browser(Gate(closing))
        assert [(await browser.hear())["type"] for _ in range(2)] == ["websocket.accept", "websocket.close"]
        await asyncio.wait_for(browser.task, 5)
        assert browser.heard.empty()

    asyncio.run(story())


@pytest.mark.parametrize("said", ["0", "-1", "many", "", "1.5", "٣"])
def test_a_number_of_readers_that_makes_no_sense_is_refused(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(gate.SETTING, said)
    with pytest.raises(ValueError, match=gate.SETTING):
        most_readers()


def bytes_of(data: bytes) -> dict:
    return {"type": "websocket.receive", "bytes": data}


OPS = json.dumps({"ops": {"session": "x", "ops": [[k, "edit", "q", 0, 0, "[{1"] for k in range(500)]}})


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (bytes_of(request()), 0),
        (bytes_of(request(OPS)), 0),
        (
            bytes_of(
                request(json.dumps({"ops": {"ops": [[1, "paste", "q", 0, 0, "[" * 90_000 + "7" * 9_999]]}}))
            ),
            0,
        ),
        (bytes_of(request("not JSON")), 0),
        (bytes_of(request(path="x" * limits.LARGEST_MESSAGE)), wire.TOO_BIG),
        (bytes_of(request("[" * 100_000)), wire.NOT_ALLOWED),
        (bytes_of(request('{"a":' * 60 + "1" + "}" * 60)), wire.NOT_ALLOWED),
        (bytes_of(request("[" + "[]," * 50_000 + "[]]")), wire.NOT_ALLOWED),
        (bytes_of(request('{"ops":{"ops":[[' + "9" * 5_000 + ',"undo"]]}}')), wire.NOT_ALLOWED),
        (
            bytes_of(request('"' + '\\"' * 100_000 + "[" * 60)),
            0,
        ),  # one text that does not end: no JSON at all
        (bytes_of(b"\xff" * 20), wire.NO_MESSAGE),
        ({"type": "websocket.receive", "text": "hello"}, wire.NOT_BYTES),
    ],
)
def test_what_no_page_sends_closes_the_websocket(message: dict, code: int) -> None:
    assert closing(message) == code


def test_a_closed_message_never_reaches_the_app() -> None:
    async def story() -> None:
        browser = await Browser(Gate(echo)).reader()
        browser.say(b"\xff" * 20)
        assert await browser.hear() == {"type": "websocket.close", "code": wire.NO_MESSAGE}
        await asyncio.wait_for(browser.task, 5)
        assert browser.heard.empty()

    asyncio.run(story())


def test_a_browser_that_is_gone_while_it_is_told_something_is_nobodys_error() -> None:
    async def story() -> None:
        told: asyncio.Queue[dict] = asyncio.Queue()
        for message in ({"type": "websocket.connect"}, bytes_of(request()), {"type": "websocket.disconnect"}):
            told.put_nowait(message)

        async def send(message: dict) -> None:
            if message["type"] != "websocket.accept":
                raise OSError

        await asyncio.wait_for(Gate(echo)(STREAM, told.get, send), 5)

    asyncio.run(story())


def test_the_first_run_of_a_connection_is_one_of_the_whole_page() -> None:
    runs: list[ClientState] = []

    async def story() -> None:
        tab = Browser(Gate(listening(runs)))  # it has stayed open while the server was started anew
        await tab.hear()
        part = BackMsg()
        part.rerun_script.fragment_id, part.rerun_script.query_string = "board", "dk=3"
        for _ in range(2):
            tab.say(part.SerializeToString())
            await tab.hear()

    asyncio.run(story())
    assert [run.fragment_id for run in runs] == ["", "board"]
    assert {run.query_string for run in runs} == {"dk=3"}


def test_what_is_entered_on_a_page_that_a_reader_is_leaving_does_not_bring_him_back() -> None:
    """The browser shows the old page until the next one begins to come, and names it in what it asks for."""
    visit = Visit(Gate(silence), None, None)

    def handed_on(message: bytes) -> tuple[str, str]:
        asked = BackMsg.FromString(message).rerun_script
        visit._of_the_whole_page(asked)
        return asked.page_script_hash, asked.fragment_id

    opening = move(1, page="", part="")  # by a link: which page it leads to, the server says
    assert handed_on(opening) == ("", "")
    assert handed_on(move(2, page="home")) == ("home", "controls")
    assert handed_on(move(2, page="steps", part="")) == ("steps", "")
    assert handed_on(move(3, page="home")) == ("steps", "")
    assert handed_on(move(4, page="steps")) == ("steps", "controls")
    assert handed_on(move(4, page="home", part="", is_history_navigation=True)) == ("home", "")
    assert handed_on(move(5, page="steps")) == ("home", "")
    assert handed_on(move(6, page="home")) == ("home", "controls")


def test_a_run_is_over_when_it_has_finished_or_failed_and_not_when_the_next_has_come() -> None:
    assert is_last(finished()) and is_last(finished(ForwardMsg.FINISHED_WITH_COMPILE_ERROR))
    assert is_last(finished(ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY))
    assert not is_last(finished(ForwardMsg.FINISHED_EARLY_FOR_RERUN))
    long = ForwardMsg(script_finished=ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
    long.metadata.run.fragment_ids.extend("part" * 8 + str(number) for number in range(9))
    assert is_last(long.SerializeToString())  # it names every part that ran
    assert not is_last(ForwardMsg(ref_hash="x").SerializeToString()) and not is_last(b"x" * 10_000)


def without_time(browser: Browser, missing: float) -> None:
    """Leave a reader so many seconds short, among others who ask for something all the time."""
    (visit,) = browser.gate.readers
    visit.allowance.left = -missing
    browser.gate.work.asked[Allowance(0)] = math.inf


def waits(
    pause: float, work: float, size: int = 3_000, changes: int = 400, others: int = 1, at_once: int = 0
) -> list[float]:
    """How long each of many changes is held back, when one follows another after a pause.

    `others` ask for something between them, and the server works for `at_once` of those all the time.
    """
    now, found = 0.0, []
    server = Work()
    allowance, *rest = (Allowance(now, server) for _ in range(1 + max(others, at_once)))
    for _ in range(changes):
        for other in rest[:others]:
            other.asked(now, size)
        for other in rest[:at_once]:
            other.begins(now)
        found.append(allowance.missing(now) if allowance.asked(now, size) else 0)
        now += found[-1]
        allowance.begins(now)
        now += work
        allowance.ends(now)
        now += pause
    return found


def test_nobody_who_works_with_the_app_is_held_back() -> None:
    assert max(waits(pause=0.2, work=0.02)) == 0  # five edits a second, on and on
    assert max(waits(pause=5, work=1.0)) == 0  # on a server that is far too busy
    assert max(waits(pause=0.03, work=0.03)[:30]) == 0  # keys held down for two seconds


def test_who_is_alone_waits_for_nobody() -> None:
    assert max(waits(pause=0, work=1.0, others=0)) == 0
    assert max(waits(pause=0, work=0.001, others=0, size=limits.LARGEST_MESSAGE)) == 0
    now, server = 100.0, Work()
    busy, other = Allowance(now, server), Allowance(now, server)

    def has_to_wait(later: float) -> bool:
        busy.left = -limits.LONGEST_WAIT - later
        return busy.asked(now + later, 0)

    assert not has_to_wait(0)
    other.asked(now, 0)
    assert has_to_wait(0) and has_to_wait(0.9 * ALONE)
    assert not has_to_wait(1.1 * ALONE)
    other.asked(now + 2 * ALONE, 0)
    assert has_to_wait(2 * ALONE)
    other.gone()
    assert not has_to_wait(2 * ALONE)


@pytest.mark.parametrize("at_once", [1, 4, 19])
def test_of_a_server_that_works_for_many_at_once_each_has_his_part(at_once: int) -> None:
    held = waits(pause=0, work=0.3, at_once=at_once)[100:]
    share = limits.SHARE * (1 + at_once)
    assert 0.3 / (0.3 + sum(held) / len(held)) == pytest.approx(min(1, share), rel=0.2)
    assert max(waits(pause=1.1, work=1, at_once=at_once)) == 0  # while it takes a second for everybody


def test_who_was_never_answered_takes_no_part_for_long() -> None:
    server = Work()
    stuck, reader = Allowance(0, server), Allowance(0, server)
    stuck.begins(0)
    reader.begins(0)
    assert server.settle(4) == 2
    reader.ends(4)
    assert server.settle(limits.LONGEST_RUN) - server.settle(4) == pytest.approx(limits.LONGEST_RUN - 4)


@pytest.mark.parametrize("work", [0.001, 0.01, 0.05, 0.3])
def test_whoever_asks_without_a_pause_gets_a_share_of_the_time(work: float) -> None:
    held = waits(pause=0, work=work)[100:]
    assert 0 < max(held) <= limits.LONGEST_WAIT
    assert work / (work + sum(held) / len(held)) <= limits.SHARE + 0.01
    assert len(held) / (sum(held) + len(held) * work) <= 1 / limits.EVERY


def test_without_time_in_hand_a_run_is_not_cut_short_and_the_pages_clock_is_left_out() -> None:
    async def story() -> list[str]:
        told: list[str] = []
        run, runs = asyncio.Event(), []

        async def app(scope: dict, receive, send) -> None:
            await receive()
            await send({"type": "websocket.accept"})
            while (message := await receive())["type"] == "websocket.receive":
                told.append(BackMsg.FromString(message["bytes"]).rerun_script.query_string)
                if told[-1] == "long":
                    await send({"type": "websocket.send", "bytes": b""})
                    asyncio.get_running_loop().call_later(0.3, run.set)
                    runs.append(asyncio.ensure_future(later(send)))

        async def later(send) -> None:
            await run.wait()
            told.append("over")
            await send({"type": "websocket.send", "bytes": finished()})

        browser = Browser(Gate(app))
        await browser.hear()
        browser.say(request(path="long"))
        await browser.hear()
        without_time(browser, 0.1)
        clock = BackMsg()
        clock.rerun_script.is_auto_rerun = True
        clock.rerun_script.query_string = "clock"
        for _ in range(3_000):  # however often it strikes
            browser.say(clock.SerializeToString())
        browser.say(request(path="next"))
        await browser.hear()
        async with asyncio.timeout(limits.LONGEST_WAIT + 2):
            while "next" not in told:
                await asyncio.sleep(0.05)
        await browser.leave()
        return told

    assert asyncio.run(story()) == ["long", "over", "next"]


def move(
    place: float = 0, pressed: str = "", page: str = "page", part: str = "controls", **more: bool
) -> bytes:
    """A browser's request after a slider was moved, or a button pressed beside it."""
    message = BackMsg()
    asked = message.rerun_script
    asked.page_script_hash, asked.fragment_id, asked.query_string = page, part, f"n={place:g}"
    told = WidgetState(id="n")
    told.double_array_value.data.append(place)
    asked.widget_states.widgets.append(told)
    if pressed:
        asked.widget_states.widgets.append(WidgetState(id=pressed, trigger_value=True))
    for name, holds in more.items():
        setattr(asked, name, holds)
    return bytes(message.SerializeToString())


def let_through(*messages: bytes) -> list[tuple[str, float, set[str]]]:
    """What the app is told of messages of which the first has to wait: part, slider and pressed buttons."""
    asked: list[ClientState] = []

    def told(run: ClientState) -> tuple[str, float, set[str]]:
        widgets = run.widget_states.widgets
        (place,) = [each.double_array_value.data[0] for each in widgets if each.id == "n"]
        return run.fragment_id, place, {each.id for each in widgets if each.trigger_value}

    async def story() -> None:
        browser = Browser(Gate(listening(asked)))
        await browser.hear()
        browser.say(move(-1, part=""))
        await browser.hear()
        without_time(browser, 0.2)
        for message in messages:
            browser.say(message)
        async with asyncio.timeout(10):
            while told(asked[-1])[1] != 9:
                await browser.hear()
        await browser.leave()

    asyncio.run(story())
    return [told(run) for run in asked[1:]]


def test_a_slider_that_was_drawn_over_ten_places_while_it_had_to_wait_is_one_run() -> None:
    assert let_through(*map(move, range(10))) == [("controls", 9, set())]


def test_what_has_to_wait_loses_no_button_and_no_other_part_or_page() -> None:
    assert let_through(move(1, "reset"), move(2, "new"), move(9)) == [("controls", 9, {"reset", "new"})]
    parts = [move(1), move(2), move(3, part="board"), move(9, part="board")]
    assert let_through(*parts) == [("controls", 2, set()), ("board", 9, set())]
    whole = move(9, part="")
    assert let_through(move(1, "reset"), whole) == [("", 9, {"reset"})]
    assert let_through(move(1, part=""), move(9)) == [("", 1, set()), ("controls", 9, set())]
    assert let_through(move(1), move(9, page="other", part="")) == [("controls", 1, set()), ("", 9, set())]
    back = move(9, part="", is_history_navigation=True)
    assert let_through(move(1), back) == [("controls", 1, set()), ("", 9, set())]
    clock = move(5, part="clock", is_auto_rerun=True)
    assert let_through(move(1), clock, move(9)) == [("controls", 9, set())]


def test_whoever_goes_away_takes_along_what_was_still_waiting() -> None:
    async def story(messages: int, leaves: bool) -> tuple[list[str], dict]:
        asked: list[ClientState] = []
        browser = await Browser(Gate(listening(asked))).reader()
        without_time(browser, 3)
        for number in range(messages):
            browser.say(request(path=str(number)))
        if leaves:
            await browser.leave()
            return [run.query_string for run in asked], {}
        heard = await browser.hear()
        await asyncio.wait_for(browser.task, 5)
        return [run.query_string for run in asked], heard

    began = time.monotonic()
    assert asyncio.run(story(100, leaves=True)) == ([""], {})
    told, heard = asyncio.run(story(limits.MOST_WAITING + 10, leaves=False))
    assert told == [""] and heard == {"type": "websocket.close", "code": wire.NOT_ALLOWED}
    assert time.monotonic() - began < 3


def test_a_megabyte_takes_as_much_as_fifty_small_messages() -> None:
    small = waits(pause=0, work=0.001, size=0)[100:]
    large = waits(pause=0, work=0.001, size=limits.LARGEST_MESSAGE)[100:]
    assert sum(large) > 10 * sum(small) and max(large) <= limits.LONGEST_WAIT


def test_a_run_that_never_begins_holds_nobody_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(gate, "time", SimpleNamespace(monotonic=lambda: now))

    async def nothing(*_: object) -> dict:
        return {}

    async def talk() -> float:
        nonlocal now
        visit = Visit(Gate(silence), nothing, nothing)
        await visit._taken(bytes_of(request()))
        now = 20.0  # nothing was told of that run: the server does not know the part it was meant for
        await visit._taken(bytes_of(request()))
        return visit.allowance.left

    assert asyncio.run(talk()) > 0

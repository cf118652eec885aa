"""The gate: how many readers a server takes at once, and how much one of them may ask for.

| limit (attention_core/limits.py) | beyond it |
|---|---|
| MOST_READERS | a page is answered by one sentence (503); where one is open, Streamlit's dialog says it |
| MOST_SILENT | the websocket that has been silent longest is closed; whoever asks for a page is not silent |
| LARGEST_MESSAGE | the websocket is closed (1009) before anything is made of the message |
| DEEPEST_MESSAGE, LONGEST_WHOLE | the websocket is closed (1008): no component tells such a value |
| SHARE, AT_A_STRETCH, EVERY | the next message is read later, LONGEST_WAIT seconds at most; none is lost |

The last row is for a reader who asks without a pause. Each has an allowance of time, which fills while the
server does not work for him and is used up four times as fast while it does. Where it is used up, the next
message also waits for the run before it, instead of cutting it short; what a page asks for by its own clock
is left out, because the clock strikes again.

ATTENTION_MOST_READERS sets another number of readers.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from attention_core.limits import (
    AT_A_STRETCH,
    DEEPEST_MESSAGE,
    EVERY,
    LARGEST_MESSAGE,
    LONGEST_RUN,
    LONGEST_WAIT,
    LONGEST_WHOLE,
    MOST_OPERATIONS,
    MOST_READERS,
    MOST_SILENT,
    SHARE,
)

SETTING = "ATTENTION_MOST_READERS"
STREAM, HOST_CONFIG = "/_stcore/stream", "/_stcore/host-config"
PIECE = 20_000  # bytes
SHORT = 100  # bytes; the message that a run has finished is shorter
NO_MESSAGE, NOT_BYTES, NOT_ALLOWED, TOO_BIG, LATER = 1002, 1003, 1008, 1009, 1013  # why a websocket is closed
LONGEST_SILENCE = 1.0  # seconds from a request to the first word of its run
MOST_BRACKETS = 4 * MOST_OPERATIONS
DIGITS = re.compile(rb"\d{%d}" % (LONGEST_WHOLE + 1))
BRACKET = re.compile(rb"[\[\]{}]")
STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)  # the last one may be left open


@cache
def most_readers() -> int:
    """How many readers this process takes. Raises ValueError for a setting that is no such number."""
    said = os.environ.get(SETTING, str(MOST_READERS)).strip()
    if not (said.isascii() and said.isdigit() and int(said) > 0):
        raise ValueError(f"{SETTING} is {said!r}; it must be a whole number above 0")
    return int(said)


def sentence() -> str:
    """What the reader is told for whom there is no room."""
    return f"This server is full. Readers that it takes at once: {most_readers()}. It tries again by itself."


class Gate:
    """Stands before the app and keeps the limits."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.readers: set[Visit] = set()
        self.silent: dict[Visit, None] = {}  # in the order in which they came

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more reader."""
        return len(self.readers) >= most_readers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, or tell that the server is full."""
        if scope["type"] == "websocket" and scope["path"].endswith(STREAM):
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http" and self.is_full and (answer := told_instead(scope)):
            await answer(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.is_full:
            await receive()
            await send({"type": "websocket.close", "code": LATER})
            return
        visit = Visit(self, receive, send)
        try:
            await self.app(scope, visit.received, visit.sent)
        finally:
            self.readers.discard(visit)
            self.silent.pop(visit, None)

    def came(self, visit: Visit) -> None:
        """A websocket was opened. It is silent still; of too many the first is sent away."""
        self.silent[visit] = None
        if len(self.silent) > MOST_SILENT:
            next(iter(self.silent)).send_away()

    def spoke(self, visit: Visit) -> bool:
        """A websocket has said its first word; whether there is room for one more reader."""
        self.silent.pop(visit, None)
        if self.is_full:
            return False
        self.readers.add(visit)
        return True


def allow_many_connections() -> None:
    """Let this process hold as many connections as the system allows it; silent ones cost little."""
    if sys.platform != "win32":
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def told_instead(scope: Scope) -> Response | None:
    """What a full server answers; None where the request is not for a page."""
    later = {"retry-after": "20", "cache-control": "no-store"}
    if scope["path"].endswith(HOST_CONFIG):  # Streamlit's page asks for it first and shows what it is told
        return JSONResponse(sentence(), 503, later)
    if scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", ""):
        return HTMLResponse(PAGE.format(sentence=sentence()), 503, {**later, "refresh": "20"})
    return None


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Full for now</title>
<body style="font: 1.1rem/1.5 sans-serif; margin: 15vh auto; max-width: 32em; padding: 0 1em">
<h1>Full for now</h1><p>{sentence}</p><p>Your numbers stay in the address bar.</p></body></html>
"""


@dataclass(eq=False)
class Visit:
    """One websocket on its way through the gate."""

    gate: Gate
    receive: Receive
    send: Send
    allowance: Allowance = field(default_factory=lambda: Allowance(time.monotonic()))
    idle: asyncio.Event = field(default_factory=asyncio.Event)  # set while no run is on
    opened: bool = False
    spoken: bool = False
    closed: bool = False
    waiting: asyncio.Future[Message] | None = None  # for the first word
    unanswered: float | None = None  # since when a run is asked for of which nothing has been told

    def __post_init__(self) -> None:
        self.idle.set()

    async def received(self) -> Message:
        """The next message for the app; or, where a limit is passed, that the websocket is closed."""
        if not self.opened:
            self.opened = True
            return await self.receive()  # that somebody wants to connect
        while True:
            message = await (self.receive() if self.spoken else self._first_word())
            if message["type"] != "websocket.receive":
                return message
            if code := closing(message):
                return await self._closed(code)
            if not self.spoken and not self.gate.spoke(self):
                return await self._closed(LATER)
            self.spoken = True
            if await self._taken(message["bytes"]):
                return message

    async def _taken(self, data: bytes) -> bool:
        """Hold a message back where there is no time in hand; whether it is handed on."""
        asked = BackMsg.FromString(data)
        self._give_up()
        if self.allowance.asked(time.monotonic(), len(data)):
            if asked.rerun_script.is_auto_rerun:
                return False
            with suppress(TimeoutError):
                await asyncio.wait_for(self.idle.wait(), LONGEST_RUN)
            await asyncio.sleep(self.allowance.missing(time.monotonic()))
        if asked.WhichOneof("type") == "rerun_script":
            self.unanswered = time.monotonic()
            self.allowance.begins(self.unanswered)
            self.idle.clear()
        return True

    def _give_up(self) -> None:
        """No longer count a run of which nothing was told: it was asked of a server that knows no such part.

        Streamlit drops what is meant for a part of a page that a new server has not drawn yet, in silence.
        """
        if self.unanswered is not None and time.monotonic() - self.unanswered > LONGEST_SILENCE:
            self.unanswered = None
            self.allowance.never_was()
            self.idle.set()

    async def sent(self, message: Message) -> None:
        """A message to the browser, on its way out; one to a browser that is gone is nobody's error."""
        if message["type"] == "websocket.accept":
            self.gate.came(self)
        elif message["type"] == "websocket.send" and is_last(message.get("bytes") or b""):
            self.allowance.ends(time.monotonic())
            self.idle.set()
        self.unanswered = None
        if not self.closed:
            with suppress(OSError):  # the app is told when it next asks for a message
                await self.send(message)

    def send_away(self) -> None:
        """End the wait for the first word."""
        self.gate.silent.pop(self, None)
        if self.waiting is not None:
            self.waiting.cancel()

    async def _first_word(self) -> Message:
        self.waiting = asyncio.ensure_future(self.receive())
        try:
            return await asyncio.shield(self.waiting)
        except asyncio.CancelledError:
            if not self.waiting.cancelled():  # the server stops, and everybody goes
                self.waiting.cancel()
                raise
            return await self._closed(LATER)

    async def _closed(self, code: int) -> Message:
        self.closed = True
        with suppress(OSError):
            await self.send({"type": "websocket.close", "code": code})
        return {"type": "websocket.disconnect", "code": code}


@dataclass
class Allowance:
    """Seconds that one reader has in hand.

    They grow by one a second, up to AT_A_STRETCH. Each message takes EVERY of them, and as much again for
    each PIECE of it; while the server works for this reader, 1 / SHARE of them go in a second.
    """

    at: float
    left: float = AT_A_STRETCH
    at_work: bool = False

    def asked(self, now: float, size: int) -> bool:
        """Whether a message of that many bytes, which has just come, has to wait."""
        self._settle(now)
        self.left = max(-LONGEST_WAIT, self.left - EVERY * (1 + size / PIECE))
        return self.left < 0

    def missing(self, now: float) -> float:
        """How many seconds it has to wait."""
        self._settle(now)
        return max(0.0, -self.left)

    def begins(self, now: float) -> None:
        """The server sets to work."""
        self._settle(now)
        self.at_work = True

    def ends(self, now: float) -> None:
        """The work is done."""
        self._settle(now)
        self.at_work = False

    def never_was(self) -> None:
        """There was no work after all, so it took no time."""
        self.at_work = False

    def _settle(self, now: float) -> None:
        grown = (now - self.at) * (1 - self.at_work / SHARE)
        self.left = max(-LONGEST_WAIT, min(AT_A_STRETCH, self.left + grown))
        self.at = now


def is_last(data: bytes) -> bool:
    """Whether a message says that a run is over, and not just left for the next one."""
    if len(data) > SHORT:
        return False
    told = ForwardMsg.FromString(data)
    early = told.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN
    return told.WhichOneof("type") == "script_finished" and not early


def closing(message: Message) -> int:
    """Why a message closes the websocket that it came by; 0 where it does not."""
    data: bytes = message.get("bytes") or b""
    if len(data) > LARGEST_MESSAGE:
        return TOO_BIG
    if message.get("text") is not None:
        return NOT_BYTES
    try:
        asked = BackMsg.FromString(data)
    except Exception:  # Streamlit would write the whole error into the log
        return NO_MESSAGE
    if data.count(b"[") + data.count(b"{") <= DEEPEST_MESSAGE and not DIGITS.search(data):
        return 0  # there is nothing in it that would have to be looked into
    return NOT_ALLOWED if any(map(_is_forged, _told(asked))) else 0


def _told(message: BackMsg) -> Iterator[bytes]:
    """What components tell, as JSON."""
    for state in message.rerun_script.widget_states.widgets:
        yield (state.json_value or state.json_trigger_value).encode()


def _is_forged(text: bytes) -> bool:
    """Whether JSON holds lists too deep within lists, very many of them, or too long a whole number."""
    outside = STRING.sub(b"", text)
    brackets = BRACKET.findall(outside)
    if len(brackets) > MOST_BRACKETS or DIGITS.search(outside):
        return True
    depths = accumulate(1 if bracket in b"[{" else -1 for bracket in brackets)
    return max(depths, default=0) > DEEPEST_MESSAGE

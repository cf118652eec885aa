"""The gate: how many readers a server takes at once, and how much one of them may ask for.

| limit (attention_core/limits.py) | beyond it |
|---|---|
| MOST_READERS | a page is answered by one sentence (503); where one is open, Streamlit's dialog says it |
| MOST_SILENT | the websocket that has been silent longest is closed; whoever asks for a page is not silent |
| LARGEST_MESSAGE | the websocket is closed (1009) before anything is made of the message |
| DEEPEST_MESSAGE, LONGEST_WHOLE | the websocket is closed (1008): no component tells such a value |
| MOST_WAITING | the websocket is closed (1008) where so many messages wait |
| SHARE, ALONE, AT_A_STRETCH, EVERY | the next message is read later, LONGEST_WAIT seconds at most |

The last row is for a reader who asks without a pause while there are others. Each has an allowance of time,
which fills while the server does not work for him and is used up four times as fast while it works for him
alone. Where it is used up, the next message also waits for the run before it, instead of cutting it short,
and takes along what has come after it: one run answers a slider that was drawn over ten places. No edit and
no press of a button is lost. What a page asks for by its own clock is left out, because the clock strikes
again.

ATTENTION_MOST_READERS sets another number of readers.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

from attention_core.limits import LONGEST_RUN, MOST_READERS, MOST_SILENT
from attention_ui.allowance import Allowance, Work
from attention_ui.wire import GONE, LATER, NOT_ALLOWED, Wire, closing, is_last

SETTING = "ATTENTION_MOST_READERS"
STREAM, HOST_CONFIG = "/_stcore/stream", "/_stcore/host-config"
LONGEST_SILENCE = 1.0  # seconds from a request to the first word of its run


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
        self.work = Work()

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
        visit = Visit(self, Wire(receive), send)
        try:
            await self.app(scope, visit.received, visit.sent)
        finally:
            self.readers.discard(visit)
            self.silent.pop(visit, None)
            visit.allowance.gone()

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
    wire: Wire
    send: Send
    allowance: Allowance = field(init=False)
    idle: asyncio.Event = field(default_factory=asyncio.Event)  # set while no run is on
    opened: bool = False
    spoken: bool = False
    has_page: bool = False  # a run of the whole page was asked for
    page: str = ""  # of which one last, as far as the browser tells
    closed: bool = False
    sent_away: bool = False
    unanswered: float | None = None  # since when a run is asked for of which nothing has been told

    def __post_init__(self) -> None:
        self.allowance = Allowance(time.monotonic(), self.gate.work)
        self.idle.set()

    async def received(self) -> Message:
        """The next message for the app; or, where a limit is passed, that the websocket is closed."""
        if not self.opened:
            self.opened = True
            return await self.wire.receive()  # that somebody wants to connect
        while True:
            message = await self.wire.next()
            if self.sent_away:
                return await self._closed(LATER)
            if message["type"] != "websocket.receive":
                return message
            if code := closing(message):
                return await self._closed(code)
            if not self.spoken and not self.gate.spoke(self):
                return await self._closed(LATER)
            self.spoken = True
            taken = await self._taken(message)
            if self.wire.is_flooded:
                return await self._closed(NOT_ALLOWED)
            if self.wire.gone:
                return GONE
            if taken is not None:
                return taken

    def _of_the_whole_page(self, run: ClientState) -> bool:
        """Have a run be one of a whole page where a part of it would not do; whether it was changed.

        The first of a connection: a tab whose server was started anew goes on where it was and asks for a
        part of its page, which this server has not drawn. Streamlit would leave that unanswered.

        And one for a part of the page that a reader is just leaving: what he entered there came after he had
        asked for the next page, which is still being made. Streamlit would go back for it.
        """
        leaves = bool(self.page) and bool(run.fragment_id) and run.page_script_hash != self.page
        if leaves:
            run.page_script_hash = self.page
        first, self.has_page = not self.has_page, True
        if leaves or first:
            run.ClearField("fragment_id")
        if not run.fragment_id:
            self.page = run.page_script_hash
        return leaves or first

    async def _taken(self, message: Message) -> Message | None:
        """What is handed on: the message, after a while where there is no time in hand, or nothing."""
        asked = BackMsg.FromString(message["bytes"])
        runs = asked.WhichOneof("type") == "rerun_script"
        if runs and self._of_the_whole_page(asked.rerun_script):
            message = {**message, "bytes": asked.SerializeToString()}
        self._give_up()
        if self.allowance.asked(time.monotonic(), len(message["bytes"])):
            if asked.rerun_script.is_auto_rerun:
                return None
            await self.wire.listen(self._time_in_hand())
            message, more = self.wire.gathered(message)
            self.allowance.told(more)
        if runs:
            self.unanswered = time.monotonic()
            self.allowance.begins(self.unanswered)
            self.idle.clear()
        return message

    async def _time_in_hand(self) -> None:
        """Until the run that is on is over, and then until there is time in hand."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.idle.wait(), LONGEST_RUN)
        await asyncio.sleep(self.allowance.missing(time.monotonic()))

    def _give_up(self) -> None:
        """No longer count a run of which nothing was told: it was asked of a server that knows no such part.

        Streamlit drops what is meant for a part of a page that a new server has not drawn yet, in silence.
        """
        if self.unanswered is not None and time.monotonic() - self.unanswered > LONGEST_SILENCE:
            self.unanswered = None
            self.allowance.never_was()
            self.idle.set()

    async def sent(self, message: Message) -> None:
        """A message to the browser, on its way out; one to a browser that is gone is nobody's error.

        Streamlit may have more to say after it has closed a websocket itself, because of what came in.
        """
        if message["type"] == "websocket.accept":
            self.gate.came(self)
        elif message["type"] == "websocket.send" and is_last(message.get("bytes") or b""):
            self.allowance.ends(time.monotonic())
            self.idle.set()
        self.unanswered = None
        if not self.closed:
            self.closed = message["type"] == "websocket.close"
            with suppress(OSError):  # the app is told when it next asks for a message
                await self.send(message)

    def send_away(self) -> None:
        """Wait no longer for the first word."""
        self.gate.silent.pop(self, None)
        self.sent_away = True
        self.wire.hang_up()

    async def _closed(self, code: int) -> Message:
        self.closed = True
        with suppress(OSError):
            await self.send({"type": "websocket.close", "code": code})
        return {"type": "websocket.disconnect", "code": code}

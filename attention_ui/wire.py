"""What comes by a websocket: in order, and nothing that no page sends."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from starlette.types import Message, Receive
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime.scriptrunner_utils.script_requests import _coalesce_widget_states

from attention_core.limits import (
    DEEPEST_MESSAGE,
    LARGEST_MESSAGE,
    LONGEST_WHOLE,
    MOST_OPERATIONS,
    MOST_WAITING,
)

NO_MESSAGE, NOT_BYTES, NOT_ALLOWED, TOO_BIG, LATER = 1002, 1003, 1008, 1009, 1013  # why a websocket is closed
MOST_BRACKETS = 4 * MOST_OPERATIONS
DIGITS = re.compile(rb"\d{%d}" % (LONGEST_WHOLE + 1))
BRACKET = re.compile(rb"[\[\]{}]")
STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)  # the last one may be left open
GONE: Message = {"type": "websocket.disconnect", "code": 1006}


@dataclass(eq=False)
class Wire:
    """The messages of one browser.

    It is listened to even while the app is not to be told anything: a browser that goes away takes along what
    was still waiting, and one that says far too much meanwhile is found out.
    """

    receive: Receive
    waiting: deque[Message] = field(default_factory=deque)
    coming: asyncio.Future[Message] | None = None
    gone: bool = False

    @property
    def is_flooded(self) -> bool:
        """Whether more is waiting than a page ever sends."""
        size = sum(len(message.get("bytes") or b"") for message in self.waiting)
        return len(self.waiting) > MOST_WAITING or size > 2 * LARGEST_MESSAGE

    async def next(self) -> Message:
        """The next message."""
        if self.gone:
            return GONE
        return self.waiting.popleft() if self.waiting else await self._come()

    async def listen(self, until: Coroutine[Any, Any, object]) -> None:
        """Wait for something else, and take up what comes meanwhile; end early where it need not go on."""
        done = asyncio.ensure_future(until)
        while not (done.done() or self.gone or self.is_flooded):
            either: set[asyncio.Future[Any]] = {done, self._listened()}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._listened().done():
                self.waiting.append(await self._come())
        done.cancel()

    def gathered(self, message: Message) -> tuple[Message, int]:
        """A message that has had to wait, together with what came after it and the same run answers.

        Of a slider that was drawn, it tells the last place. Also returns the bytes of what was taken along.
        """
        asked, size = BackMsg.FromString(message["bytes"]), 0
        while self.waiting and not (self.gone or self.is_flooded or closing(self.waiting[0])):
            data = self.waiting[0]["bytes"]
            later = BackMsg.FromString(data)
            if not later.rerun_script.is_auto_rerun:  # the page's own clock, which strikes again
                if not _in_one_run(asked.rerun_script, later.rerun_script):
                    break
                asked = _in_one(asked, later)
            self.waiting.popleft()
            size += len(data)
        return {**message, "bytes": asked.SerializeToString()}, size

    def hang_up(self) -> None:
        """Wait for nothing any more: whoever waits is told that the browser is gone."""
        self.gone = True
        if self.coming is not None:
            self.coming.cancel()

    def _listened(self) -> asyncio.Future[Message]:
        if self.coming is None:
            self.coming = asyncio.ensure_future(self.receive())
        return self.coming

    async def _come(self) -> Message:
        """What comes next; where the wait itself is cancelled, the server stops and so does this."""
        coming = self._listened()
        try:
            await asyncio.wait({coming})
        except asyncio.CancelledError:
            coming.cancel()
            raise
        self.coming = None
        message = GONE if coming.cancelled() else coming.result()
        self.gone = self.gone or message["type"] == "websocket.disconnect"
        return message


def is_last(data: bytes) -> bool:
    """Whether a message says that a run is over, and not just left for the next one.

    It names every part of the page that ran, so its length says nothing.
    """
    told = ForwardMsg.FromString(data)
    early = told.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN
    return told.WhichOneof("type") == "script_finished" and not early


def _in_one_run(asked: ClientState, later: ClientState) -> bool:
    """Whether the run that is asked for later also answers what was asked before."""
    known = asked.page_script_hash and asked.page_script_hash == later.page_script_hash
    goes_back = asked.is_history_navigation or later.is_history_navigation
    return bool(known) and not goes_back and later.fragment_id in ("", asked.fragment_id)


def _in_one(asked: BackMsg, later: BackMsg) -> BackMsg:
    """What is told later holds, as where Streamlit is asked for two runs while one is on.

    A browser tells only once that a button was pressed.
    """
    told = _coalesce_widget_states(asked.rerun_script.widget_states, later.rerun_script.widget_states)
    later.rerun_script.widget_states.CopyFrom(told or WidgetStates())
    return later


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

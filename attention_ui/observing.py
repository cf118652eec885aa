"""What can be seen of a running server from outside: `/ready`, `/metrics`, and what is counted on the way.

| address | answers |
|---|---|
| `/_stcore/health` | Streamlit's own: the process answers |
| `/ready` | 200 when pages can be run, 503 while the server starts or stops; a full server is ready |
| `/metrics` | counts and times for Prometheus, to this machine and its own network only |

ATTENTION_METRICS says who may read the metrics: `private` (the default: loopback and private addresses),
`loopback`, `off`, or networks such as `10.0.0.0/8,100.64.0.0/10`. A request that a proxy has passed on is
refused in every case, for it may come from anyone.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import RuntimeState, exists, get_instance

from attention_ui import log, metrics

SETTING = "ATTENTION_METRICS"
PASSED_ON = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
LONGEST = 1_000_000  # bytes of a message that is looked into; no reader's change is longer
STREAM, OWN_METRICS = "/_stcore/stream", "/_stcore/metrics"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@asynccontextmanager
async def observed() -> AsyncIterator[None]:
    """Around the serving itself: says start and stop in the log and keeps a clock running."""
    who_may_read()  # a setting that makes no sense ends the start, not the first request
    log.as_json_lines()
    log.say("start", pid=os.getpid())
    began = time.monotonic()
    clock = asyncio.create_task(strike_every_second())
    try:
        yield
    finally:
        clock.cancel()
        runs = {kind: metrics.RUNS.count(kind) for kind in metrics.RUNS.sums}
        log.say("stop", seconds=round(time.monotonic() - began, 1), runs=runs, errors=metrics.ERRORS.numbers)


async def strike_every_second() -> None:
    """Note how late a second ends: while the server is busy with one thing, all readers wait that long."""
    while True:
        due = time.perf_counter() + 1
        await asyncio.sleep(1)
        metrics.LATE.add(max(0.0, time.perf_counter() - due))


def ready(_request: Request | None = None) -> Response:
    """200 when pages can be run, else 503.

    Says nothing of how busy the server is: a proxy that left out a busy one would cut off the readers on it.
    """
    up = exists() and get_instance().state in (
        RuntimeState.NO_SESSIONS_CONNECTED,
        RuntimeState.ONE_OR_MORE_SESSIONS_CONNECTED,
    )
    return JSONResponse({"ready": up}, 200 if up else 503, {"cache-control": "no-store"})


def told_metrics(request: Request) -> Response:
    """The metrics, to those who may read them; to all others there is no such address."""
    if not may_read(request.scope):
        return PlainTextResponse("Not Found", 404)
    return Response(metrics.text(), media_type=metrics.CONTENT_TYPE, headers={"cache-control": "no-store"})


@cache
def who_may_read() -> Callable[[Address], bool]:
    """The setting as a test of an address. Raises ValueError where it is none of those that are offered."""
    said = os.environ.get(SETTING, "private").strip()
    if said == "off":
        return lambda _address: False
    if said == "loopback":
        return lambda address: address.is_loopback
    if said == "private":
        return lambda address: address.is_private and not address.is_unspecified
    try:
        networks = [ipaddress.ip_network(word.strip()) for word in said.split(",")]
    except ValueError as reason:
        raise ValueError(
            f"{SETTING} is {said!r}; it must be private, loopback, off, or networks separated by commas"
        ) from reason
    return lambda address: any(address in network for network in networks)


def may_read(scope: Scope) -> bool:
    """Whether a request came straight from an address that the setting names."""
    headers = Headers(scope=scope)
    if scope.get("client") is None or any(name in headers for name in PASSED_ON):
        return False
    try:
        address = ipaddress.ip_address(scope["client"][0])
    except ValueError:  # not an address: a test, or a socket with a name
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # ::ffff:10.0.0.1
    return who_may_read()(mapped or address)


class Observed:
    """Counts sessions, runs and errors as they pass, and keeps Streamlit's own metrics private."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on."""
        if scope["type"] == "http" and scope["path"].endswith(OWN_METRICS) and not may_read(scope):
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
            return
        try:
            if scope["type"] == "websocket" and scope["path"].endswith(STREAM):
                await self._session(scope, receive, send)
            else:
                await self.app(scope, receive, send)
        except Exception:
            metrics.ERRORS.add("request")
            raise

    async def _session(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = Session()

        async def received() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                session.asked(message.get("bytes") or b"")
            return message

        async def sent(message: Message) -> None:
            if message["type"] == "websocket.accept":
                session.opened()
            elif message["type"] == "websocket.send":
                session.told(message.get("bytes") or b"")
            elif message["type"] == "websocket.close" and not session.open:
                metrics.REFUSED.add()
            await send(message)

        try:
            await self.app(scope, received, sent)
        finally:
            session.closed()


@dataclass
class Session:
    """One websocket: which changes wait for their run, and which run is on.

    Streamlit merges changes that come while a run is on. A run answers all that were there when it began,
    and its time counts from the first of them.
    """

    open: bool = False
    waiting: list[tuple[float, str]] = field(default_factory=list)  # when it came, and of what kind
    running: list[tuple[float, str]] = field(default_factory=list)

    def opened(self) -> None:
        """The websocket was accepted."""
        self.open = True
        metrics.OPEN.add()
        metrics.SESSIONS.add()

    def closed(self) -> None:
        """The websocket is gone."""
        if self.open:
            self.open = False
            metrics.OPEN.add(by=-1)

    def asked(self, data: bytes) -> None:
        """A message from the browser."""
        if kind := kind_of(data):
            self.waiting.append((time.perf_counter(), kind))

    def told(self, data: bytes) -> None:
        """A message to the browser."""
        message = ForwardMsg.FromString(data)
        said = message.WhichOneof("type")
        if said == "new_session":
            self.running += self.waiting
            self.waiting = []
        elif said == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
            self.finished()

    def finished(self) -> None:
        """A run has ended: note how long the first change that it answers has waited."""
        if self.running:
            kinds = {kind for _, kind in self.running}
            kind = next(kind for kind in metrics.RUNS.sums if kind in kinds)
            metrics.RUNS.add(time.perf_counter() - min(came for came, _ in self.running), kind)
            self.running = []


def kind_of(data: bytes) -> str:
    """What a browser asks for: `page`, `edit`, `after` (what follows a painted board), or '' for no run."""
    if len(data) > LONGEST:
        return ""
    try:
        asked = BackMsg.FromString(data)
    except Exception:  # not a message at all: Streamlit closes the websocket
        return ""
    if asked.WhichOneof("type") != "rerun_script":
        return ""
    if not asked.rerun_script.fragment_id:
        return "page"
    states = asked.rerun_script.widget_states.widgets
    return "after" if any(state.WhichOneof("value") == "json_trigger_value" for state in states) else "edit"

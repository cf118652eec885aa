"""What every start of the app has in common, whoever starts it.

`streamlit run app.py`, `python app.py` and `uvicorn app:app` differ in who opens the port and who reads which
settings. Four things must hold in all of them, and none does by itself:

- no full garbage collection after every change (54 ms of processor time against 4 in a bare app), and few
  in between (sweeping.py);
- no small packet held back until the one before it is acknowledged (up to 40 ms each, Nagle's algorithm);
- no rest of 5 ms between the messages that begin a run and those that follow (3 ms of an edit's 11);
- no look-up on the outside network in the middle of serving (a websocket from a foreign page made
  Streamlit ask for its own outer address, and the whole server stood still for 20 s where nothing answers).

`lifespan` sees to the first three when the server starts, `SameOrigin` to the last at every connection.
Beside them, every start writes its log as JSON lines, counts what `/metrics` tells, and sends the headers of
headers.py with every answer.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import cli_util, config
from streamlit.runtime import runtime
from streamlit.web.server import server_util

from attention_ui import gate, metrics, quicker
from attention_ui.headers import SecurityHeaders
from attention_ui.observing import Observed, observed, ready, told_metrics
from attention_ui.sweeping import RARELY, sweep

HEAVY = ("numpy", "pandas", "plotly.graph_objects")
"""Modules that every reader needs and that take long to import: read before the first reader comes."""


REST = 0.001
"""Seconds that Streamlit rests after it has sent the messages at hand, to send those that come then together.

Its own 5 ms keep a placeholder that is filled at once from being shown empty. This app has no placeholders,
and a run that draws the board takes as long as that rest: most of its messages met it.
"""


@asynccontextmanager
async def lifespan(app: object) -> AsyncIterator[None]:
    """Around the life of one server: make it quick, then open the reader's browser where there is one."""
    quicker.install(asyncio.get_running_loop())
    async with bare_lifespan(app):
        yield


@asynccontextmanager
async def bare_lifespan(_app: object) -> AsyncIterator[None]:
    """The same without quicker.py: for the floor of the benchmarks."""
    config.set_option("runner.postScriptGC", False)
    runtime.MESSAGE_FLUSH_INTERVAL_SECS = REST  # type: ignore[attr-defined]  # it is imported there
    gate.most_readers()  # a setting that makes no sense ends the start
    gate.allow_many_connections()
    send_small_packets_at_once()
    for name in HEAVY:
        importlib.import_module(name)
    keep_what_is_there()
    open_browser()
    async with observed():
        sweeping = asyncio.create_task(sweep())
        yield
        sweeping.cancel()


def listening_sockets() -> Iterator[socket.socket]:
    """Every TCP socket on which this process is waiting for connections."""
    for thing in gc.get_objects():
        if type(thing) is socket.socket and thing.family in (socket.AF_INET, socket.AF_INET6):
            try:
                if thing.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    yield thing
            except OSError:  # closed in the meantime
                continue


def send_small_packets_at_once() -> None:
    """Set TCP_NODELAY on the port that is already open; connections inherit it.

    asyncio sets it on connections whose socket says it is TCP, and uvloop on all. Streamlit opens its port
    with `socket.socket(family)`, which does not say so, and hands it to uvicorn. A port that uvicorn opens
    itself comes later and needs no help.
    """
    for port in listening_sockets():
        port.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def keep_what_is_there() -> None:
    """Take what stays for good out of garbage collection, modules above all, and make full ones rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], RARELY)


def open_browser() -> None:
    """Open the app in a browser on a desktop; do nothing on a server.

    `streamlit run` does so for plain scripts, but not for `st.App`.
    """
    if config._server_mode != "asgi-server" and not config.get_option("server.headless"):
        cli_util.open_browser(server_util.get_url("localhost"))


def say_sorry(_error: Exception) -> bool:
    """What a reader sees instead of an error: one sentence, and the way on. The log has the details."""
    metrics.ERRORS.add("page")
    st.error("Something went wrong here. Your numbers are safe in the address bar: reload the page to go on.")
    return True


def middleware() -> list[Middleware]:
    """What stands in front of Streamlit's own routes, outermost first."""
    return [Middleware(SecurityHeaders), Middleware(Observed), Middleware(SameOrigin), Middleware(gate.Gate)]


def routes() -> list[BaseRoute]:
    """The addresses that are not pages."""
    return [Route("/ready", ready), Route("/metrics", told_metrics)]


class SameOrigin:
    """Lets a page open a websocket only to the server that it came from.

    The page's Origin must name the host that the request asks for, or the host that a proxy was asked for
    (X-Forwarded-Host, which no page can set on a websocket), or be listed in `server.corsAllowedOrigins`.
    Programs that are not browsers send no Origin and are let through. Where Streamlit's own check would go on
    to look addresses up, the Origin has done its work here and is not handed on.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, or refuse it with 403 before anything is looked up."""
        if scope["type"] == "websocket" and config.get_option("server.enableCORS"):
            headers = Headers(scope=scope)
            if not comes_from_here(headers):
                await receive()
                await send({"type": "websocket.close", "code": 1008})
                return
            if host_of(headers.get("origin", "")) != headers.get("host"):
                scope = {**scope, "headers": [h for h in scope["headers"] if h[0].lower() != b"origin"]}
        await self.app(scope, receive, send)


def comes_from_here(headers: Headers) -> bool:
    """True where the Origin is absent, is this server, or is one that the settings allow."""
    origin = headers.get("origin")
    if origin is None or origin in config.get_option("server.corsAllowedOrigins"):
        return True
    return host_of(origin) in hosts_asked_for(headers)


def hosts_asked_for(headers: Headers) -> set[str]:
    """Host and port as this server was asked for them, and as the proxies before it were."""
    forwarded = headers.get("x-forwarded-host", "").split(",")
    return {name.strip().lower() for name in [headers.get("host", ""), *forwarded] if name.strip()}


def host_of(origin: str) -> str:
    """Host and port of an Origin: `https://class.example:8443` -> `class.example:8443`; '' for `null`."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""

"""A first visit and a second one: bytes, requests, and the time until the board can be used.

Each page is opened in a real Chromium over a simulated line, once with an empty cache and once more with
what the browser has kept, in turn with an empty Streamlit page that is served alike. `--through` measures a
site that is up already, such as a proxy before the app, and leaves the empty page out. Chromium's simulated
line stands still for up to a minute now and then, with the answers unread in its sockets: a single time of
20 s and more on the LAN is that, and goes with another round.

    python benchmarks/first_load.py
    python benchmarks/first_load.py --rounds 1 --line LAN
    python benchmarks/first_load.py --through http://localhost:8080
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from common import APP, UVICORN, median, serve, table
from latency import bundles, started
from playwright.sync_api import Browser, BrowserContext

EMPTY = f"{UVICORN} --app-dir benchmarks empty_server:app"
LINES = {  # round trip in ms, megabits a second down and up
    "3G": (300, 1.6, 0.75),
    "LAN": (2, 100, 100),
}
READY = "[role=grid] [role=gridcell]"  # a cell of the board
PAGES = {"home": "", "the eight steps": "walkthrough", "compare masks": "compare", "heads": "part_05_heads"}
PATIENCE = 180_000  # ms
REST = 1_500  # ms that a page is watched after it is ready


@dataclass
class Visit:
    """What one visit took."""

    seconds: float
    requests: int
    wire: float  # bytes as they came
    unpacked: float
    plotly: int


@dataclass
class Line:
    """What the browser's own network log says of one page."""

    asked: dict[str, str] = field(default_factory=dict)
    from_cache: set[str] = field(default_factory=set)
    wire: float = 0
    unpacked: float = 0

    def watch(self, client: Any) -> None:
        """Listen to the log; frames of the websocket count as they are."""
        client.on("Network.requestWillBeSent", self._asked)
        client.on("Network.requestServedFromCache", lambda told: self.from_cache.add(told["requestId"]))
        client.on("Network.responseReceived", self._answered)
        client.on("Network.loadingFinished", self._finished)
        client.on("Network.dataReceived", self._received)
        client.on("Network.webSocketFrameReceived", self._heard)

    def _asked(self, told: dict[str, Any]) -> None:
        if told["request"]["url"].startswith("http"):  # not what the page makes itself, such as blobs
            self.asked[told["requestId"]] = told["request"]["url"]

    def _answered(self, told: dict[str, Any]) -> None:
        if told["response"].get("fromDiskCache"):
            self.from_cache.add(told["requestId"])

    def _finished(self, told: dict[str, Any]) -> None:
        if told["requestId"] in self.asked and told["requestId"] not in self.from_cache:
            self.wire += told["encodedDataLength"]

    def _received(self, told: dict[str, Any]) -> None:
        if told["requestId"] in self.asked and told["requestId"] not in self.from_cache:
            self.unpacked += told["dataLength"]

    def _heard(self, told: dict[str, Any]) -> None:
        size = len(told["response"]["payloadData"])
        size = size * 3 // 4 if told["response"]["opcode"] == 2 else size  # binary is told in base64
        self.wire += size
        self.unpacked += size

    @property
    def sent_for(self) -> list[str]:
        """The addresses that were really asked for on the network."""
        return [url for number, url in self.asked.items() if number not in self.from_cache]


def visit(context: BrowserContext, address: str, ready: str, line: str) -> Visit:
    """Open a page in a tab of its own and wait until it can be used."""
    round_trip, down, up = LINES[line]
    page = context.new_page()
    client = context.new_cdp_session(page)
    client.send("Network.enable")
    client.send(
        "Network.emulateNetworkConditions",
        {
            "offline": False,
            "latency": round_trip,
            "downloadThroughput": down * 1e6 / 8,
            "uploadThroughput": up * 1e6 / 8,
        },
    )
    log = Line()
    log.watch(client)
    page.goto(address, wait_until="commit", timeout=PATIENCE)
    page.locator(ready).first.wait_for(timeout=PATIENCE)
    seconds = float(page.evaluate("performance.now()")) / 1e3
    page.wait_for_timeout(REST)
    page.close()
    return Visit(seconds, len(log.sent_for), log.wire, log.unpacked, bundles(log.sent_for))


def visits(browser: Browser, address: str, ready: str, line: str) -> tuple[Visit, Visit]:
    """A first visit and a second one, in a browser of somebody new."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    try:
        return visit(context, address, ready, line), visit(context, address, ready, line)
    finally:
        context.close()


def row(line: str, name: str, kind: str, found: list[Visit], least: list[Visit]) -> list[str]:
    """One line of the table; the middle of all rounds."""
    time, time_least = median([v.seconds for v in found]), median([v.seconds for v in least])
    wire, wire_least = median([v.wire for v in found]), median([v.wire for v in least])
    return [
        line,
        name,
        kind,
        f"{median([v.requests for v in found]):.0f}",
        f"{wire / 1e3:,.0f} kB",
        f"{median([v.unpacked for v in found]) / 1e3:,.0f} kB",
        f"{time:.2f} s",
        f"{time / time_least:.2f} ×" if least else "",
        f"{wire / wire_least:.2f} ×" if least else "",
        f"{max(v.plotly for v in found)}",
    ]


def main() -> None:
    """Visit all pages in turn and print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--line", choices=list(LINES), help="one of the lines only")
    options.add_argument("--only", default="", help="a part of a page's name")
    options.add_argument("--through", default="", help="the address of a site that is up already")
    asked = options.parse_args()
    rows = []
    with ExitStack() as stack:
        browser = stack.enter_context(started())
        pages: dict[str, tuple[str, str]] = {}
        if not asked.through:
            empty, _ = stack.enter_context(serve(EMPTY))
            pages["empty page"] = (f"http://{empty}/", "[data-testid=stText]")
        host = asked.through.rstrip("/") or f"http://{stack.enter_context(serve(APP))[0]}"
        pages |= {name: (f"{host}/{path}", READY) for name, path in PAGES.items() if asked.only in name}
        for address, ready in pages.values():  # not counted: the servers still import things
            visits(browser, address, ready, "LAN")
        for line in [asked.line] if asked.line else LINES:
            found: dict[str, list[tuple[Visit, Visit]]] = {name: [] for name in pages}
            for _ in range(asked.rounds):
                for name, (address, ready) in pages.items():
                    found[name].append(visits(browser, address, ready, line))
            for place, kind in enumerate(("first", "second")):
                least = [both[place] for both in found.get("empty page", [])]
                rows += [
                    row(line, name, kind, [both[place] for both in found[name]], least) for name in pages
                ]
    table(
        ["line", "page", "visit", "requests", "on the wire", "unpacked", "usable after", "time against empty",
         "bytes against empty", "Plotly's program"],
        rows,
    )  # fmt: skip
    for line, (round_trip, down, up) in LINES.items():
        print(f"{line}: {round_trip} ms there and back, {down:g} Mbit/s down, {up:g} Mbit/s up")


if __name__ == "__main__":
    main()

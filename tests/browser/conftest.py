"""What every test in a real browser needs: a server for a script, Chromium, and an eye on what goes wrong.

`serve(script)` starts `streamlit run` on a free port, once for each script; its `log()` is what it printed.
`visit(url)` opens a page of its own session and hands back a `Visit`. When the test ends, every visit must
have had no error in the page or its console and no request to another host.
`until(page, holds)` waits for what has to come about, and `settled(page)` until nothing more is to come.
`axe(visit)` lists the accessibility faults on the page, as axe-core from npm finds them.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from attention_ui.wire import is_last

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
AXE = HERE / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
UPLOADER = [["[data-testid=stFileUploaderDropzone]"]]  # Streamlit's: what is presentation there has a name
PATIENCE = 15_000  # ms that a page may take on a busy machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder, so that `-m "not browser"` leaves it out."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@dataclass
class Server:
    """A running `streamlit run SCRIPT`."""

    script: Path
    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [
            sys.executable,
            "-m",
            "streamlit",
            "run",
            str(self.script),
            "--server.port",
            str(self.port),
        ]
        options = ["--server.headless", "true", "--browser.gatherUsageStats", "false"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command + options,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        for _ in range(150):
            try:
                with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=1):
                    return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError(f"{self.script.name} did not start:\n{self.log()}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def log(self) -> str:
        """Everything that the server has printed so far."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


@dataclass
class Visit:
    """A page in a tab of its own, and what went wrong in it."""

    page: Any
    host: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    asked: int = 0  # runs, by this page
    waits: bool = False  # for the end of one of them

    def watch(self) -> None:
        VISITS[self.page] = self
        self.page.on("websocket", self._connected)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))

    def _connected(self, socket: Any) -> None:
        socket.on("framesent", self._told)
        socket.on("framereceived", self._heard)
        socket.on("close", lambda _: self._over())

    def _told(self, data: bytes) -> None:
        if BackMsg.FromString(data).WhichOneof("type") == "rerun_script":
            self.asked += 1
            self.waits = True

    def _heard(self, data: bytes) -> None:
        if is_last(data):
            self._over()

    def _over(self) -> None:
        self.waits = False

    def _said(self, said: Any) -> None:
        """Streamlit looks for its own root below every path of a link: that 404 is no fault of ours."""
        if said.type == "error" and "/_stcore/" not in (said.location or {}).get("url", ""):
            self.errors.append(said.text)

    def _asked(self, url: str) -> None:
        address = urlsplit(url)
        if address.scheme in ("http", "https", "ws", "wss") and address.hostname != self.host:
            self.foreign.append(url)


VISITS: WeakKeyDictionary[Any, Visit] = WeakKeyDictionary()
IDLE = """() => {
  const roots = [...document.querySelectorAll('*')].map(e => e.shadowRoot).filter(Boolean);
  return !document.querySelector('[data-testid=stStatusWidget]')
    && document.querySelector('.stApp')?.dataset.testScriptState !== 'running'
    && !roots.some(root => root.querySelector('[data-pending], [data-waiting]'));
}"""


def until(page: Any, holds: Callable[[], object], message: str = "it never came about") -> None:
    """Wait until something holds; what stands on the page may change while it is read."""
    for _ in range(PATIENCE // 50):
        if holds():
            return
        page.wait_for_timeout(50)
    raise AssertionError(message)


def settled(page: Any) -> None:
    """Wait until the server has answered everything that the page asked for, and the page shows it."""
    for _ in range(3):
        page.wait_for_timeout(120)
        until(page, lambda: not VISITS[page].waits, "a run was asked for and has not ended")
        page.wait_for_function(IDLE)


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="package")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """How to get the server of a script: one for each script, or with own=True one for this test alone."""
    servers: dict[Any, Server] = {}

    def start(script: Path, *, own: bool = False) -> Server:
        key = object() if own else script
        if key not in servers:
            servers[key] = Server(script, free_port(), tmp_path_factory.mktemp(script.stem))
            servers[key].start()
        return servers[key]

    yield start
    for server in servers.values():
        server.stop()


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """Debian's Chromium where there is one, at best without windows of its own; else Playwright's."""
    found = map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"))
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=next(filter(None, found), None), args=FLAGS)
        except sync_api.Error as error:
            pytest.skip(f"no Chromium can be started here: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def profile(chromium: Any) -> Callable[..., Any]:
    """How to get the browser context with some options; each is made once, and so loads Streamlit once."""
    contexts: dict[str, Any] = {}

    def with_options(**options: Any) -> Any:
        key = repr(sorted(options.items()))
        if key not in contexts:
            contexts[key] = chromium.new_context(**options, permissions=["clipboard-read", "clipboard-write"])
            contexts[key].set_default_timeout(PATIENCE)
        return contexts[key]

    return with_options


@pytest.fixture
def visit(profile: Callable[..., Any]) -> Iterator[Callable[..., Visit]]:
    """A page at that address in a session of its own; further options are Playwright's for a context."""
    visits: list[Visit] = []

    def open_page(
        url: str,
        width: int = 1440,
        height: int = 900,
        dark: bool = False,
        touch: bool = False,
        **options: Any,
    ) -> Visit:
        context = profile(
            color_scheme="dark" if dark else "light",
            has_touch=touch,
            is_mobile=touch,
            viewport={"width": width, "height": height},
            **options,
        )
        opened = Visit(context.new_page(), urlsplit(url).hostname or "")
        opened.watch()
        visits.append(opened)
        opened.page.goto(url)
        return opened

    yield open_page
    for opened in visits:
        opened.page.context.clear_cookies()
        opened.page.close()
    assert [error for opened in visits for error in opened.errors] == []
    assert [url for opened in visits for url in opened.foreign] == []


@pytest.fixture(scope="package")
def axe() -> Callable[..., list[str]]:
    """How to list a visit's accessibility faults as sentences, within a CSS selector or on the whole page."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: run `npm install --no-package-lock` in tests/browser")
    program = AXE.read_text(encoding="utf-8")

    def check(visit: Visit, within: str | None = None) -> list[str]:
        visit.page.evaluate(program)
        result = visit.page.evaluate(
            "([include, exclude]) => axe.run({ include, exclude })", [[within or "body"], UPLOADER]
        )
        return [
            f"{fault['id']}: {fault['help']} at {node['target']}"
            for fault in result["violations"]
            for node in fault["nodes"]
        ]

    return check

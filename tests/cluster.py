"""Several processes of the app behind HAProxy, as deploy/ sets them up, on this machine.

deploy/haproxy.cfg is used as it is. Only the name server is another one: instead of the container engine's, a
small one of our own says which addresses the name `app` has.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from benchmarks.common import APP
from benchmarks.tab import Tab

ROOT = Path(__file__).parent.parent
SETTINGS = ROOT / "deploy" / "haproxy.cfg"
FIRST = 11  # the replicas listen on 127.0.0.11 and so on
ADDRESSES = tuple(f"127.0.0.{FIRST + k}" for k in range(3))
LOST = (OSError, EOFError, WebSocketException)
HAPROXY = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def missing() -> str:
    """Why the set-up cannot be run here; '' where it can."""
    if sys.platform != "linux":
        return "the replicas need several loopback addresses, as on Linux"
    return "" if HAPROXY else "HAProxy is not installed: on Debian, apt-get install haproxy"


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Names:
    """A name server: whatever it is asked for has the addresses in `addresses`."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                asked, sender = self.socket.recvfrom(4096)
            except OSError:  # closed
                return
            self.socket.sendto(self._answer(asked), sender)

    def _answer(self, asked: bytes) -> bytes:
        end = asked.index(0, 12) + 5  # the name ends with a zero; its type and class follow
        question = asked[12:end]
        found = self.addresses if question[-4:-2] == b"\0\1" else []  # addresses of the fourth version only
        records = [b"\xc0\x0c\0\1\0\1" + struct.pack("!IH", 0, 4) + socket.inet_aton(a) for a in found]
        head = asked[:2] + struct.pack("!HHHHH", 0x8180, 1, len(records), 0, 0)
        return head + question + b"".join(records)

    def close(self) -> None:
        self.socket.close()


class Cluster:
    """The replicas, the proxy, and what can be done to them."""

    def __init__(self, replicas: int = 3, server: str = APP, most_connections: int = 400) -> None:
        self.server, self.most_connections = server, most_connections
        self.folder = Path(tempfile.mkdtemp(prefix="cluster"))
        self.port, self.app_port = free_port(), free_port()
        self.host = f"localhost:{self.port}"
        self.names = Names()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.control = self.folder / "control"
        for k in range(replicas):
            self.start(f"127.0.0.{FIRST + k}")
        for address in self.processes:
            self.wait_until_ready(address)
        self.names.addresses = list(self.processes)
        self.proxy = self._start_proxy()
        self.wait_for(lambda: self.up() == set(self.processes), "the proxy did not find the replicas")

    def _start_proxy(self) -> subprocess.Popen[bytes]:
        text = SETTINGS.read_text(encoding="utf-8")
        text, count = re.subn("parse-resolv-conf", f"nameserver ours 127.0.0.1:{self.names.port}", text)
        assert count == 1
        for name, value in {
            "LISTEN": f"127.0.0.1:{self.port}", "APP": f"app:{self.app_port}", "CONTROL": str(self.control),
            "MOST_CONNECTIONS": str(self.most_connections),
        }.items():  # fmt: skip
            text, count = re.subn(rf"presetenv {name} \S+", f"presetenv {name} {value}", text)
            assert count == 1, name
        (self.folder / "haproxy.cfg").write_text(text, encoding="utf-8")
        log = (self.folder / "proxy.log").open("wb")
        assert HAPROXY
        return subprocess.Popen([HAPROXY, "-f", str(self.folder / "haproxy.cfg")], stdout=log, stderr=log)

    def start(self, address: str) -> None:
        """Start a replica, as the Dockerfile does."""
        command = [
            sys.executable, *self.server.format(port=self.app_port).split(), "--host", address,
            "--timeout-graceful-shutdown", "3",
        ]  # fmt: skip
        log = (self.folder / f"{address}.log").open("ab")
        self.processes[address] = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log
        )

    def wait_until_ready(self, address: str) -> None:
        def ready() -> bool:
            assert self.processes[address].poll() is None, (self.folder / f"{address}.log").read_text()
            return self.ask(address, "/ready")[0] == 200

        self.wait_for(ready, f"{address} did not start")

    def end(self, address: str, how: signal.Signals = signal.SIGINT) -> None:
        """End a replica, as `docker stop` does or, with SIGKILL, as a lack of memory does."""
        self.processes[address].send_signal(how)
        self.processes[address].wait(20)

    def ask(self, address: str, path: str) -> tuple[int, str]:
        """Ask a replica itself."""
        connection = HTTPConnection(address, self.app_port, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def sessions(self) -> dict[str, int]:
        """How many sessions each running replica has, by its own metrics."""
        found = {}
        for address, process in self.processes.items():
            if process.poll() is None:
                text = self.ask(address, "/metrics")[1]
                found[address] = int(re.findall(r"^attention_sessions_open (\d+)", text, re.MULTILINE)[0])
        return found

    def up(self) -> set[str]:
        """The addresses that the proxy sends readers to."""
        with socket.socket(socket.AF_UNIX) as control:
            try:
                control.connect(str(self.control))
            except OSError:
                return set()
            control.sendall(b"show stat\n")
            told = b"".join(iter(lambda: control.recv(65536), b"")).decode()
        head, *lines = [line.split(",") for line in told.strip().splitlines()]
        status, address = head.index("status"), head.index("addr")
        return {line[address].split(":")[0] for line in lines if line[status] == "UP" and line[address]}

    @staticmethod
    def wait_for(what: Any, otherwise: str, seconds: float = 60) -> None:
        """Ask until it holds. Raises TimeoutError."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                if what():
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise TimeoutError(otherwise)

    def close(self) -> None:
        for process in [self.proxy, *self.processes.values()]:
            process.kill()
            process.wait()
        self.names.close()
        shutil.rmtree(self.folder)


@dataclass
class Reader:
    """A reader with a browser: cookies, a link, and one tab that comes back when its connection is lost."""

    cluster: Cluster
    link: str = "way=qkv&view=all"
    page: str = "walkthrough"
    cookie: str = ""
    tab: Tab = field(default_factory=Tab)
    socket: ClientConnection | None = None
    away: list[float] = field(default_factory=list)  # seconds, for each time that the connection was lost
    opened: ExitStack = field(default_factory=ExitStack)

    def get(self, path: str, **headers: str) -> tuple[HTTPResponse, bytes]:
        """Ask through the proxy with the reader's cookie, and keep the one that comes back."""
        connection = HTTPConnection("localhost", self.cluster.port, timeout=30)
        connection.request(
            "GET", path, headers={**headers, **({"Cookie": self.cookie} if self.cookie else {})}
        )
        answer = connection.getresponse()
        body = answer.read()
        for said in answer.headers.get_all("set-cookie") or []:
            if said.startswith("replica="):
                self.cookie = said.split(";")[0]
        connection.close()
        return answer, body

    def open(self) -> None:
        """Open the link in a new tab."""
        answer, _ = self.get(f"/{self.page}?{self.link}")
        assert answer.status == 200
        self.tab = Tab(query=self.link)
        self.socket = self.opened.enter_context(
            connect(
                f"ws://{self.cluster.host}/_stcore/stream",
                subprotocols=["streamlit"],  # type: ignore[list-item]
                origin=f"http://{self.cluster.host}",  # type: ignore[arg-type]
                additional_headers={"Cookie": self.cookie},
                max_size=None,
                compression=None,
            )
        )
        self._run(path=self.page)

    def _run(self, fragment: str = "", path: str = "") -> None:
        assert self.socket
        self.socket.send(self.tab.ask(fragment, path=path))
        while not self.tab.take(self.socket.recv(60)):  # type: ignore[arg-type]
            pass
        self.link = self.tab.board["query"]  # the board writes it into the address bar

    def edit(self, row: int, column: int, text: str) -> None:
        """Type into a cell of Q; when the connection is lost, come back with the link and type again."""
        lost = 0.0
        for _ in range(40):
            try:
                if self.socket is None:
                    self.open()
                self._run(self.tab.operate(["edit", "q", row, column, text]))
                if lost:
                    self.away.append(time.perf_counter() - lost)
                return
            except LOST:
                lost = lost or time.perf_counter()
                self.close()
                time.sleep(0.2)
        raise TimeoutError("the reader could not come back")

    def shown(self, grid: str = "q") -> list[list[str]]:
        """The cells of a matrix, as they are on the reader's screen."""
        return [list(row) for row in self.tab.board["grids"][grid]["cells"]]

    def close(self) -> None:
        """Close the tab."""
        self.socket = None
        with suppress(*LOST):
            self.opened.close()

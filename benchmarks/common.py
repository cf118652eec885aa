"""What the benchmarks share: servers started alike, tables, and the name of the machine."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from urllib.request import urlopen

ROOT = Path(__file__).parent.parent
UVICORN = (
    "-m uvicorn --no-access-log --ws websockets-sansio --ws-max-size 2000000 --ws-per-message-deflate false "
    "--port {port}"
)
APP = f"{UVICORN} app:app"
FORGETFUL = f"{UVICORN} --app-dir benchmarks forgetful_server:app"
KEPT = 10  # seconds for which the forgetful server keeps the session of a tab that is gone
FLOOR = f"{UVICORN} --app-dir benchmarks floor_server:app"
BARE = f"{UVICORN} --app-dir benchmarks bare_server:app"
PLAIN_FLOOR = (
    "-m streamlit run --server.headless true --server.port {port} --runner.postScriptGC true "
    "benchmarks/floor_app.py"
)


class Server:
    """A server on a port of its own. What it writes is shown only when something goes wrong."""

    def __init__(self, command: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.host = f"127.0.0.1:{port}"
        self.words = [sys.executable, *command.format(port=port).split()]
        self.log = TemporaryFile("w+")  # noqa: SIM115  # as long as the server
        self.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self) -> None:
        """Start it and wait until it is healthy."""
        self.process = subprocess.Popen(
            self.words,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=self.log,
            stderr=self.log,
        )
        try:
            wait_until_healthy(self.host)
        except TimeoutError:
            self.stop()
            self.tell()
            raise

    def stop(self) -> None:
        """Ask it to stop, and see that it does."""
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Take it away from one moment to the next."""
        self.process.kill()
        self.process.wait()

    def tell(self) -> None:
        """Show the end of what it wrote."""
        self.log.seek(0)
        print(self.log.read()[-4000:], file=sys.stderr)


@contextmanager
def serve(command: str) -> Iterator[tuple[str, int]]:
    """Start a server, give its host and process id, stop it in the end."""
    server = Server(command)
    try:
        yield server.host, server.pid
    except Exception:
        server.tell()
        raise
    finally:
        server.stop()


def wait_until_healthy(host: str) -> None:
    """Ask until the server answers. Raises TimeoutError after half a minute."""
    for _ in range(300):
        try:
            urlopen(f"http://{host}/_stcore/health", timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the server did not come up")


def machine() -> str:
    """Processor, cores, Python and how busy it is, as one line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    busy = os.getloadavg()[0]
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}; "
        f"load {busy:.1f} at the end (a busy machine slows the larger page more)"
    )


def chromium() -> str | None:
    """The Chromium on this machine; None lets Playwright take its own."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def median(values: Sequence[float]) -> float:
    """The median, NaN of nothing."""
    return statistics.median(values) if values else float("nan")


def late(values: Sequence[float]) -> float:
    """The 95th of a hundred, NaN of nothing."""
    return sorted(values)[round(0.95 * (len(values) - 1))] if values else float("nan")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
    print(f"\n{machine()}")


def against(value: float, floor: float, limit: float) -> str:
    """A ratio and what it may be at most: `1.4 × (≤ 2)`."""
    verdict = "" if value <= limit * floor else " TOO MUCH"
    return f"{value / floor:.2f} × (≤ {limit:g}){verdict}"

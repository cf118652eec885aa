"""Server time, bytes and processor time of one edit, against the floor app in the same run.

Speaks Streamlit's own websocket protocol as a browser does, one reader at a time, so that only the
server is measured: from the change sent to the script finished. Run: `make bench`.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import psutil
from common import APP, FLOOR, PLAIN_FLOOR, against, late, median, serve, table
from tab import Tab
from websockets.sync.client import ClientConnection, connect

PAGE = "walkthrough"
LINK = "way=qkv&n=8&dk=8&dv=8&view=all"  # eight tokens, d_k 8, all stages on screen


@dataclass
class Reader:
    """One open tab on a server of its own: it sends changes and reads until the script has finished."""

    socket: ClientConnection
    pid: int
    tab: Tab
    times: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    work: list[float] = field(default_factory=list)

    def run(self, asked: bytes) -> tuple[float, int]:
        """Ask for a run and read its messages: seconds and bytes until it has finished."""
        size, began = 0, time.perf_counter()
        self.socket.send(asked)
        while True:
            raw = bytes(self.socket.recv(60))  # type: ignore[arg-type]
            size += len(raw)
            if self.tab.take(raw):
                return time.perf_counter() - began, size

    def change(self, fragment: str) -> None:
        """Send one change and note what it cost."""
        process = psutil.Process(self.pid)
        before = sum(process.cpu_times()[:2])
        seconds, size = self.run(self.tab.ask(fragment))
        self.times.append(seconds)
        self.sizes.append(size)
        self.work.append(sum(process.cpu_times()[:2]) - before)


def open_tab(stack: ExitStack, command: str, query: str = "", page: str = "") -> Reader:
    """Start a server and open a page on it; both last as long as the stack."""
    host, pid = stack.enter_context(serve(command))
    socket = stack.enter_context(
        connect(
            f"ws://{host}/_stcore/stream",
            subprotocols=["streamlit"],  # type: ignore[list-item]
            max_size=None,
            compression=None,
        )
    )
    reader = Reader(socket, pid, Tab(query))
    reader.run(reader.tab.ask(path=page))
    return reader


def move_slider(tab: Tab, random: random.Random) -> str:
    """A change of the floor app's slider."""
    return tab.slide("n", random.randint(1, 8))


def edit_cell(tab: Tab, random: random.Random) -> str:
    """An edit of one cell of Q, as board.js sends it."""
    return tab.operate(
        ["edit", "q", random.randrange(8), random.randrange(8), f"{random.uniform(-2, 2):.2f}"]
    )


def rounds(count: int, seed: int = 7) -> Iterator[random.Random]:
    """The same random numbers for every server."""
    yield from (random.Random(seed + i) for i in range(count))


def main() -> None:
    """Measure the floor served plainly, the floor served as here, and the walk-through; print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--edits", type=int, default=60)
    options.add_argument("--link", default=LINK)
    options.add_argument("--page", default=PAGE)
    asked = options.parse_args()
    with ExitStack() as stack:
        plain = open_tab(stack, PLAIN_FLOOR)
        floor = open_tab(stack, FLOOR)
        board = open_tab(stack, APP, asked.link, asked.page)
        steps: list[tuple[Reader, Callable[[Tab, random.Random], str]]]
        steps = [(plain, move_slider), (floor, move_slider), (board, edit_cell)]
        for reader, make in steps:  # not counted: the first edits still import things
            for dice in rounds(5, seed=1):
                reader.change(make(reader.tab, dice))
            reader.times, reader.sizes, reader.work = [], [], []
        for dice in rounds(asked.edits):
            for reader, make in steps:
                time.sleep(0.02)
                reader.change(make(reader.tab, dice))
                if make is edit_cell and not reader.tab.board["ack"]:
                    raise RuntimeError("the board took no edit")
    rows = []
    for name, reader in (
        ("floor app, plain streamlit run", plain),
        ("floor app", floor),
        ("walk-through", board),
    ):
        rows.append(
            [
                name,
                f"{1e3 * median(reader.times):.1f} / {1e3 * late(reader.times):.1f} ms",
                against(median(reader.times), median(floor.times), 3) if reader is board else
                f"{median(reader.times) / median(floor.times):.2f} ×",
                f"{1e3 * sum(reader.work) / len(reader.work):.1f} ms",
                f"{median(reader.sizes) / 1e3:.1f} kB" + (" (≤ 30)" if reader is board else ""),
            ]
        )  # fmt: skip
    table(["one change in", "server time p50 / p95", "against the floor", "processor", "sent"], rows)


if __name__ == "__main__":
    main()

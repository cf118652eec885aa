"""Server time, bytes and processor time of one edit, against the floor app in the same run.

Speaks Streamlit's own websocket protocol as a browser does, one reader at a time, so that only the
server is measured: from the change sent to the script finished. Run: `make bench`.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import psutil
from common import APP, FLOOR, PLAIN_FLOOR, against, late, median, serve, table
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.sync.client import ClientConnection, connect

PAGE = "walkthrough"
LINK = "way=qkv&n=8&dk=8&dv=8&view=all"  # eight tokens, d_k 8, all stages on screen
BOARD = "board"  # the key of the board


@dataclass
class Reader:
    """One open tab: it sends changes and reads until the script has finished."""

    socket: ClientConnection
    pid: int
    query: str = ""
    page_hash: str = ""
    ids: dict[str, str] = field(default_factory=dict)  # of widgets, by their keys
    fragments: dict[str, str] = field(default_factory=dict)  # of the same widgets, by their ids
    told: dict[str, Any] = field(default_factory=dict)  # the board's last data
    states: dict[str, WidgetState] = field(default_factory=dict)
    cached: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    work: list[float] = field(default_factory=list)

    def run(self, page: str = "", fragment: str = "") -> tuple[float, int]:
        """Ask for a run and read its messages: seconds and bytes until it has finished."""
        ask = BackMsg()
        ask.rerun_script.query_string = self.query
        ask.rerun_script.page_name = page
        ask.rerun_script.page_script_hash = self.page_hash
        ask.rerun_script.fragment_id = fragment
        ask.rerun_script.widget_states.widgets.extend(self.states.values())
        ask.rerun_script.cached_message_hashes.extend(self.cached)
        data, size, began = ask.SerializeToString(), 0, time.perf_counter()
        self.socket.send(data)
        while True:
            raw = self.socket.recv(60)
            size += len(raw)
            message = ForwardMsg()
            message.ParseFromString(raw)  # type: ignore[arg-type]
            if message.metadata.cacheable and message.hash not in self.cached:
                self.cached.append(message.hash)
            kind = message.WhichOneof("type")
            if kind == "new_session":
                self.page_hash = message.new_session.page_script_hash
            elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
                self.look_at(message.delta.new_element, message.delta.fragment_id)
            elif kind == "script_finished":
                if message.script_finished in (
                    ForwardMsg.FINISHED_SUCCESSFULLY,
                    ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
                ):
                    return time.perf_counter() - began, size
                if message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    raise RuntimeError("the page could not be run")

    def look_at(self, element: Any, fragment: str) -> None:
        """Remember the id of a widget by its key, and what the board shows."""
        kind = element.WhichOneof("type")
        part = getattr(element, kind)
        if kind == "exception":
            raise RuntimeError(f"the page shows an exception: {part.message}")
        found = re.match(r"\$\$ID-[0-9a-f]+-(.+)$", str(getattr(part, "id", "")))
        if found:
            self.ids[found[1]], self.fragments[part.id] = part.id, fragment
        if kind == "bidi_component" and found and found[1] == BOARD:
            self.told = json.loads(part.bytes)

    def change(self, state: WidgetState) -> None:
        """Send one change and note what it cost."""
        process = psutil.Process(self.pid)
        self.states[state.id] = state
        before = sum(process.cpu_times()[:2])
        seconds, size = self.run(fragment=self.fragments[state.id])
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
    reader = Reader(socket, pid, query)
    reader.run(page)
    return reader


def move_slider(reader: Reader, random: random.Random) -> WidgetState:
    """A change of the floor app's slider."""
    state = WidgetState(id=reader.ids["n"])
    state.double_array_value.data[:] = [float(random.randint(1, 8))]
    return state


def edit_cell(reader: Reader, random: random.Random) -> WidgetState:
    """An edit of one cell of Q, as board.js sends it."""
    number = int(reader.told["ack"]) + 1
    edit = [number, "edit", "q", random.randrange(8), random.randrange(8), f"{random.uniform(-2, 2):.2f}"]
    ops = {"session": reader.told["session"], "ops": [edit]}
    return WidgetState(id=reader.ids[BOARD], json_value=json.dumps({"ops": ops}))


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
        steps: list[tuple[Reader, Callable[[Reader, random.Random], WidgetState]]]
        steps = [(plain, move_slider), (floor, move_slider), (board, edit_cell)]
        for reader, make in steps:  # not counted: the first edits still import things
            for dice in rounds(5, seed=1):
                reader.change(make(reader, dice))
            reader.times, reader.sizes, reader.work = [], [], []
        for dice in rounds(asked.edits):
            for reader, make in steps:
                time.sleep(0.02)
                reader.change(make(reader, dice))
                if make is edit_cell and not reader.told["ack"]:
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

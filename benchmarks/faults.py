"""What one bad client does to all the others: their p95 meanwhile, against quiet times in the same run.

Quiet and each fault take turns on one server. The others are users as in load.py, every answer checked. The
server runs as it is shipped, but asks after silent clients every five seconds and keeps the session of a tab
that is gone for ten, so that a run need not be long.

    python benchmarks/faults.py                                       50 others, 40 s for each fault
    python benchmarks/faults.py --users 5 --seconds 8 --many 100
    python benchmarks/faults.py --only flood
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.request import urlopen

import psutil
from common import FORGETFUL, KEPT, late, median, serve, table
from tab import BOARD, Tab
from users import Numbers, Tally, User
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

LIMIT = 2  # times the quiet p95
PINGS = "--ws-ping-interval 5 --ws-ping-timeout 5"
SERVER = f"{FORGETFUL} {PINGS}"


@dataclass
class Place:
    """Where a fault happens, how much of it, and how long."""

    host: str
    until: float
    many: int  # connections that say nothing
    seen: str = ""  # what became of the bad client

    @property
    def goes_on(self) -> bool:
        return time.perf_counter() < self.until


def join(place: Place, *, origin: str | None = None, queue: int | None = 16) -> connect:
    """A websocket to the server."""
    return connect(
        f"ws://{place.host}/_stcore/stream",
        subprotocols=["streamlit"],  # type: ignore[list-item]
        origin=origin,  # type: ignore[arg-type]
        max_size=None,
        max_queue=queue,
        compression=None,
        ping_interval=None,
        open_timeout=20,
    )


async def page(socket: ClientConnection, tab: Tab, path: str = "walkthrough") -> None:
    """Ask for a page and wait for it."""
    await socket.send(tab.ask(path=path))
    while not tab.take(bytes(await socket.recv())):  # type: ignore[arg-type]
        pass


async def slow(place: Place) -> None:
    """A client that asks for page after page and takes none of them off the line."""
    sent = 0
    async with join(place, queue=1) as socket:
        tab = Tab(Numbers(7).link)
        await page(socket, tab)
        socket.transport.pause_reading()
        with suppress(ConnectionClosed):
            while place.goes_on:
                await asyncio.wait_for(socket.send(tab.ask()), 5)
                sent += 1
                await asyncio.sleep(0.1)
        socket.transport.abort()
    place.seen = f"{sent} requests; then closed"


async def half_open(place: Place) -> None:
    """Ten clients that are gone without a word."""
    sockets = []
    for number in range(10):
        socket = await join(place)
        await page(socket, Tab(Numbers(number).link))
        socket.transport.pause_reading()  # from here on nothing is answered, no ping either
        sockets.append(socket)
    await asyncio.sleep(max(0.0, place.until - time.perf_counter()))
    place.seen = f"{await sessions(place)} sessions open, those of the others included"
    for socket in sockets:
        socket.transport.abort()


async def big(place: Place) -> None:
    """A message of 2 MB, again and again."""
    codes: list[int] = []
    while place.goes_on:
        async with join(place) as socket:
            try:
                await socket.send(b"\x00" * 2_000_000)
                while True:
                    await socket.recv()
            except ConnectionClosed as closed:
                codes.append(closed.rcvd.code if closed.rcvd else 0)
        await asyncio.sleep(0.2)
    place.seen = f"{len(codes)} messages, closed with {sorted(set(codes))}"


async def silent_sockets(place: Place) -> None:
    """Very many connections that never say anything."""
    address, port = place.host.split(":")
    held = []
    for _ in range(place.many):
        held.append(await asyncio.open_connection(address, int(port)))
    await asyncio.sleep(max(0.0, place.until - time.perf_counter()))
    place.seen = f"{len(held)} connections held"
    for _, writer in held:
        writer.close()


async def silent_websockets(place: Place) -> None:
    """Very many websockets that never say anything."""
    held = []
    for _ in range(place.many):
        held.append(await join(place))
    await asyncio.sleep(max(0.0, place.until - time.perf_counter()))
    still = sum(socket.close_code is None for socket in held)
    place.seen = f"{len(held)} opened, {still} still open at the end"
    for socket in held:
        socket.transport.abort()


async def foreign(place: Place) -> None:
    """Websockets from a page of somebody else's."""
    refused = 0
    while place.goes_on:
        try:
            await (await join(place, origin="http://evil.example")).close()
            place.seen = "let in"
            return
        except InvalidStatus as answer:
            refused += answer.response.status_code == 403
        await asyncio.sleep(0.05)
    place.seen = f"{refused} refused with 403"


async def huge(place: Place) -> None:
    """Sliders moved to places that they do not have, by messages made by hand."""
    dice, sent = random.Random(1), 0
    async with join(place) as socket:
        tab = Tab(Numbers(7).link)
        await page(socket, tab)
        while place.goes_on:
            for key in ("n_q", "n_k", "d_k", "d_v"):
                tab.slide(key, dice.choice([1e9, -1e9, 1e308, float("nan"), float("inf"), 17, 0, 4.5]))
            await page(socket, tab, "")
            sent += 1
            if any(len(grid["cells"]) > 16 for grid in tab.board["grids"].values()):
                place.seen = "a matrix of more than 16 rows"
                return
    place.seen = f"{sent} runs, no matrix larger than 16 × 16"


async def flood(place: Place) -> None:
    """Edits from one client, one after the other, without waiting for an answer."""
    await _pour(place, lambda tab, k: tab.ask(tab.operate(["edit", "q", k % 8, k // 8 % 8, str(k % 97)])))


async def flood_of_pages(place: Place) -> None:
    """The most expensive page of the app, asked for without a pause."""
    await _pour(place, lambda tab, _k: tab.ask(), query="&panel=large&large=256")


async def flood_of_megabytes(place: Place) -> None:
    """Messages just below the largest that is let in, without a pause."""

    def large(tab: Tab, k: int) -> bytes:
        tab.operate(["paste", "q", 0, 0, f"{k} " * 300_000])
        return tab.ask(tab.fragments[tab.ids[BOARD]])

    await _pour(place, large)


async def _pour(place: Place, make: Callable[[Tab, int], bytes], query: str = "") -> None:
    sent = answered = 0
    async with join(place) as socket:
        tab = Tab(Numbers(7).link + query)
        await page(socket, tab)

        async def read() -> None:
            nonlocal answered
            with suppress(ConnectionClosed):
                async for raw in socket:
                    answered += tab.take(bytes(raw))  # type: ignore[arg-type]

        reading = asyncio.ensure_future(read())
        with suppress(ConnectionClosed, asyncio.TimeoutError):
            while place.goes_on:
                await asyncio.wait_for(
                    socket.send(make(tab, sent)), max(0.1, place.until - time.perf_counter())
                )
                sent += 1
        reading.cancel()
        socket.transport.abort()
    place.seen = f"{sent} sent, {answered} answered" + (", then closed" if place.goes_on else "")


async def come_and_go(place: Place) -> None:
    """Ten visitors a second who open a page and leave before it is there."""
    came = 0
    while place.goes_on:
        with suppress(OSError, ConnectionClosed, InvalidStatus):
            socket = await join(place)
            await socket.send(Tab(Numbers(came % 50).link).ask(path="walkthrough"))
            await asyncio.sleep(0.05)
            socket.transport.abort()
            came += 1
        await asyncio.sleep(0.05)
    place.seen = f"{came} visitors"


Fault = Callable[[Place], Awaitable[None]]
FAULTS: tuple[Fault, ...] = (
    slow, half_open, big, silent_sockets, silent_websockets, foreign, huge, flood, flood_of_pages,
    flood_of_megabytes, come_and_go,
)  # fmt: skip


async def sessions(place: Place) -> int:
    """How many sessions the server says are open."""

    def ask() -> int:
        with urlopen(f"http://{place.host}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        return int(
            float(next(line for line in lines if line.startswith("attention_sessions_open ")).split()[1])
        )

    return await asyncio.to_thread(ask)


async def settled(place: Place, server: psutil.Process) -> int:
    """The server's descriptors once the sessions of all who have left are given up.

    Streamlit gives up those that have expired when the next reader leaves.
    """
    await asyncio.sleep(KEPT + 1)
    for _ in range(2):
        async with join(place):
            pass
        await asyncio.sleep(1)
    return server.num_fds()


@dataclass
class Turn:
    """One turn: the others' tally, and what became of the bad client."""

    name: str
    tally: Tally
    seen: str
    descriptors: int  # that the server holds afterwards, more than before


async def turn(
    host: str, pid: int, fault: Fault | None, users: int, seconds: float, think: float, many: int
) -> Turn:
    """The others at work for a while, and the fault beside them."""
    server = psutil.Process(pid)
    place = Place(host, 0, many)
    before = await settled(place, server)
    ramp = min(10.0, seconds / 4)
    began = time.perf_counter() + ramp
    tally = Tally(late_after=began)
    place.until = began + seconds

    async def come(number: int) -> None:
        await asyncio.sleep(0.8 * ramp * number / users)
        await User(host, number, tally, think).live(place.until)

    async def do() -> None:
        await asyncio.sleep(ramp)
        try:
            if fault is not None:
                await fault(place)
        except Exception as error:
            place.seen = f"{type(error).__name__}: {error}"[:80]

    await asyncio.gather(do(), *map(come, range(users)))
    left = await settled(place, server) - before
    return Turn(fault.__name__ if fault else "quiet", tally, place.seen, left)


def main() -> None:
    """Let quiet and every fault take turns, and print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--users", type=int, default=50)
    options.add_argument("--seconds", type=float, default=40)
    options.add_argument("--think", type=float, default=5)
    options.add_argument("--many", type=int, default=2000, help="connections that say nothing")
    options.add_argument("--only", default="", help="a part of a fault's name")
    asked = options.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    turns: list[Turn] = []
    with serve(SERVER) as (host, pid):

        def take(fault: Fault | None) -> None:
            turns.append(
                asyncio.run(turn(host, pid, fault, asked.users, asked.seconds, asked.think, asked.many))
            )

        take(None)
        turns.clear()  # the first one imports and compiles
        take(None)
        for fault in FAULTS:
            if asked.only in fault.__name__:
                take(fault)
                take(None)
    quiet = [late(each.tally.all) for each in turns if each.name == "quiet"]
    rows = []
    for place, each in enumerate(turns):
        times = each.tally.all
        near = [late(turns[k].tally.all) for k in (place - 1, place + 1) if 0 <= k < len(turns)]
        calm = sum(near) / len(near) if each.name != "quiet" else median(quiet)
        ratio = late(times) / calm
        rows.append(
            [
                each.name.replace("_", " "),
                f"{1e3 * median(times):.0f} / {1e3 * late(times):.0f} ms",
                ""
                if each.name == "quiet"
                else f"{ratio:.2f} × (≤ {LIMIT}){'' if ratio <= LIMIT else ' TOO MUCH'}",
                f"{sum(each.tally.errors.values())} of {each.tally.checked}",
                str(each.descriptors),
                each.seen,
            ]
        )
    head = ["fault", "others' p50 / p95", "against the quiet turns beside it", "errors of answers"]
    table([*head, "descriptors left", "the bad client"], rows)
    for each in turns:
        for error, count in each.tally.errors.most_common(3):
            print(f"{each.name}: {count} × {error}")
    print(f"{asked.users} others, a change every {asked.think:g} s each, {asked.seconds:g} s a turn")


if __name__ == "__main__":
    main()

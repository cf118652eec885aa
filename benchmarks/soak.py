"""An hour of readers who come and go: memory and descriptors over time, and a server killed in the middle.

Every reader stays for a while, leaves, and another one with other numbers takes the place. Half-way the
server is killed (SIGKILL) and started again on the same port: every reader connects anew with the link that
the board had put into the address bar, and must find the numbers that were typed. All answers are checked.
Memory is compared within each half, because the second server begins anew.

    python benchmarks/soak.py                            50 readers for an hour
    python benchmarks/soak.py --users 5 --minutes 1
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field

import psutil
from common import FORGETFUL, KEPT, Server, late, median, table
from tab import Tab
from users import LOST, Numbers, Tally, User

STAY = 120.0  # seconds that a reader stays on average
WARM = 0.1  # of the time, after which memory is compared
GROWTH = 1.1
SWEPT = 30.0 + KEPT + 5  # seconds after which nothing of a reader is left


@dataclass
class Watch:
    """What the server takes, time and again."""

    server: Server
    began: float
    rows: list[tuple[float, float, int]] = field(default_factory=list)  # minutes, MB, descriptors

    def look(self) -> tuple[float, float, int]:
        process = psutil.Process(self.server.pid)
        now = (time.perf_counter() - self.began) / 60
        self.rows.append((now, process.memory_info().rss / 1e6, process.num_fds()))
        return self.rows[-1]


@dataclass
class Soak:
    """The readers and the server that they meet."""

    server: Server
    users: int
    seconds: float
    think: float
    tally: Tally = field(default_factory=Tally)
    back: list[float] = field(
        default_factory=list
    )  # seconds from the loss of the connection to one's numbers
    killed: bool = False

    def __post_init__(self) -> None:
        self.began = time.perf_counter()
        self.until = self.began + self.seconds
        self.numbers = itertools.count()

    async def place(self, number: int) -> None:
        """One seat in the room: a reader after the other, until the end."""
        await asyncio.sleep(0.8 * WARM * self.seconds * number / self.users)
        while time.perf_counter() < self.until:
            user = User(self.server.host, next(self.numbers), self.tally, self.think)
            leaves = min(self.until, time.perf_counter() + STAY * user.dice.uniform(0.5, 1.5))
            try:
                await user.open()
                user.check()
                while time.perf_counter() < leaves:
                    await asyncio.sleep(self.think * user.dice.uniform(0.5, 1.5))
                    await self.one_change(user)
            except LOST as error:
                self.tally.errors[f"{type(error).__name__}: {error}"[:100]] += 1
            finally:
                await user.close()

    async def one_change(self, user: User) -> None:
        """A change; where the connection is lost meanwhile, come back as a browser does."""
        before = deepcopy(user.numbers), user.page
        try:
            await user.change()
        except LOST:
            if not self.killed:
                raise
            await self.come_back(user, before)

    async def come_back(self, user: User, before: tuple[Numbers, str]) -> None:
        """Connect anew, with nothing but the address bar, and look for the numbers.

        The board may have had the answer to the last change already, and with it the address bar.
        """
        after = user.numbers
        user.numbers, user.page = before
        lost, query = time.perf_counter(), user.tab.board["query"]
        for wait in itertools.count():
            await user.close()
            user.tab = Tab(query)
            try:
                await user.open()
                break
            except LOST:
                if time.perf_counter() > lost + 60:
                    raise
                await asyncio.sleep(min(4.0, 0.5 * 2**wait))
        if user.wrong():
            user.numbers = after
        user.check()
        self.back.append(time.perf_counter() - lost)

    async def kill(self) -> None:
        """Half-way, the server is gone from one moment to the next, and is started again."""
        await asyncio.sleep(self.seconds / 2)
        self.killed = True
        self.server.kill()
        await asyncio.to_thread(self.server.start)

    async def watch(self, watch: Watch, every: float) -> None:
        """Look at the server, now and then."""
        while time.perf_counter() < self.until:
            with suppress(psutil.NoSuchProcess):  # killed, and not yet started again
                watch.look()
            await asyncio.sleep(every)

    async def run(self, watch: Watch) -> None:
        """Everything at once."""
        await asyncio.gather(
            self.kill(), self.watch(watch, self.seconds / 20), *map(self.place, range(self.users))
        )
        watch.look()
        await asyncio.sleep(SWEPT)
        watch.look()


async def after_one_visit(server: Server) -> int:
    """Descriptors of a server that has had one reader, and has nothing left of him."""
    user = User(server.host, 0, Tally())
    await user.open()
    await user.close()
    await asyncio.sleep(SWEPT)
    return psutil.Process(server.pid).num_fds()


def verdict(rows: list[tuple[float, float, int]], minutes: float) -> list[list[str]]:
    """Memory after warming up and at the end of each half, and descriptors before, during and after."""
    half, warm = minutes / 2, WARM * minutes
    lines = []
    for name, start, end in (
        ("first half", 0.0, half - 0.05),
        ("second half, after the kill", half + 0.2, minutes),
    ):
        inside = [row for row in rows if start + warm <= row[0] <= end + 0.05]
        if len(inside) < 2:
            continue
        growth = inside[-1][1] / inside[0][1]
        lines.append(
            [
                name,
                f"{inside[0][1]:.0f} MB",
                f"{inside[-1][1]:.0f} MB",
                f"{growth:.2f} × (≤ {GROWTH}){'' if growth <= GROWTH else ' TOO MUCH'}",
                f"{min(row[2] for row in inside)} to {max(row[2] for row in inside)}",
            ]
        )
    return lines


def main() -> None:
    """Let the readers come and go, and print the tables."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--users", type=int, default=50)
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--think", type=float, default=5)
    asked = options.parse_args()
    server = Server(FORGETFUL)
    try:
        empty = asyncio.run(after_one_visit(server))
        soak = Soak(server, asked.users, 60 * asked.minutes, asked.think)
        watch = Watch(server, soak.began)
        asyncio.run(soak.run(watch))
    except Exception:
        server.tell()
        raise
    finally:
        server.stop()
    rows = watch.rows
    told = [[f"{minute:.1f}", f"{memory:.0f} MB", str(held)] for minute, memory, held in rows]
    table(["minute", "memory", "descriptors"], told)
    print()
    table(["", "after warming up", "at the end", "growth", "descriptors"], verdict(rows[:-1], asked.minutes))
    times, tally = soak.tally.all, soak.tally
    print(f"{next(soak.numbers)} readers, {len(times)} changes, {tally.checked} answers checked, ", end="")
    print(f"{sum(tally.errors.values())} errors.")
    print(f"From a change to its answer: p50 {1e3 * median(times):.0f} ms, p95 {1e3 * late(times):.0f} ms.")
    print(
        f"After the kill {len(soak.back)} readers came back and found their numbers, the last "
        f"{max(soak.back, default=0):.1f} s after the connection was lost."
    )
    print(f"Descriptors at the end, more than after a single visit: {rows[-1][2] - empty}.")
    for error, count in tally.errors.most_common(5):
        print(f"{count} × {error}")


if __name__ == "__main__":
    main()

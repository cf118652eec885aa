"""A lecture hall on one server: many readers, every answer checked, against the floor app under equal load.

Four servers take turns in one run: the floor app on Streamlit as it comes, the floor app served as this one
is, the app, and the same pages under a plain `streamlit run` with its full garbage collection. Each user
opens a link of his own and does something every five seconds on average. With `--knee`, the number of users
is then raised until the 95th of a hundred answers takes a second. With `--replicas 4`, floors and app are
each four processes behind HAProxy, as deploy/ sets them up for two cores.

    python benchmarks/load.py                         200 users for five minutes, on a quiet machine
    python benchmarks/load.py --replicas 4
    python benchmarks/load.py --users 10 --seconds 20 --plain-users 10
    python benchmarks/load.py --knee
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from common import APP, BARE, FLOOR, ROOT, against, late, median, serve, table
from users import SliderUser, Tally, User

from tests.cluster import Cluster

SETTLE = 0.15  # of the time, at first, that is not counted: pages are opened, modules imported
LIMIT = 3  # times the p95 of the floor on Streamlit as it comes
KNEE = 1.0  # seconds
MOST_CONNECTIONS = 4000  # deploy/haproxy.cfg
PLAIN = "from attention_ui import frame\n\nframe.run()\n"


@dataclass
class Load:
    """What one server did under load."""

    name: str
    users: int
    tally: Tally
    cpu: float  # processor seconds of the server, while changes were counted
    memory: float  # bytes more than before the first user
    own: float  # the share of one core that the users themselves took


def work(processes: Sequence[psutil.Process]) -> float:
    """Processor seconds that processes have taken."""
    return float(sum(sum(process.cpu_times()[:2]) for process in processes))


def size(processes: Sequence[psutil.Process]) -> float:
    """Bytes of memory that processes take."""
    return float(sum(process.memory_info().rss for process in processes))


async def many(
    host: str, pids: Sequence[int], kind: type[User], count: int, seconds: float, think: float
) -> Load:
    """So many users on a server of so many processes, for so long."""
    server = [psutil.Process(pid) for pid in pids]
    before, began = size(server), time.perf_counter()
    settled = began + SETTLE * seconds
    tally = Tally(late_after=settled)
    users = [kind(host, number, tally, think) for number in range(count)]

    async def come(user: User) -> None:
        await asyncio.sleep(0.8 * SETTLE * seconds * user.number / count)
        await user.live(began + seconds)

    async def measure() -> tuple[float, float, float]:
        await asyncio.sleep(settled - time.perf_counter())
        worked, own, at = work(server), time.process_time(), time.perf_counter()
        await asyncio.sleep(began + seconds - time.perf_counter() - 0.2)
        return (
            work(server) - worked,
            size(server) - before,
            (time.process_time() - own) / (time.perf_counter() - at),
        )

    measured, *_ = await asyncio.gather(measure(), *map(come, users))
    return Load("", count, tally, *measured)


@contextmanager
def plainly_served() -> Iterator[str]:
    """The command that serves the same pages as a plain script, without attention_ui.serving."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "plain.py"
        script.write_text(PLAIN, encoding="utf-8")
        (Path(folder) / "pages").symlink_to(ROOT / "pages")
        yield (
            "-m streamlit run --server.headless true --server.port {port} --runner.postScriptGC true "
            f"--client.showErrorDetails full {script}"
        )


@contextmanager
def served(command: str, replicas: int) -> Iterator[tuple[str, list[int]]]:
    """Host and processes of one server; or of several behind HAProxy, and of that."""
    if not replicas:
        with serve(command) as (host, pid):
            yield host, [pid]
        return
    running = Cluster(replicas, command, most_connections=MOST_CONNECTIONS)
    try:
        yield running.host, [process.pid for process in [*running.processes.values(), running.proxy]]
    finally:
        running.close()


def loaded(
    name: str, command: str, kind: type[User], count: int, seconds: float, think: float, replicas: int = 0
) -> Load:
    """Start a server, put it under load, stop it."""
    with served(command, replicas) as (host, pids):
        gc.disable()  # a pause of the users' own would look like one of the server
        load = asyncio.run(many(host, pids, kind, count, seconds, think))
        gc.enable()
    load.name = name
    gc.collect()
    return load


def row(load: Load, bare: Load | None = None, floor: Load | None = None) -> list[str]:
    """One line of the table; beside floors that it is compared with, on bare Streamlit and served alike."""
    times = load.tally.all
    done = sum(len(values) for values in load.tally.seconds.values())
    return [
        load.name,
        str(load.users),
        f"{len(times)}",
        f"{1e3 * median(times):.0f} / {1e3 * late(times):.0f} ms",
        against(late(times), late(bare.tally.all), LIMIT) if bare else "",
        f"{late(times) / late(floor.tally.all):.2f} ×" if floor else "",
        f"{1e3 * late(load.tally.seconds.get('edit', [])):.0f} ms",
        f"{1e3 * load.cpu / max(1, len(times)):.1f} ms",
        f"{load.memory / 1e6 / load.users:.2f} MB",
        f"{sum(load.tally.errors.values())}",
        f"{load.tally.checked}",
        f"{done / max(1, len(times)):.2f}",
        f"{load.own:.2f}",
    ]


HEAD = [
    "server", "users", "changes", "p50 / p95", "p95 against bare", "against served alike", "p95 of an edit",
    "processor a change", "memory a user", "errors", "answers checked", "runs a change", "generator's core",
]  # fmt: skip


def told(loads: list[Load]) -> None:
    """Say which errors there were."""
    for load in loads:
        for error, times in load.tally.errors.most_common(5):
            print(f"{load.name}: {times} × {error}")


def knee(seconds: float, think: float, start: int, most: int, replicas: int) -> None:
    """Raise the number of users until p95 passes a second, then look between the last two numbers twice."""
    rows, loads = [], []
    good, bad, users = 0, 0, start
    while users <= most:
        load = loaded(f"{users} users", APP, User, users, seconds, think, replicas)
        loads.append(load)
        rows.append(row(load))
        if late(load.tally.all) <= KNEE and not load.tally.errors:
            good = users
        else:
            bad = users
        if bad and bad - good <= max(10, good // 8):
            break
        users = (good + bad) // 2 if bad else round(users * 1.5)
    table(HEAD, rows)
    told(loads)
    print(
        f"The knee: p95 stays within {KNEE:g} s for {good} users" + (f", and not for {bad}." if bad else ".")
    )


def main() -> None:
    """Measure the floors, the app and the plain app in turn and print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--users", type=int, default=200)
    options.add_argument("--seconds", type=float, default=300)
    options.add_argument("--think", type=float, default=5)
    options.add_argument("--plain-users", type=int, default=0, help="0: as many as --users")
    options.add_argument("--plain-seconds", type=float, default=120)
    options.add_argument(
        "--replicas", type=int, default=0, help="processes behind HAProxy; 0: one without it"
    )
    options.add_argument("--knee", action="store_true")
    options.add_argument(
        "--start", type=int, default=100, help="users that the search for the knee begins with"
    )
    options.add_argument("--most", type=int, default=1000)
    asked = options.parse_args()
    os.environ["ATTENTION_MOST_READERS"] = str(10 * max(asked.users, asked.most))
    if asked.knee:
        knee(min(asked.seconds, 60), asked.think, asked.start, asked.most, asked.replicas)
        return
    load = (asked.users, asked.seconds, asked.think, asked.replicas)
    bare = loaded("floor app, bare Streamlit", BARE, SliderUser, *load)
    floor = loaded("floor app, served alike", FLOOR, SliderUser, *load)
    app = loaded("the app", APP, User, *load)
    loads = [bare, floor, app]
    if asked.plain_seconds:
        few = asked.plain_users or asked.users
        with plainly_served() as command:
            loads.append(
                loaded("its pages, plain streamlit run", command, User, few, asked.plain_seconds, asked.think)
            )
    table(HEAD, [row(bare), row(floor), *(row(load, bare, floor) for load in loads[2:])])
    told(loads)
    if asked.plain_seconds:
        ratio = late(loads[-1].tally.all) / late(app.tally.all)
        print(f"Served plainly, the p95 of the same pages is {ratio:.1f} times that of the app.")


if __name__ == "__main__":
    main()

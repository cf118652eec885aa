"""A page of somebody else's on a network that swallows packets: does it hold everybody up?

A server that looks up its own outer address to judge an Origin waits for an answer that never comes, and its
readers wait with it. Here a network is made in which nothing is refused and nothing answered: the only way
out leads to a device that nobody reads. In it, the app and the same pages under a plain `streamlit run` take
turns: a foreign page asks for a websocket while a reader edits. Needs Linux, `ip`, and the right to make a
network namespace (root, or a system that lets users do so).

    python benchmarks/swallowed.py
    python benchmarks/swallowed.py --seconds 5 --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field

from common import APP, serve, table
from faults import Place, join
from load import plainly_served
from users import LOST, Tally, User
from websockets.exceptions import InvalidStatus

INSIDE = "IN_A_NETWORK_THAT_SWALLOWS"
NETWORK = """
ip link set lo up
ip tuntap add dev nowhere mode tun && ip address add 192.0.2.1/24 dev nowhere && ip link set nowhere up
ip route add default dev nowhere
echo nameserver 192.0.2.53 > "$1" && mount --bind "$1" "$(readlink -f /etc/resolv.conf)"
shift
exec "$@"
"""


@dataclass
class Seen:
    """What a reader and a foreign page have met."""

    server: str
    edits: int
    longest: float  # seconds until an edit was answered, or for which there was no answer in the end
    foreign: str
    wrong: list[str] = field(default_factory=list)  # matrices that the core makes otherwise


def namespace() -> list[str]:
    """The command that gives another one such a network; empty where none can be made.

    It is tried whole: a machine may let one make a namespace, and not mount a resolver in it.
    """
    if sys.platform != "linux" or not shutil.which("unshare") or not shutil.which("ip"):
        return []
    for command in (["unshare", "-n", "-m"], ["unshare", "-r", "-n", "-m"]):
        with tempfile.NamedTemporaryFile() as resolver:
            tried = [*command, "sh", "-ec", NETWORK, "sh", resolver.name, "true"]
            if subprocess.run(tried, capture_output=True).returncode == 0:
                return command
    return []


def inside(words: list[str]) -> int:
    """Run a command in a network that swallows packets."""
    with tempfile.NamedTemporaryFile() as resolver:
        network = [*namespace(), "sh", "-ec", NETWORK, "sh", resolver.name]
        return subprocess.run([*network, *words], env={**os.environ, INSIDE: "1"}).returncode


async def met(name: str, host: str, seconds: float) -> Seen:
    """A reader who edits, and after a moment a foreign page beside him.

    An edit that has been sent is waited for beyond the end, and given up only when it has taken as long as
    all of it should; what the board shows is compared with the core where every edit was answered.
    """
    reader, place = User(host, 1, Tally(), think=0.1), Place(host, time.perf_counter() + seconds, 0)
    seen = Seen(name, 0, 0.0, "no answer")

    async def foreign() -> None:
        await asyncio.sleep(seconds / 4)
        try:
            await (await join(place, origin="http://evil.example")).close()
            seen.foreign = "let in"
        except InvalidStatus as answer:
            seen.foreign = f"refused with {answer.response.status_code}"
        except LOST:
            pass

    await reader.open()
    beside = asyncio.create_task(foreign())
    while place.goes_on:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(seconds):
                await reader.edit()
        except TimeoutError:
            seen.longest = time.perf_counter() - began
            break
        seen.edits += 1
        seen.longest = max(seen.longest, time.perf_counter() - began)
        await asyncio.sleep(0.1)
    else:
        seen.wrong = reader.wrong()
    beside.cancel()
    return seen


def main() -> None:
    """Let both servers take turns and print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seconds", type=float, default=30)
    options.add_argument("--json", action="store_true")
    asked = options.parse_args()
    if INSIDE not in os.environ:
        if not namespace():
            sys.exit("No network of its own can be made here.")
        sys.exit(inside([sys.executable, *sys.argv]))
    found = []
    with serve(APP) as (host, _):
        found.append(asyncio.run(met("the app", host, asked.seconds)))
    with plainly_served() as command, serve(command) as (host, _):
        found.append(asyncio.run(met("its pages, plain streamlit run", host, asked.seconds)))
    if asked.json:
        print(json.dumps([asdict(seen) for seen in found]))
        return
    rows = [[s.server, str(s.edits), str(len(s.wrong)), f"{s.longest:.2f} s", s.foreign] for s in found]
    table(["server", "edits answered", "matrices wrong", "longest wait", "the foreign page"], rows)


if __name__ == "__main__":
    main()

"""A really started server and clients that misbehave, in small numbers: each is stopped, the others go on.

benchmarks/faults.py does the same with more of everything, and measures what the others notice of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import faults  # noqa: E402
import swallowed  # noqa: E402
from common import Server  # noqa: E402
from faults import Place, join, page  # noqa: E402
from tab import Tab  # noqa: E402
from users import Numbers, Tally, User  # noqa: E402

from attention_core.masks import MASKS, MaskSpec  # noqa: E402
from attention_ui.wire import TOO_BIG  # noqa: E402

pytestmark = pytest.mark.server
PATIENT = "--ws-ping-interval 1 --ws-ping-timeout 1"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server(f"{faults.FORGETFUL} {PATIENT}")
    yield started
    started.stop()


def beside(server: Server, fault: faults.Fault, many: int = 0, seconds: float = 4) -> tuple[Tally, str]:
    """Three readers at work beside a fault: what they have seen, and what became of the bad client."""
    tally = Tally()
    place = Place(server.host, time.perf_counter() + seconds, many)

    async def story() -> None:
        users = [User(server.host, number, tally, 0.5) for number in range(3)]
        await asyncio.gather(fault(place), *(user.live(place.until) for user in users))

    asyncio.run(story())
    assert not tally.errors and tally.checked >= 6
    return tally, place.seen


async def nobody(server: Server) -> None:
    """Wait until no session is open."""
    while await faults.sessions(Place(server.host, 0, 0)):
        await asyncio.sleep(0.1)


def test_messages_of_two_megabytes_close_the_connection_that_they_came_by(server):
    _, seen = beside(server, faults.big)
    assert seen.endswith("closed with [1009]") and not seen.startswith("0 ")


def test_a_message_that_is_announced_as_far_too_large_is_refused_before_it_comes(server):
    async def story() -> int:
        async with join(Place(server.host, 0, 0)) as socket:
            head = bytes([0x82, 0xFF]) + (50_000_000).to_bytes(8, "big") + bytes(4)
            socket.transport.write(head)  # of one masked binary message; nothing follows
            with pytest.raises(ConnectionClosed) as closed:
                await asyncio.wait_for(socket.recv(), 30)
            assert closed.value.rcvd
            return closed.value.rcvd.code

    assert asyncio.run(story()) == TOO_BIG


def test_foreign_pages_are_refused_at_once(server):
    _, seen = beside(server, faults.foreign)
    assert seen.endswith("refused with 403") and int(seen.split()[0]) > 5


def test_on_a_network_that_swallows_packets_only_a_plain_server_stands_still():
    if not swallowed.namespace():
        pytest.skip("no network of its own can be made here")
    words = [sys.executable, swallowed.__file__, "--seconds", "8", "--json"]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    ours, plain = json.loads(told.stdout)
    assert ours["wrong"] == plain["wrong"] == []
    assert ours["foreign"] == "refused with 403"
    assert plain["foreign"] == "no answer"
    assert plain["longest"] > 5 * ours["longest"]
    assert ours["edits"] > plain["edits"]


def test_sliders_moved_by_hand_make_no_matrix_larger(server):
    _, seen = beside(server, faults.huge)
    assert seen.endswith("no matrix larger than 16 × 16") and int(seen.split()[0]) > 1


@pytest.mark.parametrize("fault", [faults.flood, faults.flood_of_pages, faults.slow, faults.come_and_go])
def test_the_others_go_on_beside_one_who_never_pauses(server, fault):
    beside(server, fault)
    asyncio.run(asyncio.wait_for(nobody(server), 10))  # nothing of it goes on


def test_a_flood_ends_with_the_connection_that_it_came_by(server):
    _, seen = beside(server, faults.flood)
    assert seen.endswith("then closed")


@pytest.mark.parametrize("fault", [faults.silent_sockets, faults.silent_websockets])
def test_the_others_go_on_beside_connections_that_say_nothing(server, fault):
    beside(server, fault, many=60)


def test_clients_that_are_gone_without_a_word_are_noticed(server):
    async def story() -> list[int]:
        place = Place(server.host, time.perf_counter() + 60, 0)
        gone = asyncio.ensure_future(faults.half_open(place))
        open_now = [await faults.sessions(place)]
        while open_now[-1] or not any(open_now):
            await asyncio.sleep(0.1)
            open_now.append(await faults.sessions(place))
        gone.cancel()
        return open_now

    assert max(asyncio.run(asyncio.wait_for(story(), 50))) > 1  # and none in the end


def test_a_text_or_a_broken_message_is_closed_and_leaves_no_traceback(server):
    async def story() -> list[int]:
        codes = []
        for message in ("hello", b"\xff\xfe" * 50):
            async with join(Place(server.host, 0, 0)) as socket:
                await socket.send(message)
                with pytest.raises(ConnectionClosed) as closed:
                    await socket.recv()
                codes.append(closed.value.rcvd.code)
        return codes

    assert asyncio.run(story()) == [1003, 1002]
    server.log.seek(0)
    written = server.log.read()
    assert "Traceback" not in written and '"level": "error"' not in written


def test_a_control_of_another_page_keeps_its_value_where_the_browser_has_not_told_of_it_yet(server):
    async def story() -> str:
        user = User(server.host, 1, Tally())
        await user.open()
        await user.turn_page()  # the masks are compared in the page, and chosen beside it on the other one
        user.numbers.mask = MaskSpec("prefix")
        await user.run(user.tab.ask(user.tab.choose("mask_0_kind", MASKS["prefix"].title)))
        await user.turn_page()
        user.numbers.n_k = 6
        await user.run(user.tab.ask(user.tab.slide("n_k", 6)))
        user.check()
        await user.close()
        assert not user.tally.errors
        return user.tab.board["query"]

    assert "mask=prefix-2&" in asyncio.run(story())


def test_after_a_kill_a_reader_finds_the_numbers_of_the_address_bar_again():
    server = Server(faults.FORGETFUL)

    async def story() -> Tally:
        user = User(server.host, 5, Tally())
        await user.open()
        for _ in range(3):
            await user.edit()
        await user.slide()
        query = user.tab.board["query"]
        server.kill()
        await user.close()
        await asyncio.to_thread(server.start)
        user.tab = Tab(query)
        await user.open()
        user.check()
        await user.close()
        return user.tally

    try:
        tally = asyncio.run(story())
    finally:
        server.stop()
    assert not tally.errors and tally.checked == 1


def test_a_full_server_tells_the_next_reader_and_lets_him_in_when_there_is_room(monkeypatch):
    monkeypatch.setitem(os.environ, "ATTENTION_MOST_READERS", "1")
    server = Server(faults.FORGETFUL)
    place = Place(server.host, 0, 0)
    asked = Request(f"http://{server.host}/walkthrough", headers={"accept": "text/html"})

    async def story() -> None:
        async with join(place) as socket:
            await page(socket, Tab(Numbers(1).link))
            with pytest.raises(InvalidStatus):
                await join(place)
            with pytest.raises(HTTPError, match="503") as full:
                await asyncio.to_thread(urlopen, asked)
            assert b"Readers that it takes at once: 1." in full.value.read()
        await asyncio.sleep(0.5)
        async with join(place) as socket:
            await page(socket, Tab(Numbers(1).link))

    try:
        asyncio.run(story())
    finally:
        server.stop()

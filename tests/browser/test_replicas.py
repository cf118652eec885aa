"""A browser whose replica is killed comes back to another one by itself, with the numbers on its screen."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from attention_ui.bench import numbers
from tests.cluster import Cluster, missing

from .conftest import settled
from .test_app import enter, expect_shown, in_the_address, shown


@pytest.mark.server
def test_a_page_whose_replica_is_killed_goes_on_with_its_numbers(visit: Callable[..., Any]) -> None:
    if why := missing():
        pytest.skip(why)
    cluster = Cluster()
    try:
        opened = visit(f"http://{cluster.host}/walkthrough?way=qkv&view=all")
        page = opened.page
        page.get_by_role("grid").first.wait_for()
        enter(page, "Q", 1, 1, "2.5")
        settled(page)
        rows = len(shown(page, "Q"))
        before = page.evaluate("location.search")
        page.get_by_role("slider", name="Queries n_q").press("ArrowRight")
        page.wait_for_function("before => location.search !== before", arg=before)
        settled(page)
        (served,) = [address for address, count in cluster.sessions().items() if count]
        cluster.end(served, signal.SIGKILL)
        cluster.wait_for(lambda: sum(cluster.sessions().values()) == 1, "the browser did not come back", 30)
        settled(page)
        assert numbers(in_the_address(page).bench, "q")[0, 0] == 2.5
        assert len(shown(page, "Q")) == rows + 1
        enter(page, "Q", 2, 2, "-0.5")
        # a server that has just started knows no part of this page: the board asks for the whole page then
        page.wait_for_function("() => location.search.includes('cell=q.2.2')", timeout=40_000)
        settled(page)
        q = numbers(in_the_address(page).bench, "q")
        assert q[0, 0] == 2.5 and q[1, 1] == -0.5
        expect_shown(page, in_the_address(page))
        # the console says that the connection was lost, and nothing else
        assert all("WebSocket" in error or "ERR_" in error for error in opened.errors)
        opened.errors.clear()
        page.close()
    finally:
        cluster.close()

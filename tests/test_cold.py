"""A link is the first thing that a server just started is asked for: whatever the page, it opens whole."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from common import APP, serve  # noqa: E402
from faults import Place, join, page  # noqa: E402
from tab import Tab  # noqa: E402

from attention_ui.lessons import LESSONS  # noqa: E402

pytestmark = pytest.mark.server


@pytest.mark.parametrize("slug", [lesson.slug for lesson in LESSONS[1:]])
def test_a_page_opens_by_its_link_on_a_server_that_has_shown_nothing_yet(slug: str) -> None:
    async def opened(host: str) -> Tab:
        tab = Tab("way=qkv&seed=7")
        async with join(Place(host, time.perf_counter() + 60, 0)) as socket, asyncio.timeout(60):
            await page(socket, tab, slug)
        return tab

    with serve(APP) as (host, _):
        tab = asyncio.run(opened(host))
    assert tab.pages[slug] == tab.page
    assert "seed=7" in tab.board["query"] and "way=qkv" in tab.board["query"]
    assert all(row for grid in tab.board["grids"].values() for row in grid["cells"])

"""Giving up what belonged to readers who have left: all of it when nobody is there, else many at a time.

Streamlit keeps the session of a tab that is gone for `server.disconnectedSessionTTL` seconds, in case it
comes back, and lets go of those that have expired when the next one goes: after a class the last of them
stay, each with its numbers and three descriptors. And it leaves them to a full garbage collection, which
stops everything: with 200 readers for a tenth of a second. By itself Python runs one every few seconds under
load, because sessions change all the time, and half of what the slowest answers waited for was that. So
`serving.lifespan` makes them rare (RARELY), and here they are run where there is something to be had.
"""

from __future__ import annotations

import asyncio
import gc

from streamlit.runtime import Runtime, exists, get_instance

from attention_ui import metrics

EVERY = 30.0  # seconds
MANY = 20  # readers who have left, while others are there; a quarter of those, where that is more
RARELY = 1000  # collections of the middle generation for each full one; Python's own number is 10


async def sweep(every: float = EVERY) -> None:
    """Every so often, give up the sessions that have expired, and collect what enough of them have left."""
    swept = 0.0  # readers of whom nothing is left
    while True:
        await asyncio.sleep(every)
        if not exists():
            continue
        here = metrics.OPEN.numbers[""]
        left = metrics.SESSIONS.numbers[""] - here - kept(get_instance())
        if left - swept >= (max(MANY, here / 4) if here else 1):
            gc.collect()
            swept = left


def kept(runtime: Runtime) -> int:
    """How many sessions of readers who have left have not expired; those that have are let go."""
    cache = runtime._session_mgr._session_storage._cache  # type: ignore[attr-defined]
    cache.expire()
    return len(cache)

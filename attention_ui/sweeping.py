"""Giving up what belonged to readers who have left, once nobody is there who would have to wait for it.

Streamlit keeps the session of a tab that is gone for `server.disconnectedSessionTTL` seconds, in case it
comes back, and lets go of those that have expired when the next one goes: after a class the last of them
stay, each with its numbers and three descriptors. And it leaves them to a full garbage collection, which this
app does not run after every change (see serving.py).
"""

from __future__ import annotations

import asyncio
import gc

from streamlit.runtime import Runtime, exists, get_instance

from attention_ui import metrics

EVERY = 30.0  # seconds


async def sweep(every: float = EVERY) -> None:
    """Every so often, where nobody is connected, give up the sessions that have expired."""
    swept = 0.0
    while True:
        await asyncio.sleep(every)
        came = metrics.SESSIONS.numbers[""]
        if metrics.OPEN.numbers[""] or came == swept or not exists():
            continue
        if not kept(get_instance()):
            swept = came  # nobody has been here since
        gc.collect()


def kept(runtime: Runtime) -> int:
    """How many sessions of readers who have left have not expired; those that have are let go."""
    cache = runtime._session_mgr._session_storage._cache  # type: ignore[attr-defined]
    cache.expire()
    return len(cache)

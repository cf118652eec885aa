"""One run at a time: readers who change something at the same moment are answered one after the other.

Python runs one thread at a time anyway. Runs side by side only take the processor from one another, every
5 ms, and all of them are late: with 200 readers the 95th of a hundred answers took twice as long. A run that
takes longer than its turn, such as the first of all or a drawing of many samples, holds nobody up: after
PATIENCE the next one goes on beside it. Work in pieces has turns of its own (training.py) or takes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from attention_ui import quicker

PATIENCE = 0.25  # seconds
_TURN = Lock()


@contextmanager
def turn() -> Iterator[bool]:
    """Wait for one's turn, at most PATIENCE, and keep it for the work inside. False: another one has it."""
    mine = _TURN.acquire(timeout=PATIENCE)
    try:
        yield mine
    finally:
        quicker.hurry()  # the end of the run comes next
        if mine:
            _TURN.release()

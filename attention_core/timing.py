"""Plain attention and attention by tiles, timed on the machine at hand: few sizes, few repetitions, bounded.

One measurement is one call, and a plan is a list of them, so that whoever runs it can stop between any two.
The median of several calls is told, because a single one says much about what else the machine was doing.
What is timed is a time and nothing else: it is never put together with an estimate.

Not timed fairly, and to be said beside the numbers: plain attention here keeps every stage, NumPy works in
float64 on processor cores, and the tiles of a GPU live in fast memory that a program in NumPy cannot choose.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from attention_core.attention import attention
from attention_core.operations import Array
from attention_core.tiles import flash_attention

SIZES = (128, 256, 512, 1024)
WIDTHS = (16, 64)
REPEATS = 5
LONGEST_CALL = 0.15  # seconds; a size that would take longer is left out
LONGEST_ALL = 2.0  # seconds of calls in one run
BLOCK = 64  # queries and keys of a tile
GROWTH = 4.5  # twice the tokens take about four times as long, and somewhat more where caches overflow
WAYS = ("plain", "tiled")

Call = tuple[str, int]  # one of WAYS, and the number of tokens
Clock = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """A run as far as it has come: what is still to be called, and the seconds that calls took."""

    d: int
    waiting: tuple[Call, ...]
    taken: dict[Call, tuple[float, ...]] = field(default_factory=dict)
    left_out: tuple[Call, ...] = ()
    spent: float = 0.0

    @property
    def is_done(self) -> bool:
        return not self.waiting

    @property
    def share(self) -> float:
        """How much of the run is behind it, from 0 to 1."""
        calls = sum(map(len, self.taken.values()))
        return calls / (calls + len(self.waiting)) if self.waiting else 1.0

    def median(self, way: str, n: int) -> float | None:
        """Seconds, or None where nothing was measured."""
        taken = self.taken.get((way, n))
        return median(taken) if taken else None


def plan(d: int) -> Timing:
    """A run with nothing done: sizes from small to large, plain and tiled in turn, REPEATS times each.

    Raises ValueError for a width that is not one of WIDTHS.
    """
    if d not in WIDTHS:
        raise ValueError(f"the width has to be one of {', '.join(map(str, WIDTHS))}, not {d!r}")
    return Timing(d, tuple((way, n) for n in SIZES for _ in range(REPEATS) for way in WAYS))


def step(timing: Timing, clock: Clock = perf_counter) -> Timing:
    """The run after one more call, or after leaving out what would take too long.

    A size is left out where the calls so far let expect more than LONGEST_CALL, and so is everything that is
    waiting once LONGEST_ALL has been spent.
    """
    if timing.is_done:
        return timing
    call, *rest = timing.waiting
    if timing.spent >= LONGEST_ALL:
        return _without(timing, timing.waiting)
    if _expected(timing, call) > LONGEST_CALL:
        return _without(timing, (call,))
    seconds = _call(*call, timing.d, clock)
    taken = {**timing.taken, call: (*timing.taken.get(call, ()), seconds)}
    return replace(timing, waiting=tuple(rest), taken=taken, spent=timing.spent + seconds)


def _without(timing: Timing, gone: tuple[Call, ...]) -> Timing:
    """The run without these calls; what was never called is told as left out."""
    never = tuple(call for call in dict.fromkeys(gone) if call not in timing.taken)
    waiting = tuple(call for call in timing.waiting if call not in gone)
    return replace(timing, waiting=waiting, left_out=(*timing.left_out, *never))


def _expected(timing: Timing, call: Call) -> float:
    """Seconds that a call will take, from the quickest of its kind or the next smaller size; 0 at first."""
    way, n = call
    known = [size for size in SIZES if size <= n and (way, size) in timing.taken]
    if not known:
        return 0.0
    return float(min(timing.taken[way, known[-1]]) * GROWTH ** np.log2(n / known[-1]))


def _call(way: str, n: int, d: int, clock: Clock) -> float:
    q, k, v = inputs(n, d)
    start = clock()
    if way == "plain":
        attention(q, k, v)
    else:
        flash_attention(q, k, v, block_q=BLOCK, block_k=BLOCK)
    return clock() - start


@lru_cache(maxsize=len(SIZES) * len(WIDTHS))
def inputs(n: int, d: int) -> tuple[Array, Array, Array]:
    """Random q, k and v (n, d), the same every time."""
    q, k, v = np.random.default_rng(15).standard_normal((3, n, d))
    return q, k, v


def machine() -> str:
    """The processor, its cores, and what the numbers ran in."""
    return (
        f"{processor()}, {os.cpu_count() or 1} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__}"
    )


@lru_cache(maxsize=1)
def processor() -> str:
    """The name of the processor as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "an unnamed processor"

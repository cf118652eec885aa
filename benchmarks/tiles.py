"""Attention by tiles against plain attention: time at n = 4,096 and memory at n = 16,384, with d = 64.

Time: both take turns within one run, so that the ratio holds whatever else the machine does. The plain way
keeps nothing but the output. Memory: the largest amount held at once beside q, k and v, against the table of
scores that is never made. Run from anywhere: `python benchmarks/tiles.py`.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from common import ROOT, against, median, table
from numpy.typing import NDArray

sys.path.insert(0, str(ROOT))

from attention_core.tiles import flash_attention

Array = NDArray[np.float64]

D = 64
N_TIME, N_MEMORY = 4096, 16384
TURNS = 7
LIMIT = 1.5  # times plain attention, in seconds
PART = 20  # of the table of scores, one in so many bytes at most


def main() -> None:
    """Print the times, then the memory, each without a mask and with a causal one."""
    rows = [timed("no mask", None, None)]
    rows.append(timed("causal", np.tri(N_TIME, dtype=bool), lambda query, key: key <= query))
    table(
        [f"n = {N_TIME:,}, d = {D}, median of {TURNS}", "plain NumPy", "by tiles of 64 × 64", "ratio"], rows
    )
    print()
    held = [measured("no mask", None), measured("causal", lambda query, key: key <= query)]
    table([f"n = {N_MEMORY:,}, d = {D}", "table of scores", "most held at once", "part"], held)


def timed(name: str, mask: NDArray[np.bool_] | None, rule: Any) -> list[str]:
    """One row of the first table; the plain way has its mask ready, by tiles a rule is asked."""
    q, k, v = np.random.default_rng(0).normal(size=(3, N_TIME, D))
    plain, tiled = in_turn(lambda: by_hand(q, k, v, mask), lambda: flash_attention(q, k, v, mask=rule))
    return [name, f"{plain:.3f} s", f"{tiled:.3f} s", against(tiled, plain, LIMIT)]


def measured(name: str, rule: Any) -> list[str]:
    """One row of the second table."""
    q, k, v = np.random.default_rng(1).normal(size=(3, N_MEMORY, D))
    tracemalloc.start()
    flash_attention(q, k, v, mask=rule)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    whole = N_MEMORY**2 * q.itemsize
    verdict = "" if peak * PART <= whole else " TOO MUCH"
    return [
        name,
        f"{whole / 1e6:,.0f} MB",
        f"{peak / 1e6:.1f} MB",
        f"1/{whole // peak} (≤ 1/{PART}){verdict}",
    ]


def by_hand(q: Array, k: Array, v: Array, mask: NDArray[np.bool_] | None) -> Array:
    """Attention as one would write it, with the output as all that is kept."""
    scores = q @ k.T / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: Array = powers / powers.sum(axis=-1, keepdims=True)
    return weights @ v


def in_turn(*functions: Callable[[], object]) -> list[float]:
    """The median seconds of each function; one turn first, not counted, to warm up."""
    taken: list[list[float]] = [[] for _ in functions]
    for turn in range(TURNS + 1):
        for function, seconds in zip(functions, taken, strict=True):
            start = perf_counter()
            function()
            if turn:
                seconds.append(perf_counter() - start)
    return [median(seconds) for seconds in taken]


if __name__ == "__main__":
    main()

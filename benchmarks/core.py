"""What the sheet costs over plain NumPy: the whole trace against the same stages written out by hand.

Both take turns within one run, so that the ratio holds whatever else the machine does. Run from anywhere:
`python benchmarks/core.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np
from common import ROOT, against, median, table
from numpy.typing import NDArray

sys.path.insert(0, str(ROOT))

from attention_core.attention import attention
from attention_core.numbers import show_table
from attention_core.sheet import work

Array = NDArray[np.float64]

SIZES = {8: (8, 2000), 64: (64, 500), 256: (64, 100), 1024: (64, 25)}  # n: d_k, turns
LIMIT = 1.5  # times the stages by hand, at n = 1024
LIMIT_MS = 0.3  # at 8 × 8


def main() -> None:
    """Print one row per size, without a mask and with a causal one."""
    rows = []
    for n, (d, turns) in SIZES.items():
        for masked in (False, True):
            hand, trace = compared(n, d, masked, turns)
            rows.append(
                [
                    f"n = {n}, d = {d}{', causal' * masked}",
                    f"{hand * 1e3:.3f} ms",
                    f"{trace * 1e3:.3f} ms" + (f" (≤ {LIMIT_MS} ms)" if n == 8 else ""),
                    against(trace, hand, LIMIT) if n == 1024 else f"{trace / hand:.2f} ×",
                ]
            )
    texts, cell = on_screen()
    rows.append(["8 × 8, every number as text", "", f"{texts * 1e3:.3f} ms", ""])
    rows.append(["8 × 8, one weight worked by hand", "", f"{cell * 1e3:.3f} ms", ""])
    table(["median of one calculation", "NumPy by hand", "the core", "ratio"], rows)


def compared(n: int, d: int, masked: bool, turns: int) -> tuple[float, float]:
    """Seconds by hand and with the whole trace kept, for n queries and keys of d features."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(n, d)) for _ in range(3))
    mask = np.tri(n, dtype=bool) if masked else None
    hand, trace = in_turn(turns, lambda: by_hand(q, k, v, mask), lambda: attention(q, k, v, mask=mask))
    return hand, trace


def on_screen() -> tuple[float, float]:
    """Seconds for all texts of an 8 × 8 sheet, and for the arithmetic of one weight."""
    q, k, v = np.random.default_rng(1).normal(size=(3, 8, 8))
    trace = attention(q, k, v, mask=np.tri(8, dtype=bool))
    matrices = [a for a in trace.values.values() if a.ndim == 2]
    texts, cell = in_turn(
        200,
        lambda: [show_table(a) for a in matrices],
        lambda: work(trace.sheet, trace.values, "weights", 7, 3),
    )
    return texts, cell


def by_hand(q: Array, k: Array, v: Array, mask: NDArray[np.bool_] | None) -> tuple[Array, ...]:
    """Every stage, written as one would without thinking of a sheet."""
    k_t = k.T
    scores = q @ k_t
    scaled = scores / np.sqrt(q.shape[-1])
    masked = scaled if mask is None else np.where(mask, scaled, -np.inf)
    top = masked.max(axis=-1, keepdims=True)
    powers = np.exp(masked - top)
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / total
    lse = (top + np.log(total))[:, 0]
    return k_t, scores, scaled, masked, weights, lse, weights @ v


def in_turn(turns: int, *functions: Callable[[], object]) -> list[float]:
    """The median seconds of each function; three turns first, not counted, to warm up."""
    taken: list[list[float]] = [[] for _ in functions]
    for turn in range(turns + 3):
        for function, seconds in zip(functions, taken, strict=True):
            start = perf_counter()
            function()
            if turn >= 3:
                seconds.append(perf_counter() - start)
    return [median(seconds) for seconds in taken]


if __name__ == "__main__":
    main()

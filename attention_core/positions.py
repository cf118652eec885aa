r"""Where a token stands: sinusoids added to its row, rotations of queries and keys, and slopes on the scores.

    sinusoids  P[p, 2k] = sin(p · ω_k),  P[p, 2k + 1] = cos(p · ω_k)          Vaswani et al. 2017, 3.5
    RoPE       pair k of a row at position p is turned by the angle p · ω_k     Su et al. 2021
    both with  ω_k = base^(−2k / d), base 10000, d the width that is filled or turned
    ALiBi      score − m · distance, m = 2^(−8h / H) for head h of H            Press, Smith and Lewis 2022

Libraries differ, so each convention has a name. Sinusoids are "interleaved" as in the paper or
"concatenated" (all sines, then all cosines); an odd width holds one sine more. RoPE pairs neighbours
("interleaved", as its authors do) or column k with column k + d/2 ("half"); an odd width is refused. Where
the number of heads is no power of 2, ALiBi's slopes are those of the power below and every other one of the
power above.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attention_core.fitting import numbers
from attention_core.operations import Array
from attention_core.waves import Layout, Pairing, rotation, sines_and_cosines

BASE = 10000.0


def position_column(n: int, shift: float = 0.0) -> Array:
    """(n, 1): the positions of n tokens, counted from 0, all moved by the same shift."""
    return np.arange(n, dtype=np.float64)[:, None] + shift


def exponents(width: int) -> Array:
    """(1, pairs): 2k / width for pair k; an odd width has half a pair at its end."""
    return np.arange(0, width, 2, dtype=np.float64)[None] / max(width, 1)


def sinusoids(length: int, dim: int, layout: Layout = "interleaved", base: float = BASE) -> Array:
    """(length, dim): the table of sines and cosines for positions 0, 1, 2, …

    Raises ValueError for a layout other than interleaved and concatenated.
    """
    angles = position_column(length) * base ** -exponents(dim)
    result: Array = sines_and_cosines(dim, layout).compute(angles)
    return result


def learned_rows(table: ArrayLike, n: int, shift: int = 0) -> Array:
    """(n, d): the rows of a learned table for n tokens from position `shift` on.

    Raises ValueError where the table has no row for a position: nothing was learned for it.
    """
    rows = numbers("table", table)
    if not 0 <= shift <= len(rows) - n:
        raise ValueError(
            f"the table has rows for positions 0 to {len(rows) - 1}, not for {shift} to {shift + n - 1}"
        )
    return rows[shift : shift + n]


def rope(
    x: ArrayLike,
    positions: ArrayLike,
    base: float = BASE,
    pairing: Pairing = "interleaved",
    rotary_dim: int = 0,
) -> Array:
    """x (…, n, d) with the pairs of each row turned by its position, (n,) or (…, n) like the axes of x.

    rotary_dim: so many columns from the first one on are turned, with the frequencies of that width; 0 turns
    all. Raises ValueError for an odd width, for more columns than there are, and for another pairing.
    """
    rows = numbers("x", x)
    width = rotary_dim or rows.shape[-1]
    operation = rotation(rows.shape[-1], pairing, width)
    where = np.asarray(positions, dtype=np.float64)[..., None]
    if where.ndim < 2 or where.shape[-2] not in (1, rows.shape[-2]):
        raise ValueError(f"positions {where.shape[:-1]} and x {rows.shape} differ in the number of tokens")
    turned: Array = operation.compute(rows, where * base ** -exponents(width))
    return turned


def alibi_slopes(n_heads: int) -> Array:
    """(n_heads,): how steeply each head holds distant keys back. Raises ValueError below one head."""
    if n_heads < 1:
        raise ValueError(f"there is at least one head, not {n_heads}")
    below = 1 << (n_heads.bit_length() - 1)
    slopes, finer = (2.0 ** (-8.0 * np.arange(1, n + 1) / n) for n in (below, 2 * below))
    return np.concatenate([slopes, finer[::2][: n_heads - below]])

"""Bytes to and from slow memory, estimated from shapes: plain attention against attention by tiles.

Plain attention is counted as three steps that each read from slow memory and write back to it: S = Q Kᵀ,
P = softmax(S), O = P V (Dao et al. 2022, algorithm 0). By tiles, a block of queries is read once and its
output and log-sum-exp written once; the keys and values of a tile are read when the tile is worked. A mask
and a bias are not counted on either side. Estimates: caches and partial writes are left out.
"""

from __future__ import annotations

from attention_core.mask_arrays import count
from attention_core.operations import Truth
from attention_core.sheet import NUMBER_BYTES
from attention_core.tiling import Rule, cut, part


def bytes_plain(n_q: int, n_k: int, d_k: int, d_v: int, *, number_bytes: int = NUMBER_BYTES) -> int:
    """For one head; four passes over the n_q × n_k table. Raises ValueError for sizes below 0."""
    n_q, n_k, d_k, d_v = _sizes(n_q, n_k, d_k, d_v)
    table = n_q * n_k
    return number_bytes * ((n_q + n_k) * d_k + table + 2 * table + table + n_k * d_v + n_q * d_v)


def bytes_tiled(
    n_q: int,
    n_k: int,
    d_k: int,
    d_v: int,
    *,
    mask: Truth | Rule | None = None,
    block_q: int = 64,
    block_k: int = 64,
    number_bytes: int = NUMBER_BYTES,
) -> int:
    """For one head; keys and values are read once per block of queries, but for tiles that are skipped.

    mask, an array (n_q, n_k) or a rule, says which tiles are. Raises ValueError for sizes below 0 and blocks
    below 1.
    """
    n_q, n_k, d_k, d_v = _sizes(n_q, n_k, d_k, d_v)
    columns = cut(n_k, block_k, "block_k")
    read = 0
    for rows in cut(n_q, block_q, "block_q"):
        for keys in columns:
            allow = part(mask, rows, keys)
            if allow is None or allow.any():
                read += (keys.stop - keys.start) * (d_k + d_v)
    return number_bytes * (n_q * d_k + read + n_q * (d_v + 1))


def _sizes(n_q: int, n_k: int, d_k: int, d_v: int) -> tuple[int, ...]:
    names = ("n_q", "n_k", "d_k", "d_v")
    return tuple(count(name, size) for name, size in zip(names, (n_q, n_k, d_k, d_v), strict=True))

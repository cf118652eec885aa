r"""Attention tile by tile, without ever holding the table of all scores.

For a block of queries the keys come in tiles. Kept are, per query, the largest score so far m, the sum of
exponentials so far z, and the output so far times z. A tile with scores S and values V changes them into

    m' = max(m, max S)        c = e^(m − m')        z' = c z + Σ e^(S − m')        o' = c o + e^(S − m') V

and after the last tile the output is o / z and the log-sum-exp m + log z. The sum kept in step with a
running maximum: Milakov and Gimelshein 2018; attention by tiles: Dao et al. 2022 (FlashAttention), with
queries in the outer loop as in Dao 2023 (FlashAttention-2). `tile_steps` shows every tile.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attention_core.operations import Array, matmul
from attention_core.tiling import Rule, Tiling, tiling


def flash_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    mask: ArrayLike | Rule | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[Array, Array]:
    """(output (…, n_q, d_v), lse (…, n_q)) of `attention`, to rounding, a tile of scores at a time.

    The arguments are those of `attention`; mask may also be a rule, a function of query positions (a column)
    and key positions (a row) that gives True where a query may look: `lambda query, key: key <= query`.
    A tile, block_q × block_k or less at the edges, is skipped where no query may look at any key.

    Raises ValueError, naming arguments and shapes, where they do not fit, and for blocks that are not whole
    numbers from 1.
    """
    tiles = tiling(q, k, v, mask, bias, scale, softcap, block_q, block_k)
    n_q, d_v = tiles.q.shape[-2], tiles.v.shape[-1]
    output = np.zeros((*np.broadcast_shapes(tiles.leading, tiles.v.shape[:-2]), n_q, d_v))
    lse = np.full((*tiles.leading, n_q), -np.inf)
    k_t = np.ascontiguousarray(tiles.k.swapaxes(-1, -2))  # in one piece: a tenth less time for the whole
    finite = bool(np.isfinite(tiles.v).all())
    with np.errstate(all="ignore"):
        for rows in tiles.queries:
            q_rows = _scaled(tiles, rows)
            maximum = np.full((*tiles.leading, q_rows.shape[-2], 1), -np.inf)
            total, mixed = np.zeros_like(maximum), np.zeros_like(output[..., rows, :])
            for columns in tiles.keys:
                scores = _scores(tiles, q_rows, k_t, rows, columns)
                if scores is not None:
                    maximum = _add(scores, maximum, total, mixed, tiles.v[..., columns, :], finite)
            output[..., rows, :] = mixed / np.where(total == 0.0, 1.0, total)
            lse[..., rows] = np.where(np.isinf(maximum), maximum, maximum + np.log(total))[..., 0]
    return output, lse


def _add(scores: Array, maximum: Array, total: Array, mixed: Array, v: Array, finite: bool) -> Array:
    """The new maximum; total and mixed are brought up to it and the tile is added to both, in place.

    finite: whether v is, so that a plain product leaves masked values out. scores become exponentials.
    """
    top: Array = np.maximum(maximum, scores.max(axis=-1, keepdims=True))
    shift = np.where(top == -np.inf, 0.0, top)
    masked = None if finite else scores.copy()
    np.subtract(scores, shift, out=scores)
    powers = np.exp(scores, out=scores)
    factor = np.exp(maximum - shift)
    total *= factor
    total += powers.sum(axis=-1, keepdims=True)
    mixed *= factor
    mixed += powers @ v if finite else matmul(powers, v, masked)
    return top


def _scaled(tiles: Tiling, rows: slice) -> Array:
    """The queries of some rows, scaled before they meet the keys: fewer numbers to scale."""
    q = np.broadcast_to(tiles.q[..., rows, :], (*tiles.leading, rows.stop - rows.start, tiles.q.shape[-1]))
    scaled: Array = q / tiles.number if tiles.scaling == "sqrt" else q * tiles.number
    return scaled


def _scores(tiles: Tiling, q: Array, k_t: Array, rows: slice, columns: slice) -> Array | None:
    """A tile of scores with soft cap, bias and mask; None where no query of it may look at any key."""
    allow = tiles.may_look(rows, columns)
    if allow is not None and not allow.any():
        return None
    scores: Array = q @ k_t[..., columns]
    if tiles.softcap is not None:
        scores = tiles.softcap * np.tanh(scores / tiles.softcap)
    if tiles.bias is not None:
        scores += tiles.bias[..., rows, columns]
    if allow is not None and not allow.all():
        np.copyto(scores, -np.inf, where=~allow)
    return scores

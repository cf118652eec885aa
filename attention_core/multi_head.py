"""Multi-head attention with all heads in one array, as libraries compute it: what the sheets are checked by.

The calculation and its source are in heads.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from attention_core.attention import AttentionTrace, attention
from attention_core.fitting import numbers
from attention_core.operations import Array
from attention_core.positions import BASE, alibi_slopes, rope
from attention_core.waves import Pairing

Positions = Literal["rope-interleaved", "rope-half", "alibi"]


@dataclass(frozen=True, eq=False)
class HeadsTrace:
    """Multi-head attention with all heads in one array: what the sheets are checked against."""

    q: Array  # (…, n_q, n_heads·d_k)
    k: Array  # (…, n_k, n_kv_heads·d_k)
    v: Array  # (…, n_k, n_kv_heads·d_v)
    heads: AttentionTrace  # (…, n_heads, n, d)
    concatenated: Array  # (…, n_q, n_heads·d_v)
    output: Array  # (…, n_q, d_model)


def multi_head_attention(
    x: ArrayLike,
    w_q: ArrayLike,
    w_k: ArrayLike,
    w_v: ArrayLike,
    w_o: ArrayLike,
    *,
    n_heads: int,
    n_kv_heads: int | None = None,
    x_k: ArrayLike | None = None,
    x_v: ArrayLike | None = None,
    b_q: ArrayLike = 0.0,
    b_k: ArrayLike = 0.0,
    b_v: ArrayLike = 0.0,
    b_o: ArrayLike = 0.0,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
    positions: Positions | None = None,
    first: float = 0.0,
    base: float = BASE,
) -> HeadsTrace:
    """Let every head attend with columns of its own, put their outputs side by side and multiply by w_o.

    x (…, n, d_model), w_q (d_model, n_heads·d_k), w_k and w_v (d_model, n_kv_heads·d), w_o (n_heads·d_v,
    d_model). Keys are made of x_k and values of x_v where they are given; b_q, b_k, b_v and b_o, one number
    a column, are added to the products. mask and bias are those of `attention`, with an axis for the heads
    before the last two, or with two axes only.
    Raises ValueError naming arguments and shapes.
    """
    few = n_heads if n_kv_heads is None else n_kv_heads
    rows = numbers("x", x)
    from_k = rows if x_k is None else numbers("x_k", x_k)
    from_v = rows if x_v is None else numbers("x_v", x_v)
    q = _product("x", rows, "w_q", numbers("w_q", w_q), b_q)
    k = _product("x" if x_k is None else "x_k", from_k, "w_k", numbers("w_k", w_k), b_k)
    v = _product("x" if x_v is None else "x_v", from_v, "w_v", numbers("w_v", w_v), b_v)
    asked, offered = split_heads("q", q, n_heads), split_heads("k", k, few)
    if positions == "alibi":
        away = np.abs(np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2]))
        bias = (0.0 if bias is None else numbers("bias", bias)) - alibi_slopes(n_heads)[:, None, None] * away
    elif positions is not None:
        pairing: Pairing = "half" if positions == "rope-half" else "interleaved"
        asked, offered = (rope(a, first + np.arange(a.shape[-2]), base, pairing) for a in (asked, offered))
    heads = attention(asked, offered, split_heads("v", v, few), mask=mask, bias=bias, scale=scale)
    concatenated = merge_heads(heads.output)
    output = _product("the heads side by side", concatenated, "w_o", numbers("w_o", w_o), b_o)
    return HeadsTrace(q, k, v, heads, concatenated, output)


def split_heads(name: str, a: Array, n_heads: int) -> Array:
    """(…, n, n_heads·d) -> (…, n_heads, n, d). Raises ValueError where the columns cannot be shared out."""
    *leading, n, columns = a.shape
    if n_heads < 1 or columns % n_heads:
        raise ValueError(
            f"the {columns} columns of {name} {a.shape} cannot be shared out among {n_heads} heads"
        )
    return a.reshape(*leading, n, n_heads, columns // n_heads).swapaxes(-2, -3)


def merge_heads(a: Array) -> Array:
    """(…, n_heads, n, d) -> (…, n, n_heads·d): the way back."""
    *leading, n_heads, n, d = a.shape
    return a.swapaxes(-2, -3).reshape(*leading, n, n_heads * d)


def _product(left: str, a: Array, right: str, w: Array, bias: ArrayLike) -> Array:
    if w.ndim != 2 or a.shape[-1] != w.shape[0]:
        raise ValueError(
            f"{left} {a.shape} and {right} {w.shape} do not fit: {right} needs {a.shape[-1]} rows"
        )
    return a @ w + np.asarray(bias, dtype=np.float64)

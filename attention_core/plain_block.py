"""A whole block once more, without a sheet: all heads at once, RoPE by complex numbers, in plain NumPy.

It shares no code with the sheets, so that a number on which both agree has been worked out in two ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import erf, pi, sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Given = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Plain:
    """What sets one block apart from another."""

    pre: bool
    rms: bool
    causal: bool
    bend: str  # "relu", "gelu", "gelu_tanh" or "swiglu"
    turned: bool = False  # RoPE in halves


ENCODER_POST = Plain(pre=False, rms=False, causal=False, bend="relu")
ENCODER_PRE = Plain(pre=True, rms=False, causal=False, bend="relu")
GPT2 = Plain(pre=True, rms=False, causal=True, bend="gelu_tanh")
LLAMA = Plain(pre=True, rms=True, causal=True, bend="swiglu", turned=True)


def plain_block(block: Plain, given: Given, n_heads: int, n_kv_heads: int | None = None) -> Array:
    """The block's output for given["x"] (…, n, d_model) and weights by their names in the sheets of block.py.

    given also holds epsilon and, for a block that turns queries and keys, base. Raises KeyError for what is
    not given.
    """
    x = given["x"]
    parts: tuple[Callable[[Array], Array], ...] = (
        lambda rows: _attention(block, given, rows, n_heads, n_kv_heads or n_heads),
        lambda rows: _network(block, given, rows),
    )
    for place, part in enumerate(parts, 1):
        x = x + part(_norm(block, given, x, place) if block.pre else x)
        x = x if block.pre else _norm(block, given, x, place)
    return x


def _norm(block: Plain, given: Given, x: Array, place: int) -> Array:
    gain = given[f"gain_{place}"]
    if block.rms:
        square = np.einsum("...j,...j->...", x, x)[..., None] / x.shape[-1]
        return np.asarray(x * (square + given["epsilon"]) ** -0.5 * gain)
    variance = x.var(axis=-1, keepdims=True)
    even = (x - x.mean(axis=-1, keepdims=True)) * (variance + given["epsilon"]) ** -0.5
    return np.asarray(even * gain + given[f"shift_{place}"])


def _attention(block: Plain, given: Given, x: Array, n_heads: int, n_kv_heads: int) -> Array:
    n = x.shape[-2]
    q = _linear(given, x, "q").reshape(*x.shape[:-1], n_heads, -1)
    k, v = (_linear(given, x, letter).reshape(*x.shape[:-1], n_kv_heads, -1) for letter in "kv")
    if block.turned:
        q, k = (_turned(a, float(given["base"])) for a in (q, k))
    k, v = (a.repeat(n_heads // n_kv_heads, axis=-2) for a in (k, v))
    scores = np.einsum("...ihd,...jhd->...hij", q, k) / sqrt(q.shape[-1])
    if block.causal:
        scores = scores - np.where(np.arange(n) > np.arange(n)[:, None], np.inf, 0.0)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    heads = np.einsum("...hij,...jhd->...ihd", weights, v)
    return _linear(given, heads.reshape(*x.shape[:-1], -1), "o")


def _turned(a: Array, base: float) -> Array:
    """(…, n, heads, d): columns i and i + d/2 as one complex number, turned by position · base^(−2i/d)."""
    half = a.shape[-1] // 2
    angle = np.arange(a.shape[-3])[:, None, None] * base ** (-2 * np.arange(half) / a.shape[-1])
    spun = (a[..., :half] + 1j * a[..., half:]) * np.exp(1j * angle)
    return np.concatenate([spun.real, spun.imag], axis=-1)


def _network(block: Plain, given: Given, x: Array) -> Array:
    if block.bend == "swiglu":
        gate = x @ given["w_gate"]
        share = (1 + np.tanh(gate / 2)) / 2  # the logistic function
        return np.asarray((gate * share * (x @ given["w_up"])) @ given["w_down"])
    return _linear(given, _bent(block.bend, _linear(given, x, "1")), "2")


def _bent(bend: str, x: Array) -> Array:
    if bend == "relu":
        return np.asarray(x * (x > 0))
    if bend == "gelu":
        shares = [0.5 + erf(a / sqrt(2)) / 2 for a in x.ravel().tolist()]
        return np.asarray(x * np.array(shares).reshape(x.shape))
    return np.asarray(x / 2 * (1 + np.tanh(sqrt(2 / pi) * x * (1 + 0.044715 * x * x))))


def _linear(given: Given, x: Array, which: str) -> Array:
    return np.asarray(x @ given[f"w_{which}"] + given.get(f"b_{which}", 0.0))

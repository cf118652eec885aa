r"""Softmax and its two relatives, over any axis.

    softmax(a)_j     = e^(a_j − m) / Σ_l e^(a_l − m)        m the largest a
    log_softmax(a)_j = (a_j − m) − log Σ_l e^(a_l − m)
    logsumexp(a)     = m + log Σ_l e^(a_l − m)

Taking the maximum off first changes nothing on paper and keeps exp in range: Blanchard, Higham
and Higham, "Accurately computing the log-sum-exp and softmax functions", 2021.

A line of −∞ only has nothing to share out: its softmax is 0 everywhere and its log-sum-exp −∞.
A +∞ or NaN makes the softmax of its line NaN, because ∞ − ∞ has no value.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def softmax(a: ArrayLike, axis: int = -1) -> Array:
    """Positive shares that add up to 1 along the axis; 0 where every entry is −∞. The shape of a."""
    a = np.asarray(a, dtype=np.float64)
    with np.errstate(all="ignore"):
        top = a.max(axis=axis, keepdims=True, initial=-np.inf)
        shares: Array = a - np.where(top == -np.inf, 0.0, top)
        np.exp(shares, out=shares)
        total = shares.sum(axis=axis, keepdims=True)
        shares /= np.where(total == 0.0, 1.0, total)
    return shares


def log_softmax(a: ArrayLike, axis: int = -1) -> Array:
    """The logarithm of softmax, without the detour through numbers too small to hold. The shape of a."""
    a = np.asarray(a, dtype=np.float64)
    with np.errstate(all="ignore"):
        top = a.max(axis=axis, keepdims=True, initial=-np.inf)
        below: Array = a - np.where(top == -np.inf, 0.0, top)
        total = np.exp(below).sum(axis=axis, keepdims=True)
        below -= np.log(np.where(total == 0.0, 1.0, total))
    return below


def logsumexp(a: ArrayLike, axis: int = -1) -> Array:
    """log Σ e^a along the axis, which disappears from the shape; −∞ where every entry is −∞."""
    a = np.asarray(a, dtype=np.float64)
    with np.errstate(all="ignore"):
        top = a.max(axis=axis, keepdims=True, initial=-np.inf)
        top = np.where(np.isinf(top), 0.0, top)
        powers = a - top
        np.exp(powers, out=powers)
        result: Array = np.log(powers.sum(axis=axis)) + top.squeeze(axis)
    return result

"""Your attention. Write the functions one by one, in this order, and run `python check.py` after each.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k + M) V        Vaswani et al. 2017, equation 1

Arrays come as float64 and must not be changed in place. A function that still raises NotImplementedError is
left out of the check. NumPy is all that is needed.
"""

from __future__ import annotations

import numpy as np


def softmax(a: np.ndarray, axis: int = -1) -> np.ndarray:
    """Positive shares of the same shape that add up to 1 along the axis.

    Large numbers must not overflow. Where every entry is −∞ there is nothing to share out: all 0.
    """
    raise NotImplementedError


def log_softmax(a: np.ndarray, axis: int = -1) -> np.ndarray:
    """The logarithm of softmax, without taking the logarithm of a share that has become 0."""
    raise NotImplementedError


def causal(n_q: int, n_k: int, offset: int = 0) -> np.ndarray:
    """(n_q, n_k), True where query i may look at key j, counted from 0: j ≤ i + offset."""
    raise NotImplementedError


def window(n_q: int, n_k: int, left: int | None, right: int | None, offset: int = 0) -> np.ndarray:
    """(n_q, n_k), True for i + offset − left ≤ j ≤ i + offset + right; None is no limit on that side."""
    raise NotImplementedError


def padding(lengths: np.ndarray, n_k: int, side: str = "right") -> np.ndarray:
    """(B, 1, n_k), True for the keys that are real: the first of so many, or the last for side "left"."""
    raise NotImplementedError


def split_heads(a: np.ndarray, heads: int) -> np.ndarray:
    """(B, n, heads · d) -> (B, heads, n, d); head 1 owns the first d columns."""
    raise NotImplementedError


def merge_heads(a: np.ndarray) -> np.ndarray:
    """(B, heads, n, d) -> (B, n, heads · d), the way back."""
    raise NotImplementedError


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    mask: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> dict[str, np.ndarray]:
    """Every stage on the way to the output, by its name.

    q (…, n_q, d_k), k (…, n_k, d_k), v (…, n_k, d_v); leading axes broadcast. Where axis −3 of k and v is
    shorter than that of q, each of their heads serves a run of query heads: 0 0 1 1.

    scores     q kᵀ
    scaled     scores / √d_k, or scores · scale where that is given
    capped     softcap · tanh(scaled / softcap), or scaled where softcap is None
    masked     capped + bias, and −∞ where mask is False; mask and bias broadcast to the scores
    weights    softmax of each row; a row that may look nowhere is 0
    output     weights v; NaN or ∞ in a value that is masked out takes no part
    logsumexp  (…, n_q), the logarithm of the sum of e to the power of each masked score; −∞ for such a row

    Raises ValueError for a mask that is not boolean or does not fit the scores, and where there are not as
    many keys as values.
    """
    raise NotImplementedError

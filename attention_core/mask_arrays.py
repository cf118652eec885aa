"""Masks as boolean arrays: True where a query may look at a key. They combine with & and |.

Sizes come as n_q and n_k, as everywhere; `offset` is the position of the first query among the keys.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bools = NDArray[np.bool_]


def causal(n_q: int, n_k: int | None = None, *, offset: int = 0) -> Bools:
    """(n_q, n_k), True where key j is not after query i: j ≤ i + offset. n_k is n_q when left out.

    offset 0 lines up the first query with the first key; n_k − n_q lines up the last with the last,
    as when n_q new tokens follow a cache. Raises ValueError for sizes that are not whole numbers ≥ 0.
    """
    query, key = _positions(n_q, n_k, offset)
    allow: Bools = key <= query
    return allow


def window(
    n_q: int, n_k: int | None = None, *, left: int | None = None, right: int | None = None, offset: int = 0
) -> Bools:
    """(n_q, n_k), True where i + offset − left ≤ j ≤ i + offset + right.

    left and right count keys beside the token itself, which is not counted; None is no limit.
    Raises ValueError for sizes, left or right that are not whole numbers ≥ 0.
    """
    query, key = _positions(n_q, n_k, offset)
    allow = np.ones(np.broadcast_shapes(query.shape, key.shape), dtype=bool)
    if left is not None:
        allow &= key >= query - count("left", left)
    if right is not None:
        allow &= key <= query + count("right", right)
    return allow


def chunked(n_q: int, n_k: int | None = None, *, size: int, offset: int = 0) -> Bools:
    """(n_q, n_k), True where query and key lie in the same chunk of `size` positions.

    Raises ValueError when a size is not a whole number, or `size` is below 1.
    """
    if count("size", size) < 1:
        raise ValueError("size must be at least 1, not 0")
    query, key = _positions(n_q, n_k, offset)
    allow: Bools = query // size == key // size
    return allow


def prefix(n_k: int, length: ArrayLike) -> Bools:
    """(…, 1, n_k), True for the first `length` keys, for every query; `length` may be an array (…).

    With `causal(…) | prefix(…)` the prefix sees itself whole and the rest is causal (a prefix LM).
    Raises ValueError for a length outside 0 to n_k.
    """
    return _keys(n_k) < _lengths("length", length, n_k)


def padding(lengths: ArrayLike, n_k: int, *, side: str = "right") -> Bools:
    """(…, 1, n_k), True for real keys; `lengths` (…) says how many of the n_k keys are real.

    side says where the padding stands. The shape broadcasts against (…, n_q, n_k): with one length a
    sequence, `causal(n, n) & padding(lengths, n)` is (B, n, n). Raises ValueError for a length outside
    0 to n_k or another side.
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be left or right, not {side!r}")
    real = _lengths("lengths", lengths, n_k)
    return _keys(n_k) < real if side == "right" else _keys(n_k) >= n_k - real


def segments(q_ids: ArrayLike, k_ids: ArrayLike | None = None) -> Bools:
    """(…, n_q, n_k), True where query and key have the same id: several documents packed in one row.

    q_ids (…, n_q), k_ids (…, n_k), the same as q_ids when left out. Raises ValueError
    for ids without an axis.
    """
    q = np.asarray(q_ids)
    k = q if k_ids is None else np.asarray(k_ids)
    if q.ndim == 0 or k.ndim == 0:
        raise ValueError(f"q_ids {q.shape} and k_ids {k.shape} need one id a position")
    same: Bools = q[..., :, None] == k[..., None, :]
    return same


def as_matrix(allow: ArrayLike) -> NDArray[np.float64]:
    """The matrix M that is added to the scores: 0 where allowed, −∞ where not. Same shape as `allow`.

    Raises ValueError when `allow` is not boolean.
    """
    array = np.asarray(allow)
    if array.dtype != np.bool_:
        raise ValueError(f"a mask is boolean, True = may look, not {array.dtype}")
    return np.where(array, 0.0, -np.inf)


def _positions(n_q: int, n_k: int | None, offset: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Query positions as a column, moved by the offset, and key positions as a row."""
    n_q, n_k = count("n_q", n_q), count("n_k", n_q if n_k is None else n_k)
    if not whole(offset):
        raise ValueError(f"offset must be a whole number, not {offset!r}")
    return np.arange(n_q, dtype=np.int64)[:, None] + int(offset), np.arange(n_k, dtype=np.int64)[None, :]


def _keys(n_k: int) -> NDArray[np.int64]:
    return np.arange(count("n_k", n_k), dtype=np.int64)


def _lengths(name: str, lengths: ArrayLike, n_k: int) -> NDArray[np.int64]:
    array = np.asarray(lengths)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, not {array.dtype}")
    if np.any(array < 0) or np.any(array > n_k):
        raise ValueError(f"{name} must lie between 0 and n_k = {n_k}, not {array.tolist()}")
    return array.astype(np.int64)[..., None, None]


def count(name: str, value: int) -> int:
    """The value as an int. Raises ValueError, with the name, unless it is a whole number ≥ 0."""
    if not whole(value) or value < 0:
        raise ValueError(f"{name} must be a whole number, 0 or more, not {value!r}")
    return int(value)


def whole(value: object) -> bool:
    """Whether the value is a whole number of Python or NumPy; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)

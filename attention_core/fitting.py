"""What attention is given, checked and fitted to one another before the sheet is worked through.

Every refusal is a ValueError that names the arguments and their shapes.
"""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.operations import Array, Truth


def settings(
    table: tuple[int, ...],
    d_k: int,
    mask: ArrayLike | None,
    bias: ArrayLike | None,
    scale: float | None,
    softcap: float | None,
) -> dict[str, Any]:
    """Everything that is given beside the matrices, checked. table: the shape of the scores."""
    given: dict[str, Any] = {"divisor": sqrt(d_k)} if scale is None else {"scale": scale}
    if scale is None and d_k == 0:
        raise ValueError("queries and keys have no features, so there is nothing to compare and no √d_k")
    if scale is not None and not isfinite(scale):
        raise ValueError(f"scale has to be a finite number, not {scale}")
    if softcap is not None:
        if not (isfinite(softcap) and softcap > 0):
            raise ValueError(f"softcap has to be a finite number above 0, or None for no cap, not {softcap}")
        given["softcap"] = softcap
    if bias is not None:
        given["bias"] = over_table("bias", numbers("bias", bias), table)
    given["mask"] = np.ones(table[-2:], dtype=bool) if mask is None else over_table("mask", rule(mask), table)
    return given


def numbers(name: str, a: ArrayLike) -> Array:
    """a as float64; bias may have any number of axes, a matrix has at least two."""
    try:
        array = np.asarray(a)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths") from None
    if array.dtype.kind not in "iuf" and array.size:
        hint = "; True and False go in mask" if name == "bias" and array.dtype.kind == "b" else ""
        raise ValueError(f"{name} holds {array.dtype}, and numbers are needed{hint}")
    if array.ndim < 2 and name != "bias":
        raise ValueError(f"{name} {array.shape} is not a matrix: rows and columns are needed")
    return array.astype(np.float64, copy=False)


def rule(mask: ArrayLike) -> Truth:
    """The mask, if it is boolean."""
    array = np.asarray(mask)
    if array.dtype != np.bool_:
        raise ValueError(
            f"mask holds {array.dtype}, and True or False is needed, True where a query may look; "
            "numbers to be added to the scores go in bias"
        )
    return array


def over_table(name: str, array: NDArray[Any], table: tuple[int, ...]) -> NDArray[Any]:
    """array broadcast over the last two axes; refused where it is too short or too long for them."""
    last = (1, 1, *array.shape)[-2:]
    if any(have not in (1, need) for have, need in zip(last, table[-2:], strict=True)):
        raise ValueError(
            f"{name} {array.shape} does not fit the scores {table}: "
            f"its last two axes have to be the {table[-2]} queries and the {table[-1]} keys, or 1"
        )
    try:
        leading = np.broadcast_shapes(array.shape[:-2], table[:-2])
    except ValueError:
        raise ValueError(
            f"{name} {array.shape} does not fit the scores {table}: its leading axes do not broadcast"
        ) from None
    return np.broadcast_to(array, (*leading, *table[-2:]) if array.ndim > 2 else table[-2:])


def with_shared_heads(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """k and v with heads repeated in runs where they serve several query heads each."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"q {q.shape} and k {k.shape} cannot be compared: a query with {q.shape[-1]} features "
            f"meets keys with {k.shape[-1]}, and a dot product needs as many on both sides"
        )
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"k {k.shape} and v {v.shape} do not fit: {k.shape[-2]} keys need as many values, "
            f"and there are {v.shape[-2]}"
        )
    heads, k_heads, v_heads = (a.shape[-3] if a.ndim > 2 else 1 for a in (q, k, v))
    if k_heads != v_heads and 1 not in (k_heads, v_heads):
        raise ValueError(
            f"k {k.shape} and v {v.shape} do not fit: they need the same number of heads (axis -3)"
        )
    return _repeated("k", k, k_heads, heads, q), _repeated("v", v, v_heads, heads, q)


def _repeated(name: str, a: Array, its: int, heads: int, q: Array) -> Array:
    if its == heads or 1 in (its, heads):
        return a
    if its == 0 or heads % its:
        raise ValueError(
            f"q {q.shape} and {name} {a.shape} do not fit: {its} heads (axis -3) cannot be shared "
            f"out equally among {heads} query heads"
        )
    return np.repeat(a, heads // its, axis=-3)


def leading_axes(q: Array, k: Array, v: Array) -> tuple[int, ...]:
    """The leading axes of the scores, after q and k have been broadcast; v has to fit them too."""
    try:
        np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        shapes = f"q {q.shape}, k {k.shape} and v {v.shape}"
        raise ValueError(f"the leading axes of {shapes} do not broadcast") from None
    return np.broadcast_shapes(q.shape[:-2], k.shape[:-2])

r"""One calculation on several devices: columns, rows, heads or keys dealt out, and what completes the parts.

    columns of W dealt out:  x W = [x W_1 | x W_2 | …]            the parts stand side by side
    rows of W dealt out:     x W = x_1 W_1 + x_2 W_2 + …          an all-reduce adds the partial sums
    heads dealt out:         columns of W_Q, W_K, W_V and rows of W_O with them        Shoeybi et al. 2019
    keys dealt out:          attention to each share of them, merged as in merging.py

Devices are counted from 0. `dropped` is the mistake of losing one device's part without noticing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.attention import attention
from attention_core.fitting import numbers
from attention_core.limits import MOST_DEVICES
from attention_core.mask_arrays import whole
from attention_core.merging import merge_all
from attention_core.multi_head import multi_head_attention
from attention_core.operations import Array


@dataclass(frozen=True, eq=False)
class Split:
    """A product in parts: what each device holds and makes, and the result of all, or of all but one."""

    x_parts: tuple[Array, ...]  # (…, n, width of the part)
    w_parts: tuple[Array, ...]
    parts: tuple[Array, ...]  # columns of the result, or partial sums of all of it
    output: Array  # (…, n, columns)


@dataclass(frozen=True, eq=False)
class HeadsSplit:
    """Heads on several devices: the partial sums, each of the output's shape, and their sum."""

    heads: tuple[range, ...]  # which heads are on which device
    parts: tuple[Array, ...]
    output: Array


@dataclass(frozen=True, eq=False)
class KeysPart:
    """Attention to one device's share of the keys."""

    device: int
    keys: range
    output: Array  # (…, n_q, d_v)
    lse: Array  # (…, n_q), −∞ where the query may look at none of these keys


@dataclass(frozen=True, eq=False)
class KeysSplit:
    """Attention to all keys, out of the parts."""

    parts: tuple[KeysPart, ...]
    output: Array
    lse: Array


def ranges(n: int, devices: int) -> tuple[range, ...]:
    """n things dealt out in order; where they do not divide, the first devices get one more.

    Raises ValueError for fewer things than devices, no device or more than 64.
    """
    if not whole(devices) or not 1 <= devices <= MOST_DEVICES:
        raise ValueError(f"devices has to be a whole number from 1 to {MOST_DEVICES}, not {devices!r}")
    if n < devices:
        raise ValueError(f"{n} cannot be dealt out among {devices} devices: one would have nothing")
    each, more = divmod(n, devices)
    starts = [device * each + min(device, more) for device in range(devices + 1)]
    return tuple(range(a, b) for a, b in pairwise(starts))


def column_split(x: ArrayLike, w: ArrayLike, devices: int) -> Split:
    """x (…, n, d) times w (d, columns), every device with all of x and some columns of w."""
    rows, weights = _product(x, w)
    w_parts = tuple(weights[:, r.start : r.stop] for r in ranges(weights.shape[1], devices))
    parts = tuple(rows @ part for part in w_parts)
    return Split((rows,) * devices, w_parts, parts, np.concatenate(parts, axis=-1))


def row_split(x: ArrayLike, w: ArrayLike, devices: int, *, dropped: int | None = None) -> Split:
    """x (…, n, d) times w (d, columns), every device with some columns of x and the rows of w for them."""
    rows, weights = _product(x, w)
    shares = ranges(weights.shape[0], devices)
    x_parts = tuple(rows[..., r.start : r.stop] for r in shares)
    w_parts = tuple(weights[r.start : r.stop] for r in shares)
    parts = tuple(a @ b for a, b in zip(x_parts, w_parts, strict=True))
    return Split(x_parts, w_parts, parts, _added(parts, dropped))


def heads_split(
    x: ArrayLike,
    w_q: ArrayLike,
    w_k: ArrayLike,
    w_v: ArrayLike,
    w_o: ArrayLike,
    *,
    n_heads: int,
    devices: int,
    n_kv_heads: int | None = None,
    mask: ArrayLike | None = None,
    dropped: int | None = None,
) -> HeadsSplit:
    """Multi-head attention with the heads of keys, and the query heads that they serve, on several devices.

    The arguments are those of `multi_head_attention`; mask has two axes. Each device makes a partial sum of
    the whole output from its own heads. Raises ValueError where the heads cannot be shared out equally.
    """
    few = n_heads if n_kv_heads is None else n_kv_heads
    if few < 1 or n_heads % few or few % devices:
        raise ValueError(
            f"{n_heads} heads of queries and {few} of keys cannot be shared out equally "
            f"among {devices} devices"
        )
    many, own = n_heads // devices, few // devices
    weights = [numbers(name, w) for name, w in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v))]
    rows = numbers("w_o", w_o)
    parts = []
    for device in range(devices):
        q, k, v = (_of_device(w, device, devices, axis=-1) for w in weights)
        o = _of_device(rows, device, devices, axis=0)
        trace = multi_head_attention(x, q, k, v, o, n_heads=many, n_kv_heads=own, mask=mask)
        parts.append(trace.output)
    heads = tuple(range(device * many, (device + 1) * many) for device in range(devices))
    return HeadsSplit(heads, tuple(parts), _added(parts, dropped))


def keys_split(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    devices: int,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropped: int | None = None,
) -> KeysSplit:
    """Attention with keys and values dealt out: every device attends to its own, and the parts are merged.

    The arguments are those of `attention`. With a device dropped, the rows of the weights add up to 1 over
    the keys that are left: nothing in the output's size says that keys are missing.
    """
    keys, values = numbers("k", k), numbers("v", v)
    check_device("dropped", dropped, devices)
    parts = []
    for device, r in enumerate(ranges(keys.shape[-2], devices)):
        trace = attention(
            q,
            keys[..., r.start : r.stop, :],
            values[..., r.start : r.stop, :],
            mask=of_keys(mask, r, keys.shape[-2]),
            bias=of_keys(bias, r, keys.shape[-2]),
            scale=scale,
            softcap=softcap,
        )
        parts.append(KeysPart(device, r, trace.output, trace.lse))
    if devices == 1 and dropped is not None:
        raise ValueError("the only device cannot be dropped")
    output, lse = merge_all((part.output, part.lse) for part in parts if part.device != dropped)
    return KeysSplit(tuple(parts), output, lse)


def of_keys(table: ArrayLike | None, keys: range, n_k: int) -> NDArray[Any] | None:
    """The columns of a mask or bias that belong to these keys of n_k; one column stands for all of them."""
    if table is None:
        return None
    array = np.asarray(table)
    if array.ndim == 0 or array.shape[-1] == 1:
        return array
    if array.shape[-1] != n_k:
        raise ValueError(
            f"a mask or bias {array.shape} does not fit {n_k} keys: its last axis has to be {n_k} or 1"
        )
    return array[..., keys.start : keys.stop]


def check_device(name: str, device: int | None, devices: int) -> None:
    """Raise ValueError unless device is None or one of the devices, counted from 0."""
    if device is not None and (not whole(device) or not 0 <= device < devices):
        raise ValueError(f"{name} has to be None or a device from 0 to {devices - 1}, not {device!r}")


def _product(x: ArrayLike, w: ArrayLike) -> tuple[Array, Array]:
    rows, weights = numbers("x", x), numbers("w", w)
    if weights.ndim != 2 or rows.shape[-1] != weights.shape[0]:
        raise ValueError(f"x {rows.shape} and w {weights.shape} do not fit: w needs {rows.shape[-1]} rows")
    return rows, weights


def _of_device(w: Array, device: int, devices: int, *, axis: int) -> Array:
    size, left = divmod(w.shape[axis], devices)
    if left:
        raise ValueError(
            f"{w.shape[axis]} columns or rows of {w.shape} cannot be shared out among {devices} devices"
        )
    return w.take(range(device * size, (device + 1) * size), axis=axis)


def _added(parts: tuple[Array, ...] | list[Array], dropped: int | None) -> Array:
    """The sum of the partial sums, without the one that was dropped."""
    check_device("dropped", dropped, len(parts))
    total = np.zeros_like(parts[0])
    for device, part in enumerate(parts):
        if device != dropped:
            total = total + part
    return total

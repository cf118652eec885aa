"""A key/value cache: rows of new keys or values written into a larger array.

Follows ONNX's TensorScatter operator. What is written starts, per batch entry, at its own index; "linear"
writes must fit, "circular" ones begin again at the front, as a window over the last rows does.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray


def tensor_scatter(
    past: ArrayLike,
    update: ArrayLike,
    write_indices: ArrayLike | None = None,
    *,
    axis: int = -2,
    mode: Literal["linear", "circular"] = "linear",
) -> NDArray[Any]:
    """A new array: past with update written along axis, in batch entry b from write_indices[b] on.

    past (batch, …, size, …), update the same shape but for `axis`, which may be shorter; write_indices
    (batch,), zeros where it is None. The result has the shape and type of past, which is not changed.

    Raises ValueError where the shapes do not fit, where an index is negative, where axis is the batch axis,
    and in linear mode where a write would go past the end.
    """
    past, update = np.asarray(past), np.asarray(update)
    if mode not in ("linear", "circular"):
        raise ValueError(f"mode is linear or circular, not {mode!r}")
    if not -past.ndim <= axis < past.ndim or axis % past.ndim == 0:
        raise ValueError(f"axis {axis} of past {past.shape} cannot be written along: axis 0 is the batch")
    axis %= past.ndim
    length, size = update.shape[axis] if update.ndim == past.ndim else 0, past.shape[axis]
    if update.shape != (*past.shape[:axis], length, *past.shape[axis + 1 :]) or length > size:
        raise ValueError(f"update {update.shape} cannot be written into past {past.shape} along axis {axis}")
    start = np.zeros(len(past), dtype=np.int64) if write_indices is None else np.asarray(write_indices)
    if start.shape != past.shape[:1] or start.dtype.kind not in "iu":
        raise ValueError(
            f"write_indices {start.shape} has to hold one whole number for each of the "
            f"{len(past)} batch entries of past {past.shape}"
        )
    if (start < 0).any() or (mode == "linear" and (start + length > size).any()):
        raise ValueError(f"write_indices {start.tolist()} with {length} rows go beyond the {size} of past")
    present = past.copy()
    for row, new, first in zip(present, update, start.tolist(), strict=True):
        places = (first + np.arange(length)) % size
        np.moveaxis(row, axis - 1, 0)[places] = np.moveaxis(new, axis - 1, 0)
    return present

r"""The gradients of attention: from the gradient of the output back to q, k and v.

The calculation itself is the sheet in gradient_sheet.py; here the arguments are fitted to it, and what was
shared or broadcast on the way in is added up on the way back. `finite_difference` and `by_differences` are
the check: the loss a little further on, less the loss a little before, over the distance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.fitting import leading_axes, numbers, settings, with_shared_heads
from attention_core.gradient_sheet import gradient_sheet
from attention_core.operations import Array
from attention_core.sheet import Sheet, between, follow, run

STEP = 1e-5


@dataclass(frozen=True, eq=False)
class AttentionGradients:
    """Every gradient on the way back, read-only; d_q, d_k, d_v and d_bias have the shapes of what was given.

    Where there is no soft cap, d_scaled is d_masked. A query that may look nowhere sends nothing back.
    """

    output: Array  # (…, n_q, d_v)
    weights: Array  # (…, n_q, n_k)
    d_output: Array  # (…, n_q, d_v), as given
    d_v: Array  # the shape of v
    d_weights: Array  # (…, n_q, n_k)
    d_masked: Array  # (…, n_q, n_k), 0 where a query may not look
    d_scaled: Array  # (…, n_q, n_k)
    d_scores: Array  # (…, n_q, n_k)
    d_q: Array  # the shape of q
    d_k: Array  # the shape of k
    d_bias: Array | None  # the shape of bias, None without one
    sheet: Sheet
    values: Mapping[str, NDArray[Any]]  # every line of the sheet by name, heads repeated


def attention_grad(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    d_output: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> AttentionGradients:
    """How much Σ d_output ∘ output moves with every number of q, k, v and of each stage between.

    The arguments are those of `attention`; d_output has the shape of its output. Heads of k and v that serve
    several query heads add up what comes back from each. A row that may look nowhere sends back 0.
    Raises ValueError naming arguments and shapes where they do not fit.
    """
    queries, k, v = numbers("q", q), numbers("k", k), numbers("v", v)
    keys, values = with_shared_heads(queries, k, v)
    table = (*leading_axes(queries, keys, values), queries.shape[-2], keys.shape[-2])
    given: dict[str, Any] = settings(table, queries.shape[-1], mask, bias, scale, softcap)
    given |= {"q": _looking(queries, given["mask"]), "k": keys, "v": values}
    given["d_output"] = _fitted(numbers("d_output", d_output), given)
    sheet = gradient_sheet(
        scaling="number" if "scale" in given else "sqrt", softcap="softcap" in given, bias="bias" in given
    )
    lines = run(sheet, given)
    shapes = {"d_q": queries.shape, "d_k": k.shape, "d_v": v.shape}
    return AttentionGradients(
        **{name: _summed(lines[name], shape) for name, shape in shapes.items()},
        **{name: lines[name] for name in ("output", "weights", "d_output", "d_weights", "d_masked")},
        d_scaled=lines.get("d_scaled", lines["d_masked"]),
        d_scores=lines["d_scores"],
        d_bias=None if bias is None else _summed(lines["d_masked"], np.shape(bias)),
        sheet=sheet,
        values=MappingProxyType(lines),
    )


def finite_difference(loss: Callable[[Array], float], at: ArrayLike, *, step: float = STEP) -> Array:
    """(loss(a + h) − loss(a − h)) / 2h for every entry of a in turn: the gradient, found by trying.

    Its error is about h² and, from rounding, about 1e−16 · loss / h. Raises ValueError for a step that is not
    above 0.
    """
    if not step > 0:
        raise ValueError(f"step has to be above 0, not {step}")
    a = np.array(at, dtype=np.float64)
    result = np.empty_like(a)
    for place in np.ndindex(a.shape):
        here = a[place]
        a[place] = here + step
        above = loss(a.copy())
        a[place] = here - step
        result[place] = (above - loss(a.copy())) / (2 * step)
        a[place] = here
    return result


def by_differences(
    sheet: Sheet,
    values: Mapping[str, NDArray[Any]],
    name: str,
    *,
    target: str = "output",
    d_target: str = "d_output",
    step: float = STEP,
) -> Array:
    """The gradient of any line of a sheet by finite differences; the loss is Σ d_target ∘ target.

    Only the stages between the line and the target are worked out again, with the line a little changed. A
    cell of −∞ cannot be changed by a little: its gradient is 0. Raises KeyError for a line that is not there.
    """
    stages = between(sheet, name, target)

    def loss(changed: Array) -> float:
        lines = follow(stages, {**values, name: changed})
        return float(np.sum(lines[d_target] * lines[target]))

    with np.errstate(all="ignore"):
        found = finite_difference(loss, values[name], step=step)
    return np.where(np.isneginf(values[name]), 0.0, found)


def _looking(q: Array, mask: NDArray[np.bool_]) -> Array:
    """q with 0 in place of NaN or ∞ in the rows that may look nowhere: they take no part."""
    if np.isfinite(q).all():
        return q
    return np.where(mask.any(axis=-1, keepdims=True) | np.isfinite(q), q, 0.0)


def _fitted(d_output: Array, given: Mapping[str, NDArray[Any]]) -> Array:
    """d_output, if it has the shape of the output."""
    leading = np.broadcast_shapes(*(given[name].shape[:-2] for name in ("q", "k", "v", "mask")))
    leading = np.broadcast_shapes(leading, given["bias"].shape[:-2] if "bias" in given else ())
    output = (*leading, given["q"].shape[-2], given["v"].shape[-1])
    if d_output.shape != output:
        raise ValueError(
            f"d_output {d_output.shape} does not fit the output {output}: "
            "one number is needed for every number of the output"
        )
    return d_output


def _summed(gradient: Array, shape: tuple[int, ...]) -> Array:
    """The gradient of an array of this shape, that had heads repeated in runs and axes broadcast."""
    if len(shape) > 2 and shape[-3] not in (1, gradient.shape[-3]):
        runs = (*gradient.shape[:-3], shape[-3], -1, *gradient.shape[-2:])
        gradient = gradient.reshape(runs).sum(axis=-3)
    extra = gradient.ndim - len(shape)
    result = np.asarray(gradient.sum(axis=tuple(range(extra)))) if extra else gradient
    ones = [i for i, size in enumerate(shape) if size == 1 < result.shape[i]]
    result = result.sum(axis=tuple(ones), keepdims=True) if ones else result
    result.flags.writeable = False
    return result

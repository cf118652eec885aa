r"""Scaled dot-product attention, with every matrix on the way kept.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k + M) V        Vaswani et al. 2017, equation 1

The calculation itself is the sheet in sheets.py; here the arguments are checked, fitted to one another and
sent through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, sqrt
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.operations import Array, Truth
from attention_core.sheet import Sheet, run
from attention_core.sheets import ATTENTION, PROJECTED, attention_sheet

__all__ = [
    "ATTENTION",
    "PROJECTED",
    "AttentionTrace",
    "ProjectedTrace",
    "attention",
    "attention_from_x",
    "attention_sheet",
]

Trace = TypeVar("Trace", bound="AttentionTrace")


@dataclass(frozen=True, eq=False)
class AttentionTrace:
    """Every matrix from the input to the output, in the order it is worked out, read-only.

    Leading axes (batch, heads) stand where "…" is; a mask may have fewer of them than the scores. Where a
    stage is left out, its field is the one before.
    """

    q: Array  # (…, n_q, d_k)
    k: Array  # (…, n_k, d_k), shared heads repeated
    v: Array  # (…, n_k, d_v), shared heads repeated
    k_t: Array  # (…, d_k, n_k)
    scores: Array  # (…, n_q, n_k)
    scaled: Array  # (…, n_q, n_k)
    capped: Array  # (…, n_q, n_k), = scaled without a soft cap
    biased: Array  # (…, n_q, n_k), = capped without a bias
    mask: Truth  # (…, n_q, n_k), True = may look
    masked: Array  # (…, n_q, n_k), −∞ where a query may not look
    weights: Array  # (…, n_q, n_k), a row adds up to 1, or to 0 where the query may look nowhere
    lse: Array  # (…, n_q), −∞ where the query may look nowhere
    output: Array  # (…, n_q, d_v)
    sheet: Sheet
    values: Mapping[str, NDArray[Any]]  # every line of the sheet by name


@dataclass(frozen=True, eq=False)
class ProjectedTrace(AttentionTrace):
    """An AttentionTrace that starts one step earlier, from the tokens' vectors."""

    x: Array  # (…, n, d_model)
    w_q: Array  # (d_model, d_k)
    w_k: Array  # (d_model, d_k)
    w_v: Array  # (d_model, d_v)


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> AttentionTrace:
    """Let every query look at the keys that its mask allows, and average their values.

    q (…, n_q, d_k), k (…, n_k, d_k), v (…, n_k, d_v); leading axes broadcast. Where axis −3 of k and v is
    shorter than that of q and divides it, each of their heads serves a run of query heads (grouped-query
    and multi-query attention). mask, True = may look, and bias, added to the scaled scores, broadcast to
    (…, n_q, n_k). scale=None divides by √d_k, a number multiplies. softcap=None sets no cap.

    A query that may look nowhere gets weights 0, output 0 and lse −∞. NaN or ∞ in a key or value that is
    masked out takes no part. Raises ValueError, naming arguments and shapes, where they do not fit or where
    the mask is not boolean.
    """
    queries = _numbers("q", q)
    keys, values = _fitted(queries, _numbers("k", k), _numbers("v", v))
    table = (*_leading(queries, keys, values), queries.shape[-2], keys.shape[-2])
    given: dict[str, Any] = {"q": queries, "k": keys, "v": values}
    given |= _settings(table, queries.shape[-1], mask, bias, scale, softcap)
    return _trace(AttentionTrace, given, from_x=False)


def attention_from_x(
    x: ArrayLike,
    w_q: ArrayLike,
    w_k: ArrayLike,
    w_v: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> ProjectedTrace:
    """Self-attention from x (…, n, d_model), with w_q and w_k (d_model, d_k) and w_v (d_model, d_v).

    The keywords are those of `attention`. Raises ValueError naming arguments and shapes.
    """
    rows = _numbers("x", x)
    weights = {name: _numbers(name, w) for name, w in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v))}
    for name, w in weights.items():
        if w.ndim != 2 or w.shape[0] != rows.shape[-1]:
            raise ValueError(
                f"x {rows.shape} and {name} {w.shape} do not fit: "
                f"{name} needs one row for each of the {rows.shape[-1]} features of x"
            )
    asked, offered = weights["w_q"].shape, weights["w_k"].shape
    if asked[1] != offered[1]:
        raise ValueError(
            f"w_q {asked} and w_k {offered} do not fit: they need the same number of columns, "
            "because queries and keys are compared feature by feature"
        )
    table = (*rows.shape[:-1], rows.shape[-2])
    given: dict[str, Any] = {"x": rows} | weights
    given |= _settings(table, asked[1], mask, bias, scale, softcap)
    return _trace(ProjectedTrace, given, from_x=True)


def _trace(kind: type[Trace], given: dict[str, Any], *, from_x: bool) -> Trace:
    sheet = attention_sheet(
        from_x=from_x,
        scaling="number" if "scale" in given else "sqrt",
        softcap="softcap" in given,
        bias="bias" in given,
        lse=True,
    )
    values = run(sheet, given)
    capped = values.get("capped", values["scaled"])
    fields = {"capped": capped, "biased": capped} | values
    return kind(
        sheet=sheet,
        values=MappingProxyType(values),
        **{name: fields[name] for name in kind.__dataclass_fields__ if name in fields},
    )


def _settings(
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
        given["bias"] = _over_table("bias", _numbers("bias", bias), table)
    given["mask"] = (
        np.ones(table[-2:], dtype=bool) if mask is None else _over_table("mask", _rule(mask), table)
    )
    return given


def _numbers(name: str, a: ArrayLike) -> Array:
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


def _rule(mask: ArrayLike) -> Truth:
    array = np.asarray(mask)
    if array.dtype != np.bool_:
        raise ValueError(
            f"mask holds {array.dtype}, and True or False is needed, True where a query may look; "
            "numbers to be added to the scores go in bias"
        )
    return array


def _over_table(name: str, array: NDArray[Any], table: tuple[int, ...]) -> NDArray[Any]:
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


def _fitted(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
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
    heads, k_heads, v_heads = ((1, *a.shape)[-3] if a.ndim > 2 else 1 for a in (q, k, v))
    if k_heads != v_heads and 1 not in (k_heads, v_heads):
        raise ValueError(
            f"k {k.shape} and v {v.shape} do not fit: they need the same number of heads (axis -3)"
        )
    return _repeated("k", k, k_heads, heads, q), _repeated("v", v, v_heads, heads, q)


def _repeated(name: str, a: Array, its: int, heads: int, q: Array) -> Array:
    if its == heads or 1 in (its, heads):
        return a
    if heads % its:
        raise ValueError(
            f"q {q.shape} and {name} {a.shape} do not fit: {its} heads (axis -3) cannot be shared "
            f"out equally among {heads} query heads"
        )
    return np.repeat(a, heads // its, axis=-3)


def _leading(q: Array, k: Array, v: Array) -> tuple[int, ...]:
    try:
        np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        shapes = f"q {q.shape}, k {k.shape} and v {v.shape}"
        raise ValueError(f"the leading axes of {shapes} do not broadcast") from None
    return np.broadcast_shapes(q.shape[:-2], k.shape[:-2])

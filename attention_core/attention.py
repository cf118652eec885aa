r"""Scaled dot-product attention, with every matrix on the way kept.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k + M) V        Vaswani et al. 2017, equation 1

The calculation itself is the sheet in sheets.py; fitting.py checks the arguments; here they are sent through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from numpy.typing import ArrayLike, NDArray

from attention_core.fitting import leading_axes, numbers, settings, with_shared_heads
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
    queries = numbers("q", q)
    keys, values = with_shared_heads(queries, numbers("k", k), numbers("v", v))
    table = (*leading_axes(queries, keys, values), queries.shape[-2], keys.shape[-2])
    given: dict[str, Any] = {"q": queries, "k": keys, "v": values}
    given |= settings(table, queries.shape[-1], mask, bias, scale, softcap)
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
    rows = numbers("x", x)
    weights = {name: numbers(name, w) for name, w in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v))}
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
    given |= settings(table, asked[1], mask, bias, scale, softcap)
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

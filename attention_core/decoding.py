"""Attention with a cache: a prompt at once, then further tokens against the keys and values that are kept.

A new token's query meets the keys of every token before it and its own, so only rows of K and V need to be
kept, and no row of them is made twice (Shazeer 2019, "Fast Transformer Decoding", section 2.3). Token by
token comes out what one causal pass over the whole sequence gives, row for row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attention_core.attention import AttentionTrace, attention
from attention_core.fitting import numbers, over_table, rule
from attention_core.mask_arrays import window
from attention_core.operations import Array


@dataclass(frozen=True, eq=False)
class Cache:
    """The keys (…, n, d_k) and values (…, n, d_v) of the tokens so far, read-only; heads stand before n."""

    k: Array
    v: Array

    def __post_init__(self) -> None:
        k, v = numbers("k", self.k), numbers("v", self.v)
        if k.shape[:-1] != v.shape[:-1]:
            raise ValueError(
                f"k {k.shape} and v {v.shape} cannot be kept together: all but their last axis has to agree"
            )
        for name, rows in (("k", k), ("v", v)):
            kept = rows.copy()
            kept.flags.writeable = False
            object.__setattr__(self, name, kept)

    def __len__(self) -> int:
        """How many tokens are kept."""
        return int(self.k.shape[-2])

    @property
    def numbers(self) -> int:
        """How many numbers are kept."""
        return self.k.size + self.v.size

    def append(self, k: ArrayLike, v: ArrayLike) -> Cache:
        """A new cache with the rows of k (…, t, d_k) and v (…, t, d_v) under those kept; this one stays.

        Raises ValueError, naming shapes, where anything but the number of rows differs.
        """
        rows = {"k": (self.k, numbers("k", k)), "v": (self.v, numbers("v", v))}
        for name, (kept, new) in rows.items():
            if (*new.shape[:-2], new.shape[-1]) != (*kept.shape[:-2], kept.shape[-1]):
                raise ValueError(
                    f"{name} {new.shape} cannot go under the {name} {kept.shape} of the cache: "
                    "only the number of rows may differ"
                )
        return Cache(*(np.concatenate(pair, axis=-2) for pair in rows.values()))


@dataclass(frozen=True, eq=False)
class Step:
    """What came out for the new tokens, and the cache with their rows."""

    trace: AttentionTrace  # (…, t, n + t): the new queries against all keys
    cache: Cache

    @property
    def output(self) -> Array:
        """(…, t, d_v), one row per new token."""
        return self.trace.output


def prefill(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    left: int | None = None,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Step:
    """A prompt at once: causal attention over q, k, v, whose keys and values become the cache.

    Shapes and keywords are those of `decode_step`.
    """
    keys, values = numbers("k", k), numbers("v", v)
    nothing = Cache(keys[..., :0, :], values[..., :0, :])
    return decode_step(
        nothing, q, keys, values, left=left, mask=mask, bias=bias, scale=scale, softcap=softcap
    )


def decode_step(
    cache: Cache,
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    left: int | None = None,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Step:
    """One further token, or several: q (…, t, d_k), k (…, t, d_k) and v (…, t, d_v) of the new ones only.

    Each looks at everything in the cache and at the new tokens up to itself; left leaves it only that many
    keys before its own. mask and bias are for (…, t, n + t), the new queries and all keys, and a mask can
    only take away. scale and softcap are those of `attention`.

    Raises ValueError, naming arguments and shapes, where they do not fit, and where there are not as many
    queries as keys.
    """
    queries, keys = numbers("q", q), numbers("k", k)
    new = queries.shape[-2]
    if new != keys.shape[-2]:
        raise ValueError(
            f"q {queries.shape} and k {keys.shape} do not fit: every new token has one row in each"
        )
    kept = cache.append(keys, v)
    table = (new, len(kept))
    before = window(*table, left=left, right=0, offset=len(cache))
    if mask is not None:
        given = rule(mask)
        leading = np.broadcast_shapes(given.shape[:-2], queries.shape[:-2])
        before = before & over_table("mask", given, (*leading, *table))
    trace = attention(queries, kept.k, kept.v, mask=before, bias=bias, scale=scale, softcap=softcap)
    return Step(trace, kept)

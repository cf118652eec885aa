"""Learned numbers and operations of a block's two parts, counted from the shapes of their sheets.

Biases and normalisation are left out on both sides. Nothing here is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from attention_core.feedforward import feed_forward_sheet
from attention_core.head_sheets import heads_sheet
from attention_core.limits import MOST_COUNTED
from attention_core.sheet import Sheet, cost, parameters


@dataclass(frozen=True)
class Count:
    """What a part holds and takes: learned numbers, and operations for all tokens together."""

    parameters: int
    operations: int


@lru_cache(maxsize=256)
def network(kind: str, n: int, d_model: int, d_ff: int) -> Count:
    """The feed-forward network of that kind on n tokens. Raises ValueError for an unknown kind."""
    return _count(feed_forward_sheet(kind, biases=False), {"token": n, "d_model": d_model, "d_ff": d_ff})


@lru_cache(maxsize=256)
def attention(n: int, d_model: int, n_heads: int = 1) -> Count:
    """Self-attention of n tokens, with W_O, its heads together as wide as X.

    Raises ValueError where the heads cannot share the width out.
    """
    width, left = divmod(d_model, n_heads)
    if left:
        raise ValueError(f"{d_model} columns cannot be shared out among {n_heads} heads")
    sizes = {"token": n, "query": n, "key": n, "d_model": d_model, "d_k": width, "d_v": width}
    sizes |= dict.fromkeys(("n_heads·d_k", "n_kv_heads·d_k", "n_heads·d_v", "n_kv_heads·d_v"), d_model)
    return _count(heads_sheet(n_heads, d_head=width, d_value=width), sizes)


def overtakes(kind: str, d_model: int, d_ff: int, n_heads: int = 1) -> int:
    """The fewest tokens for which attention takes more operations than the network of that kind."""

    def more(n: int) -> bool:
        return attention(n, d_model, n_heads).operations > network(kind, n, d_model, d_ff).operations

    low, high = 0, 1
    while not more(high) and high < MOST_COUNTED:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if more(middle) else (middle, high)
    return high


def _count(sheet: Sheet, sizes: dict[str, int]) -> Count:
    return Count(sum(parameters(sheet, sizes).values()), sum(each.operations for each in cost(sheet, sizes)))

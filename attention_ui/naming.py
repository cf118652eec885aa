"""Several keys in few words: "3 sat, 4 down and 6 on", "5 the to 9 mat", and why a mask blocks them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from attention_core.masks import MaskSpec, why
from attention_ui.tokens import isolated

Places = NDArray[np.intp]

LONGEST_RUN = 3  # neighbouring keys named one by one; more are "5 the to 9 mat"
_PLURAL = {"lies": "lie", "is": "are", "stands": "stand"}


def alike(sizes: NDArray[np.float64], largest: float) -> NDArray[np.bool_]:
    """Which of some finite sizes are the largest but for rounding."""
    return np.abs(sizes - largest) <= 1e-9 * largest


def named(keys: Sequence[str], places: Places) -> str:
    """Keys by position and token: "3 sat", "1 the and 2 cat", "5 the to 9 mat"."""
    names = {j: f"{j + 1} {isolated(keys[j])}" for j in places.tolist()}
    return _listed([_run(names[run[0]], names[run[-1]], run) for run in _runs(places.tolist())])


def _runs(places: list[int]) -> list[list[int]]:
    """The places in runs of neighbours; a short run is taken apart."""
    runs = [[j for _, j in group] for _, group in groupby(enumerate(places), lambda pair: pair[1] - pair[0])]
    return [part for run in runs for part in ([run] if len(run) > LONGEST_RUN else [[j] for j in run])]


def _run(first: str, last: str, run: list[int]) -> str:
    return first if len(run) == 1 else f"{first} to {last}"


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def reasons(spec: MaskSpec, i: int, blocked: Places, n_q: int, n_k: int) -> str:
    """Why this mask keeps query i from these keys; keys with the same reason share a clause."""
    return _reasons(spec, i, tuple(blocked.tolist()), n_q, n_k)


@lru_cache(maxsize=4096)
def _reasons(spec: MaskSpec, i: int, blocked: tuple[int, ...], n_q: int, n_k: int) -> str:
    """The same, kept: it does not depend on anybody's numbers, and masks are few."""
    keys_of: dict[str, list[int]] = {}
    for j in blocked:
        pattern = re.sub(rf"\bkey {j + 1}\b", "key #", why(spec, i, j, n_q, n_k))
        keys_of.setdefault(pattern, []).append(j)
    return "; ".join(_reason(pattern, keys) for pattern, keys in keys_of.items())


def _reason(pattern: str, keys: list[int]) -> str:
    """The reason with the keys in place of "key #": "key 4 is padding", "keys 3 and 4 lie after query 1"."""
    pattern = re.sub(r"^(key # (?:lies|is|stands)\b.*) and key # (?=lies|is|stands)", r"\1 and ", pattern)
    first, again, rest = pattern.partition(" and key # ")
    if again and "key #" in first:  # named once, then "it" or "they"
        pattern = f"{first}, and {'it' if len(keys) == 1 else 'they'} {rest}"
    if len(keys) == 1:
        return pattern.replace("key #", f"key {keys[0] + 1}")
    if pattern.startswith("key #") or again:
        pattern = re.sub(r"(key #|and|they) (lies|is|stands)\b", lambda m: f"{m[1]} {_PLURAL[m[2]]}", pattern)
    numbers = _listed([_run(str(run[0] + 1), str(run[-1] + 1), run) for run in _runs(keys)])
    return pattern.replace("key #", f"keys {numbers}")

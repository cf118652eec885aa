"""Named examples, small enough to follow by hand, and the rule by which they grow.

An example holds a block of numbers for each matrix. Asked for more rows or columns, it continues with
numbers that depend on their place alone, so that shrinking and growing again gives the same numbers,
on every machine. The raw stream of NumPy's PCG64 is used because it is promised never to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from attention_core.limits import LARGEST_MAP, LARGEST_SIDE
from attention_core.masks import MaskSpec

Array = NDArray[np.float64]

MATRICES = {"x": ("x", "w_q", "w_k", "w_v"), "qkv": ("q", "k", "v")}
_STREAM = {"x": 0, "w_q": 1, "w_k": 2, "w_v": 3, "q": 1, "k": 2, "v": 3}


@dataclass(frozen=True, eq=False)
class Example:
    """What attention starts from: the tokens, the numbers, the mask, and how the numbers grow.

    way "x": base has x (n, d_model), w_q and w_k (d_model, d_k), w_v (d_model, d_v).
    way "qkv": base has q (n_q, d_k), k (n_k, d_k), v (n_k, d_v); `query_tokens` names the queries
    where they are not the keys.
    scaling is "sqrt" for 1/√d_k, "none", or the number that scores are multiplied by.
    growth says what a matrix continues with: "seeded" (small multiples of 0.5) where nothing is said,
    "zeros" where other numbers would spoil what the example shows.
    """

    name: str
    title: str
    note: str
    way: str
    tokens: tuple[str, ...]
    base: Mapping[str, Array]
    query_tokens: tuple[str, ...] | None = None
    mask: MaskSpec = field(default_factory=lambda: MaskSpec("causal"))
    scaling: str | float = "sqrt"
    seed: int = 0
    continuation: tuple[str, ...] = ()
    growth: Mapping[str, str] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, int]:
        """n_q, n_k, d_model, d_k and d_v at first; a qkv example seen from X has d_model = n_k."""
        if self.way == "x":
            n, d_model = self.base["x"].shape
            n_q, n_k = n, n
        else:
            n_q, n_k = len(self.base["q"]), len(self.base["k"])
            d_model = n_k
        q, v = ("w_q", "w_v") if self.way == "x" else ("q", "v")
        d_k, d_v = self.base[q].shape[1], self.base[v].shape[1]
        return {"n_q": n_q, "n_k": n_k, "d_model": d_model, "d_k": d_k, "d_v": d_v}


def matrix(example: Example, name: str, rows: int, columns: int, seed: int | None = None) -> Array:
    """(rows, columns), read-only: the example's own block, and beyond it the numbers it grows by.

    Any block is the corner of every larger one. With a seed, every number comes from the rule with that
    seed. A qkv example seen from X has the identity as x, whatever the seed, and w_q = q, w_k = k, w_v = v,
    so that both ways give the same numbers.

    Raises ValueError for a matrix that the example does not have (q, k, v of an x example are products),
    sizes outside 0 to 256, or a seed that is not a whole number from 0 to 2³² − 1.
    """
    if name not in _STREAM or (example.way == "x" and name not in MATRICES["x"]):
        raise ValueError(f"the example {example.name} has no matrix {name}")
    if not (0 <= rows <= LARGEST_MAP and 0 <= columns <= LARGEST_MAP):
        raise ValueError(f"{name} can be 0 × 0 to {LARGEST_MAP} × {LARGEST_MAP}, not {rows} × {columns}")
    if example.way == "qkv" and name == "x":
        return _read_only(np.eye(rows, columns))
    result = _grown(example, name, rows, columns, seed)
    if seed is None:
        base = example.base[name if example.way == "x" else name.removeprefix("w_")]
        block = base[:rows, :columns]
        result[: block.shape[0], : block.shape[1]] = block
    return _read_only(result)


def token(example: Example, i: int, *, query: bool = False) -> str:
    """The word at position i (from 0): the example's own, then its continuation, then t17, t18, …

    With `query`, the queries' own words where the example has them.
    """
    words = example.tokens + example.continuation
    if query and example.query_tokens is not None:
        words = example.query_tokens
    return words[i] if i < len(words) else f"t{i + 1}"


def _grown(example: Example, name: str, rows: int, columns: int, seed: int | None) -> Array:
    """What the matrix would be without its own block."""
    if seed is None and example.growth.get(name, "seeded") == "zeros":
        return np.zeros((rows, columns))
    reach = 2 if example.way == "x" and name.startswith("w_") else 4  # weights to ±1, the others to ±2
    return seeded(example.seed if seed is None else seed, _STREAM[name], rows, columns, reach)


def seeded(seed: int, index: int, rows: int, columns: int, reach: int) -> Array:
    """(rows, columns), multiples of 0.5 from −reach / 2 to reach / 2, each by its place in stream `index`."""
    stream = _few_rows(seed, index) if rows <= LARGEST_SIDE else _all_rows(seed, index)
    return (stream[:rows, :columns] % (2 * reach + 1)) / 2.0 - reach / 2.0


@lru_cache(maxsize=1024)  # 8 kB each: the three matrices of a class in which everybody has a seed of his own
def _few_rows(seed: int, index: int) -> NDArray[np.uint16]:
    return _stream(seed, index, LARGEST_SIDE)


@lru_cache(maxsize=64)
def _all_rows(seed: int, index: int) -> NDArray[np.uint16]:
    return _stream(seed, index, LARGEST_MAP)


def _stream(seed: int, index: int, rows: int) -> NDArray[np.uint16]:
    """(rows, 256) whole numbers from 0 to 2¹⁶ − 1, the same wherever they are made."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"the seed must be a whole number from 0 to {2**32 - 1}, not {seed}")
    raw = np.random.PCG64([seed, index]).random_raw(rows * LARGEST_MAP)
    return (np.asarray(raw) >> np.uint64(48)).astype(np.uint16).reshape(rows, LARGEST_MAP)


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _rows(text: str) -> Array:
    """A matrix from "1 0; 0 2": rows between semicolons."""
    return _read_only(np.array([[float(number) for number in row.split()] for row in text.split(";")]))


def _base(**matrices: str) -> Mapping[str, Array]:
    return MappingProxyType({name: _rows(text) for name, text in matrices.items()})


_ONE_HEAD = {"w_q": "zeros", "w_k": "zeros"}  # more features leave the scores of a named head as they are

_IN_READING_ORDER = (
    Example(
        name="tokens",
        title="Four tokens",
        note=(
            "Small whole numbers, made up so that every step can be followed by hand. "
            "Change one number of X and see which cells follow it."
        ),
        way="x",
        tokens=("the", "cat", "sat", "down"),
        continuation=(
            *("on", "the", "warm", "mat", "and", "then"),
            *("slept", "until", "the", "rain", "had", "stopped"),
        ),
        base=_base(
            x="1 0 1; 0 2 1; 1 1 0; 2 0 -1",
            w_q="1 0; -1 1; 0 1",
            w_k="0 1; 0 0; 1 1",
            w_v="1 0 1; 0 1 0; 0 2 1",
        ),
        seed=1,
    ),
    Example(
        name="seed",
        title="Three queries, four keys",
        note=(
            "Three French words look at four English ones: the scores are 3 × 4, and values of width 5 "
            "make outputs of width 5. The first query [1, 0] and the first key [1, 1] have the score 1."
        ),
        way="qkv",
        tokens=("the", "cat", "is", "asleep"),
        query_tokens=("le", "chat", "dort"),
        base=_base(
            q="1 0; 0 1; 1 -1",
            k="1 1; 2 0; 0 2; -1 0",
            v="1 0 0 2 0; 0 1 0 0 2; 0 0 1 -2 0; 1 1 0 0 1",
        ),
        mask=MaskSpec("none"),
        seed=2,
    ),
    Example(
        name="previous",
        title="Previous token",
        note=(
            "Positions stand on a circle, 45° apart, and W_Q turns each query back by one place, so that "
            "every token gives most weight to the one before it. Make −12 in W_Q a 12: the query of “on” "
            "becomes zero, and its weights equal."
        ),
        way="x",
        tokens=("the", "cat", "sat", "on", "the", "mat"),
        base=_base(
            x="1 0; 0.707107 0.707107; 0 1; -0.707107 0.707107; -1 0; -0.707107 -0.707107",
            w_q="12 -12; 12 12",
            w_k="1 0; 0 1",
            w_v="1 0; 0 1",
        ),
        growth=_ONE_HEAD,
        seed=3,
    ),
    Example(
        name="same",
        title="Same token",
        note=(
            "Each word is a 1 in a column of its own, so that only equal words have a score: the two “the” "
            "share the weight in halves, and so do the two “dog”. Make the first 20 in W_Q a 2, and “the” "
            "looks at the other words too."
        ),
        way="x",
        tokens=("the", "dog", "saw", "the", "other", "dog"),
        base=_base(
            x="1 0 0 0; 0 1 0 0; 0 0 1 0; 1 0 0 0; 0 0 0 1; 0 1 0 0",
            w_q="20 0 0 0; 0 20 0 0; 0 0 20 0; 0 0 0 20",
            w_k="1 0 0 0; 0 1 0 0; 0 0 1 0; 0 0 0 1",
            w_v="1 0 0 0; 0 1 0 0; 0 0 1 0; 0 0 0 1",
        ),
        mask=MaskSpec("none"),
        growth=_ONE_HEAD,
        seed=4,
    ),
    Example(
        name="induction-1",
        title="Induction, first layer",
        note=(
            "X holds the word in three columns and the position in five. The positions meet at the token "
            "before, and V passes on its word: row 4 of the output says that C stood before the second A. "
            "Make the last 1 in row 3 of X a 0, and row 4 finds nothing and looks at all four alike."
        ),
        way="x",
        tokens=("A", "B", "C", "A", "B"),
        base=_base(
            x="1 0 0 1 0 0 0 0; 0 1 0 0 1 0 0 0; 0 0 1 0 0 1 0 0; 1 0 0 0 0 0 1 0; 0 1 0 0 0 0 0 1",
            w_q=(
                "0 0 0 0 0; 0 0 0 0 0; 0 0 0 0 0; 22.36068 0 0 0 0; 22.36068 0 0 0 0; 0 22.36068 0 0 0; "
                "0 0 22.36068 0 0; 0 0 0 22.36068 0"
            ),
            w_k="0 0 0 0 0; 0 0 0 0 0; 0 0 0 0 0; 1 0 0 0 0; 0 1 0 0 0; 0 0 1 0 0; 0 0 0 1 0; 0 0 0 0 1",
            w_v="1 0 0; 0 1 0; 0 0 1; 0 0 0; 0 0 0; 0 0 0; 0 0 0; 0 0 0",
        ),
        growth=_ONE_HEAD,
        seed=5,
    ),
    Example(
        name="induction-2",
        title="Induction, second layer",
        note=(
            "X holds each word and the word before it, which the first layer found. The second A looks for "
            "a token that followed an A, finds B, and passes B on: a guess at what comes next. "
            "Make the second 1 in row 2 of X a 0, and the guess is gone."
        ),
        way="x",
        tokens=("A", "B", "C", "A", "B"),
        base=_base(
            x="1 0 0 0 0 0; 0 1 0 1 0 0; 0 0 1 0 1 0; 1 0 0 0 0 1; 0 1 0 1 0 0",
            w_q="17.320508 0 0; 0 17.320508 0; 0 0 17.320508; 0 0 0; 0 0 0; 0 0 0",
            w_k="0 0 0; 0 0 0; 0 0 0; 1 0 0; 0 1 0; 0 0 1",
            w_v="1 0 0; 0 1 0; 0 0 1; 0 0 0; 0 0 0; 0 0 0",
        ),
        growth=_ONE_HEAD,
        seed=6,
    ),
    Example(
        name="brackets",
        title="Matching brackets",
        note=(
            "The columns of X are: opens, closes, depth 1, depth 2, position. The score adds 20 for the "
            "same depth, 20 for an opening bracket and 3 for each place to the right, so that each closing "
            "bracket finds its own. Make both 6 in W_Q −6, and the earliest of the same depth wins."
        ),
        way="x",
        tokens=("(", "(", ")", ")", "(", ")", "(", ")"),
        base=_base(
            x=("1 0 1 0 0; 1 0 0 1 1; 0 1 0 1 2; 0 1 1 0 3; 1 0 1 0 4; 0 1 1 0 5; 1 0 1 0 6; 0 1 1 0 7"),
            w_q="0 0 40 6; 0 0 40 6; 40 0 0 0; 0 40 0 0; 0 0 0 0",
            w_k="0 0 1 0; 0 0 0 0; 1 0 0 0; 0 1 0 0; 0 0 0 1",
            w_v="1 0 0 0 0; 0 1 0 0 0; 0 0 1 0 0; 0 0 0 1 0; 0 0 0 0 1",
        ),
        growth=_ONE_HEAD,
        seed=7,
    ),
    Example(
        name="average",
        title="Plain average",
        note=(
            "W_Q is 0, so that all scores are equal and each output is the average of the values up to its "
            "row. Without the mask every row averages all four. Make the last number of W_Q a 2 and the last "
            "of W_K a 3, and row 4 prefers d."
        ),
        way="x",
        tokens=("a", "b", "c", "d"),
        base=_base(
            x="1 0 0 0; 0 1 0 0; 0 0 1 0; 0 0 0 1",
            w_q="0 0; 0 0; 0 0; 0 0",
            w_k="1 1; 1 1; 1 1; 1 1",
            w_v="4 0 0 0; 0 8 0 0; 0 0 12 0; 0 0 0 16",
        ),
        growth=_ONE_HEAD,
        seed=8,
    ),
    Example(
        name="pronoun",
        title="What “it” refers to",
        note=(
            "The columns of X are: noun, pronoun, living (negative for a place). “it” matches nouns, living "
            "ones more, so that “animal” gets nearly all its weight. Make 2.12 in W_Q −2.12, and “street” "
            "gets it."
        ),
        way="x",
        tokens=("animal", "crossed", "the", "street", "because", "it", "was", "tired"),
        base=_base(
            x="2 0 1; 0 0 0; 0 0 0; 2 0 -1; 0 0 0; 0 2 1; 0 0 0; 0 0 2",
            w_q="0 0; 4.242641 2.12132; 0 0",
            w_k="1 0; 0 0; 0 1",
            w_v="1 0 0; 0 1 0; 0 0 1",
        ),
        growth=_ONE_HEAD,
        seed=9,
    ),
)

EXAMPLES: dict[str, Example] = {example.name: example for example in _IN_READING_ORDER}

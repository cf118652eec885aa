r"""How dot products of random vectors spread, and what softmax makes of them: lesson 3's measurements.

    q·k = Σ_r q_r k_r      with 2·d numbers that are independent, of mean 0 and variance 1:
                           mean 0, variance d            Vaswani et al. 2017, section 3.2.1, footnote 4

Every entry is drawn evenly from −√3 to √3, which has mean 0 and variance 1, from NumPy's raw PCG64 stream as
in examples.py: the same on every machine. Wider vectors begin with the same numbers as narrower ones. Three
further ways to draw them break an assumption, each with a mean and a variance that can be worked out:

| entries | q and k | mean of q·k | variance of q·k |
| --- | --- | --- | --- |
| independent | as above | 0 | d |
| shifted | every entry plus 1 | d | 3·d |
| shared | √½ times a number of the vector's own + √½ times an independent entry | 0 | d + d·(d − 1) / 4 |
| same | the key is the query | d | 0.8·d |

Of the last: an entry's square has mean 1 and, its fourth power having mean 9/5, variance 4/5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from attention_core.operations import Array
from attention_core.sharpness import entropy, gradient_norm, largest
from attention_core.softmax import softmax

ENTRIES = ("independent", "shifted", "shared", "same")
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
QUERIES, KEYS = 1000, 8
D_MODEL = 512  # of the paper's base model; its eight heads have d_k = 64
DIVISORS = ("sqrt", "one", "d_k", "d_model")
_INDEX = 2000  # of the streams of numbers, beside those of the examples' matrices


@dataclass(frozen=True, eq=False)
class Draws:
    """Dot products at every width of WIDTHS, of QUERIES queries with KEYS keys each."""

    products: Array  # (widths, QUERIES · KEYS) for mean, variance and histogram
    rows: Array  # (widths, QUERIES, KEYS) for softmax


@dataclass(frozen=True, eq=False)
class Sharpness:
    """What softmax makes of rows of scores at every width: means over the rows, (widths,) each."""

    entropy: Array
    largest: Array
    gradient: Array


@lru_cache(maxsize=12)  # 1.3 MB each; 90 ms to draw
def draws(entries: str = "independent", seed: int = 0) -> Draws:
    """The dot products of random queries and keys, their entries drawn in one of the ways of ENTRIES.

    With "same", `products` are those of every key with itself, and the first key of every row is its query.
    Raises ValueError for another word and for a seed that is not a whole number from 0 to 2³² − 1.
    """
    if entries not in ENTRIES:
        raise ValueError(f"entries are {', '.join(ENTRIES)}, not {entries!r}")
    own_q, own_k = _evenly(seed, 0, QUERIES, 1), _evenly(seed, 1, QUERIES * KEYS, 1)
    rows, products = np.zeros((QUERIES, KEYS)), np.zeros((QUERIES, KEYS))
    found: list[tuple[Array, Array]] = []
    for block, (start, stop) in enumerate(zip((0, *WIDTHS), WIDTHS, strict=False)):
        q = _entries(entries, _evenly(seed, 2 + 2 * block, QUERIES, stop - start), own_q)
        k = _entries(entries, _evenly(seed, 3 + 2 * block, QUERIES * KEYS, stop - start), own_k)
        k = k.reshape(QUERIES, KEYS, -1)
        if entries == "same":
            products = products + (k * k).sum(axis=-1)
            k[:, 0] = q
        rows = rows + np.einsum("id,ijd->ij", q, k)
        found.append((products if entries == "same" else rows, rows))
    result = Draws(np.stack([p.ravel() for p, _ in found]), np.stack([r for _, r in found]))
    result.products.flags.writeable = result.rows.flags.writeable = False
    return result


def expected(entries: str, d: int) -> tuple[float, float]:
    """The mean and the variance of q·k at width d, worked out and not measured. ValueError as in draws."""
    if entries not in ENTRIES:
        raise ValueError(f"entries are {', '.join(ENTRIES)}, not {entries!r}")
    return {
        "independent": (0.0, float(d)),
        "shifted": (float(d), 3.0 * d),
        "shared": (0.0, d + d * (d - 1) / 4),
        "same": (float(d), 0.8 * d),
    }[entries]


def divisor(word: str, d_k: int, d_model: int = D_MODEL) -> float:
    """What scores are divided by: "sqrt" √d_k, "one" 1, "d_k" d_k, "d_model" √d_model.

    Raises ValueError for another word.
    """
    if word not in DIVISORS:
        raise ValueError(f"a divisor is {', '.join(DIVISORS)}, not {word!r}")
    return {"sqrt": sqrt(d_k), "one": 1.0, "d_k": float(d_k), "d_model": sqrt(d_model)}[word]


@lru_cache(maxsize=64)  # a few hundred bytes each; 30 ms to work out
def sharpness(
    entries: str = "independent", seed: int = 0, by: str = "sqrt", *, twice: bool = False
) -> Sharpness:
    """Entropy, largest weight and gradient norm of softmax(q·k / divisor), each averaged over QUERIES rows.

    twice: the scores are divided a second time. Raises ValueError for words that `draws` or `divisor` does
    not know.
    """
    by_width = np.array([divisor(by, width) for width in WIDTHS])
    weights = softmax(draws(entries, seed).rows / by_width[:, None, None] ** (2 if twice else 1))
    means = [measure(weights).mean(axis=(-2, -1)) for measure in (entropy, largest, gradient_norm)]
    for mean in means:
        mean.flags.writeable = False
    return Sharpness(*means)


def _entries(entries: str, drawn: Array, own: Array) -> Array:
    """Drawn entries (vectors, d) as one of ENTRIES; `own` is one number a vector, (vectors, 1)."""
    if entries == "shifted":
        return drawn + 1.0
    return sqrt(0.5) * own + sqrt(0.5) * drawn if entries == "shared" else drawn


def _evenly(seed: int, index: int, rows: int, columns: int) -> Array:
    """(rows, columns) numbers drawn evenly from −√3 to √3."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"the seed must be a whole number from 0 to {2**32 - 1}, not {seed}")
    raw = np.asarray(np.random.PCG64([seed, _INDEX + index]).random_raw(rows * columns), dtype=np.uint64)
    numbers = (raw >> np.uint64(11)).astype(np.float64) * (sqrt(3.0) * 2.0**-52) - sqrt(3.0)
    return numbers.reshape(rows, columns)

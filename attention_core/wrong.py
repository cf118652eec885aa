"""Attention in seven lines, and mistakes that people make in them: each is the program with a line changed.

    split     (n, H·d) -> (H, n, d): a head has columns of its own
    share     (G, n, d) -> (H, n, d): a head of keys serves a run of query heads
    compare   Q, K -> scores
    scale     scores -> scaled scores
    cover     what a query may not look at becomes −∞
    weigh     softmax, row by row
    mix       weights, V -> output

The right lines follow Vaswani et al. 2017, 3.2, and Ainslie et al. 2023 for shared heads. The mistakes are
those of public bug reports and of the cases in tests/conformance/pitfalls. Nothing here is used to work
out what the app shows as right; `attention` does that, and tests compare the two.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from attention_core.operations import Array, Truth
from attention_core.softmax import softmax

STAGES = ("scores", "scaled", "masked", "weights", "output")


@dataclass(frozen=True, eq=False)
class Problem:
    """What the program starts from: Q, K and V with the columns of all heads side by side."""

    q: Array  # (n_q, n_heads · d_k)
    k: Array  # (n_k, n_kv_heads · d_k)
    v: Array  # (n_k, n_kv_heads · d_v)
    mask: Truth  # (n_q, n_k), True = may look
    d_model: int  # the width of the model, which no right line reads
    n_heads: int = 1
    n_kv_heads: int = 1
    added: float = 0.0  # to every scaled score; it changes no weight


def split(a: Array, heads: int) -> Array:
    return a.reshape(len(a), heads, -1).swapaxes(0, 1)


def share(a: Array, times: int) -> Array:
    return np.repeat(a, times, axis=0)


def compare(q: Array, k: Array) -> Array:
    return q @ k.swapaxes(-1, -2)


def scale(scores: Array, d_k: int, d_model: int) -> Array:
    return scores / sqrt(d_k)


def cover(scores: Array, mask: Truth) -> Array:
    return np.where(mask, scores, -np.inf)


def weigh(masked: Array, mask: Truth) -> Array:
    return softmax(masked, axis=-1)


def mix(weights: Array, v: Array) -> Array:
    return weights @ v


# the mistakes, each in place of the line above with the same arguments


def unscaled(scores: Array, d_k: int, d_model: int) -> Array:
    return scores


def over_d_k(scores: Array, d_k: int, d_model: int) -> Array:
    return scores / d_k


def over_d_model(scores: Array, d_k: int, d_model: int) -> Array:
    return scores / sqrt(d_model)


def down_the_columns(masked: Array, mask: Truth) -> Array:
    return softmax(masked, axis=-2)


def uncovered(scores: Array, mask: Truth) -> Array:
    return scores


def covered_late(masked: Array, mask: Truth) -> Array:
    return np.where(mask, softmax(masked, axis=-1), 0.0)


def covered_thinly(scores: Array, mask: Truth) -> Array:
    return np.where(mask, scores, scores - 4.0)


def covered_one_late(scores: Array, mask: Truth) -> Array:
    return np.where(np.vstack([mask[1:], mask[-1:]]), scores, -np.inf)


def covered_the_open(scores: Array, mask: Truth) -> Array:
    return np.where(mask, -np.inf, scores)


def turned_round(q: Array, k: Array) -> Array:
    return k @ q.swapaxes(-1, -2)


def folded(q: Array, k: Array) -> Array:
    return q @ k.reshape(len(k), k.shape[-1], -1)


def cut_across(a: Array, heads: int) -> Array:
    return a.reshape(heads, len(a), -1)


def tiled(a: Array, times: int) -> Array:
    return np.tile(a, (times, 1, 1))


def mixed_down(weights: Array, v: Array) -> Array:
    return weights.swapaxes(-1, -2) @ v


def without_maximum(masked: Array, mask: Truth) -> Array:
    return np.exp(masked) / np.exp(masked).sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Program:
    """The seven lines; as it stands, the right ones."""

    split: Callable[[Array, int], Array] = split
    share: Callable[[Array, int], Array] = share
    compare: Callable[[Array, Array], Array] = compare
    scale: Callable[[Array, int, int], Array] = scale
    cover: Callable[[Array, Truth], Array] = cover
    weigh: Callable[[Array, Truth], Array] = weigh
    mix: Callable[[Array, Array], Array] = mix


RIGHT = Program()


def stages(problem: Problem, program: Program = RIGHT) -> dict[str, Array]:
    """Every stage by its name in STAGES, (n_heads, n_q, n_k) and for the output (n_heads, n_q, d_v).

    Raises ValueError where a mistake cannot be made on these shapes: Q Kᵀ turned round, say, when there are
    more keys than queries.
    """
    heads, times = problem.n_heads, problem.n_heads // problem.n_kv_heads
    table = (heads, *problem.mask.shape)
    with np.errstate(all="ignore"):
        q = program.split(problem.q, heads)
        k = program.share(program.split(problem.k, problem.n_kv_heads), times)
        v = program.share(program.split(problem.v, problem.n_kv_heads), times)
        scores = program.compare(q, k)
        if scores.shape != table:
            raise ValueError(f"the scores would be {scores.shape}, and the mask needs {table}")
        scaled = program.scale(scores, q.shape[-1], problem.d_model)
        masked = program.cover(scaled + problem.added, problem.mask)
        weights = program.weigh(masked, problem.mask)
        output = program.mix(weights, v)
    return {"scores": scores, "scaled": scaled, "masked": masked, "weights": weights, "output": output}


@dataclass(frozen=True)
class Wrong:
    """A mistake: its name for readers, the program that makes it, and what comes of it."""

    title: str
    program: Program
    consequence: str

    @property
    def changed(self) -> list[tuple[str, str]]:
        """[(the line as it should be, the line as it is)], in NumPy."""
        pairs = [(getattr(RIGHT, name), getattr(self.program, name)) for name in vars(RIGHT)]
        return [(_code(right), _code(wrong)) for right, wrong in pairs if right is not wrong]


def _code(line: Callable[..., Array]) -> str:
    """What a line of the program works out: the function after its return."""
    return inspect.getsource(line).partition("return ")[2].partition("  #")[0].strip()


# fmt: off
WRONG: dict[str, Wrong] = {
    "unscaled": Wrong(
        "scores are not scaled", replace(RIGHT, scale=unscaled),
        "The scores stay √d_k times too large, so that every row is too sharp."),
    "d_model": Wrong(
        "divided by √d_model, not √d_k", replace(RIGHT, scale=over_d_model),
        "Where the model is wider than a key, the scores become too small and every row too even."),
    "columns": Wrong(
        "softmax down the columns", replace(RIGHT, weigh=down_the_columns),
        "The columns of the weights add up to 1, and the rows do not."),
    "after": Wrong(
        "mask after softmax", replace(RIGHT, cover=uncovered, weigh=covered_late),
        "Blocked keys have taken their share before they are put to 0; such a row adds up to less than 1."),
    "leak": Wrong(
        "mask of −4, not −∞", replace(RIGHT, cover=covered_thinly),
        "A blocked key keeps e⁻⁴ of the weight it would have had, about a fiftieth."),
    "swapped": Wrong(
        "K Qᵀ, not Q Kᵀ", replace(RIGHT, compare=turned_round),
        "Row i holds what all queries score with key i; on paper the table is mirrored."),
    "folded": Wrong(
        "K reshaped, not transposed", replace(RIGHT, compare=folded),
        "The numbers of K are filled in row by row; where K is square that is K itself, not Kᵀ."),
    "shift": Wrong(
        "mask off by one", replace(RIGHT, cover=covered_one_late),
        "Query i goes by the row of the mask that belongs to query i + 1; causal, it sees one key too many."),
    "across": Wrong(
        "heads cut without the transpose", replace(RIGHT, split=cut_across),
        "A head gets whole rows folded up, so that its row i is no longer about token i."),
    "tiled": Wrong(
        "shared heads tiled, not repeated", replace(RIGHT, share=tiled),
        "Query heads read key heads 1 2 1 2, and they should read 1 1 2 2."),
    "mirrored": Wrong(
        "values mixed by columns of the weights", replace(RIGHT, mix=mixed_down),
        "A row of the output takes what all queries gave to one key, not what one query gave to all."),
    "overflow": Wrong(
        "maximum not taken off", replace(RIGHT, weigh=without_maximum),
        "e to the power of more than 709 is beyond float64 and becomes ∞; ∞ / ∞ has no value."),
    "d_k": Wrong(
        "divided by d_k, not its root", replace(RIGHT, scale=over_d_k),
        "The scores become √d_k times too small, so that every row is too even."),
    "inverted": Wrong(
        "mask the wrong way round", replace(RIGHT, cover=covered_the_open),
        "A query sees just what it may not see; in some libraries True means blocked."),
}
# fmt: on

TWELVE = tuple(WRONG)[:12]  # those that are hidden on the page for a reader to find


def hidden(seed: int) -> tuple[str, ...]:
    """The twelve in the order of that seed, the same everywhere. Raises ValueError for a seed below 0."""
    if seed < 0:
        raise ValueError(f"the seed must be a whole number from 0, not {seed}")
    raw = np.random.PCG64([seed, 15]).random_raw(len(TWELVE))
    return tuple(TWELVE[place] for place in np.argsort(np.asarray(raw), kind="stable"))

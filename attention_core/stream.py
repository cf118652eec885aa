r"""The residual stream: how long the rows are and how much the output follows them, layer after layer.

    pre    x ← x + f(LayerNorm(x))        post   x ← LayerNorm(x + f(x))        none   x ← x + f(x)

f is attention first and the feed-forward network after it, so that a layer has two of these lines; without
the residual, "x +" is left out. The question of Xiong et al. 2020, "On Layer Normalization in the Transformer
Architecture", at a size where the answer is exact: every derivative is worked out, none is sampled.

The weights are not trained. Every entry is drawn evenly from −√(3/r) to √(3/r), r the number of rows of its
matrix, which gives it the variance 1/r; the numbers come from NumPy's raw PCG64 stream, as in examples.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from attention_core.fitting import numbers
from attention_core.normalisation import EPSILON
from attention_core.operations import Array
from attention_core.softmax import softmax

Norm = Literal["pre", "post", "none"]
# states are (s, n, d) for s streams side by side, derivatives (s, outputs, n, d)
Back = Callable[[Array], Array]  # from derivatives by the output to derivatives by the input
Part = Callable[[Array], tuple[Array, Back]]

NORMS = ("pre", "post", "none")
_INDEX = 1000  # of the stream of numbers, beside those of the examples' matrices
WIDER = 4  # the feed-forward network has four times the width of the stream


@dataclass(frozen=True, eq=False)
class Stream:
    """What runs through the layers; place 0 is the input, place l what layer l leaves behind."""

    states: Array  # (layers + 1, n, d_model)
    lengths: Array  # (layers + 1,) the mean length √(Σ x²) of a row
    gradients: Array  # (layers + 1,) √(mean square of Σ over outputs) of ∂ output / ∂ state; 1 at the end


def stream(x: ArrayLike, layers: int, *, residual: bool = True, norm: Norm = "pre", seed: int = 0) -> Stream:
    """Send x (n, d_model) through layers of attention and feed-forward network with seeded weights.

    The first layers have the same weights however many follow. `gradients` is the exact Frobenius norm of
    the Jacobian ∂ output / ∂ state divided by √(n·d_model), so that it is 1 for the identity: by what factor
    a small change, averaged over all directions, arrives at the output.

    Raises ValueError where x is not a matrix, where norm is not pre, post or none, and for a negative
    number of layers or a seed that is not a whole number from 0 to 2³² − 1.
    """
    return streams(x, layers, (residual,), norm=norm, seed=seed)[0]


def streams(
    x: ArrayLike, layers: int, residuals: Sequence[bool] = (True, False), *, norm: Norm = "pre", seed: int = 0
) -> tuple[Stream, ...]:
    """The same x with and without the residual connection, or in any other row of both, worked out at once.

    Raises what `stream` does.
    """
    given = numbers("x", x)
    if given.ndim != 2:
        raise ValueError(f"x {given.shape} has to be one matrix, a row for each token")
    if norm not in NORMS:
        raise ValueError(f"norm is one of {', '.join(NORMS)}, not {norm!r}")
    if layers < 0:
        raise ValueError(f"there cannot be {layers} layers")
    n, d = given.shape
    state = np.repeat(given[None], len(residuals), axis=0)
    skip = np.array(residuals, dtype=np.float64).reshape(-1, 1, 1)
    states, backs = [state], []
    with np.errstate(all="ignore"):
        for weights in seeded_layers(layers, d, seed):
            for part in (_attention(*weights[:4]), _feed_forward(*weights[4:])):
                state, back = _placed(part, skip, norm)(state)
                backs.append(back)
            states.append(state)
        jacobian = np.repeat(np.eye(n * d).reshape(1, n * d, n, d), len(residuals), axis=0)
        sizes = [np.ones(len(residuals))]
        for attended, fed in zip(backs[-2::-2], backs[::-2], strict=True):
            jacobian = attended(fed(jacobian))
            sizes.append(np.sqrt((jacobian**2).sum(axis=(1, 2, 3)) / max(n * d, 1)))
    every = np.stack(states, axis=1)
    lengths = np.sqrt((every**2).sum(axis=-1)).mean(axis=-1)
    gradients = np.stack(sizes[::-1], axis=1)
    return tuple(map(Stream, every, lengths, gradients))


@lru_cache(maxsize=8)  # a sixth of the time of a stream
def seeded_layers(layers: int, d: int, seed: int) -> tuple[tuple[Array, ...], ...]:
    """Per layer w_q, w_k, w_v, w_o (d, d), w_1 (d, 4·d) and w_2 (4·d, d), the same wherever they are made.

    They are kept for the next call, and so read-only. Raises ValueError for a seed as `stream` does.
    """
    if not 0 <= seed < 2**32:
        raise ValueError(f"the seed must be a whole number from 0 to {2**32 - 1}, not {seed}")
    shapes = [(d, d)] * 4 + [(d, WIDER * d), (WIDER * d, d)]
    sizes = [rows * columns for rows, columns in shapes]
    ends = np.cumsum(sizes)
    raw = np.asarray(np.random.PCG64([seed, _INDEX]).random_raw(layers * int(ends[-1])), dtype=np.uint64)
    evenly = ((raw >> np.uint64(11)) * 2.0**-52 - 1.0).reshape(layers, ends[-1])  # from −1 to 1
    evenly *= np.repeat([sqrt(3.0 / rows) for rows, _ in shapes], sizes)
    evenly.flags.writeable = False
    return tuple(
        tuple(block.reshape(shape) for block, shape in zip(np.split(layer, ends[:-1]), shapes, strict=True))
        for layer in evenly
    )


def _placed(part: Part, skip: Array, norm: Norm) -> Part:
    """The part with the skip connection around it, where skip (s, 1, 1) is 1, and the normalisation."""

    def whole(x: Array) -> tuple[Array, Back]:
        before, back_before = _layer_norm(x) if norm == "pre" else (x, _same)
        made, back_part = part(before)
        total = skip * x + made
        after, back_after = _layer_norm(total) if norm == "post" else (total, _same)

        def back(g: Array) -> Array:
            g = back_after(g)
            through = back_before(back_part(g))
            through += skip[:, None] * g
            return through

        return after, back

    return whole


def _layer_norm(x: Array) -> tuple[Array, Back]:
    """(x − μ) / √(σ² + ε) of every row."""
    d = x.shape[-1]
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
    y = centred / deviation

    def back(g: Array) -> Array:
        along: Array = g - np.add.reduce(g, -1, keepdims=True) / d
        along -= y[:, None] * (np.einsum("...d,...d->...", g, y[:, None])[..., None] / d)
        along /= deviation[:, None]
        return along

    return y, back


def _attention(w_q: Array, w_k: Array, w_v: Array, w_o: Array) -> Part:
    """One head without a mask: every token looks at all of them."""

    def part(x: Array) -> tuple[Array, Back]:
        q, k, v = x @ w_q / sqrt(w_q.shape[1]), x @ w_k, x @ w_v
        weights = softmax(q @ _turned(k))
        shares = weights[:, None]

        def back(g: Array) -> Array:
            g = _times(g, w_o.T)
            d_weights = _times(g, _turned(v))
            d_scores = shares * (d_weights - (d_weights * shares).sum(axis=-1, keepdims=True))
            d_x = _times(d_scores, k @ w_q.T / sqrt(w_q.shape[1]))
            d_x += _times(_turned(d_scores), q @ w_k.T)
            d_x += _times(_turned(shares) @ g, w_v.T)
            return d_x

        return weights @ v @ w_o, back

    return part


def _feed_forward(w_1: Array, w_2: Array) -> Part:
    """ReLU between two products, the same for every token."""

    def part(x: Array) -> tuple[Array, Back]:
        hidden = x @ w_1
        open_ = hidden > 0

        def back(g: Array) -> Array:
            return _times(np.where(open_[:, None], _times(g, w_2.T), 0.0), w_1.T)

        return np.where(open_, hidden, 0.0) @ w_2, back

    return part


def _times(g: Array, w: Array) -> Array:
    """g (s, outputs, n, d) @ w (d, e) or (s, d, e), not as one product for each small matrix in g."""
    flat = g.reshape(-1, g.shape[-1]) if w.ndim == 2 else g.reshape(len(g), -1, g.shape[-1])
    made: Array = (flat @ w).reshape(*g.shape[:-1], w.shape[-1])
    return made


def _turned(a: Array) -> Array:
    return a.swapaxes(-1, -2)


def _same(g: Array) -> Array:
    return g

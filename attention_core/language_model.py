r"""A small language model: embeddings, attention layers, logits, and its gradient worked out by hand.

    x = E[token] + P[place]        x ← x + [head_1 … head_H] W_O, once a layer        logits = x W_out

Every head is causal attention with columns of W_Q, W_K and W_V of its own. There are no norms and no
feed-forward networks: all that a token learns about earlier ones comes through attention. Weights are a
mapping from names (embedding, positions, w_q_1, …, w_out) to arrays; nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attention_core.attention import AttentionTrace, attention
from attention_core.cross_entropy import cross_entropy, cross_entropy_grad
from attention_core.gradients import attention_grad
from attention_core.limits import LARGEST_MODEL
from attention_core.mask_arrays import causal, whole
from attention_core.multi_head import merge_heads, split_heads
from attention_core.operations import Array

Weights = Mapping[str, Array]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """The sizes of the model. Raises ValueError where one is out of range or heads cannot share the width."""

    d_model: int = 32
    n_heads: int = 2
    n_layers: int = 2
    context: int = 24  # tokens that it sees at a time

    def __post_init__(self) -> None:
        for name, most in LARGEST_MODEL.items():
            value = getattr(self, name)
            if not whole(value) or not 1 <= value <= most:
                raise ValueError(f"{name} has to be a whole number from 1 to {most}, not {value!r}")
        if self.d_model % self.n_heads:
            raise ValueError(f"{self.d_model} columns cannot be shared out among {self.n_heads} heads")


@dataclass(frozen=True, eq=False)
class Forward:
    """What the model made of its tokens: the input of every layer, each layer's attention, and the logits."""

    ids: Ids  # (…, n)
    inputs: tuple[Array, ...]  # (…, n, d_model), one a layer and the last after all of them
    layers: tuple[AttentionTrace, ...]  # (…, n_heads, n, d_head)
    logits: Array  # (…, n, vocabulary)


def first_weights(shape: Shape, vocabulary: int, seed: int) -> dict[str, Array]:
    """Random numbers to begin with, small where layers add to x, and 0 for w_out: every token as likely."""
    rng = np.random.default_rng(seed)
    d = shape.d_model
    weights = {
        "embedding": rng.normal(size=(vocabulary, d)) * 0.5,
        "positions": rng.normal(size=(shape.context, d)) * 0.5,
    }
    for layer in range(1, shape.n_layers + 1):
        for letter in "qkvo":
            weights[f"w_{letter}_{layer}"] = rng.normal(size=(d, d)) / np.sqrt(d)
    weights["w_out"] = np.zeros((d, vocabulary))
    return weights


def forward(shape: Shape, weights: Weights, ids: Ids) -> Forward:
    """The logits of every place, from tokens (…, n) with n at most the context."""
    n = ids.shape[-1]
    if not 1 <= n <= shape.context:
        raise ValueError(f"the model sees 1 to {shape.context} tokens at a time, not {n}")
    inputs, layers = [weights["embedding"][ids] + weights["positions"][:n]], []
    for layer in range(1, shape.n_layers + 1):
        x = inputs[-1]
        q, k, v = (split_heads(name, x @ weights[f"w_{name}_{layer}"], shape.n_heads) for name in "qkv")
        layers.append(attention(q, k, v, mask=causal(n)))
        inputs.append(x + merge_heads(layers[-1].output) @ weights[f"w_o_{layer}"])
    return Forward(ids, tuple(inputs), tuple(layers), inputs[-1] @ weights["w_out"])


def loss(shape: Shape, weights: Weights, ids: Ids, targets: Ids) -> float:
    """The mean cross-entropy of the tokens that came next."""
    return float(cross_entropy(forward(shape, weights, ids).logits, targets))


def loss_and_gradient(
    shape: Shape, weights: Weights, ids: Ids, targets: Ids
) -> tuple[float, dict[str, Array]]:
    """The loss, and how it moves with every weight."""
    made = forward(shape, weights, ids)
    d_logits = cross_entropy_grad(made.logits, targets)
    gradient = {"w_out": _over_all(made.inputs[-1], d_logits)}
    d_x = d_logits @ weights["w_out"].T
    for layer in range(shape.n_layers, 0, -1):
        d_x, more = _back(shape, weights, made, layer, d_x)
        gradient |= more
    rows = np.zeros_like(weights["embedding"])
    np.add.at(rows, ids, d_x)
    places = np.zeros_like(weights["positions"])
    places[: ids.shape[-1]] = d_x.reshape(-1, *d_x.shape[-2:]).sum(axis=0)
    gradient |= {"embedding": rows, "positions": places}
    return float(cross_entropy(made.logits, targets)), {name: gradient[name] for name in weights}


def _back(
    shape: Shape, weights: Weights, made: Forward, layer: int, d_x: Array
) -> tuple[Array, dict[str, Array]]:
    """From the gradient of what follows a layer to that of its input, and those of its four matrices."""
    x, heads, w_o = made.inputs[layer - 1], made.layers[layer - 1], weights[f"w_o_{layer}"]
    d_output = split_heads("d_output", d_x @ w_o.T, shape.n_heads)
    back = attention_grad(heads.q, heads.k, heads.v, d_output, mask=heads.mask)
    gradient = {f"w_o_{layer}": _over_all(merge_heads(heads.output), d_x)}
    total = d_x  # the way past the layer
    for letter, d_heads in (("q", back.d_q), ("k", back.d_k), ("v", back.d_v)):
        d_rows, name = merge_heads(d_heads), f"w_{letter}_{layer}"
        gradient[name] = _over_all(x, d_rows)
        total = total + d_rows @ weights[name].T
    return total, gradient


def _over_all(rows: Array, d_rows: Array) -> Array:
    """The gradient of w in rows @ w, summed over all rows of all texts."""
    return rows.reshape(-1, rows.shape[-1]).T @ d_rows.reshape(-1, d_rows.shape[-1])


def adam(
    weights: Weights,
    gradient: Weights,
    first: Weights,
    second: Weights,
    step: int,
    rate: float,
    *,
    beta_1: float = 0.9,
    beta_2: float = 0.99,
    epsilon: float = 1e-8,
) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
    """One step of Adam (Kingma and Ba 2015, algorithm 1): new weights and both new moments; steps from 1."""
    new: dict[str, dict[str, Array]] = {"weights": {}, "first": {}, "second": {}}
    for name, slope in gradient.items():
        m = beta_1 * first[name] + (1 - beta_1) * slope
        v = beta_2 * second[name] + (1 - beta_2) * slope**2
        mean, spread = m / (1 - beta_1**step), v / (1 - beta_2**step)
        new["weights"][name] = weights[name] - rate * mean / (np.sqrt(spread) + epsilon)
        new["first"][name], new["second"][name] = m, v
    return new["weights"], new["first"], new["second"]


def windows(length: int, context: int, many: int, seed: int, step: int) -> Ids:
    """(many, context + 1): places of a text of `length` tokens, chosen by seed and step alone."""
    starts = np.random.default_rng([seed, step]).integers(0, length - context, size=many)
    return starts[:, None] + np.arange(context + 1)


def all_windows(length: int, context: int, most: int) -> Iterator[Ids]:
    """Places of the whole text, context + 1 at a time and overlapping by one, at most `most` to a piece."""
    starts = np.arange(0, length - context, context)
    for at in range(0, len(starts), most):
        yield starts[at : at + most, None] + np.arange(context + 1)

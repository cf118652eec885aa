r"""Estimates for a whole model: memory of weights and cache, time to the first and to every next token.

    bytes of the cache = 2 · layers · key heads · d_head · tokens · batch · bytes per number

The 2 stands for keys and values. Norms, positions, biases and the look-up of embeddings are left out of the
steps: next to the products they are small. Everything here is an estimate, as in cost.py.
"""

from __future__ import annotations

from attention_core.accelerators import GIGA, Accelerator, number_bytes
from attention_core.cost import Layer, attention_costs, check_size, seconds, total, weight_product
from attention_core.limits import MOST_NEW
from attention_core.models import Model
from attention_core.sheet import Cost


def cache_bytes(model: Model, n: int, *, batch: int = 1, numbers: str = "fp16") -> int:
    """What the keys and values of n tokens take in every layer. Raises ValueError for n below 0."""
    if n < 0:
        raise ValueError(f"n has to be a whole number from 0 on, not {n}")
    check_size("batch", batch)
    return 2 * model.n_layers * model.n_kv_heads * model.d_head * n * batch * number_bytes(numbers)


def weight_bytes(model: Model, *, numbers: str = "fp16") -> int:
    """What all learned numbers take."""
    return model.learned * number_bytes(numbers)


def tokens_that_fit(
    model: Model, accelerator: Accelerator, *, batch: int = 1, numbers: str = "fp16"
) -> int | None:
    """How many tokens each of `batch` sequences can have in the memory beside the weights.

    None where the weights alone do not fit.
    """
    left = int(GIGA * accelerator.memory) - weight_bytes(model, numbers=numbers)
    return None if left < 0 else left // cache_bytes(model, 1, batch=batch, numbers=numbers)


def step_costs(
    model: Model, n_q: int, n_k: int, *, batch: int = 1, numbers: str = "fp16", tile: int | None = 128
) -> tuple[Cost, ...]:
    """n_q new tokens, the last of n_k, through all layers to one row of logits: a Cost per kind of line.

    tile is that of cost.attention_costs. Raises ValueError as that does.
    """
    layer = Layer(model.d_model, model.n_heads, model.n_kv_heads, model.d_head, batch, numbers)
    bytes_each = layer.number_bytes
    within = attention_costs(layer, n_q, n_k, tile=tile)
    network = _network(model, batch * n_q, bytes_each)
    return (
        *(total([line] * model.n_layers, line.name) for line in within),
        total([network] * model.n_layers, "network"),
        weight_product("logits", batch, model.d_model, model.vocabulary, bytes_each),
    )


def timeline(
    model: Model,
    prompt: int,
    new: int,
    accelerator: Accelerator,
    *,
    batch: int = 1,
    numbers: str = "fp16",
) -> tuple[float, ...]:
    """When each of `new` tokens is ready, in seconds from the start, at the rates that are stated.

    The first comes out of the prompt worked through at once, every other out of one step with a cache.
    Raises ValueError for sizes that are not whole numbers above 0 and for more than 4,096 new tokens.
    """
    check_size("prompt", prompt)
    check_size("new", new)
    if new > MOST_NEW:
        raise ValueError(f"new is at most {MOST_NEW} tokens, not {new}")
    ready, moments = 0.0, []
    for done in range(new):
        n_q, n_k = (prompt, prompt) if done == 0 else (1, prompt + done)
        ready += seconds(step_costs(model, n_q, n_k, batch=batch, numbers=numbers), accelerator, numbers)
        moments.append(ready)
    return tuple(moments)


def _network(model: Model, rows: int, bytes_each: int) -> Cost:
    """The products of one feed-forward network; what lies between them is left out."""
    into = weight_product("network", rows, model.d_model, model.d_ff, bytes_each)
    back = weight_product("network", rows, model.d_ff, model.d_model, bytes_each)
    return total([into] * (2 if model.gated else 1) + [back], "network")

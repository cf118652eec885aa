r"""Devices in a ring, each sending to the next: an all-reduce in chunks, and attention with keys going round.

    all-reduce of N numbers among P devices:  each sends 2 (P − 1) / P · N        Patarasuk and Yuan 2009
    keys and values going round:              each sends P − 1 shares of both    Liu et al. 2023

Every message is kept with the numbers that it carries, so that the bytes are counted and not only claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attention_core.attention import attention
from attention_core.fitting import numbers
from attention_core.merging import Pair, merge
from attention_core.operations import Array
from attention_core.sharding import KeysPart, check_device, of_keys, ranges

NUMBER_BYTES = 8  # float64


@dataclass(frozen=True, eq=False)
class Message:
    """What a device sends to the next one in the ring."""

    step: int
    sender: int
    receiver: int
    chunk: int  # which chunk of the sum, or whose keys
    adds: bool  # the receiver adds the numbers to its own; else it keeps them
    numbers: int  # how many

    def bytes(self, number_bytes: int = NUMBER_BYTES) -> int:
        return self.numbers * number_bytes


@dataclass(frozen=True, eq=False)
class AllReduce:
    """An all-reduce step by step: what every device holds after each, one row of numbers per device."""

    chunks: tuple[range, ...]
    messages: tuple[Message, ...]
    states: tuple[Array, ...]  # (devices, numbers), before the first step and after every one
    output: Array  # the sum, in the shape of a part


@dataclass(frozen=True, eq=False)
class RingStep:
    """One device in one step: the keys that it has at the time, and what it holds after merging them."""

    step: int
    device: int
    queries: range
    part: KeysPart  # attention of its queries to these keys; its device is the one that owns them
    output: Array  # merged so far
    lse: Array
    idle: bool  # none of its queries may look at any of these keys


@dataclass(frozen=True, eq=False)
class Ring:
    """Ring attention: every step on every device, every message, and the outputs put together."""

    steps: tuple[RingStep, ...]
    messages: tuple[Message, ...]
    output: Array  # (…, n, d_v)
    lse: Array  # (…, n)


def ring_all_reduce(parts: tuple[ArrayLike, ...] | list[ArrayLike]) -> AllReduce:
    """The sum of one array per device, on every device, by messages to the next device only.

    In P − 1 steps each device adds what it gets to its own chunk and sends the result on, so that each ends
    up with one finished chunk; in P − 1 more the finished chunks go round. ValueError where shapes differ.
    """
    arrays = [np.asarray(part, dtype=np.float64) for part in parts]
    if not arrays or any(a.shape != arrays[0].shape for a in arrays):
        raise ValueError(f"the parts need one shape, not {', '.join(str(a.shape) for a in arrays) or 'none'}")
    devices = len(arrays)
    held = np.stack([a.reshape(-1) for a in arrays])
    chunks = ranges(held.shape[1], devices)
    states, messages = [held], []
    for step in range(2 * (devices - 1)):
        adds = step < devices - 1
        after = held.copy()
        for sender in range(devices):
            chunk = (sender - step) % devices
            receiver, r = (sender + 1) % devices, chunks[chunk]
            sent = held[sender, r.start : r.stop]
            after[receiver, r.start : r.stop] = held[receiver, r.start : r.stop] + sent if adds else sent
            messages.append(Message(step, sender, receiver, chunk, adds, len(r)))
        held = after
        states.append(held)
    return AllReduce(chunks, tuple(messages), tuple(states), held[0].reshape(arrays[0].shape))


def ring_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    devices: int,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropped: int | None = None,
) -> Ring:
    """Attention with queries, keys and values dealt out by their place in the text.

    In every step each device attends to the keys that it has and passes them on. The arguments are those of
    `attention`, with as many queries as keys; dropped loses the keys and values of one device. Raises
    ValueError naming arguments and shapes.
    """
    queries, keys, values = numbers("q", q), numbers("k", k), numbers("v", v)
    n = keys.shape[-2]
    if queries.shape[-2] != n:
        raise ValueError(
            f"q {queries.shape} and k {keys.shape} do not fit: a ring needs as many queries as keys"
        )
    check_device("dropped", dropped, devices)
    if devices == 1 and dropped is not None:
        raise ValueError("the only device cannot be dropped")
    shares = ranges(n, devices)
    held: dict[int, Pair] = {}
    steps, messages = [], []
    for step in range(devices):
        for device, mine in enumerate(shares):
            owner = (device - step) % devices
            r = shares[owner]
            trace = attention(
                queries[..., mine.start : mine.stop, :],
                keys[..., r.start : r.stop, :],
                values[..., r.start : r.stop, :],
                mask=_block(mask, mine, r, n),
                bias=_block(bias, mine, r, n),
                scale=scale,
                softcap=softcap,
            )
            part = KeysPart(owner, r, trace.output, trace.lse)
            if owner != dropped:
                pair = (part.output, part.lse)
                held[device] = merge(*held[device], *pair) if device in held else pair
            output, lse = held.get(device, (np.zeros_like(part.output), np.full_like(part.lse, -np.inf)))
            steps.append(RingStep(step, device, mine, part, output, lse, not trace.mask.any()))
            if step < devices - 1:
                size = keys[..., r.start : r.stop, :].size + values[..., r.start : r.stop, :].size
                messages.append(Message(step, device, (device + 1) % devices, owner, False, size))
    outputs, sums = zip(*(held[device] for device in range(devices)), strict=True)
    return Ring(
        tuple(steps), tuple(messages), np.concatenate(outputs, axis=-2), np.concatenate(sums, axis=-1)
    )


def _block(table: ArrayLike | None, queries: range, keys: range, n: int) -> Array | None:
    """The rows and columns of a mask or bias that belong to these queries and keys."""
    columns = of_keys(table, keys, n)
    if columns is None or columns.ndim < 2 or columns.shape[-2] == 1:
        return columns
    if columns.shape[-2] != n:
        raise ValueError(f"a mask or bias with {columns.shape[-2]} rows does not fit {n} queries")
    return columns[..., queries.start : queries.stop, :]

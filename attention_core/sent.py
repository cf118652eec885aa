"""Bytes that devices send one another, from shapes; rings.py counts the same message by message.

Every number is what all devices send together.
"""

from __future__ import annotations


def all_reduce_bytes(n_numbers: int, devices: int, number_bytes: int) -> int:
    """What all devices together send: 2 (P − 1) times the whole (Patarasuk and Yuan 2009)."""
    return 2 * (devices - 1) * n_numbers * number_bytes


def all_gather_bytes(n_numbers: int, devices: int, number_bytes: int) -> int:
    """What all devices together send until each has all parts of an array with so many numbers in all."""
    return (devices - 1) * n_numbers * number_bytes


def tensor_parallel_bytes(
    n: int, d_model: int, devices: int, number_bytes: int, *, n_layers: int = 1, batch: int = 1
) -> int:
    """Heads and hidden units dealt out: two all-reduces of (batch · n, d_model) a layer, forwards only.

    One completes the product with W_O, one the second product of the network behind it (Shoeybi et al. 2019).
    """
    return 2 * n_layers * all_reduce_bytes(batch * n * d_model, devices, number_bytes)


def ring_bytes(
    n: int,
    n_kv_heads: int,
    d_head: int,
    devices: int,
    number_bytes: int,
    *,
    n_layers: int = 1,
    batch: int = 1,
) -> int:
    """Keys and values of the whole text going round once a layer: P − 1 times all of them."""
    return n_layers * (devices - 1) * 2 * batch * n * n_kv_heads * d_head * number_bytes


def merge_bytes(
    n_q: int, n_heads: int, d_head: int, devices: int, number_bytes: int, *, n_layers: int = 1, batch: int = 1
) -> int:
    """Keys dealt out, queries on all devices: all but one send an output and a log-sum-exp for every row."""
    return n_layers * (devices - 1) * batch * n_q * n_heads * (d_head + 1) * number_bytes

"""Lesson 14: what devices send one another, estimated from the shapes, here and for a large model."""

from __future__ import annotations

from collections.abc import Mapping

from attention_core.models import MODELS
from attention_core.numbers import show
from attention_core.rings import AllReduce
from attention_core.sent import (
    all_gather_bytes,
    all_reduce_bytes,
    merge_bytes,
    ring_bytes,
    tensor_parallel_bytes,
)
from attention_ui import listing, prose

FLOAT64, FP16 = 8, 2  # bytes
MODEL, TOKENS, MANY = MODELS["llama2-70b"], 4096, 8
MEGA, GIGA = 10**6, 10**9


def draw(n: int, d_model: int, d_k: int, d_v: int, devices: int) -> None:
    """The ways of this lesson side by side, for these sizes and for a large model."""
    here, there = on_the_board(n, d_model, d_k, d_v, devices), in_the_model()
    rows = [[way, f"{here[way]:,}", _large(there[way])] for way in here]
    caption = (
        f"Bytes that all devices send together, estimated from the shapes. Here: {n} tokens on {devices} "
        f"devices, {FLOAT64} bytes a number. {MODEL.title}: {TOKENS:,} tokens on {MANY} devices, {FP16} "
        "bytes a number, one layer."
    )
    heads = ["one layer, forwards", "here", MODEL.title]
    listing.draw("Bytes sent, table", listing.table(caption, heads, rows))
    prose.paragraph(
        "The whole layer adds the two products of the feed-forward network, dealt out by columns and then by "
        "rows, which end in a second all-reduce. Keys and values in the ring grow with the number of "
        "their own heads, the partial sums with the width of the model; neither grows with the square of the "
        f"number of tokens. MB is 10⁶ bytes, GB 10⁹. Sizes: {MODEL.source}.",
        kind="quiet",
    )


def on_the_board(n: int, d_model: int, d_k: int, d_v: int, devices: int) -> Mapping[str, int]:
    """Bytes for each way, with one head of keys and values."""
    return {
        "Columns of W_Q: parts put side by side everywhere": all_gather_bytes(n * d_k, devices, FLOAT64),
        "Rows of W_Q: all-reduce of the partial sums": all_reduce_bytes(n * d_k, devices, FLOAT64),
        "Heads: one all-reduce, after W_O": all_reduce_bytes(n * d_model, devices, FLOAT64),
        "Heads and feed-forward network: two all-reduces": tensor_parallel_bytes(
            n, d_model, devices, FLOAT64
        ),
        "Sequence: keys and values once round": (devices - 1) * n * (d_k + d_v) * FLOAT64,
        "Sequence: outputs and log-sum-exps to one device": merge_bytes(n, 1, d_v, devices, FLOAT64),
    }


def in_the_model() -> Mapping[str, int]:
    """The same for one layer of the model, with all of its heads."""
    width = MODEL.n_heads * MODEL.d_head
    sizes = (
        all_gather_bytes(TOKENS * width, MANY, FP16),
        all_reduce_bytes(TOKENS * width, MANY, FP16),
        all_reduce_bytes(TOKENS * MODEL.d_model, MANY, FP16),
        tensor_parallel_bytes(TOKENS, MODEL.d_model, MANY, FP16),
        ring_bytes(TOKENS, MODEL.n_kv_heads, MODEL.d_head, MANY, FP16),
        merge_bytes(TOKENS, MODEL.n_heads, MODEL.d_head, MANY, FP16),
    )
    return dict(zip(on_the_board(1, 1, 1, 1, 1), sizes, strict=True))


def all_reduce_steps(found: AllReduce) -> None:
    """An all-reduce in a ring, step by step: which chunk each device sends to the next one."""
    devices = len(found.chunks)
    rows = []
    for step in range(2 * (devices - 1)):
        here = [message for message in found.messages if message.step == step]
        what = "added" if here[0].adds else "kept"
        rows.append(
            [f"{step + 1}, {what}", *(f"chunk {each.chunk + 1}, {_count(each.numbers)}" for each in here)]
        )
    heads = ["step", *(f"device {d} to {d % devices + 1}" for d in range(1, devices + 1))]
    caption = (
        "The numbers of a partial sum, read row by row, are cut into as many chunks as there are devices. "
        "First each device adds what comes to its own chunk; then the finished chunks go round."
    )
    listing.draw("All-reduce, step by step", listing.table(caption, heads, rows))


def _large(count: int) -> str:
    return f"{show(count / GIGA)} GB" if count >= GIGA else f"{show(count / MEGA)} MB"


def _count(numbers: int) -> str:
    return f"{numbers} number{'s' * (numbers != 1)}"

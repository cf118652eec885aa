"""Lesson 14, heads on several devices: columns of W_Q, W_K and W_V, and the rows of W_O that go with them."""

from __future__ import annotations

import numpy as np

from attention_core.multi_head import multi_head_attention
from attention_core.numbers import show
from attention_core.operations import Array
from attention_core.sharding_sheets import heads_split_sheet
from attention_core.written import visible
from attention_ui import teaching
from attention_ui.bench import token_at
from attention_ui.board import Unit
from attention_ui.desk import Desk
from attention_ui.products import added_by_ring, devices_of, dropped_of, far, held_by, parts_of, same, sums
from attention_ui.scene import Scene, worked
from attention_ui.tokens import literal

WIDTH = 2  # of a head; every device has one head
GUESS = teaching.prediction(
    "p14.guess_heads",
    "Every device has one head. When do the devices have to add something up?",
    {"once": "once, after W_O", "softmax": "inside softmax and after W_O", "never": "never"},
)
SAYS = (
    "Every head has columns of its own in W_Q, W_K and W_V, and rows of its own in W_O. So W_Q, W_K and W_V "
    "are dealt out by columns and W_O by rows, and between the two a device needs nothing from the others: "
    "its head attends by itself. D1, D2, … say which device holds a column or row."
)


def scene_of(desk: Desk) -> Scene:
    bench, devices, n = desk.bench, devices_of(desk.bench), desk.bench.n_k
    sheet = heads_split_sheet(devices, devices, d_head=WIDTH, d_value=WIDTH, dropped=dropped_of(bench))
    words = tuple(literal(token_at(bench, i)) for i in range(n))
    wide, dealt = devices * WIDTH, held_by(devices * WIDTH, devices)
    columns = ("n_heads·d_k", "n_heads·d_v", "n_kv_heads·d_k", "n_kv_heads·d_v")
    heads = range(1, devices + 1)
    return worked(
        bench, sheet, {"divisor": np.sqrt(WIDTH)},
        sizes={
            "token": n, "query": n, "key": n, "d_model": max(bench.d_model, devices), "d_k": WIDTH,
            "d_v": WIDTH, **dict.fromkeys(columns, wide),
        },
        named=dict.fromkeys(("token", "query", "key"), words) | dict.fromkeys(columns, dealt),
        compared=(
            *(tuple(f"{kind}_{h}" for h in heads) for kind in ("scores", "scaled", "masked", "held")),
            (*(f"partial_{h}" for h in heads), *(f"sum_{h}" for h in heads), "output"),
        ),
    )  # fmt: skip


def layout_of(desk: Desk, now: Scene) -> list[list[Unit]]:
    """The products by columns, the weights of every head, the partial sums, and what adds them."""
    devices = devices_of(desk.bench)
    every = range(1, devices + 1)
    return [
        [Unit("q", left="x", top="w_q"), Unit("k", top="w_k"), Unit("v", top="w_v")],
        [Unit(f"weights_{d}") for d in every],
        [Unit("w_o"), *(Unit(f"partial_{d}", left=f"held_{d}", top=f"w_o_{d}") for d in every)],
        sums(now, devices, dropped_of(desk.bench)) if teaching.is_open(desk, GUESS) else [],
    ]


def whole(now: Scene) -> Array:
    """All heads on one device."""
    v, devices = now.values, devices_of(now.bench)
    return multi_head_attention(
        v["x"], v["w_q"], v["w_k"], v["w_v"], v["w_o"], n_heads=devices, mask=v["mask"]
    ).output


def verdict(desk: Desk, now: Scene) -> None:
    v, devices = now.values, devices_of(desk.bench)
    one = multi_head_attention(
        v["x"], v["w_q"], v["w_k"], v["w_v"], v["w_o"], n_heads=devices, mask=v["mask"]
    )
    apart = max(far(v[f"weights_{d}"], one.heads.weights[d - 1]) for d in range(1, devices + 1))
    teaching.verdict(
        desk, GUESS, "once" if apart <= 1e-9 else "softmax",
        f"The weights on all devices are those of {devices} heads on one device (the largest difference is "
        f"{visible(apart, show)}), worked out without a number from elsewhere. Only the product with W_O "
        "meets all heads, and its partial sums have to be added.",
    )  # fmt: skip


def claims(now: Scene) -> list[tuple[str, bool]]:
    devices, values = devices_of(now.bench), now.values
    want = whole(now)
    apart = visible(far(values["output"], want), show)
    totals = np.array([values[f"weights_{d}"].sum(axis=1) for d in range(1, devices + 1)])
    return [
        (
            f"The output is that of {devices} heads on one device: the largest difference is {apart}.",
            same(values["output"], want),
        ),
        (
            "On every device the weights of a query that may look anywhere add up to 1.",
            np.allclose(totals, values["mask"].any(axis=1), rtol=0, atol=1e-12),
        ),
        added_by_ring(parts_of(now), want),
    ]


def why_wrong(now: Scene) -> str:
    """What the lost part has done."""
    device = devices_of(now.bench)
    if same(now.values["output"], whole(now)):
        return f"The part of device {device} is 0 everywhere here, so that losing it changes nothing."
    lost = show(float(np.abs(now.values[f"partial_{device}"]).max()))
    return (
        f"Head {device} is missing from every row of the output, by up to {lost}. The shape is right, and "
        "so are the weights of the other heads; only the sum is not complete."
    )

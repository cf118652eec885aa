"""Lesson 14, a sequence dealt out: keys and values go round in a ring, and the parts are merged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attention_core.attention import attention
from attention_core.keys_split_sheet import keys_split_sheet, masks_of_devices
from attention_core.masks import allowed
from attention_core.numbers import show
from attention_core.operations import Array
from attention_core.rings import Ring, ring_attention
from attention_core.sharding import ranges
from attention_core.written import visible
from attention_ui import listing, prose, teaching
from attention_ui.bench import Bench, token_at
from attention_ui.board import Unit
from attention_ui.choices import Choice
from attention_ui.desk import Desk
from attention_ui.grids import unit_after
from attention_ui.products import devices_of, dropped_of, far, same
from attention_ui.scene import Scene, worked
from attention_ui.tokens import isolated, literal

DETAIL = Choice("p14.detail", "Device on the board", {"1": "1", "2": "2", "3": "3", "4": "4"}, "2")
GUESS = teaching.prediction(
    "p14.guess_ring",
    "Each part’s softmax has seen its own keys only. What does merging need of a part beside its output?",
    {"nothing": "nothing else", "sum": "one number for each query", "scores": "all of its scores"},
)
SAYS = (
    "A sequence too long for one device is dealt out by position: each device keeps the queries of its own "
    "tokens, and keys and values go round from device to device. Attention to one share of the keys gives an "
    "output and the logarithm of its sum of exponentials; with these two, shares are merged one after the "
    "other, as the online softmax does with tiles."
)


def n_of(bench: Bench) -> int:
    """Tokens: one for each device at least."""
    return max(bench.n_k, devices_of(bench))


def as_many(choice: Choice, bench: Bench) -> Choice:
    """A choice of a device, with as many as there are."""
    devices = devices_of(bench)
    return replace(choice, options={word: word for word in choice.options if int(word) <= devices})


def scene_of(desk: Desk) -> Scene:
    bench, devices, n = desk.bench, devices_of(desk.bench), n_of(desk.bench)
    keys = tuple(literal(token_at(bench, i)) for i in range(n))
    queries = tuple(literal(token_at(bench, i, query=True)) for i in range(n))
    shares = ranges(n, devices)
    own = {f"key_{d}": keys[r.start : r.stop] for d, r in enumerate(shares, 1)}
    rule = allowed(bench.mask, n, n)
    every = range(1, devices + 1)
    return worked(
        bench, keys_split_sheet(n, devices, dropped_of(bench)),
        {"divisor": np.sqrt(bench.d_k), **masks_of_devices(rule, n, devices)},
        sizes={"query": n, "key": n},
        named={"query": queries, "key": keys, **own},
        compared=(
            tuple(f"{kind}_{d}" for kind in ("scores", "scaled", "masked") for d in every),
            ("v", *(f"v_{d}" for d in every), *(f"output_{d}" for d in every), "output"),
            tuple(f"{kind}_{d}" for kind in ("lse", "lse_to") for d in every),
        ),
    )  # fmt: skip


def layout_of(desk: Desk, now: Scene) -> list[list[Unit]]:
    """What is dealt out, the part of the device in detail, and how it is merged with those before it."""
    bench = desk.bench
    device, seen = int(as_many(DETAIL, bench).of(bench)), teaching.is_open(desk, GUESS)
    lines = [
        [Unit("q"), Unit("k"), Unit("v")],
        [
            Unit(f"scores_{device}", left="q", top=f"k_t_{device}", echo=["q"]),
            unit_after(now, f"scores_{device}", f"weights_{device}"),
        ],
        [
            Unit(f"output_{device}", left=f"weights_{device}", top=f"v_{device}", echo=[f"weights_{device}"]),
            *[Unit(f"lse_{device}")] * seen,
        ],
    ]
    if not seen:
        return lines
    merged = _merge(device, devices_of(bench), dropped_of(bench))
    return [*lines, *merged]


def _merge(device: int, devices: int, dropped: int | None) -> list[list[Unit]]:
    """The merge of a device's part, and the output where that is not the last one."""
    left = [d for d in range(1, devices + 1) if d != dropped]
    if device == dropped or device == left[0]:
        return [[Unit("output")]]
    first = device == left[1]
    before = f"output_{left[0]}" if first else f"output_to_{device - 1}"
    last = device == left[-1]
    line = [
        Unit(before),
        Unit(f"before_{device}"),
        Unit(f"carried_{device}", via="both multiplied"),
    ]
    own = [
        Unit(f"own_{device}"),
        Unit(f"added_{device}", via="× its output"),
        Unit("output" if last else f"output_to_{device}", via="add both"),
    ]
    return [line, own] if last else [line, own, [Unit("output")]]


def plain(now: Scene) -> Array:
    """Attention on one device."""
    v, bench = now.values, now.bench
    n = len(v["q"])
    return attention(v["q"], v["k"], v["v"], mask=allowed(bench.mask, n, n)).output


def ring(now: Scene, *, dropped: bool = True) -> Ring:
    """The same as messages from device to device, each merging keys in the order in which they come."""
    v, bench = now.values, now.bench
    n, lost = len(v["q"]), dropped_of(bench)
    return ring_attention(
        v["q"], v["k"], v["v"], devices=devices_of(bench), mask=allowed(bench.mask, n, n),
        dropped=lost - 1 if lost and dropped else None,
    )  # fmt: skip


def verdict(desk: Desk, now: Scene) -> None:
    """Plain averages of the parts against parts weighed by their sums."""
    devices, want = devices_of(desk.bench), plain(now)
    average = np.mean([now.values[f"output_{d}"] for d in range(1, devices + 1)], axis=0)
    off, left = far(average, want), far(ring(now, dropped=False).output, want)
    teaching.verdict(
        desk, GUESS, "sum",
        f"The plain average of the {devices} outputs would be off by {visible(off, show)}. Weighed by their "
        f"sums of exponentials, one number a query, they are off by {visible(left, show)}.",
    )  # fmt: skip


def claims(now: Scene) -> list[tuple[str, bool]]:
    devices, values, want = devices_of(now.bench), now.values, plain(now)
    found = ring(now)
    n, width = values["k"].shape[0], values["k"].shape[1] + values["v"].shape[1]
    count = sum(message.numbers for message in found.messages)
    parts = [values[f"weights_{d}"].sum(axis=1) for d in range(1, devices + 1)]
    sees = [values[f"mask_{d}"].any(axis=1) for d in range(1, devices + 1)]
    return [
        (
            "Merged, the parts are plain attention: the largest difference is "
            f"{visible(far(values['output'], want), show)}.",
            same(values["output"], want),
        ),
        (
            "In the ring each device merges in the order in which keys come, and gets the same rows: the "
            f"largest difference is {visible(far(found.output, values['output']), show)}.",
            same(found.output, values["output"]),
        ),
        (
            "In each part the weights of a query add up to 1, over these keys alone, or to 0 where it may "
            "look at none of them.",
            all(np.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip(parts, sees, strict=True)),
        ),
        (
            f"The messages hold {count:,} numbers: ({devices} − 1) × {n} tokens × {width}, once round for "
            "every key and value.",
            count == (devices - 1) * n * width,
        ),
    ]


def why_wrong(now: Scene) -> str:
    """What the lost part has done."""
    device = devices_of(now.bench)
    keys = ranges(len(now.values["k"]), device)[-1]
    if same(now.values["output"], plain(now)):
        return f"No query gives weight to the keys of device {device} here: losing them changes nothing."
    row = int(np.abs(now.values["output"] - plain(now)).max(axis=1).argmax())
    word = isolated(now.labels["query"][row])
    missing = f"{_span('Key', 'Keys', keys)} {'is' if len(keys) == 1 else 'are'}"
    return (
        f"{missing} missing. The weights that are left still add up to 1, so that every row looks like an "
        f"output; row {row + 1}, {word}, is furthest off, by "
        f"{show(float(np.abs(now.values['output'] - plain(now))[row].max()))}."
    )


def rounds(desk: Desk) -> None:
    """Which keys each device has in each step, as a table."""
    now = scene_of(desk)
    devices, found = devices_of(desk.bench), ring(now, dropped=False)
    rows = []
    for step in range(devices):
        here = [each for each in found.steps if each.step == step]
        rows.append([f"step {step + 1}", *(_held(each.part.keys, each.idle) for each in here)])
    queries = [_span("query", "queries", r) for r in ranges(len(now.values["q"]), devices)]
    heads = ["step", *(f"device {d}: {text}" for d, text in enumerate(queries, 1))]
    listing.draw(
        "Keys in the ring", listing.table("Which keys each device attends to, step by step.", heads, rows)
    )
    if any(each.idle for each in found.steps):
        prose.paragraph(
            "Where the mask lets none of a device’s queries look, the device has nothing to do in that step: "
            "under a causal mask the first devices wait for the last.",
            kind="quiet",
        )


def _held(keys: range, idle: bool) -> str:
    return _span("key", "keys", keys) + (", nothing to do" if idle else "")


def _span(one: str, many: str, r: range) -> str:
    return f"{one} {r[0] + 1}" if len(r) == 1 else f"{many} {r[0] + 1}–{r[-1] + 1}"

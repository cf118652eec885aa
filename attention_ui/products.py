"""Lesson 14, split products: columns or rows of W_Q on several devices."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from attention_core.numbers import show
from attention_core.operations import Array
from attention_core.rings import ring_all_reduce
from attention_core.sharding import ranges
from attention_core.sharding_sheets import column_split_sheet, row_split_sheet
from attention_core.sheet import Given, Sheet, Stage, mark
from attention_core.written import visible
from attention_ui import teaching
from attention_ui.bench import Bench
from attention_ui.board import Unit
from attention_ui.choices import Choice, Switch
from attention_ui.desk import Desk
from attention_ui.grids import unit_after
from attention_ui.scene import Scene, worked

Line = TypeVar("Line", Given, Stage)

DEVICES = Choice("p14.devices", "Devices", {"2": "2", "3": "3", "4": "4"}, "2")
SPLIT = Choice("p14.split", "Deal out W_Q by", {"columns": "columns", "rows": "rows"}, "columns")
DROPPED = Switch("p14.dropped", "Mistake: lose the last device’s part")
GUESS = teaching.prediction(
    "p14.guess_split",
    "Which way of dealing out W_Q leaves every device with numbers that are not yet a part of the result?",
    {"columns": "by columns", "rows": "by rows", "both": "either way"},
)
SAYS = (
    "One product, X W_Q, on several devices. A device with some columns of W_Q makes whole numbers of the "
    "result, and the parts are put side by side. A device with some rows meets only some columns of X: it "
    "makes a partial sum for every number, and an all-reduce adds the partial sums of all devices. "
    "D1, D2, … say which device holds a column or row."
)


def devices_of(bench: Bench) -> int:
    return int(DEVICES.of(bench))


def is_rows(bench: Bench) -> bool:
    return SPLIT.of(bench) == "rows"


def dropped_of(bench: Bench) -> int | None:
    """The device, counted from 1, whose part is lost; a lost column would show in the shape."""
    return devices_of(bench) if DROPPED.of(bench) else None


def scene_of(desk: Desk) -> Scene:
    bench, devices = desk.bench, devices_of(desk.bench)
    inner, width = max(bench.d_model, devices), max(bench.d_k, devices)
    if is_rows(bench):
        sheet, dealt = row_split_sheet(inner, devices, dropped_of(bench)), {"d_model": inner}
    else:
        sheet, dealt = column_split_sheet(width, devices), {"d_k": width}
    return worked(
        bench, _of_queries(sheet),
        sizes={"token": bench.n_k, "d_model": inner, "d_k": width},
        named={axis: held_by(size, devices) for axis, size in dealt.items()},
        compared=(_each("partial", devices) + _each("sum", devices) + ("output",), _each("y", devices)),
    )  # fmt: skip


def _of_queries(sheet: Sheet) -> Sheet:
    """The sheet with W_Q for W and the axes of the bench: the numbers are those of the walk-through."""
    return Sheet(tuple(map(_renamed, sheet.given)), tuple(map(_renamed, sheet.stages)))


def _renamed(line: Line) -> Line:
    """A line with W_Q for W, whole or a device's, and tokens and features for rows and columns."""
    new: dict[str, Any] = {"axes": tuple(_axis(axis) for axis in line.axes)}
    if isinstance(line, Stage):
        new["inputs"] = tuple("w_q" if name == "w" else name for name in line.inputs)
    if line.name == "w":
        new |= {"name": "w_q", "symbol": "W_Q", "mark": mark("W", "Q"), "title": "W_Q"}
    elif line.name.startswith("w_"):
        device = line.name.removeprefix("w_")
        new |= {"symbol": f"W_{{Q,{device}}}", "mark": mark("W", f"Q, {device}")}
        new |= {"title": f"W_Q, device {device}"}
    return replace(line, **new)


def _axis(axis: str) -> str:
    name, _, device = axis.partition("_")
    return f"device_{device}" if device else {"row": "token", "inner": "d_model", "column": "d_k"}[name]


def held_by(size: int, devices: int) -> tuple[str, ...]:
    """Which device holds each of `size` rows or columns."""
    return tuple(f"D{device}" for device, r in enumerate(ranges(size, devices), 1) for _ in r)


def layout_of(desk: Desk, now: Scene) -> list[list[Unit]]:
    devices, seen = devices_of(desk.bench), teaching.is_open(desk, GUESS)
    whole = [Unit("x"), Unit("w_q")]
    if not is_rows(desk.bench):
        parts = [
            Unit(f"y_{d}", left="x" if d == 1 else None, top=f"w_{d}", echo=["x"])
            for d in range(1, devices + 1)
        ]
        return [whole, parts, [Unit("output")] * seen]
    parts = [Unit(f"partial_{d}", left=f"x_{d}", top=f"w_{d}") for d in range(1, devices + 1)]
    return [whole, parts, sums(now, devices, dropped_of(desk.bench)) if seen else []]


def sums(now: Scene, devices: int, dropped: int | None) -> list[Unit]:
    """The partial sums added one by one: the first as it is, then each sum up to a device."""
    left = [device for device in range(1, devices + 1) if device != dropped]
    first = Unit(f"partial_{left[0]}", echo=[f"partial_{left[0]}"])
    names = [f"partial_{left[0]}", *(f"sum_{d}" for d in left[1:-1]), "output"]
    if len(left) == 1:
        return [first, Unit("output", via="alone")]
    return [first, *(unit_after(now, before, name) for before, name in pairwise(names))]


def verdict(desk: Desk, now: Scene) -> None:
    """What the first device has after either way of dealing out."""
    x, w_q = now.values["x"], now.values["w_q"]
    share, whole = ranges(x.shape[1], devices_of(desk.bench))[0], x @ w_q
    first = x[:, : len(share)] @ w_q[: len(share)]
    i, j = np.unravel_index(int(np.abs(whole - first).argmax()), first.shape)
    place = f"row {int(i) + 1}, column {int(j) + 1}"
    teaching.verdict(
        desk, GUESS, "rows",
        "By columns, device 1 has its columns of the result finished. By rows it has a number in every "
        f"place, with some of the terms: in {place} it has {show(first[i, j])}, and the result is "
        f"{show(whole[i, j])}.",
    )  # fmt: skip


def claims(now: Scene) -> list[tuple[str, bool]]:
    devices, values = devices_of(now.bench), now.values
    want = values["x"] @ values["w_q"]
    apart = visible(far(values["output"], want), show)
    if not is_rows(now.bench):
        beside = np.hstack([values[name] for name in _each("y", devices)])
        return [
            (
                f"The parts side by side are X W_Q: the largest difference is {apart}.",
                same(values["output"], want),
            ),
            ("No number of a part has to be added to another.", np.array_equal(beside, values["output"])),
        ]
    return [
        (
            f"What stands in the output is X W_Q on one device: the largest difference is {apart}.",
            same(values["output"], want),
        ),
        added_by_ring(parts_of(now), want),
    ]


def added_by_ring(parts: tuple[Array, ...], want: Array) -> tuple[str, bool]:
    """An all-reduce in a ring: what every device then has, and what was sent, counted message by message."""
    found = ring_all_reduce(parts)
    count = sum(message.numbers for message in found.messages)
    devices, (n, width) = len(parts), want.shape
    alike = all(np.allclose(row, found.output.ravel(), rtol=0, atol=0) for row in found.states[-1])
    return (
        f"An all-reduce of all parts leaves the same sum on all {devices} devices, with {count:,} numbers "
        f"sent: 2 × ({devices} − 1) × {n} × {width}.",
        alike and same(found.output, want) and count == 2 * (devices - 1) * n * width,
    )


def parts_of(now: Scene) -> tuple[Array, ...]:
    """The partial sums of all devices."""
    return tuple(now.values[name] for name in _each("partial", devices_of(now.bench)))


def why_wrong(now: Scene) -> str:
    """What the lost part has done; nothing where there is no sum."""
    device = devices_of(now.bench)
    if not is_rows(now.bench):
        return (
            f"By columns nothing is added up. Without device {device} its columns are missing, and the shape "
            "of the result says so: nobody would go on with it. Deal out the rows to see the mistake."
        )
    if same(now.values["output"], now.values["x"] @ now.values["w_q"]):
        return f"The part of device {device} is 0 everywhere here, so that losing it changes nothing."
    return (
        f"The output lacks the terms of device {device}: in every number some products are missing. Its "
        "shape is right and its numbers look like any others; only comparing with one device, or a checksum "
        "of the parts, shows it."
    )


def _each(name: str, devices: int) -> tuple[str, ...]:
    return tuple(f"{name}_{device}" for device in range(1, devices + 1))


def same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=1e-12 * (1 + np.abs(b).max())))


def far(a: Array, b: Array) -> float:
    """The largest difference of two matrices of one shape."""
    return float(np.abs(a - b).max())

r"""Products and heads on several devices as sheets: every device's part is a stage, and so is every sum.

Devices are counted from 1 in names, symbols and titles. Parts are added device by device, as sums of two;
`dropped` (from 1 too) leaves a device's part out: the mistake of losing it without noticing. Keys and values
dealt out are in keys_split_sheet.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from attention_core.head_choices import Heads
from attention_core.head_sheets import OUTPUT, heads_lines
from attention_core.heads import columns, join
from attention_core.operations import ADD, KEEP, MATMUL, Operation
from attention_core.projections import Line, projection_lines
from attention_core.rows import taken_rows
from attention_core.sharding import ranges
from attention_core.sheet import Sheet, Stage, given, mark, stage
from attention_core.sheets import X

# fmt: off
_X = given("x", "X", mark("X"), "X", "row inner", 0, (
    "One number of the left factor.",
    "One row per token."))
_W = given("w", "W", mark("W"), "W", "inner column", 0, (
    "How much one feature counts towards one column of the result.",
    "This is the matrix that is dealt out among the devices."), is_learned=True)
_W_COLUMNS_SAYS = (
    "A number of W that device {0} holds.",
    "The device holds whole columns: it can make whole numbers of the result.")
_W_ROWS_SAYS = (
    "A number of W that device {0} holds.",
    "The device holds whole rows: for each number of the result it has some of the terms.")
_X_COLUMNS_SAYS = (
    "A number of X that device {0} needs.",
    "Only the columns that meet the device's rows of W.")
_COLUMNS_SAYS = (
    "A number of the result, finished on device {0}.",
    "Nothing is missing from it: no other device has any of its terms.")
_PARTIAL_SAYS = (
    "A partial sum: the terms of one number of the result that device {0} has.",
    "It has the shape of the whole result, and is not the result.")
_SIDE_SAYS = (
    "A number of the result, from the device that holds its column.",
    "Putting the parts side by side adds nothing up.")
_HELD_SAYS = (
    "A number of the output of one of the heads on device {0}.",
    "The device has its own heads only; they need nothing from the others.")
_SUM_SAYS = (
    "The partial sums of device {0} and those before it, added.",
    "An all-reduce adds the parts of all devices, number by number.")
_LESS_SAYS = (
    "The partial sums without those of device {0}.",
    "Terms are missing from every number, and nothing in the shape says so.")
# fmt: on

TITLES = {"partial": "Partial sum", "held": "Heads", "lse": "Log-sum-exp", "y": "Columns"}


@cache
def column_split_sheet(width: int, devices: int) -> Sheet:
    """x w with the `width` columns of w dealt out. ValueError where a device would have none."""
    shares = ranges(width, devices)
    stages: list[Stage] = []
    for device, r in enumerate(shares, 1):
        axes = f"column_{device}"
        stages += [
            device_part("w", "W", "inner " + axes, device, columns(r.start, len(r)), "w", _W_COLUMNS_SAYS),
            device_part("y", "Y", "row " + axes, device, MATMUL, f"x w_{device}", _COLUMNS_SAYS),
        ]
    parts = " ".join(f"y_{device}" for device in range(1, devices + 1))
    line = ("output", "Y", mark("Y"), "Output", "row column", 0)
    stages.append(stage(line, join(tuple(map(len, shares))), parts, _SIDE_SAYS))
    return Sheet((_X, _W), tuple(stages))


@cache
def row_split_sheet(inner: int, devices: int, dropped: int | None = None) -> Sheet:
    """x w with the `inner` rows of w dealt out, and the columns of x with them.

    Raises ValueError where a device would have none, and for a dropped device that is not one of several.
    """
    stages: list[Stage] = []
    for device, r in enumerate(ranges(inner, devices), 1):
        axes, result = f"inner_{device}", "row column"
        stages += [
            device_part("x", "X", "row " + axes, device, columns(r.start, len(r)), "x", _X_COLUMNS_SAYS),
            device_part("w", "W", axes + " column", device, taken_rows(tuple(r)), "w", _W_ROWS_SAYS),
            device_part("partial", "P", result, device, MATMUL, f"x_{device} w_{device}", _PARTIAL_SAYS),
        ]
    whole = Line("output", "Y", mark("Y"), "Output")
    return Sheet((_X, _W), (*stages, *_added(devices, dropped, whole, "row column")))


@cache
def heads_split_sheet(
    n_heads: int,
    devices: int,
    *,
    d_head: int,
    d_value: int,
    n_kv_heads: int | None = None,
    dropped: int | None = None,
) -> Sheet:
    """Multi-head attention from x with heads and rows of W_O dealt out, and the partial sums added.

    Raises ValueError where heads cannot be shared out equally among devices.
    """
    few = n_heads if n_kv_heads is None else n_kv_heads
    if few < 1 or few % devices:
        raise ValueError(f"{few} heads of keys cannot be shared out equally among {devices} devices")
    beside, inner = heads_lines(Heads(n_heads, few, d_head, d_value))
    weights, products = projection_lines()
    each = n_heads // devices
    side = join((d_value,) * each)
    stages: list[Stage] = []
    for device in range(1, devices + 1):
        heads = range((device - 1) * each + 1, device * each + 1)
        rows = tuple(range((device - 1) * each * d_value, device * each * d_value))
        outputs = " ".join(f"output_{head}" for head in heads)
        wide, axes = f"device_{device}", "query d_model"
        stages += [
            device_part("held", "H", "query " + wide, device, side, outputs, _HELD_SAYS),
            device_part("w_o", "W_O", f"{wide} d_model", device, taken_rows(rows), "w_o", _W_ROWS_SAYS),
            device_part("partial", "P", axes, device, MATMUL, f"held_{device} w_o_{device}", _PARTIAL_SAYS),
        ]
    attention = [line for line in inner if line.name not in ("concatenated", "output")]
    givens = (replace(X, step=0), *weights, *beside)
    return Sheet(givens, (*products, *attention, *stages, *_added(devices, dropped, OUTPUT, "query d_model")))


def _added(devices: int, dropped: int | None, whole: Line, axes: str) -> Iterator[Stage]:
    """The partial sums added device by device, up to the result."""
    left = devices_left(devices, dropped)
    says = _SUM_SAYS if dropped is None else (_LESS_SAYS[0].format(dropped), _LESS_SAYS[1])
    total = f"partial_{left[0]}"
    if len(left) == 1:
        yield stage((*whole, axes, 0), KEEP, total, (says[0].format(left[0]), says[1]))
    for device in left[1:]:
        last = device == left[-1]
        so_far = Line(
            f"sum_{device}", rf"P_{{\le {device}}}", mark("P", f"≤{device}"), f"Sum up to device {device}"
        )
        line = whole if last else so_far
        inputs = f"{total} partial_{device}"
        yield stage((*line, axes, 0), ADD, inputs, (says[0].format(device), says[1]))
        total = line.name


def devices_left(devices: int, dropped: int | None) -> Sequence[int]:
    """The devices, from 1, whose parts are added or merged. ValueError where the dropped one is not there."""
    if dropped is not None and (devices == 1 or not 1 <= dropped <= devices):
        raise ValueError(f"dropped has to be None or one of several devices, 1 to {devices}, not {dropped!r}")
    return [device for device in range(1, devices + 1) if device != dropped]


def device_part(
    name: str, symbol: str, axes: str, device: int, operation: Operation, inputs: str, says: tuple[str, str]
) -> Stage:
    """A device's part of a line."""
    base, _, sub = symbol.partition("_")
    title = TITLES.get(name, symbol)
    pieces = mark(base, f"{sub}, {device}" if sub else str(device))
    latex = f"{base}_{{{sub},{device}}}" if sub else f"{base}_{{{device}}}"
    line = (f"{name}_{device}", latex, pieces, f"{title}, device {device}", axes, 0)
    return stage(line, operation, inputs, (says[0].format(device), says[1].format(device)))

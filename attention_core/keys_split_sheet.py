r"""Attention with keys and values dealt out among devices, as a sheet: each device's own, then the merges.

    L = log(e^(L_a) + e^(L_b))        O = e^(L_a − L) O_a + e^(L_b − L) O_b        as in merging.py

Devices are counted from 1. `dropped` leaves one device's part out of the merges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.merging import LOG_ADD, LOG_SUM, PART, TIMES_FIRST
from attention_core.naming import numbered_mark, numbered_symbol
from attention_core.operations import ADD, KEEP
from attention_core.rows import taken_rows
from attention_core.sharding import of_keys, ranges
from attention_core.sharding_sheets import device_part, devices_left
from attention_core.sheet import Given, Sheet, Stage, mark, stage
from attention_core.sheets import ATTENTION

RULE = next(line for line in ATTENTION.given if line.is_rule)


# fmt: off
_OUTPUT = ("output", "O", mark("O"), "Output", "query d_v", 0)
_HELD_SAYS = (
    "A number that device {0} holds.",
    "The device has these rows only, and works with them as if there were no others.")
_LSE_SAYS = (
    "The logarithm of the sum of exponentials over the keys of device {0}.",
    "It says how much these keys count; the weights alone, which add up to 1, do not.")
_LOG_SAYS = (
    "The logarithm of both sums together.",
    "It is what one device with all these keys would have.")
_PART_SAYS = (
    "How much of the sum comes from these keys.",
    "The two parts of a row add up to 1, or to 0 where the query may look nowhere.")
_WEIGHED_SAYS = (
    "A number of an output, multiplied by its part of the sum.",
    "A part of 1 leaves the row as it is, a part of 0 takes it away.")
_MERGED_SAYS = (
    "One feature of the average over the keys of these devices together.",
    "Outputs and log-sum-exps were enough for it: no scores and no keys.")
_ALONE_SAYS = (
    "One feature of the average over the keys of the only device that is left.",
    "There is nothing to merge.")
# fmt: on


@cache
def keys_split_sheet(n_k: int, devices: int, dropped: int | None = None) -> Sheet:
    """Attention with keys and values dealt out, and the parts merged by their log-sum-exp.

    Every device has a mask of its own, mask_1, mask_2, …: the columns of the mask that belong to its keys.
    Raises ValueError where a device would have no key, and for a dropped device that is not one of several.
    """
    givens: list[Given] = [replace(line, step=0) for line in ATTENTION.given if line is not RULE]
    stages: list[Stage] = []
    for device, r in enumerate(ranges(n_k, devices), 1):
        givens.append(_rule(device))
        stages += _device_lines(device, tuple(r))
    return Sheet(tuple(givens), (*stages, *_merged(devices, dropped)))


def masks_of_devices(mask: ArrayLike, n_k: int, devices: int) -> dict[str, NDArray[Any]]:
    """mask_1, mask_2, …: the columns of a mask (n_q, n_k) that belong to the keys of each device."""
    shares = enumerate(ranges(n_k, devices), 1)
    return {f"mask_{device}": np.asarray(of_keys(mask, r, n_k)) for device, r in shares}


def _device_lines(device: int, rows: tuple[int, ...]) -> Iterator[Stage]:
    """A device's keys and values, its attention to them, and the log-sum-exp as a column."""
    for letter in "kv":
        symbol, axes = letter.upper(), f"key_{device} d_{letter}"
        yield device_part(letter, symbol, axes, device, taken_rows(rows), letter, _HELD_SAYS)
    shared = ("q", "divisor")
    for line in ATTENTION.stages:
        yield replace(
            line,
            name=f"{line.name}_{device}",
            symbol=numbered_symbol(line.symbol, device),
            mark=numbered_mark(line.mark, device),
            title=f"{line.title}, device {device}",
            inputs=tuple(name if name in shared else f"{name}_{device}" for name in line.inputs),
            axes=tuple(f"key_{device}" if axis == "key" else axis for axis in line.axes),
            aside=line.aside and f"{line.aside}_{device}",
            step=0,
        )
    yield device_part("lse", "L", "query one", device, LOG_SUM, f"masked_{device}", _LSE_SAYS)


def _merged(devices: int, dropped: int | None) -> Iterator[Stage]:
    """The devices' outputs merged one after the other."""
    left = devices_left(devices, dropped)
    output, lse = f"output_{left[0]}", f"lse_{left[0]}"
    for device in left[1:]:
        yield from _merge(device, output, lse, last=device == left[-1])
        output, lse = f"output_to_{device}", f"lse_to_{device}"
    if len(left) == 1:
        yield stage(_OUTPUT, KEEP, output, _ALONE_SAYS)


def _merge(device: int, output: str, lse: str, *, last: bool) -> Iterator[Stage]:
    """A device's output merged with what those before it have; output and lse: the names of that."""
    sub, where = str(device), f"up to device {device}"
    to = (f"lse_to_{sub}", rf"L_{{\le {sub}}}", mark("L", f"≤{sub}"), f"Log-sum-exp {where}", "query one", 0)
    yield stage(to, LOG_ADD, f"{lse} lse_{sub}", _LOG_SAYS)
    for name, letter, source, title in (
        ("before", "b", lse, f"Part of the devices before {device}"),
        ("own", "a", f"lse_{sub}", f"Part of device {device}"),
    ):
        line = (f"{name}_{sub}", f"{letter}_{{{sub}}}", mark(letter, sub), title, "query one", 0)
        yield stage(line, PART, f"{source} lse_to_{sub}", _PART_SAYS)
    for name, letter, source, factor, title in (
        ("carried", "B", output, "before", f"Carried over to device {device}"),
        ("added", "A", f"output_{sub}", "own", f"Added by device {device}"),
    ):
        symbol = rf"O^{{{letter}}}_{{{sub}}}"
        line = (f"{name}_{sub}", symbol, mark("O", sub, letter), title, "query d_v", 0)
        yield stage(line, TIMES_FIRST, f"{source} {factor}_{sub}", _WEIGHED_SAYS)
    merged = (
        f"output_to_{sub}", rf"O_{{\le {sub}}}", mark("O", f"≤{sub}"), f"Output {where}", "query d_v", 0
    )  # fmt: skip
    yield stage(_OUTPUT if last else merged, ADD, f"carried_{sub} added_{sub}", _MERGED_SAYS)


def _rule(device: int) -> Given:
    """The mask of a device's keys."""
    return replace(
        RULE,
        name=f"mask_{device}",
        symbol=numbered_symbol(RULE.symbol, device),
        mark=numbered_mark(RULE.mark, device),
        title=f"{RULE.title}, device {device}",
        axes=("query", f"key_{device}"),
        step=0,
    )

r"""The operations behind positions: frequencies, waves made of angles, rows turned by angles, distances.

Sinusoids are laid out "interleaved" (sine, cosine, sine, …) or "concatenated" (sines, then cosines); a
rotation pairs neighbouring columns ("interleaved") or column k with column k + W/2 ("half").
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np

from attention_core import worked_positions as by_hand
from attention_core.operations import Array, Operation, Shape, operation, per_cell

Layout = Literal["interleaved", "concatenated"]
Pairing = Literal["interleaved", "half"]

LAYOUTS = ("interleaved", "concatenated")
PAIRINGS = ("interleaved", "half")


def _frequency(exponents: Array, base: Array) -> Array:
    result: Array = base**-exponents
    return result


def _distance(rows: Array, columns: Array) -> Array:
    if rows.shape[-1] != 1 or columns.shape[-2] != 1:
        raise ValueError("one position per row and one per column are needed")
    result: Array = -np.abs(rows - columns)
    return result


def _distance_flops(shapes: Sequence[Shape]) -> int:
    return 3 * shapes[0][-2] * shapes[1][-1]


# fmt: off
FREQUENCY = operation("frequency", _frequency, "cell all", by_hand.frequency, per_cell(2),
                      latex=r"{1}^{{-{0}}}", code="{1} ** -{0}", arrow="{1} to the −{0}")
DISTANCE = operation("minus the distance", _distance, "first top", by_hand.distance, _distance_flops,
                     latex=r"-\left|{0} - {1}\right|",
                     code="-np.abs({0} - {1})", torch="-torch.abs({0} - {1})")
# fmt: on

OPERATIONS = (FREQUENCY, DISTANCE)


@cache
def sines_and_cosines(dim: int, layout: Layout = "interleaved") -> Operation:
    """The operation that makes `dim` columns out of a matrix of angles (…, n, pairs).

    An odd width has one sine more than cosines. Raises ValueError for a layout that is not one of the two.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout is interleaved or concatenated, not {layout!r}")
    pairs = (dim + 1) // 2
    last = f"[..., :{dim}]" if dim % 2 else ""
    if layout == "interleaved":
        code = f"np.stack([np.sin({{0}}), np.cos({{0}})], axis=-1).reshape(*{{0}}.shape[:-1], {2 * pairs})"
        torch = "torch.stack([torch.sin({0}), torch.cos({0})], dim=-1).flatten(-2)"
        reads, place = "angle", _interleaved
    else:
        code = "np.concatenate([np.sin({0}), np.cos({0})], axis=-1)"
        torch = "torch.cat([torch.sin({0}), torch.cos({0})], dim=-1)"
        reads, place = f"angle-half {2 * pairs}", lambda j: (j % pairs, j < pairs)

    def compute(angles: Array) -> Array:
        if angles.shape[-1] != pairs:
            raise ValueError(f"{dim} columns are made of {pairs} angles")
        waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
        if layout == "interleaved":
            waves = waves.reshape(*angles.shape[:-1], 2, pairs).swapaxes(-1, -2).reshape(waves.shape)
        return waves[..., :dim]

    return Operation(
        f"sines and cosines, {layout}, {dim} wide",
        compute,
        r"\operatorname{{sin,cos}}\left({0}\right)",
        code + last,
        torch + last,
        (reads,),
        by_hand.wave(place),
        lambda shapes: shapes[0][-2] * dim,
    )


def _interleaved(j: int) -> tuple[int, bool]:
    return j // 2, j % 2 == 0


@cache
def rotation(width: int, pairing: Pairing = "interleaved", rotary_dim: int = 0) -> Operation:
    """The operation that turns pairs of columns of a matrix (…, n, width) by angles (…, n, rotary_dim / 2).

    rotary_dim columns are turned, the rest stays; 0 turns all. Raises ValueError for an odd number, for more
    columns than there are, and for a pairing other than interleaved and half.
    """
    turned = rotary_dim or width
    if pairing not in PAIRINGS:
        raise ValueError(f"pairing is interleaved or half, not {pairing!r}")
    if turned % 2 or turned > width or turned < 0:
        raise ValueError(f"{turned} of {width} columns cannot be turned: they have to make whole pairs")
    half, function = turned // 2, turn_pairs if pairing == "interleaved" else turn_halves

    def compute(a: Array, angles: Array) -> Array:
        if a.shape[-1] != width or angles.shape[-1] != half or angles.shape[-2] not in (1, a.shape[-2]):
            raise ValueError(f"{width} columns need {half} angles in every row")
        return function(a, np.cos(angles), np.sin(angles))

    def place(j: int) -> tuple[int, int, int] | None:
        if j >= turned:
            return None
        return (j & ~1, j | 1, j >> 1) if pairing == "interleaved" else (j % half, j % half + half, j % half)

    if pairing == "interleaved":
        part = f" {turned}" if turned < width else ""
        reads = (f"pair{part}", f"angle{part}")
    else:
        reads = (f"half {turned}", f"angle-half {turned}")
    return Operation(
        f"rotation, {pairing}, {turned} of {width}",
        compute,
        r"\operatorname{{turn}}\left({0},\; {1}\right)",
        f"{function.__name__}({{0}}, np.cos({{1}}), np.sin({{1}}))",
        _torch_rotation(width, pairing, turned),
        reads,
        by_hand.rotation(place),
        lambda shapes: 3 * shapes[0][-2] * turned + 2 * shapes[0][-2] * half,
        (function,),
        "turned",
    )


def _torch_rotation(width: int, pairing: Pairing, turned: int) -> str:
    """The rotation as one expression in PyTorch."""
    if pairing == "interleaved":
        first, second, joint = f"0:{turned}:2", f"1:{turned}:2", "torch.stack([{0}, {1}], dim=-1).flatten(-2)"
    else:
        first, second, joint = f":{turned // 2}", f"{turned // 2}:{turned}", "torch.cat([{0}, {1}], dim=-1)"
    a, b = f"{{0}}[..., {first}]", f"{{0}}[..., {second}]"
    cos, sin = "torch.cos({1})", "torch.sin({1})"
    both = joint.format(f"{a} * {cos} - {b} * {sin}", f"{a} * {sin} + {b} * {cos}")
    return both if turned == width else f"torch.cat([{both}, {{0}}[..., {turned}:]], dim=-1)"


def turn_pairs(a: Array, cos: Array, sin: Array) -> Array:
    """Columns 0 and 1, 2 and 3, … turned; as many pairs as cos and sin have columns, the rest as it is."""
    width = 2 * cos.shape[-1]
    first, second = a[..., 0:width:2], a[..., 1:width:2]
    turned = np.stack([first * cos - second * sin, first * sin + second * cos], axis=-1)
    turned = turned.reshape(*turned.shape[:-2], width)
    rest = np.broadcast_to(a[..., width:], (*turned.shape[:-1], a.shape[-1] - width))
    return np.concatenate([turned, rest], axis=-1)


def turn_halves(a: Array, cos: Array, sin: Array) -> Array:
    """Columns k and k + W/2 turned, W twice the number of columns of cos and sin, the rest as it is."""
    half = cos.shape[-1]
    first, second = a[..., :half], a[..., half : 2 * half]
    turned = np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
    rest = np.broadcast_to(a[..., 2 * half :], (*turned.shape[:-1], a.shape[-1] - 2 * half))
    return np.concatenate([turned, rest], axis=-1)

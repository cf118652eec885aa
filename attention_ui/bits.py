"""Numbers packed into as few letters as a link needs, and back to the last digit.

    code = version letter + base64url(checksum, blocks)

A block holds some cells of one matrix: which cells (a bitmap over a box that starts at the first
cell) and their values in one of three ways of writing: as a decimal k / 10^p, as a ratio p / q, or
as the eight bytes of the float. Each value goes into the first way that gives back the same float.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache

from attention_core.limits import LONGEST_CODE

VERSION = "1"
EDGE = 16  # rows and columns that a box can have
DECIMAL, RATIO, FLOAT = range(3)
PLACES, MOST_BITS = 9, 48
LARGEST_DENOMINATOR = 255

Cells = Mapping[tuple[int, int], float]


class Writer:
    """Bits, most significant first."""

    def __init__(self) -> None:
        self.value = 0
        self.length = 0

    def put(self, value: int, bits: int) -> None:
        self.value = self.value << bits | value
        self.length += bits

    def bytes(self) -> bytes:
        spare = -self.length % 8
        return (self.value << spare).to_bytes((self.length + spare) // 8, "big")


class Reader:
    """Bits, most significant first; asking for more than there are raises ValueError."""

    def __init__(self, data: bytes) -> None:
        self.value = int.from_bytes(data, "big")
        self.left = 8 * len(data)

    def take(self, bits: int) -> int:
        if bits > self.left:
            raise ValueError("it ends too early")
        self.left -= bits
        return self.value >> self.left & (1 << bits) - 1


def pack(matrices: Mapping[str, Cells], names: tuple[str, ...], name_bits: int = 4) -> str:
    """The code for some cells of some matrices; '' for none.

    Names are told by their place in `names`, in as many bits as said; the code holds no other names.
    """
    writer = Writer()
    for place, name in enumerate(names, start=1):
        for way, cells in _by_way(matrices.get(name, {})):
            writer.put(place, name_bits)
            _put_block(writer, way, cells)
    if not writer.length:
        return ""
    writer.put(0, name_bits)
    body = writer.bytes()
    return VERSION + base64.urlsafe_b64encode(_checksum(body) + body).decode().rstrip("=")


def unpack(code: str, names: tuple[str, ...], name_bits: int = 4) -> dict[str, dict[tuple[int, int], float]]:
    """The cells that `pack` wrote. Raises ValueError with the reason when the code is not whole."""
    if not code:
        return {}
    if len(code) > LONGEST_CODE:
        raise ValueError("it is too long")
    if code[0] != VERSION:
        raise ValueError("it was made by another version")
    try:
        data = base64.b64decode(code[1:] + "=" * (-len(code[1:]) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is damaged") from None
    if len(data) < 4 or _checksum(data[3:]) != data[:3]:
        raise ValueError("it is damaged")
    reader = Reader(data[3:])
    matrices: dict[str, dict[tuple[int, int], float]] = {}
    while place := reader.take(name_bits):
        if place > len(names):
            raise ValueError("it names a matrix that is not known")
        matrices.setdefault(names[place - 1], {}).update(_take_block(reader))
    return matrices


def _checksum(body: bytes) -> bytes:
    return zlib.crc32(VERSION.encode() + body).to_bytes(4, "big")[1:]


def _by_way(cells: Cells) -> Iterator[tuple[int, dict[tuple[int, int], tuple[int, ...]]]]:
    """The cells sorted by the way in which each is written, with what is written for it."""
    ways: tuple[dict[tuple[int, int], tuple[int, ...]], ...] = ({}, {}, {})
    for cell in sorted(cells):
        way, written = _written(cells[cell])
        ways[way][cell] = written
    for way, found in enumerate(ways):
        if found:
            yield way, found


@lru_cache(maxsize=1 << 14)
def _written(value: float) -> tuple[int, tuple[int, ...]]:
    """How one value is written: a way and its whole numbers."""
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be put into a link")
    for places in range(PLACES + 1):
        if abs(value) * 10**places < 1 << MOST_BITS - 2:
            k = round(value * 10**places)
            if k / 10**places == value:
                return DECIMAL, (places, k)
    ratio = Fraction(value).limit_denominator(LARGEST_DENOMINATOR)
    if abs(ratio.numerator) < 1 << MOST_BITS - 2 and ratio.numerator / ratio.denominator == value:
        return RATIO, (ratio.denominator, ratio.numerator)
    return FLOAT, (int.from_bytes(struct.pack(">d", value), "big"),)


def _box(rows: int, columns: int) -> list[tuple[int, int]]:
    """Every cell of a box, row by row."""
    return [(i, j) for i in range(rows) for j in range(columns)]


def _put_block(writer: Writer, way: int, cells: Mapping[tuple[int, int], tuple[int, ...]]) -> None:
    rows = 1 + max(i for i, _ in cells)
    columns = 1 + max(j for _, j in cells)
    if max(rows, columns) > EDGE:
        raise ValueError(f"a link holds {EDGE} rows and columns, not {rows} and {columns}")
    writer.put(rows - 1, 4)
    writer.put(columns - 1, 4)
    whole = len(cells) == rows * columns
    writer.put(whole, 1)
    if not whole:
        here = ["01"[cell in cells] for cell in _box(rows, columns)]
        writer.put(int("".join(here), 2), len(here))
    writer.put(way, 2)
    values = [cells[cell] for cell in sorted(cells)]
    if way == FLOAT:
        for (bits,) in values:
            writer.put(bits, 64)
        return
    if way == DECIMAL:  # one number of places for the block
        places = max(p for p, _ in values)
        writer.put(places, 4)
        wholes = [k * 10 ** (places - p) for p, k in values]
    else:
        wholes = [k for _, k in values]
    width = max(_zigzag(k).bit_length() for k in wholes)
    writer.put(width, 7)
    for value, k in zip(values, wholes, strict=True):
        if way == RATIO:
            writer.put(value[0], 8)
        writer.put(_zigzag(k), width)


def _take_block(reader: Reader) -> dict[tuple[int, int], float]:
    rows, columns = reader.take(4) + 1, reader.take(4) + 1
    every = _box(rows, columns)
    cells = every if reader.take(1) else [cell for cell in every if reader.take(1)]
    way = reader.take(2)
    if way == FLOAT:
        found = {cell: struct.unpack(">d", reader.take(64).to_bytes(8, "big"))[0] for cell in cells}
    elif way == RATIO:
        width, found = reader.take(7), {}
        for cell in cells:
            denominator = reader.take(8)
            if not denominator:
                raise ValueError("it divides by zero")
            found[cell] = _unzigzag(reader.take(width)) / denominator
    elif way == DECIMAL:
        places, width = reader.take(4), reader.take(7)
        found = {cell: _unzigzag(reader.take(width)) / 10**places for cell in cells}
    else:
        raise ValueError("it is written in a way that is not known")
    if not all(math.isfinite(value) for value in found.values()):
        raise ValueError("it holds a number that is not finite")
    return found


def _zigzag(k: int) -> int:
    """Small whole numbers of either sign as small whole numbers: 0 −1 1 −2 2 → 0 1 2 3 4."""
    return 2 * k if k >= 0 else -2 * k - 1


def _unzigzag(k: int) -> int:
    return k >> 1 if k % 2 == 0 else -(k + 1 >> 1)

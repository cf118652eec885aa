"""Files from outside, read within bounds: .npz archives of NumPy arrays, and CSV.

Nothing in a file is run. An archive may be a trap in three ways, and each is met before anything is made of
it: a member may hold pickled Python objects (its header is read first, and only numbers and True or False are
let through); it may unpack to far more than it weighs (its size is taken from the directory of the archive,
and then no more than that is read, whatever the directory says); there may be very many members (they are
counted first). The .npy header is NumPy's format, see numpy.lib.format.

Every refusal is a ValueError with one sentence for readers.
"""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Collection
from math import prod
from tokenize import TokenError

import numpy as np
from numpy.typing import NDArray

from attention_core.limits import LARGEST_FILE, LARGEST_MEMBER, LONGEST_HEADER, MOST_MEMBERS
from attention_core.numbers import parse_block, parse_number
from attention_core.operations import Array

WORDS = {
    "-inf": -np.inf,
    "−inf": -np.inf,
    "−∞": -np.inf,
    "-∞": -np.inf,
    "inf": np.inf,
    "∞": np.inf,
    "nan": np.nan,
}
HEADER_ERRORS = (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError, TokenError)
"""What NumPy raises for headers that are none: it reads them as Python writes a value."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def check_size(name: str, size: int) -> None:
    """Raise ValueError for a file that is too large to be looked into."""
    if size > LARGEST_FILE:
        raise ValueError(
            f"“{_short(name)}” has {size:,} bytes, and at most {LARGEST_FILE:,} are read; it was not opened"
        )


def read_npz(name: str, data: bytes, wanted: Collection[str]) -> dict[str, Array]:
    """The arrays of those names in an archive as NumPy's savez writes it, as float64; others are left alone.

    Raises ValueError where it is no such archive, holds anything but numbers, is too large packed or
    unpacked, or holds none of these names.
    """
    check_size(name, len(data))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_directory(name, members)
            found = {
                member.filename.removesuffix(".npy"): _array(name, archive, member)
                for member in members
                if member.filename.removesuffix(".npy") in wanted
            }
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError):
        raise ValueError(
            f"“{_short(name)}” cannot be read as a NumPy archive (.npz); nothing was loaded"
        ) from None
    if not found:
        raise ValueError(f"“{_short(name)}” holds none of the arrays {', '.join(wanted)}; nothing was loaded")
    return found


def _check_directory(name: str, members: list[zipfile.ZipInfo]) -> None:
    """Refuse an archive by its directory alone, before anything is unpacked."""
    if len(members) > MOST_MEMBERS:
        raise ValueError(
            f"“{_short(name)}” holds {len(members):,} files, and at most {MOST_MEMBERS} are looked at; "
            "nothing was loaded"
        )
    largest = max((member.file_size for member in members), default=0)
    if largest > LARGEST_MEMBER:
        raise _too_much(name, f"{largest:,}")
    if any(member.flag_bits & 1 or member.compress_type not in _METHODS for member in members):
        raise ValueError(f"“{_short(name)}” is encrypted or packed in an unusual way; nothing was loaded")


def _array(name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """One member of the archive, never more of it than LARGEST_MEMBER."""
    with archive.open(member) as stream:
        data = stream.read(LARGEST_MEMBER + 1)
    if len(data) > LARGEST_MEMBER:
        raise _too_much(name, f"more than {LARGEST_MEMBER:,}")
    return _numbers(name, member.filename, data)


def _numbers(name: str, member: str, data: bytes) -> Array:
    """The numbers of a .npy file; its header is looked at before its content."""
    place = f"{_short(member)} in “{_short(name)}”"
    stream = io.BytesIO(data)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        reader = readers[np.lib.format.read_magic(stream)]
        shape, by_columns, kind = reader(stream, max_header_size=LONGEST_HEADER)
    except HEADER_ERRORS:
        raise ValueError(f"{place} is not an array as NumPy saves it; nothing was loaded") from None
    if kind.hasobject or kind.kind not in "iufb":
        raise ValueError(
            f"{place} holds {'Python objects' if kind.hasobject else str(kind)}, and numbers are needed; "
            "nothing was loaded"
        )
    content = data[stream.tell() :]
    if any(size < 0 for size in shape) or prod(shape) * kind.itemsize != len(content):
        raise ValueError(f"{place} has not as many numbers as its shape says; nothing was loaded")
    array: NDArray[np.generic] = np.frombuffer(content, dtype=kind)
    return array.reshape(shape, order="F" if by_columns else "C").astype(np.float64)


def read_csv(name: str, data: bytes, shape: tuple[int, int]) -> Array:
    """A matrix from a CSV file: numbers alone, or with a line and a column of headings as this app writes it.

    Commas, semicolons, tabs and blanks may separate; the shape that is expected decides where "1,2" could be
    one number or two. Raises ValueError, naming the first cell that is no number, and for other shapes.
    """
    check_size(name, len(data))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"“{_short(name)}” is not a text file in UTF-8; nothing was loaded") from None
    ways = []
    try:
        ways.append(parse_block(text))
        ways.append(list(csv.reader(io.StringIO(text.rstrip("\r\n"), newline=""))))
    except (ValueError, csv.Error) as reason:
        raise ValueError(f"“{_short(name)}”: {reason}; nothing was loaded") from None
    ways += [_without_headings(rows) for rows in ways]
    rows = next((rows for rows in ways if _shape(rows) == shape), None)
    if rows is None:
        have = max((shape for shape in map(_shape, ways[:2]) if shape), key=prod, default=None)
        what = f"is {_by(have)}" if have else "has rows of different lengths"
        raise ValueError(f"“{_short(name)}” {what}, and {_by(shape)} is expected; nothing was loaded")
    return np.array(
        [[_cell(name, i, j, cell) for j, cell in enumerate(row)] for i, row in enumerate(rows)],
        dtype=np.float64,
    )


def _cell(name: str, i: int, j: int, text: str) -> float:
    word = text.strip().lower()
    if word in WORDS:
        return WORDS[word]
    try:
        return parse_number(text)
    except ValueError as reason:
        raise ValueError(
            f"“{_short(name)}”, row {i + 1}, column {j + 1}: {reason}; nothing was loaded"
        ) from None


def _without_headings(rows: list[list[str]]) -> list[list[str]]:
    return [row[1:] for row in rows[1:]]


def _shape(rows: list[list[str]]) -> tuple[int, int] | None:
    """Rows and columns; None where rows differ in length."""
    widths = {len(row) for row in rows}
    return (len(rows), widths.pop()) if len(widths) == 1 else None


def _by(shape: tuple[int, int]) -> str:
    return f"{shape[0]} × {shape[1]}"


def _too_much(name: str, size: str) -> ValueError:
    return ValueError(
        f"a file in “{_short(name)}” unpacks to {size} bytes, and at most {LARGEST_MEMBER:,} are read; "
        "nothing was loaded"
    )


def _short(name: str) -> str:
    """A file's name as it can stand in a sentence."""
    shown = "".join(letter if letter.isprintable() else "·" for letter in name[:40])
    return shown + "…" * (len(name) > 40)

"""Numbers as people write them and as the screen shows them: the only place for either.

What a reader may type, in a grammar of five lines (no program text is ever run):

    number  = product, at most 64 characters
    product = factor { ("*" | "×" | "·" | "/") factor }
    factor  = [ "+" | "-" | "−" | "–" ] value
    value   = numeral | "sqrt" "(" product ")" | "√" value | "(" product ")"
    numeral = digits with at most one "." or "," and an optional exponent: 2  .5  0,5  1e-3

A comma is a decimal comma. `1,000` could mean 1 or 1000, so it is refused, as is everything else
with thousands separators; `0,125` and `1,0005` can only mean one thing and are read. A point is
always a decimal point. A numeral that float64 cannot hold (1e999, 1e-999) is refused, never
rounded to ∞ or 0. Every refusal is a ValueError whose text can follow "Q, row 1, column 2: ".
"""

from __future__ import annotations

import csv
import io
import math
import re
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from attention_core.limits import LARGEST_BLOCK, LONGEST_BLOCK, LONGEST_NUMBER

CACHED = 1 << 15  # numbers whose text is kept: an edit changes few, and a text costs 2 µs

_NUMERAL = re.compile(r"(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][-+−–]?[0-9]+)?")
_TOKEN = re.compile(rf"\s*({_NUMERAL.pattern}|sqrt|[-+−–*×·/()√])", re.IGNORECASE)
_GROUPED = re.compile(
    r"(?P<whole>[1-9][0-9]{0,2}(?P<mark>[.,'’\s])[0-9]{3}(?:(?P=mark)[0-9]{3})*)"
    r"(?P<fraction>(?!(?P=mark))[.,][0-9]*)?"
)
_SIGNS = {"+": 1.0, "-": -1.0, "−": -1.0, "–": -1.0}
_INVISIBLE = "\ufeff\u200b\u200e\u200f"


def parse_number(text: str) -> float:
    """The number a reader means by `text`: 7, -2.25, −2, .5, 0,5, 1e3, 1/3, sqrt(2), -√2/2.

    Raises ValueError with a short sentence when the text is empty, is not a number, is ambiguous,
    divides by zero, takes the root of a negative number, or is too large or too small for float64.
    """
    text = text.strip().strip(_INVISIBLE).strip()
    if not text:
        raise ValueError("the field is empty")
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"{_quoted(text)} is longer than {LONGEST_NUMBER} characters")
    _refuse_separators(text)
    return _Reader(text).number() + 0.0  # −0 becomes 0


class _Reader:
    """Reads one number by recursive descent; the text is short, so the recursion is shallow."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0

    def number(self) -> float:
        value = self.product()
        if self.at < len(self.tokens):
            raise self.not_a_number()
        return value

    def product(self) -> float:
        value = self.factor()
        while (sign := self.take("*×·/")) is not None:
            right = self.factor()
            if sign == "/" and right == 0:
                raise ValueError(f"{self.text} divides by zero")
            result = value / right if sign == "/" else value * right
            value = self.held(result, vanished=result == 0 and value != 0 and right != 0)
        return value

    def factor(self) -> float:
        sign = self.take("+-−–")
        return self.value() if sign is None else _SIGNS[sign] * self.value()

    def value(self) -> float:
        if self.take("(") is not None:
            return self.closed()
        if self.take("√") is not None:
            return self.root(self.value())
        if self.take_word("sqrt"):
            if self.take("(") is None:
                raise self.not_a_number()
            return self.root(self.closed())
        return self.numeral()

    def closed(self) -> float:
        value = self.product()
        if self.take(")") is None:
            raise self.not_a_number()
        return value

    def root(self, value: float) -> float:
        if value < 0:
            raise ValueError(f"{self.text} takes the root of a negative number")
        return math.sqrt(value)

    def numeral(self) -> float:
        token = self.tokens[self.at] if self.at < len(self.tokens) else ""
        if not _NUMERAL.fullmatch(token):
            raise self.not_a_number()
        self.at += 1
        token = token.replace(",", ".").replace("−", "-").replace("–", "-")
        value = float(token)
        mantissa = token.lower().partition("e")[0]
        return self.held(value, vanished=value == 0 and mantissa.strip("0.") != "")

    def take(self, signs: str) -> str | None:
        """The next token if it is one of these signs, else None."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else ""
        if len(token) != 1 or token not in signs:
            return None
        self.at += 1
        return token

    def take_word(self, word: str) -> bool:
        found = self.at < len(self.tokens) and self.tokens[self.at].lower() == word
        self.at += found
        return found

    def held(self, value: float, *, vanished: bool) -> float:
        if not math.isfinite(value):
            raise ValueError(f"{self.text} is too large to hold")
        if vanished:
            raise ValueError(f"{self.text} is too close to zero to hold")
        return value

    def not_a_number(self) -> ValueError:
        return _not_a_number(self.text)


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _not_a_number(text)
        tokens.append(match.group(1))
        at = match.end()
    return tokens


def _refuse_separators(text: str) -> None:
    """Refuse thousands separators, saying how the number can be written."""
    for run in re.findall(r"[0-9][0-9.,'’\s]*", text):
        match = _GROUPED.fullmatch(run.strip())
        if match is None:
            continue
        mark, fraction = match["mark"], match["fraction"] or ""
        plain = re.sub("[^0-9]", "", match["whole"]) + (fraction and f".{fraction[1:]}")
        if match[0].count(mark) == 1 and not fraction and mark in ".,":
            if mark == ",":
                decimal = match[0].replace(",", ".")
                raise ValueError(f"{_quoted(match[0])} could mean {decimal} or {plain}: write one of these")
        else:
            raise ValueError(f"{_quoted(match[0])} has thousands separators: write {plain}")


def _not_a_number(text: str) -> ValueError:
    if any(c.isdigit() and c not in "0123456789" for c in text):
        return ValueError(f"{_quoted(text)} has digits other than 0 to 9")
    if re.sub(r"[-+−–\s]", "", text).lower() in ("inf", "infinity", "∞"):
        return ValueError(f"{_quoted(text)} is not a finite number")
    return ValueError(f"{_quoted(text)} is not a number")


def _quoted(text: str) -> str:
    """The text between quotation marks, on one line and cut where it would be long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:200]).split())
    return f"“{line[:23]}…”" if len(line) > 24 else f"“{line}”"


def parse_block(text: str) -> list[list[str]]:
    """The cells of a block pasted from a spreadsheet, row by row; rows may differ in length.

    Tabs separate cells as spreadsheets copy them (cells in double quotes are opened up). Without tabs,
    semicolons separate; without those, commas that cannot be decimal commas ("1,2,3", "0.5,1", "1, 2");
    else runs of spaces. So "0,5" is one number, "0,5 1,5" two, "0.5,1.5,2" three, and "1,2" is 1.2.
    A block in square brackets, as NumPy or JSON writes it, is read too.

    Raises ValueError when the block is empty, longer than 100,000 characters or larger than 64 × 64.
    """
    if len(text) > LONGEST_BLOCK:
        raise ValueError(f"the block is longer than {LONGEST_BLOCK:,} characters")
    text = _opened(text.strip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip("\n"))
    if not text.strip():
        raise ValueError("the block is empty")
    rows = _split(text)
    height, width = len(rows), max(len(row) for row in rows)
    if height > LARGEST_BLOCK or width > LARGEST_BLOCK:
        raise ValueError(
            f"the block is {height} × {width}, and at most {LARGEST_BLOCK} × {LARGEST_BLOCK} can be pasted"
        )
    return rows


def _opened(text: str) -> str:
    """The text without the square brackets of a NumPy or JSON array: one row a line."""
    if not text.lstrip().startswith("["):
        return text
    rows = re.sub(r"\]\s*,?\s*\[", "\n", text.strip())
    return "\n".join(line.strip(" \t,") for line in rows.strip("[] \t\n").split("\n"))


def _split(text: str) -> list[list[str]]:
    for separator in "\t;":
        if separator in text:
            return _separated(text, separator)
    words = [word.strip(",") for word in text.split()]
    if any("," in word and _cannot_be_one_number(word) for word in words):
        return _separated(text, ",")
    pattern = r"\s*,[ ]+|[ ]+," if re.search(r",[ ]|[ ],", text) else r"[ ]+"
    text = re.sub(r"[ ]*([*×·/])[ ]*", r"\1", text)  # "1 / 3" is one cell
    text = re.sub(r"(?<=[0-9])[ ](?=0[0-9]{2}\b)", "\u00a0", text)  # so is "1 000", to be refused as a number
    return [[_unquoted(cell) for cell in re.split(pattern, line.strip())] for line in text.split("\n")]


def _separated(text: str, separator: str) -> list[list[str]]:
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    except csv.Error as error:
        raise ValueError(f"the block cannot be read as a table: {error}") from None
    return [[cell.strip(" ") for cell in row] or [""] for row in rows]


def _cannot_be_one_number(word: str) -> bool:
    """True for "1,2,3" and "0.5,1", where commas stand between numbers; False for "1,000.5"."""
    return _GROUPED.fullmatch(word.lstrip("+-−–")) is None and (word.count(",") > 1 or "." in word)


def _unquoted(cell: str) -> str:
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def show(value: float) -> str:
    """The number as the screen writes it: 2, 0.71, −3, 1234.6, 1.2e5, −∞; at most 8 characters.

    Integers have no point, other numbers two decimals (one from 1000), numbers from 100,000 two digits
    and an exponent. What rounds to zero is 0.00 without a sign, and 0 is zero itself. An integer missed by
    rounding error alone (within 1e-12 of its size) is written as that integer: 0.9999999999999999 is 1.
    """
    return _shown(float(value))


@lru_cache(maxsize=CACHED)
def _shown(value: float) -> str:
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "−∞"
    text = _unsigned(abs(value))
    return f"−{text}" if value < 0 and text != "0.00" else text


def _unsigned(size: float) -> str:
    if size >= 99_999.95:
        mantissa, _, exponent = f"{size:.1e}".partition("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    nearest = round(size)
    if size == nearest or (nearest and abs(size - nearest) <= 1e-12 * size):
        return str(nearest)
    return f"{size:.2f}" if size < 999.995 else f"{size:.1f}"


def show_table(array: ArrayLike) -> list[list[str]]:
    """`show` of every cell of a matrix (n, d), row by row: 16 × 16 cells take about 0.2 ms.

    Raises ValueError when `array` has not two axes.
    """
    matrix = np.asarray(array, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"a table has two axes, not the shape {matrix.shape}")
    return [[_shown(value) for value in row] for row in matrix.tolist()]


def exact(value: float) -> str:
    """The shortest text that `parse_number` reads back as the same float: 0.1, -3, 1e-9.

    Raises ValueError for NaN and infinities, which cannot be entered.
    """
    return _exact(float(value))


@lru_cache(maxsize=CACHED)
def _exact(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{show(value)} cannot be written as a number")
    if value == 0:
        return "0"
    if 1e-6 <= abs(value) < 1e16:
        return np.format_float_positional(value, trim="-")
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"

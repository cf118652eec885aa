r"""How the arithmetic of a cell is written: numbers, signs and long sums, as text and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import isclose, isnan

Show = Callable[[float], str]

TERMS_PER_LINE = 8
KEPT = 1 << 13  # short texts that come again in cell after cell


def cell(symbol: str, i: int, j: int) -> str:
    """The cell's name in LaTeX, counted from 1: S_{1,2}, (K^⊤)_{1,2}."""
    base = rf"\left({symbol}\right)" if "_" in symbol or "^" in symbol else symbol
    return f"{base}_{{{i + 1},{j + 1}}}"


@lru_cache(maxsize=KEPT)
def tex(text: str) -> str:
    """A number, or a product of two, as the formatter writes it, in LaTeX."""
    text = re.sub(r"e(−?\d+)", r" \\cdot 10^{\1}", text)
    for plain, command in (
        ("−", "-"),
        ("∞", r"\infty"),
        ("×", r" \times "),
        ("²", "^2"),
        ("not a number", r"\text{not a number}"),
        (" (takes no part)", r"\text{ (takes no part)}"),
    ):
        text = text.replace(plain, command)
    return text


def visible(number: float, show: Show) -> str:
    """The number as the formatter writes it; where it would be written as zero without being it, 1e−5."""
    text = show(number)
    if number == 0 or read(text) != 0:
        return text
    mantissa, _, exponent = f"{number:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}".replace("-", "−")


def factor(text: str) -> str:
    """A negative number in parentheses."""
    return f"({text})" if text.startswith(("−", "-")) else text


def equals(numbers: Iterable[float], texts: Iterable[str]) -> str:
    """= where every text says its number, LaTeX's ≈ where one was rounded."""
    pairs = [(float(number), read(text)) for number, text in zip(numbers, texts, strict=True)]
    same = all(isclose(a, b, rel_tol=1e-12, abs_tol=1e-15) or (isnan(a) and isnan(b)) for a, b in pairs)
    return "=" if same else r"\approx"


def plain_sign(sign: str) -> str:
    return "=" if sign == "=" else "≈"


@lru_cache(maxsize=KEPT)
def read(text: str) -> float:
    """The number that a shown text stands for; NaN for "not a number"."""
    try:
        return float(text.replace("−", "-").replace("∞", "inf"))
    except ValueError:
        return float("nan")


def wrapped(start: str, terms: Sequence[str], joint: str = "+ ") -> list[str]:
    """Terms joined, a few to a line."""
    chunks = [terms[k : k + TERMS_PER_LINE] for k in range(0, len(terms), TERMS_PER_LINE)] or [()]
    spaced = joint if joint[0] == "," else f" {joint}"
    return [
        start + spaced.join(chunks[0]),
        *(rf"&\quad {'' if joint[0] == ',' else joint}{spaced.join(chunk)}" for chunk in chunks[1:]),
    ]


def listed(start: str, values: Sequence[float], show: Show) -> list[str]:
    """Numbers in parentheses with commas, a few to a line."""
    lines = wrapped(f"{start}(", [tex(show(v)) for v in values], r",\; ")
    return [*(line + "," for line in lines[:-1]), lines[-1] + ")"]

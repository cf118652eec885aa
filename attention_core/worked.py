r"""One cell of a matrix, worked by hand with the numbers that made it.

Every function takes (inputs, i, j, show) and gives a Work: one plain line for a tooltip or a screen
reader, and the lines of an aligned LaTeX block, in which long sums go on over several lines and nothing
is left out. "=" stands where the line holds for the numbers as they are shown, "≈" where rounding shows.

Further keywords: `name`, the cell in LaTeX; `result`, its number as computed; `titles` and `symbols` of the
inputs; `aside`, the line that the stage looks at beside its inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isclose, isfinite, isnan, sqrt
from typing import Any

import numpy as np

Show = Callable[[float], str]

TERMS_PER_LINE = 8


@dataclass(frozen=True)
class Work:
    """The arithmetic of one cell: `text` on one line, `latex` as the lines of an aligned block."""

    text: str
    latex: tuple[str, ...]


def dot(
    inputs: Sequence[Any],
    i: int,
    j: int,
    show: Show,
    *,
    name: str = "",
    aside: Any = None,
    result: float | None = None,
    **_: Any,
) -> Work:
    """Row i of the left factor times column j of the right one, term by term."""
    row, column = inputs[0][i].tolist(), inputs[1][:, j].tolist()
    if not row:
        return Work("nothing to add up: 0", (rf"{name} &= 0 \quad \text{{there is nothing to add up}}",))
    left_out = [
        aside is not None and aside[i, k] == -np.inf and not isfinite(b) for k, b in enumerate(column)
    ]
    products = [0.0 if out else a * b for a, b, out in zip(row, column, left_out, strict=True)]
    total = show(sum(products) if result is None else result)
    lefts, rights, parts = ([show(number) for number in numbers] for numbers in (row, column, products))
    terms = [
        f"{_factor(a)}×{_factor(b)}{' (takes no part)' if out else ''}"
        for a, b, out in zip(lefts, rights, left_out, strict=True)
    ]
    again = [0.0 if out else _read(a) * _read(b) for a, b, out in zip(lefts, rights, left_out, strict=True)]
    lines = _wrapped(f"{name} &= ", [tex(term) for term in terms])
    if len(parts) > 1:
        added = [parts[0], *map(_factor, parts[1:])]
        lines += _wrapped(f"&{equals(again, parts)} ", [tex(term) for term in added])
    lines.append(f"&{equals([sum(map(_read, parts)) if len(parts) > 1 else again[0]], [total])} {tex(total)}")
    return Work(f"{' + '.join(terms)} {_plain(equals([sum(again)], [total]))} {total}", tuple(lines))


def swap(
    inputs: Sequence[Any],
    i: int,
    j: int,
    show: Show,
    *,
    name: str = "",
    titles: Sequence[str] = ("the matrix",),
    symbols: Sequence[str] = ("A",),
    **_: Any,
) -> Work:
    """The cell on the other side of the diagonal."""
    value = show(inputs[0][j, i])
    return Work(
        f"row {j + 1}, column {i + 1} of {titles[0]}: {value}",
        (f"{name} &= {cell(symbols[0], j, i)}", f"&= {tex(value)}"),
    )


def keep(inputs: Sequence[Any], i: int, j: int, show: Show, *, name: str = "", **_: Any) -> Work:
    """The number as it was."""
    value = show(inputs[0][i, j])
    return Work(f"{value} stays {value}", (rf"{name} &= {tex(value)} \quad \text{{unchanged}}",))


def quotient(
    inputs: Sequence[Any],
    i: int,
    j: int,
    show: Show,
    *,
    name: str = "",
    result: float | None = None,
    **_: Any,
) -> Work:
    """One number over another; a divisor that is the root of a whole number is written as that root."""
    number, divisor = float(inputs[0][i, j]), float(inputs[1])
    top, bottom, value = show(number), show(divisor), show(_or(result, lambda: number / divisor))
    sign = equals([_ratio(_read(top), _read(bottom))], [value])
    text = f"{top} / {_factor(bottom)} {_plain(sign)} {value}"
    fraction = rf"\frac{{{tex(top)}}}{{{tex(bottom)}}}"
    square = round(divisor * divisor) if isfinite(divisor) else 0
    if square < 1 or not isclose(divisor, sqrt(square), rel_tol=1e-12):
        return Work(text, (f"{name} &= {fraction}", f"&{sign} {tex(value)}"))
    step = equals([divisor], [bottom])
    return Work(
        f"{top} / √{square} {_plain(step)} {text}",
        (
            rf"{name} &= \frac{{{tex(top)}}}{{\sqrt{{{square}}}}}",
            f"&{step} {fraction}",
            f"&{sign} {tex(value)}",
        ),
    )


def times(
    inputs: Sequence[Any],
    i: int,
    j: int,
    show: Show,
    *,
    name: str = "",
    result: float | None = None,
    **_: Any,
) -> Work:
    """One number times another."""
    a, b = float(inputs[0][i, j]), float(inputs[1])
    left, right, value = _factor(show(a)), show(b), show(_or(result, lambda: a * b))
    return _two(left, "×", right, value, _read(show(a)) * _read(right), name)


def capped(
    inputs: Sequence[Any],
    i: int,
    j: int,
    show: Show,
    *,
    name: str = "",
    result: float | None = None,
    **_: Any,
) -> Work:
    """cap · tanh(x / cap)."""
    score, size = float(inputs[0][i, j]), float(inputs[1])
    x, cap, ratio = show(score), show(size), show(score / size)
    value = show(_or(result, lambda: size * float(np.tanh(score / size))))
    step = equals([_ratio(_read(x), _read(cap))], [ratio])
    sign = equals([_read(cap) * float(np.tanh(_read(ratio)))], [value])
    return Work(
        f"{cap} × tanh({x} / {cap}) {_plain(step)} {cap} × tanh({ratio}) {_plain(sign)} {value}",
        (
            rf"{name} &= {tex(cap)} \times \tanh\left(\frac{{{tex(x)}}}{{{tex(cap)}}}\right)",
            rf"&{step} {tex(cap)} \times \tanh({tex(ratio)})",
            f"&{sign} {tex(value)}",
        ),
    )


def plus(
    inputs: Sequence[Any],
    i: int,
    j: int,
    show: Show,
    *,
    name: str = "",
    result: float | None = None,
    **_: Any,
) -> Work:
    """One number plus another."""
    a, b = float(inputs[0][i, j]), float(_at(inputs[1], i, j))
    left, right, value = show(a), show(b), show(_or(result, lambda: a + b))
    return _two(left, "+", right, value, _read(left) + _read(right), name)


def mask(inputs: Sequence[Any], i: int, j: int, show: Show, *, name: str = "", **_: Any) -> Work:
    """Plus 0 where the query may look, plus −∞ where not."""
    score = show(float(inputs[0][i, j]))
    if _at(inputs[1], i, j):
        return _two(score, "+", show(0.0), score, _read(score), name)
    return _two(score, "+", show(-np.inf), show(-np.inf), -np.inf, name)


def share(
    inputs: Sequence[Any],
    i: int,
    j: int,
    show: Show,
    *,
    name: str = "",
    result: float | None = None,
    **_: Any,
) -> Work:
    """The row's maximum taken off, each e^(s − m), their sum, and the quotient."""
    row = inputs[0][i].tolist()
    lines = _listed("s &= ", row, show)
    if all(s == -np.inf for s in row):
        why = "this query may look nowhere, so its weight is 0"
        return Work(
            f"every entry of row {i + 1} is −∞: {why}",
            (*lines, rf"{name} &= 0 \quad \text{{every entry is }} {{-\infty}}\text{{: {why}}}"),
        )
    if any(isnan(s) or s == np.inf for s in row):
        why = "the row holds ∞ or something that is not a number, so its shares have no value"
        return Work(f"{why}: {show(np.nan)}", (*lines, rf"{name} &= {tex(show(np.nan))}"))
    below = [score - max(row) for score in row]
    powers = np.exp(below).tolist()
    top, power, total = show(max(row)), show(powers[j]), show(sum(powers))
    value = show(_or(result, lambda: powers[j] / sum(powers)))
    sign = equals([_ratio(_read(power), _read(total))], [value])
    lines += [rf"m &= \max s = {tex(top)}"]
    lines += _listed(
        f"s - m &{equals([_read(show(s)) - _read(top) for s in row], map(show, below))} ", below, show
    )
    lines += _listed(
        f"e^{{s - m}} &{equals(np.exp([_read(show(b)) for b in below]), map(show, powers))} ", powers, show
    )
    lines += _total(powers, show)
    lines += [rf"{name} &= \frac{{{tex(power)}}}{{{tex(total)}}} {sign} {tex(value)}"]
    exps = [f"e^({show(s)} − {_factor(top)})" for s in row]
    near = _plain(equals([*np.exp(below), sum(powers)], [*map(show, powers), total]))
    return Work(
        f"{exps[j]} / ({' + '.join(exps)}) {near} {power} / {total} {_plain(sign)} {value}", tuple(lines)
    )


def log_sum(
    inputs: Sequence[Any],
    i: int,
    j: int,
    show: Show,
    *,
    name: str = "",
    result: float | None = None,
    **_: Any,
) -> Work:
    """m + log Σ e^(s − m) over row i."""
    row = inputs[0][i].tolist()
    lines = _listed("s &= ", row, show)
    largest = max(row, default=-np.inf)
    if not isfinite(largest):
        return Work(
            f"the largest entry of row {i + 1} is {show(largest)}: {show(largest)}",
            (*lines, f"{name} &= {tex(show(largest))}"),
        )
    powers = np.exp(np.array(row) - largest).tolist()
    top, total = show(largest), show(sum(powers))
    value = show(_or(result, lambda: largest + float(np.log(sum(powers)))))
    sign = equals([_read(top) + float(np.log(_read(total)))], [value])
    return Work(
        f"{top} + log {total} {_plain(sign)} {value}",
        (
            *lines,
            rf"m &= \max s = {tex(top)}",
            *_total(powers, show),
            rf"{name} &= {tex(top)} + \log {tex(total)} {sign} {tex(value)}",
        ),
    )


def cell(symbol: str, i: int, j: int) -> str:
    """The cell's name in LaTeX, counted from 1: S_{1,2}, (K^⊤)_{1,2}."""
    base = rf"\left({symbol}\right)" if "_" in symbol or "^" in symbol else symbol
    return f"{base}_{{{i + 1},{j + 1}}}"


def tex(text: str) -> str:
    """A number, or a product of two, as the formatter writes it, in LaTeX."""
    text = re.sub(r"e(−?\d+)", r" \\cdot 10^{\1}", text)
    for plain, command in (
        ("−", "-"),
        ("∞", r"\infty"),
        ("×", r" \times "),
        ("not a number", r"\text{not a number}"),
        (" (takes no part)", r"\text{ (takes no part)}"),
    ):
        text = text.replace(plain, command)
    return text


def _two(left: str, mark: str, right: str, value: str, again: float, name: str) -> Work:
    """Two shown numbers and a mark between them; again: what they come to as shown."""
    sign, right = equals([again], [value]), _factor(right)
    return Work(
        f"{left} {mark} {right} {_plain(sign)} {value}",
        (f"{name} &= {tex(left)} {tex(mark).strip()} {tex(right)}", f"&{sign} {tex(value)}"),
    )


def _total(powers: Sequence[float], show: Show) -> list[str]:
    shown, total = [show(p) for p in powers], show(sum(powers))
    lines = _wrapped(r"\textstyle\sum e^{s - m} &= ", [tex(text) for text in shown])
    return [*lines, f"&{equals([sum(map(_read, shown))], [total])} {tex(total)}"]


def _or(result: float | None, compute: Callable[[], float]) -> float:
    return compute() if result is None else result


def _at(matrix: Any, i: int, j: int) -> Any:
    """Cell (i, j) of a matrix that may have one row or one column standing for all of them."""
    rows, columns = matrix.shape
    return matrix[i if rows > 1 else 0, j if columns > 1 else 0]


def _factor(text: str) -> str:
    """A negative number in parentheses."""
    return f"({text})" if text.startswith(("−", "-")) else text


def equals(numbers: Iterable[float], texts: Iterable[str]) -> str:
    """= where every text says its number, LaTeX's ≈ where one was rounded."""
    pairs = [(float(number), _read(text)) for number, text in zip(numbers, texts, strict=True)]
    same = all(isclose(a, b, rel_tol=1e-12, abs_tol=1e-15) or (isnan(a) and isnan(b)) for a, b in pairs)
    return "=" if same else r"\approx"


def _plain(sign: str) -> str:
    return "=" if sign == "=" else "≈"


def _read(text: str) -> float:
    """The number that a shown text stands for; NaN for "not a number"."""
    try:
        return float(text.replace("−", "-").replace("∞", "inf"))
    except ValueError:
        return float("nan")


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom else float("nan")


def _wrapped(start: str, terms: Sequence[str], joint: str = "+ ") -> list[str]:
    """Terms joined, a few to a line."""
    chunks = [terms[k : k + TERMS_PER_LINE] for k in range(0, len(terms), TERMS_PER_LINE)] or [()]
    spaced = joint if joint[0] == "," else f" {joint}"
    return [
        start + spaced.join(chunks[0]),
        *(rf"&\quad {'' if joint[0] == ',' else joint}{spaced.join(chunk)}" for chunk in chunks[1:]),
    ]


def _listed(start: str, values: Sequence[float], show: Show) -> list[str]:
    """Numbers in parentheses with commas, a few to a line."""
    lines = _wrapped(f"{start}(", [tex(show(v)) for v in values], r",\; ")
    return [*(line + "," for line in lines[:-1]), lines[-1] + ")"]

r"""One cell of a matrix, worked by hand with the numbers that made it.

Every function takes (inputs, i, j, show) and gives a Work: one plain line for a tooltip or a screen
reader, and the lines of an aligned LaTeX block, in which long sums go on over several lines and nothing
is left out. "=" stands where the line holds for the numbers as they are shown, "≈" where rounding shows.

Further keywords: `name`, the cell in LaTeX; `result`, its number as computed; `titles` and `symbols` of the
inputs; `aside`, the line that the stage looks at beside its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isclose, isfinite, isnan, sqrt
from typing import Any

import numpy as np

from attention_core.written import Show, cell, equals, factor, listed, plain_sign, read, tex, wrapped


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
        f"{factor(a)}×{factor(b)}{' (takes no part)' if out else ''}"
        for a, b, out in zip(lefts, rights, left_out, strict=True)
    ]
    again = [0.0 if out else read(a) * read(b) for a, b, out in zip(lefts, rights, left_out, strict=True)]
    lines = wrapped(f"{name} &= ", [tex(term) for term in terms])
    if len(parts) > 1:
        added = [parts[0], *map(factor, parts[1:])]
        lines += wrapped(f"&{equals(again, parts)} ", [tex(term) for term in added])
    lines.append(f"&{equals([sum(map(read, parts)) if len(parts) > 1 else again[0]], [total])} {tex(total)}")
    return Work(f"{' + '.join(terms)} {plain_sign(equals([sum(again)], [total]))} {total}", tuple(lines))


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


def taken(
    inputs: Sequence[Any],
    which: int,
    i: int,
    j: int,
    show: Show,
    *,
    name: str = "",
    titles: Sequence[str] = (),
    symbols: Sequence[str] = (),
    **_: Any,
) -> Work:
    """Cell (i, j) of one of the inputs, taken over as it is."""
    value = show(float(inputs[which][i, j]))
    title = titles[which] if titles else "the matrix"
    return Work(
        f"row {i + 1}, column {j + 1} of {title}: {value}",
        (f"{name} &= {cell(symbols[which] if symbols else 'A', i, j)}", f"&= {tex(value)}"),
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
    top, bottom, value = show(number), show(divisor), show(known(result, lambda: number / divisor))
    sign = equals([ratio(read(top), read(bottom))], [value])
    text = f"{top} / {factor(bottom)} {plain_sign(sign)} {value}"
    fraction = rf"\frac{{{tex(top)}}}{{{tex(bottom)}}}"
    square = round(divisor * divisor) if isfinite(divisor) else 0
    if square < 1 or not isclose(divisor, sqrt(square), rel_tol=1e-12):
        return Work(text, (f"{name} &= {fraction}", f"&{sign} {tex(value)}"))
    step = equals([divisor], [bottom])
    return Work(
        f"{top} / √{square} {plain_sign(step)} {text}",
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
    a, b = float(inputs[0][i, j]), float(at(inputs[1], i, j))
    left, right, value = factor(show(a)), show(b), show(known(result, lambda: a * b))
    return two(left, "×", right, value, read(show(a)) * read(right), name)


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
    x, cap, inner = show(score), show(size), show(score / size)
    value = show(known(result, lambda: size * float(np.tanh(score / size))))
    step = equals([ratio(read(x), read(cap))], [inner])
    sign = equals([read(cap) * float(np.tanh(read(inner)))], [value])
    return Work(
        f"{cap} × tanh({x} / {cap}) {plain_sign(step)} {cap} × tanh({inner}) {plain_sign(sign)} {value}",
        (
            rf"{name} &= {tex(cap)} \times \tanh\left(\frac{{{tex(x)}}}{{{tex(cap)}}}\right)",
            rf"&{step} {tex(cap)} \times \tanh({tex(inner)})",
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
    a, b = float(inputs[0][i, j]), float(at(inputs[1], i, j))
    left, right, value = show(a), show(b), show(known(result, lambda: a + b))
    return two(left, "+", right, value, read(left) + read(right), name)


def mask(inputs: Sequence[Any], i: int, j: int, show: Show, *, name: str = "", **_: Any) -> Work:
    """Plus 0 where the query may look, plus −∞ where not."""
    score = show(float(inputs[0][i, j]))
    if at(inputs[1], i, j):
        return two(score, "+", show(0.0), score, read(score), name)
    return two(score, "+", show(-np.inf), show(-np.inf), -np.inf, name)


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
    lines = listed("s &= ", row, show)
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
    value = show(known(result, lambda: powers[j] / sum(powers)))
    sign = equals([ratio(read(power), read(total))], [value])
    lines += [rf"m &= \max s = {tex(top)}"]
    lines += listed(
        f"s - m &{equals([read(show(s)) - read(top) for s in row], map(show, below))} ", below, show
    )
    lines += listed(
        f"e^{{s - m}} &{equals(np.exp([read(show(b)) for b in below]), map(show, powers))} ", powers, show
    )
    lines += _total(powers, show)
    lines += [rf"{name} &= \frac{{{tex(power)}}}{{{tex(total)}}} {sign} {tex(value)}"]
    exps = [f"e^({show(s)} − {factor(top)})" for s in row]
    near = plain_sign(equals([*np.exp(below), sum(powers)], [*map(show, powers), total]))
    return Work(
        f"{exps[j]} / ({' + '.join(exps)}) {near} {power} / {total} {plain_sign(sign)} {value}", tuple(lines)
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
    lines = listed("s &= ", row, show)
    largest = max(row, default=-np.inf)
    if not isfinite(largest):
        return Work(
            f"the largest entry of row {i + 1} is {show(largest)}: {show(largest)}",
            (*lines, f"{name} &= {tex(show(largest))}"),
        )
    powers = np.exp(np.array(row) - largest).tolist()
    top, total = show(largest), show(sum(powers))
    value = show(known(result, lambda: largest + float(np.log(sum(powers)))))
    sign = equals([read(top) + float(np.log(read(total)))], [value])
    return Work(
        f"{top} + log {total} {plain_sign(sign)} {value}",
        (
            *lines,
            rf"m &= \max s = {tex(top)}",
            *_total(powers, show),
            rf"{name} &= {tex(top)} + \log {tex(total)} {sign} {tex(value)}",
        ),
    )


def two(left: str, mark: str, right: str, value: str, again: float, name: str) -> Work:
    """Two shown numbers and a mark between them; again: what they come to as shown."""
    sign, right = equals([again], [value]), factor(right)
    return Work(
        f"{left} {mark} {right} {plain_sign(sign)} {value}",
        (f"{name} &= {tex(left)} {tex(mark).strip()} {tex(right)}", f"&{sign} {tex(value)}"),
    )


def _total(powers: Sequence[float], show: Show) -> list[str]:
    shown, total = [show(p) for p in powers], show(sum(powers))
    lines = wrapped(r"\textstyle\sum e^{s - m} &= ", [tex(text) for text in shown])
    return [*lines, f"&{equals([sum(map(read, shown))], [total])} {tex(total)}"]


def known(result: float | None, compute: Callable[[], float]) -> float:
    """The number as the whole matrix has it, or computed again where that is not given."""
    return compute() if result is None else result


def at(matrix: Any, i: int, j: int) -> Any:
    """Cell (i, j) of a matrix; one row, one column or one number stands for all of them."""
    if not matrix.ndim:
        return matrix
    rows, columns = matrix.shape
    return matrix[i if rows > 1 else 0, j if columns > 1 else 0]


def ratio(top: float, bottom: float) -> float:
    """top / bottom; NaN where the bottom is 0."""
    return top / bottom if bottom else float("nan")

r"""One cell of a matrix, worked by hand with the numbers that made it.

Every function takes a Cell and gives a Work: one plain line for a tooltip or a screen reader, and the
lines of an aligned LaTeX block, in which long sums go on over several lines and nothing is left out. "="
stands where the line holds for the numbers as they are shown, "≈" where rounding shows.
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


@dataclass(frozen=True, eq=False)
class Cell:
    """The cell that is worked out: what it is made from, where it stands and how it came out.

    `name` is the cell in LaTeX, `result` its number as computed, `aside` the line that the stage looks at
    beside its inputs.
    """

    inputs: Sequence[Any]
    i: int
    j: int
    show: Show
    name: str = ""
    result: float | None = None
    aside: Any = None
    titles: Sequence[str] = ()
    symbols: Sequence[str] = ()

    @property
    def row(self) -> list[float]:
        """Row i of the first input."""
        row: list[float] = self.inputs[0][self.i].tolist()
        return row

    def number(self, which: int) -> float:
        """Cell (i, j) of an input; one row, one column or one number stands for all of them."""
        return float(at(self.inputs[which], self.i, self.j))

    def value(self, compute: Callable[[], float]) -> str:
        """The number of the cell as it is shown: what the whole matrix has, or computed again without it."""
        return self.show(compute() if self.result is None else self.result)

    def title(self, which: int) -> str:
        """What an input is called."""
        return self.titles[which] if self.titles else "the matrix"

    def symbol(self, which: int) -> str:
        """An input in LaTeX."""
        return self.symbols[which] if self.symbols else "A"


def dot(here: Cell) -> Work:
    """Row i of the left factor times column j of the right one, term by term."""
    row, column = here.row, here.inputs[1][:, here.j].tolist()
    if not row:
        return Work("nothing to add up: 0", (rf"{here.name} &= 0 \quad \text{{there is nothing to add up}}",))
    left_out = [
        here.aside is not None and here.aside[here.i, k] == -np.inf and not isfinite(b)
        for k, b in enumerate(column)
    ]
    products = [0.0 if out else a * b for a, b, out in zip(row, column, left_out, strict=True)]
    total = here.value(lambda: sum(products))
    lefts, rights, parts = ([here.show(number) for number in numbers] for numbers in (row, column, products))
    terms = [
        f"{factor(a)}×{factor(b)}{' (takes no part)' if out else ''}"
        for a, b, out in zip(lefts, rights, left_out, strict=True)
    ]
    again = [0.0 if out else read(a) * read(b) for a, b, out in zip(lefts, rights, left_out, strict=True)]
    lines = wrapped(f"{here.name} &= ", [tex(term) for term in terms])
    if len(parts) > 1:
        added = [parts[0], *map(factor, parts[1:])]
        lines += wrapped(f"&{equals(again, parts)} ", [tex(term) for term in added])
    lines.append(f"&{equals([sum(map(read, parts)) if len(parts) > 1 else again[0]], [total])} {tex(total)}")
    return Work(f"{' + '.join(terms)} {plain_sign(equals([sum(again)], [total]))} {total}", tuple(lines))


def swap(here: Cell) -> Work:
    """The cell on the other side of the diagonal."""
    value = here.show(here.inputs[0][here.j, here.i])
    return Work(
        f"row {here.j + 1}, column {here.i + 1} of {here.title(0)}: {value}",
        (f"{here.name} &= {cell(here.symbol(0), here.j, here.i)}", f"&= {tex(value)}"),
    )


def taken(here: Cell, which: int, row: int, column: int) -> Work:
    """A cell of one of the inputs, taken over as it is."""
    value = here.show(float(here.inputs[which][row, column]))
    return Work(
        f"row {row + 1}, column {column + 1} of {here.title(which)}: {value}",
        (f"{here.name} &= {cell(here.symbol(which), row, column)}", f"&= {tex(value)}"),
    )


def keep(here: Cell) -> Work:
    """The number as it was."""
    value = here.show(here.inputs[0][here.i, here.j])
    return Work(f"{value} stays {value}", (rf"{here.name} &= {tex(value)} \quad \text{{unchanged}}",))


def quotient(here: Cell) -> Work:
    """One number over another; a divisor that is the root of a whole number is written as that root."""
    number, divisor = here.number(0), here.number(1)
    top, bottom, value = here.show(number), here.show(divisor), here.value(lambda: number / divisor)
    sign = equals([ratio(read(top), read(bottom))], [value])
    text = f"{top} / {factor(bottom)} {plain_sign(sign)} {value}"
    fraction = rf"\frac{{{tex(top)}}}{{{tex(bottom)}}}"
    square = round(divisor * divisor) if isfinite(divisor) else 0
    if square < 1 or not isclose(divisor, sqrt(square), rel_tol=1e-12):
        return Work(text, (f"{here.name} &= {fraction}", f"&{sign} {tex(value)}"))
    step = equals([divisor], [bottom])
    return Work(
        f"{top} / √{square} {plain_sign(step)} {text}",
        (
            rf"{here.name} &= \frac{{{tex(top)}}}{{\sqrt{{{square}}}}}",
            f"&{step} {fraction}",
            f"&{sign} {tex(value)}",
        ),
    )


def times(here: Cell) -> Work:
    """One number times another."""
    a, b = here.number(0), here.number(1)
    left, right, value = factor(here.show(a)), here.show(b), here.value(lambda: a * b)
    return two(left, "×", right, value, read(here.show(a)) * read(right), here.name)


def capped(here: Cell) -> Work:
    """cap · tanh(x / cap)."""
    score, size = here.number(0), here.number(1)
    x, cap, inner = here.show(score), here.show(size), here.show(score / size)
    value = here.value(lambda: size * float(np.tanh(score / size)))
    step = equals([ratio(read(x), read(cap))], [inner])
    sign = equals([read(cap) * float(np.tanh(read(inner)))], [value])
    return Work(
        f"{cap} × tanh({x} / {cap}) {plain_sign(step)} {cap} × tanh({inner}) {plain_sign(sign)} {value}",
        (
            rf"{here.name} &= {tex(cap)} \times \tanh\left(\frac{{{tex(x)}}}{{{tex(cap)}}}\right)",
            rf"&{step} {tex(cap)} \times \tanh({tex(inner)})",
            f"&{sign} {tex(value)}",
        ),
    )


def plus(here: Cell) -> Work:
    """One number plus another."""
    a, b = here.number(0), here.number(1)
    left, right, value = here.show(a), here.show(b), here.value(lambda: a + b)
    return two(left, "+", right, value, read(left) + read(right), here.name)


def mask(here: Cell) -> Work:
    """Plus 0 where the query may look, plus −∞ where not."""
    score = here.show(here.number(0))
    if at(here.inputs[1], here.i, here.j):
        return two(score, "+", here.show(0.0), score, read(score), here.name)
    return two(score, "+", here.show(-np.inf), here.show(-np.inf), -np.inf, here.name)


def share(here: Cell) -> Work:
    """The row's maximum taken off, each e^(s − m), their sum, and the quotient."""
    show = here.show
    row = here.row
    lines = listed("s &= ", row, show)
    if all(s == -np.inf for s in row):
        why = "this query may look nowhere, so its weight is 0"
        return Work(
            f"every entry of row {here.i + 1} is −∞: {why}",
            (*lines, rf"{here.name} &= 0 \quad \text{{every entry is }} {{-\infty}}\text{{: {why}}}"),
        )
    if any(isnan(s) or s == np.inf for s in row):
        why = "the row holds ∞ or something that is not a number, so its shares have no value"
        return Work(f"{why}: {show(np.nan)}", (*lines, rf"{here.name} &= {tex(show(np.nan))}"))
    below = [score - max(row) for score in row]
    powers = np.exp(below).tolist()
    top, power, total = show(max(row)), show(powers[here.j]), show(sum(powers))
    value = here.value(lambda: powers[here.j] / sum(powers))
    sign = equals([ratio(read(power), read(total))], [value])
    lines += [rf"m &= \max s = {tex(top)}"]
    lines += listed(
        f"s - m &{equals([read(show(s)) - read(top) for s in row], map(show, below))} ",
        below,
        show,
    )
    lines += listed(
        f"e^{{s - m}} &{equals(np.exp([read(show(b)) for b in below]), map(show, powers))} ",
        powers,
        show,
    )
    lines += _total(powers, show)
    lines += [rf"{here.name} &= \frac{{{tex(power)}}}{{{tex(total)}}} {sign} {tex(value)}"]
    exps = [f"e^({show(s)} − {factor(top)})" for s in row]
    near = plain_sign(equals([*np.exp(below), sum(powers)], [*map(show, powers), total]))
    return Work(
        f"{exps[here.j]} / ({' + '.join(exps)}) {near} {power} / {total} {plain_sign(sign)} {value}",
        tuple(lines),
    )


def log_sum(here: Cell) -> Work:
    """m + log Σ e^(s − m) over row i."""
    row = here.row
    lines = listed("s &= ", row, here.show)
    largest = max(row, default=-np.inf)
    if not isfinite(largest):
        return Work(
            f"the largest entry of row {here.i + 1} is {here.show(largest)}: {here.show(largest)}",
            (*lines, f"{here.name} &= {tex(here.show(largest))}"),
        )
    powers = np.exp(np.array(row) - largest).tolist()
    top, total = here.show(largest), here.show(sum(powers))
    value = here.value(lambda: largest + float(np.log(sum(powers))))
    sign = equals([read(top) + float(np.log(read(total)))], [value])
    return Work(
        f"{top} + log {total} {plain_sign(sign)} {value}",
        (
            *lines,
            rf"m &= \max s = {tex(top)}",
            *_total(powers, here.show),
            rf"{here.name} &= {tex(top)} + \log {tex(total)} {sign} {tex(value)}",
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


def at(matrix: Any, i: int, j: int) -> Any:
    """Cell (i, j) of a matrix; one row, one column or one number stands for all of them."""
    if not matrix.ndim:
        return matrix
    rows, columns = matrix.shape
    return matrix[i if rows > 1 else 0, j if columns > 1 else 0]


def ratio(top: float, bottom: float) -> float:
    """top / bottom; NaN where the bottom is 0."""
    return top / bottom if bottom else float("nan")

r"""The mean, the variance and the root of a row or a column, worked by hand in the manner of worked.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

from attention_core.worked import Cell, Work, ratio
from attention_core.written import Show, equals, factor, plain_sign, read, tex, visible, wrapped


def mean(over: str, *, squares: bool = False, one_less: bool = False, kind: str = "") -> Callable[..., Work]:
    """The worked mean of a "row" or a "column", or of its squares, divided by their count or by one less.

    kind, such as "population variance", is said together with what it is divided by.
    """

    def work(here: Cell) -> Work:
        show = here.show
        numbers: list[float] = (
            here.inputs[0][here.i] if over == "row" else here.inputs[0][:, here.j]
        ).tolist()
        parts = [number * number for number in numbers] if squares else numbers
        terms, again = _terms(numbers, show, squares)
        texts, total, count = (
            [show(part) for part in parts],
            show(sum(parts)),
            show(len(parts) - one_less),
        )
        value = here.value(lambda: ratio(sum(parts), len(parts) - one_less))
        sign = equals([ratio(sum(again), read(count))], [value])
        lines = wrapped(r"\textstyle\sum &= ", [tex(term) for term in terms])
        if squares:
            lines += wrapped(f"&{equals(again, texts)} ", [tex(text) for text in texts])
        last = equals([ratio(read(total), read(count))], [value])
        before, note = _note(kind, "d" if over == "row" else "n", one_less)
        return Work(
            f"{before}({' + '.join(terms)}) / {count} {plain_sign(sign)} {value}",
            (
                *note,
                *lines,
                f"&{equals([sum(map(read, texts))], [total])} {tex(total)}",
                rf"{here.name} &= \frac{{{tex(total)}}}{{{tex(count)}}} {last} {tex(value)}",
            ),
        )

    return work


def root(here: Cell) -> Work:
    """√(v + ε), with both visible however small they are."""
    number, epsilon = here.number(0), here.number(1)
    left, right = visible(number, here.show), visible(epsilon, here.show)
    value = here.value(lambda: sqrt(number + epsilon))
    inside = read(left) + read(right)
    sign = equals([sqrt(inside) if inside >= 0 else float("nan")], [value])
    return Work(
        f"√({left} + {factor(right)}) {plain_sign(sign)} {value}",
        (rf"{here.name} &= \sqrt{{{tex(left)} + {tex(factor(right))}}}", f"&{sign} {tex(value)}"),
    )


def _terms(numbers: Sequence[float], show: Show, squares: bool) -> tuple[list[str], list[float]]:
    """What is added up, as it is written, and what it comes to as written."""
    texts = [show(number) for number in numbers]
    if squares:
        return [f"{factor(text)}²" for text in texts], [read(text) ** 2 for text in texts]
    return [text if k == 0 else factor(text) for k, text in enumerate(texts)], [*map(read, texts)]


def _note(kind: str, letter: str, one_less: bool) -> tuple[str, tuple[str, ...]]:
    """What a variance is divided by, before its arithmetic, in text and in LaTeX."""
    if not kind:
        return "", ()
    by, other = (f"{letter} − 1", letter) if one_less else (letter, f"{letter} − 1")
    said = rf"&\text{{{kind}: divided by }} {by} \text{{, not }} {other}".replace("−", "-")
    return f"{kind}, divided by {by}, not {other}: ", (said,)

"""Frequencies, waves, rotations and distances of one cell, worked by hand in the manner of worked.py."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, isfinite, nan, sin

from attention_core.worked import Cell, Work, keep
from attention_core.written import equals, factor, plain_sign, read, tex, visible


def frequency(here: Cell) -> Work:
    """The base to the power of minus the exponent."""
    exponent, base = here.number(0), here.number(1)
    power, below, value = here.show(exponent), here.show(base), here.value(lambda: base**-exponent)
    sign = equals([_power(read(below), -read(power))], [value])
    return Work(
        f"{below}^(−{factor(power)}) {plain_sign(sign)} {value}",
        (f"{here.name} &= {tex(below)}^{{-{tex(factor(power))}}}", f"&{sign} {tex(value)}"),
    )


def wave(place: Callable[[int], tuple[int, bool]]) -> Callable[..., Work]:
    """The worked sine or cosine of an angle. place(j): the angle's column, and whether it is a sine."""

    def work(here: Cell) -> Work:
        column, is_sine = place(here.j)
        function, word = (sin, "sin") if is_sine else (cos, "cos")
        angle = float(here.inputs[0][here.i, column])
        text, value = visible(angle, here.show), here.value(lambda: _of(function, angle))
        sign = equals([_of(function, read(text))], [value])
        return Work(
            f"{word}({text}) {plain_sign(sign)} {value}",
            (rf"{here.name} &= \{word}({tex(text)})", f"&{sign} {tex(value)}"),
        )

    return work


def rotation(place: Callable[[int], tuple[int, int, int] | None]) -> Callable[..., Work]:
    """The worked cell of a pair turned by an angle.

    place(j): the columns of the pair's first and second number and of its angle; None where nothing turns.
    """

    def work(here: Cell) -> Work:
        found = place(here.j)
        if found is None:
            return keep(here)
        first, second, column = found
        a, b, angle = here.row[first], here.row[second], float(here.inputs[1][here.i, column])
        words, mark = (("cos", "sin"), "−") if here.j == first else (("sin", "cos"), "+")
        parts = [_of(sin if word == "sin" else cos, angle) for word in words]
        total = a * parts[0] - b * parts[1] if here.j == first else a * parts[0] + b * parts[1]
        left, right, turn = factor(here.show(a)), factor(here.show(b)), visible(angle, here.show)
        shown = [here.show(part) for part in parts]
        value = here.value(lambda: total)
        near = equals([_of(sin if word == "sin" else cos, read(turn)) for word in words], shown)
        products = [read(here.show(a)) * read(shown[0]), read(here.show(b)) * read(shown[1])]
        sign = equals([products[0] - products[1] if here.j == first else products[0] + products[1]], [value])
        numbers = f"{left} × {factor(shown[0])} {mark} {right} × {factor(shown[1])}"
        waves = [rf"\{word}({tex(turn)})" for word in words]
        return Work(
            f"{left} × {words[0]}({turn}) {mark} {right} × {words[1]}({turn}) "
            f"{plain_sign(near)} {numbers} {plain_sign(sign)} {value}",
            (
                rf"{here.name} &= {tex(left)} \times {waves[0]} {tex(mark)} {tex(right)} \times {waves[1]}",
                f"&{near} {tex(numbers)}",
                f"&{sign} {tex(value)}",
            ),
        )

    return work


def distance(here: Cell) -> Work:
    """Minus the distance between two positions."""
    a, b = float(here.inputs[0][here.i, 0]), float(here.inputs[1][0, here.j])
    left, right, value = here.show(a), factor(here.show(b)), here.value(lambda: -abs(a - b))
    sign = equals([-abs(read(left) - read(here.show(b)))], [value])
    return Work(
        f"−|{left} − {right}| {plain_sign(sign)} {value}",
        (rf"{here.name} &= -\left|{tex(left)} - {tex(right)}\right|", f"&{sign} {tex(value)}"),
    )


def _of(function: Callable[[float], float], angle: float) -> float:
    """A sine or cosine; NaN of an angle that is not finite."""
    return function(angle) if isfinite(angle) else nan


def _power(base: float, exponent: float) -> float:
    try:
        result = base**exponent
    except (OverflowError, ZeroDivisionError):
        return nan
    return result if isinstance(result, float) else nan

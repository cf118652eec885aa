"""ReLU, GELU and Swish of one cell, worked by hand in the manner of worked.py."""

from __future__ import annotations

from math import erf, exp, pi, sqrt, tanh

from attention_core.worked import Cell, Work, ratio
from attention_core.written import equals, factor, plain_sign, read, tex


def relu(here: Cell) -> Work:
    """The larger one of 0 and the number."""
    x = here.number(0)
    text, value = here.show(x), here.value(lambda: max(0.0, x))
    sign = equals([max(0.0, read(text))], [value])
    return Work(
        f"max(0, {text}) {plain_sign(sign)} {value}",
        (rf"{here.name} &= \max(0,\; {tex(text)})", f"&{sign} {tex(value)}"),
    )


def gelu(here: Cell) -> Work:
    """The number times the share of the standard normal distribution that lies below it."""
    x = here.number(0)
    text = here.show(x)
    share = (1 + erf(x / sqrt(2))) / 2
    start = f"{factor(text)} × (1 + erf({text} / √2)) / 2"
    inner = rf"\operatorname{{erf}}\left({tex(text)} / \sqrt{{2}}\right)"
    line = rf"{tex(factor(text))} \times \frac{{1 + {inner}}}{{2}}"
    return _times_share(x, share, (1 + erf(read(text) / sqrt(2))) / 2, (start, line), here)


def gelu_tanh(here: Cell) -> Work:
    """The same with a tanh that comes close to erf."""
    x = here.number(0)
    text, bracketed = here.show(x), factor(here.show(x))
    share, again = ((1 + tanh(sqrt(2 / pi) * (a + 0.044715 * a**3))) / 2 for a in (x, read(text)))
    start = f"{bracketed} × (1 + tanh(√(2/π) × ({text} + 0.044715 × {bracketed}³))) / 2"
    inner = rf"\sqrt{{2 / \pi}} \left({tex(text)} + 0.044715 \times {tex(bracketed)}^3\right)"
    line = rf"{tex(bracketed)} \times \frac{{1 + \tanh\left({inner}\right)}}{{2}}"
    return _times_share(x, share, again, (start, line), here)


def swish(here: Cell) -> Work:
    """x / (1 + e^(−αx)), where α is 1 unless it is given."""
    x, alpha = here.number(0), [float(number) for number in here.inputs[1:]]
    text = here.show(x)
    slope = alpha[0] if alpha else 1.0
    power = f"−{factor(here.show(slope))} × {factor(text)}" if alpha else f"−{factor(text)}"
    bottom = 1 + _exp(-slope * x)
    below, value = here.show(bottom), here.value(lambda: ratio(x, bottom))
    near = equals([1 + _exp(-read(here.show(slope)) * read(text))], [below])
    sign = equals([ratio(read(text), read(below))], [value])
    return Work(
        f"{text} / (1 + e^({power})) {plain_sign(near)} {text} / {below} {plain_sign(sign)} {value}",
        (
            rf"{here.name} &= \frac{{{tex(text)}}}{{1 + e^{{{tex(power)}}}}}",
            rf"&{near} \frac{{{tex(text)}}}{{{tex(below)}}}",
            f"&{sign} {tex(value)}",
        ),
    )


def _times_share(
    x: float,
    share: float,
    again: float,
    start: tuple[str, str],
    here: Cell,
) -> Work:
    """A number times a share of it. again: the share as it comes from the number as written."""
    left, right, value = factor(here.show(x)), here.show(share), here.value(lambda: x * share)
    near, sign = equals([again], [right]), equals([read(here.show(x)) * read(right)], [value])
    return Work(
        f"{start[0]} {plain_sign(near)} {left} × {right} {plain_sign(sign)} {value}",
        (
            f"{here.name} &= {start[1]}",
            rf"&{near} {tex(left)} \times {tex(right)}",
            f"&{sign} {tex(value)}",
        ),
    )


def _exp(x: float) -> float:
    try:
        return exp(x)
    except OverflowError:
        return float("inf")

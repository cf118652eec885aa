r"""Softmax taken apart: each of its steps as an operation, and the shares put to 0 that a mask blocks.

    m_i = max_j s_ij        e_ij = exp(s_ij − m_i)        z_i = Σ_j e_ij        a_ij = e_ij / z_i

m and z are one number per row, (n, 1). Taking m off changes no share and keeps exp in range: Blanchard,
Higham and Higham 2021, "Accurately computing the log-sum-exp and softmax functions". A row of −∞ only has
no largest number to take off; its exponentials and its shares are 0.
"""

from __future__ import annotations

from math import exp, inf

import numpy as np

from attention_core.elementwise import minus, over
from attention_core.operations import Array, Truth, operation, per_cell, same_matrix
from attention_core.worked import Cell, Work
from attention_core.written import equals, factor, plain_sign, read, tex, wrapped

LARGEST = float(np.finfo(np.float64).max)  # what float64 holds; beyond it stands ∞
LARGEST_POWER = float(np.log(LARGEST))  # e to the power of more than this is beyond it
NOWHERE = "this query may look nowhere"


def _maximum(a: Array) -> Array:
    top: Array = a.max(axis=-1, keepdims=True)
    return top


def _below(a: Array, top: Array) -> Array:
    return same_matrix(a, a - np.where(np.isneginf(top), 0.0, top))


def _total(a: Array) -> Array:
    total: Array = a.sum(axis=-1, keepdims=True)
    return total


def _share(a: Array, total: Array) -> Array:
    return same_matrix(a, a / np.where(total == 0.0, 1.0, total))


def _open_only(a: Array, may_look: Truth) -> Array:
    return same_matrix(a, np.where(may_look, a, 0.0))


def largest(here: Cell) -> Work:
    """The largest number of a row."""
    row = here.row
    texts, value = [here.show(number) for number in row], here.value(lambda: max(row))
    lines = wrapped(rf"{here.name} &= \max(", [tex(text) for text in texts], r",\; ")
    sign = equals([max(map(read, texts))], [value])
    return Work(
        f"max({', '.join(texts)}) {plain_sign(sign)} {value}",
        (*lines[:-1], f"{lines[-1]})", f"&{sign} {tex(value)}"),
    )


def off(here: Cell) -> Work:
    """The number less the largest of its row."""
    if here.inputs[1][here.i, 0] != -inf:
        return minus(here)
    text = here.show(-inf)
    return Work(
        f"{NOWHERE}, there is nothing to take off: {text} stays {text}",
        (rf"{here.name} &= {tex(text)} \quad \text{{{NOWHERE}}}",),
    )


def power(here: Cell) -> Work:
    """e to the power of a number; ∞ where that is more than float64 holds."""
    x = here.number(0)
    text, value = here.show(x), here.value(lambda: _power(x))
    sign = equals([_power(read(text))], [value])
    beyond = LARGEST_POWER < x < inf
    more = "more than can be held: " * beyond
    note = r" \quad \text{more than can be held}" * beyond
    sign = r"\approx" if beyond else sign
    return Work(
        f"{more}e^({text}) {plain_sign(sign)} {value}",
        (f"{here.name} &= e^{{{tex(text)}}}{note}", f"&{sign} {tex(value)}"),
    )


def _power(x: float) -> float:
    return exp(x) if x <= LARGEST_POWER else inf


def total(here: Cell) -> Work:
    """The sum of a row."""
    row = here.row
    texts, value = [here.show(number) for number in row], here.value(lambda: sum(row))
    terms = [text if k == 0 else factor(text) for k, text in enumerate(texts)]
    sign = equals([sum(map(read, texts))], [value])
    lines = wrapped(f"{here.name} &= ", [tex(term) for term in terms])
    return Work(f"{' + '.join(terms)} {plain_sign(sign)} {value}", (*lines, f"&{sign} {tex(value)}"))


def share(here: Cell) -> Work:
    """A part over the sum of its row; 0 where there is nothing to share out."""
    if here.inputs[1][here.i, 0] != 0.0:
        return over(here)
    text = here.show(0.0)
    return Work(
        f"{NOWHERE}, so its weight is {text}: {text}",
        (rf"{here.name} &= {tex(text)} \quad \text{{{NOWHERE}}}",),
    )


def blocked(here: Cell) -> Work:
    """The number where the query may look, 0 where not."""
    text, zero = here.show(here.number(0)), here.show(0.0)
    if here.inputs[1][here.i, here.j]:
        return Work(
            f"may look: {text} stays {text}", (rf"{here.name} &= {tex(text)} \quad \text{{unchanged}}",)
        )
    return Work(
        f"may not look, so {text} is replaced: {zero}",
        (rf"{here.name} &= {tex(zero)} \quad \text{{in place of }} {tex(text)}",),
    )


# fmt: off
MAXIMUM = operation("largest of a row", _maximum, "row", largest, per_cell(1),
                    latex=r"\max_j \left({0}\right)_{{ij}}",
                    code="{0}.max(axis=-1, keepdims=True)", torch="{0}.amax(dim=-1, keepdim=True)",
                    arrow="max")
MAXIMUM_OFF = operation("less the largest of its row", _below, "cell first", off, per_cell(1),
                        latex="{0} - {1}", code="{0} - np.where(np.isneginf({1}), 0.0, {1})",
                        torch="{0} - {1}.masked_fill(torch.isneginf({1}), 0.0)", arrow="− max")
EXP = operation("exponential", np.exp, "cell", power, per_cell(1),
                latex=r"\exp\left({0}\right)", code="np.exp({0})", torch="torch.exp({0})", arrow="exp")
TOTAL = operation("sum of a row", _total, "row", total, per_cell(1),
                  latex=r"\textstyle\sum_j \left({0}\right)_{{ij}}",
                  code="{0}.sum(axis=-1, keepdims=True)", torch="{0}.sum(dim=-1, keepdim=True)",
                  arrow="add up")
SHARE = operation("share of its row", _share, "cell first", share, per_cell(1),
                  latex=r"{0} \oslash {1}", code="{0} / np.where({1} == 0.0, 1.0, {1})",
                  torch="{0} / {1}.masked_fill({1} == 0.0, 1.0)", arrow="÷ {1}")
OPEN_ONLY = operation("0 where the mask blocks", _open_only, "cell cell", blocked, per_cell(0),
                      latex=r"{0} \text{{ where }} {1} = 0 \text{{, else }} 0",
                      code="np.where({1}, {0}, 0.0)", torch="{0}.masked_fill(~{1}, 0.0)", arrow="0 where −∞")
OVER_NUMBER = operation("over a number", np.divide, "cell all", over, per_cell(1),
                        latex=r"\frac{{{0}}}{{{1}}}", code="{0} / {1}", arrow="÷ {1}")
# fmt: on

OPERATIONS = (MAXIMUM, MAXIMUM_OFF, EXP, TOTAL, SHARE, OPEN_ONLY, OVER_NUMBER)

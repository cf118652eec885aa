r"""The sheet of one tile of attention: what was kept before it, the tile, and what is kept after it.

    m' = max(m, max S)        c = e^(m − m')        z' = c z + Σ e^(S − m')        o' = c o + e^(S − m') V

m is −∞ and z and o are 0 before the first tile. After each tile o / z is the output for the keys seen so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from attention_core.elementwise import MULTIPLY, minus, over
from attention_core.merging import TIMES_FIRST
from attention_core.operations import ADD, MATMUL, Array, operation, per_cell, same_matrix
from attention_core.sheet import ONE, Sheet, Stage, given, mark, stage
from attention_core.sheets import RULE, Scaling, attention_sheet
from attention_core.softmax_steps import EXP, MAXIMUM, MAXIMUM_OFF, TOTAL
from attention_core.worked import Cell, Work, two
from attention_core.written import equals, factor, plain_sign, read, tex

UNSEEN = "no key seen so far"


def _larger(a: Array, b: Array) -> Array:
    return same_matrix(a, np.maximum(a, b))


def _drop(before: Array, after: Array) -> Array:
    return same_matrix(before, np.where(np.isneginf(before), -np.inf, before - after))


def _over_total(a: Array, total: Array) -> Array:
    return same_matrix(a, a / np.where(total == 0.0, 1.0, total))


def _with_log(top: Array, total: Array) -> Array:
    return same_matrix(top, np.where(np.isinf(top), top, top + np.log(total)))


def larger(here: Cell) -> Work:
    """The larger of two numbers."""
    a, b = here.number(0), here.number(1)
    left, right, value = here.show(a), here.show(b), here.value(lambda: max(a, b))
    sign = equals([max(read(left), read(right))], [value])
    return Work(
        f"max({left}, {right}) {plain_sign(sign)} {value}",
        (rf"{here.name} &= \max({tex(left)},\; {tex(right)})", f"&{sign} {tex(value)}"),
    )


def _or_unseen(work: Callable[[Cell], Work], which: int, unseen: float) -> Callable[[Cell], Work]:
    """The work of a cell; where input `which` says that no key has been seen, a sentence in its place."""

    def otherwise(here: Cell) -> Work:
        if here.inputs[which][here.i, 0] != unseen:
            return work(here)
        value = here.value(lambda: 0.0)
        return Work(f"{UNSEEN}: {value}", (rf"{here.name} &= {tex(value)} \quad \text{{{UNSEEN}}}",))

    return otherwise


def with_log(here: Cell) -> Work:
    """m + log z."""
    top, total = here.number(0), here.number(1)
    left, inside = here.show(top), here.show(total)
    value = here.value(lambda: top + float(np.log(total)))
    shown = read(inside)
    sign = equals([read(left) + float(np.log(shown)) if shown > 0 else float("nan")], [value])
    return Work(
        f"{left} + log {inside} {plain_sign(sign)} {value}",
        (rf"{here.name} &= {tex(left)} + \log {tex(factor(inside))}", f"&{sign} {tex(value)}"),
    )


def drop(here: Cell) -> Work:
    """One number minus another, −∞ where there was nothing before."""
    if here.number(0) != -np.inf:
        return minus(here)
    text = here.show(-np.inf)
    return Work(f"{UNSEEN}: {text}", (rf"{here.name} &= {tex(text)} \quad \text{{{UNSEEN}}}",))


def _below_unseen(here: Cell) -> Work:
    if here.inputs[1][here.i, 0] != -np.inf:
        return minus(here)
    text = here.show(-np.inf)
    return two(text, "−", here.show(0.0), text, -np.inf, here.name)


# fmt: off
LARGER = operation("larger of two", _larger, "cell cell", larger, per_cell(1),
                   latex=r"\max\left({0}, {1}\right)", code="np.maximum({0}, {1})",
                   torch="torch.maximum({0}, {1})", arrow="the larger")
BELOW = replace(MAXIMUM_OFF, name="less the largest so far", worked=_below_unseen, arrow="− {1}")
DROP = operation("less what it has become", _drop, "cell cell", drop, per_cell(1),
                 latex="{0} - {1}", code="np.where(np.isneginf({0}), -np.inf, {0} - {1})",
                 torch="torch.where(torch.isneginf({0}), -torch.inf, {0} - {1})", arrow="− {1}")
OVER_TOTAL = operation("over the sum so far", _over_total, "cell first", _or_unseen(over, 1, 0.0),
                       per_cell(1), latex=r"{0} \oslash {1}", code="{0} / np.where({1} == 0.0, 1.0, {1})",
                       torch="{0} / {1}.masked_fill({1} == 0.0, 1.0)", arrow="÷ {1}")
WITH_LOG = operation("plus a logarithm", _with_log, "cell cell", _or_unseen(with_log, 0, -np.inf),
                     per_cell(2), latex=r"{0} + \log {1}",
                     code="np.where(np.isinf({0}), {0}, {0} + np.log({1}))",
                     torch="torch.where(torch.isinf({0}), {0}, {0} + torch.log({1}))")

OPERATIONS = (LARGER, BELOW, DROP, OVER_TOTAL, WITH_LOG)

_TABLE, _COLUMN, _ROWS = "query key", f"query {ONE}", "query d_v"
BEFORE = (
    given("maximum_before", "m", mark("m"), "Maximum before", _COLUMN, 0, (
        "The largest score of query i in the tiles before this one.",
        "−∞ where no key has been seen.")),
    given("total_before", "z", mark("z"), "Sum before", _COLUMN, 0, (
        "The exponentials of query i added up so far.",
        "Each was taken against the maximum of that time.")),
    given("mixed_before", "o", mark("o"), "Accumulator before", _ROWS, 0, (
        "The values added up so far, each times its exponential.",
        "Divided by the sum, this is the output for the keys seen so far.")),
)
_AFTER: tuple[Stage, ...] = (
    stage(("tile_maximum", r"m_{\text{tile}}", mark("m", "tile"), "Maximum of the tile", _COLUMN, 0),
          MAXIMUM, "masked", (
        "The largest score of query i in this tile.",
        "−∞ where the query may look at no key of the tile.")),
    stage(("maximum", "m'", mark("m′"), "Maximum after", _COLUMN, 0), LARGER, "maximum_before tile_maximum", (
        "The largest score of query i so far.",
        "It can only rise from tile to tile.")),
    stage(("below", "D", mark("D"), "Maximum off", _TABLE, 0), BELOW, "masked maximum", (
        "How far the score lies below the largest so far.",
        "Never above 0, so that exp stays in range.")),
    stage(("powers", "E", mark("E"), "Exponentials", _TABLE, 0), EXP, "below", (
        "e to the power of the number before it.",
        "These are not weights yet: the sum of the whole row is not known.")),
    stage(("tile_total", r"z_{\text{tile}}", mark("z", "tile"), "Sum of the tile", _COLUMN, 0),
          TOTAL, "powers", (
        "The exponentials of query i in this tile, added up.",
        "One number per query.")),
    stage(("drop", r"\Delta", mark("Δ"), "Change of the maximum", _COLUMN, 0),
          DROP, "maximum_before maximum", (
        "How far the maximum before lies below the maximum after.",
        "0 where this tile brought no larger score.")),
    stage(("factor", "c", mark("c"), "Rescaling factor", _COLUMN, 0), EXP, "drop", (
        "What everything kept so far is multiplied by.",
        "1 where the maximum has not moved; 0 where there was nothing before.")),
    stage(("kept_total", r"z_{\text{kept}}", mark("z", "kept"), "Sum before, rescaled", _COLUMN, 0),
          MULTIPLY, "total_before factor", (
        "The sum before, as if it had been taken against the new maximum.",
        "e^(s − m) · e^(m − m′) = e^(s − m′): one factor mends every term.")),
    stage(("total", "z'", mark("z′"), "Sum after", _COLUMN, 0), ADD, "kept_total tile_total", (
        "The exponentials of query i added up, this tile included.",
        "At least 1 as soon as one key has been seen.")),
    stage(("kept", r"o_{\text{kept}}", mark("o", "kept"), "Accumulator before, rescaled", _ROWS, 0),
          TIMES_FIRST, "mixed_before factor", (
        "The accumulator before, as if it had been made against the new maximum.",
        "The whole row is multiplied by the one factor of its query.")),
    stage(("added", r"o_{\text{tile}}", mark("o", "tile"), "Added by the tile", _ROWS, 0),
          MATMUL, "powers v", (
        "The values of this tile, each times its exponential, added up.",
        "A product of two small matrices."), "masked"),
    stage(("mixed", "o'", mark("o′"), "Accumulator after", _ROWS, 0), ADD, "kept added", (
        "The values added up so far, this tile included.",
        "It is not divided by the sum until the end.")),
    stage(("output", r"O_{\text{so far}}", mark("O", "so far"), "Output so far", _ROWS, 0),
          OVER_TOTAL, "mixed total", (
        "The output as if there were no further keys.",
        "After the last tile it is the output.")),
    stage(("lse", r"L_{\text{so far}}", mark("L", "so far"), "Log-sum-exp so far", _COLUMN, 0),
          WITH_LOG, "maximum total", (
        "The logarithm of the sum of e to the power of every score of query i so far.",
        "The one number per row that the backward pass needs.")),
)
# fmt: on


@cache
def tile_sheet(*, scaling: Scaling = "sqrt", softcap: bool = False, bias: bool = False) -> Sheet:
    """One tile: q, k, v, mask and bias are the tile's parts; what was kept before is given beside them."""
    whole = attention_sheet(scaling=scaling, softcap=softcap, bias=bias)
    named = {line.name: f"{line.title} of the tile" for line in whole.lines if line.axes}
    givens = [replace(line, title=named.get(line.name, line.title), step=0) for line in whole.given]
    last = [line.name for line in whole.stages].index("masked")
    scores = [replace(line, title=named[line.name], step=0) for line in whole.stages[: last + 1]]
    rule = replace(RULE, title=named["mask"], step=0)
    return Sheet((*givens[:-1], *BEFORE, rule), (*scores, *_AFTER))

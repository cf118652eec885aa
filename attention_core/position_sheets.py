"""Positions as lines of a sheet, each kind with "all positions shifted" as lines of its own.

angle_lines goes from positions to angles and serves sinusoids and RoPE. The formulas and their sources are in
positions.py.
"""

from __future__ import annotations

from functools import cache

from attention_core.elementwise import PLUS_NUMBER
from attention_core.naming import Naming, Symbol
from attention_core.operations import ADD, MATMUL, SCALE, TRANSPOSE
from attention_core.sheet import ONE, Given, Lines, Sheet, Stage
from attention_core.sheets import X
from attention_core.waves import DISTANCE, FREQUENCY, Layout, Pairing, rotation, sines_and_cosines

# fmt: off
_PLACED_SAYS = (
    "One number of X plus the same number of the row for its position.",
    "The same word at two positions now has two different rows.")


def position_lines(*, shift: bool = False, prefix: str = "", index: str = "", where: str = "") -> Lines:
    """The positions, a column (n, 1); with shift, a stage adds the same number to all of them."""
    here = Naming(prefix, index, where)
    positions = here.given("positions", Symbol("p"), "Positions", ("token", ONE), (
        "The position of token i.",
        "Counted from 0, one number per token."))
    if not shift:
        return (positions,), ()
    amount = here.given("position_shift", Symbol(r"\delta", "δ"), "Position shift", (), (
        "The number added to the positions of all tokens.",
        "The distances between tokens stay what they were."))
    shifted = here.stage("shifted_positions", Symbol("p", sub="shifted"), "Shifted positions", ("token", ONE),
                         PLUS_NUMBER, (positions.name, amount.name), (
        "The position of token i, moved by the shift.",
        "All tokens move by the same number, so their distances stay."))
    return (positions, amount), (shifted,)


def angle_lines(*, shift: bool = False, prefix: str = "", index: str = "", where: str = "") -> Lines:
    """From positions, exponents 2k/d and a base to the angles (n, pairs), the last stage."""
    here = Naming(prefix, index, where)
    givens, stages = position_lines(shift=shift, prefix=prefix, index=index, where=where)
    exponent = here.given("exponents", Symbol("E"), "Exponents", (ONE, "pair"), (
        "Twice the number of the pair of columns, over the width.",
        "They begin with 0 and stay below 1."))
    base = here.given("base", Symbol(r"\text{base}", "base"), "Base", (), (
        "The number whose powers are the frequencies.",
        "10000 in the papers; a smaller base makes the slow pairs faster."))
    frequencies = here.stage("frequencies", Symbol(r"\omega", "ω"), "Frequencies", (ONE, "pair"),
                             FREQUENCY, (exponent.name, base.name), (
        "By how much the angle of this pair grows from one position to the next.",
        "With a base above 1, each further pair is slower."))
    positions = stages[-1].name if stages else givens[0].name
    angles = here.stage("angles", Symbol(r"\Theta", "Θ"), "Angles", ("token", "pair"),
                        MATMUL, (positions, frequencies.name), (
        "The position of token i times the frequency of the pair.",
        "Position 0 has the angle 0 everywhere."))
    return (*givens, exponent, base), (*stages, frequencies, angles)


def sinusoid_lines(
    dim: int,
    source: str = "x",
    *,
    layout: Layout = "interleaved",
    shift: bool = False,
    prefix: str = "",
    index: str = "",
    where: str = "",
) -> Lines:
    """A table of sines and cosines, `dim` wide, added to the line `source`. The last stage is the sum.

    Raises ValueError for a layout other than interleaved and concatenated.
    """
    here = Naming(prefix, index, where)
    givens, stages = angle_lines(shift=shift, prefix=prefix, index=index, where=where)
    table = here.stage("table", Symbol("P"), "Position table", ("token", "d_model"),
                       sines_and_cosines(dim, layout), (stages[-1].name,), (
        "The sine or cosine of the angle of token i and of the pair of column j.",
        "Every row is another position, whatever the token."))
    return givens, (*stages, table, _placed(here, source, table))


def learned_position_lines(source: str = "x", *, prefix: str = "", index: str = "", where: str = "") -> Lines:
    """One learned row per position, added to the line `source`. The last stage is the sum."""
    here = Naming(prefix, index, where)
    places = here.given("places", Symbol("P"), "Position table", ("token", "d_model"), (
        "The number added to feature j of whichever token stands at position i.",
        "One row per position, learned in a model. Beyond its last row there is nothing to add."),
        is_learned=True)
    return (places,), (_placed(here, source, places),)


def _placed(here: Naming, source: str, table: Given | Stage) -> Stage:
    return here.stage("placed", Symbol("X", sub="P"), "X with positions", ("token", "d_model"),
                      ADD, (source, table.name), _PLACED_SAYS)


def turned_stage(
    source: Given | Stage,
    width: int,
    angles: str = "angles",
    *,
    pairing: Pairing = "interleaved",
    rotary_dim: int = 0,
) -> Stage:
    """The line `source`, `width` columns wide, with the pairs of each row turned by the row's angles (RoPE).

    It is called turned_<source>. Raises ValueError for an odd width and for another pairing.
    """
    return Stage(
        f"turned_{source.name}",
        rf"\widetilde{{{source.symbol}}}",
        (*source.mark, ("~", "sup")),
        f"{source.title} turned",
        rotation(width, pairing, rotary_dim),
        (source.name, angles),
        source.axes,
        "One number of a pair of row i, after the pair has been turned by its angle.",
        "Every pair keeps its length: only its direction says where the token stands.",
        step=0,
    )


def distance_lines(*, shift: bool = False, prefix: str = "", index: str = "", where: str = "") -> Lines:
    """Minus the distance between every two positions, (n, n), the last stage. Every head uses the same."""
    here = Naming(prefix, index, where)
    givens, stages = position_lines(shift=shift, prefix=prefix, index=index, where=where)
    positions = stages[-1].name if stages else givens[0].name
    across = here.stage("positions_t", Symbol("p", sup="⊤"), "Positions transposed", (ONE, "token"),
                        TRANSPOSE, (positions,), (
        "The position of token j, now in column j.",
        "Each position has become a column, so that it can meet every other one."))
    away = here.stage("distance", Symbol(r"\Delta", "Δ"), "Minus the distance", ("query", "key"),
                      DISTANCE, (positions, across.name), (
        "How far query i and key j are apart, with a minus.",
        "0 on the diagonal, one less with every step away from it."))
    return givens, (*stages, across, away)


def alibi_lines(
    source: str = "scaled",
    distance: str = "distance",
    *,
    prefix: str = "",
    index: str = "",
    where: str = "",
) -> Lines:
    """A head's slope times minus the distance, added to its scaled scores `source`, the last stage."""
    here = Naming(prefix, index, where)
    slope = here.given("slope", Symbol("m"), "Slope", (), (
        "The number that every distance is multiplied by in this head.",
        "A steep slope keeps a head to its neighbours; 0 makes all distances equal."))
    penalty = here.stage("alibi", Symbol("B", sub="ALiBi"), "ALiBi bias", ("query", "key"),
                         SCALE, (distance, slope.name), (
        "What the score of query i and key j loses for their distance.",
        "Nothing is learned here, and no position is added to any row."))
    biased = here.stage("biased", Symbol("S", sub="biased"), "Biased scores", ("query", "key"),
                        ADD, (source, penalty.name), (
        "The scaled score less the slope times the distance.",
        "Of two equal scores the nearer key keeps more."))
    return (slope,), (penalty, biased)
# fmt: on


@cache
def sinusoid_sheet(dim: int, *, layout: Layout = "interleaved", shift: bool = False) -> Sheet:
    """X, `dim` wide, plus sines and cosines."""
    givens, stages = sinusoid_lines(dim, layout=layout, shift=shift)
    return Sheet((X, *givens), stages)


@cache
def learned_position_sheet() -> Sheet:
    """X plus a learned row per position."""
    givens, stages = learned_position_lines()
    return Sheet((X, *givens), stages)


@cache
def rope_sheet(
    width: int, *, pairing: Pairing = "interleaved", rotary_dim: int = 0, shift: bool = False
) -> Sheet:
    """X, `width` wide, with every row turned by its position."""
    givens, stages = angle_lines(shift=shift)
    turned = turned_stage(X, width, pairing=pairing, rotary_dim=rotary_dim)
    return Sheet((X, *givens), (*stages, turned))

"""The sheet of lesson 5's second half: the same tokens twice, as they stand and with something moved.

Either all positions move on by the same number, or the tokens change places while the positions stay. Only
the lines that follow from what has moved are worked out again, under the same names with _b. The last line is
what differs: of the scores where positions moved on, of the output, put back in order, where tokens changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from attention_core.differences import DIFFERENCE
from attention_core.elementwise import PLUS_NUMBER
from attention_core.heads import columns
from attention_core.operations import ADD
from attention_core.position_sheets import (
    alibi_lines,
    angle_lines,
    distance_lines,
    sinusoid_lines,
    turned_stage,
)
from attention_core.rows import taken_rows
from attention_core.sheet import ONE, Lines, Sheet, Stage, given, mark, stage
from attention_core.sheets import attention_sheet
from attention_core.waves import FREQUENCY, Pairing

Kind = Literal["none", "sinusoids", "learned", "rope-interleaved", "rope-half", "alibi"]
Order = tuple[int, ...]

KINDS = ("none", "sinusoids", "learned", "rope-interleaved", "rope-half", "alibi")
PAIRINGS: Mapping[str, Pairing] = {"rope-interleaved": "interleaved", "rope-half": "half"}
_OTHER: Mapping[Pairing, Pairing] = {"interleaved": "half", "half": "interleaved"}
_ATTENTION = attention_sheet(from_x=True)
_TOKENS = ("token", "query", "key")


@dataclass(frozen=True)
class Placed:
    """What tells one such sheet from another.

    order: the tokens change places, row i is then row order[i] of X; None: all positions move on. moved: by
    how many rows of a learned table. mixed: the mistake of turning Q with one pairing of RoPE and K with the
    other. head: whose slope ALiBi takes, counted from 1.
    """

    kind: Kind
    n: int
    d_model: int
    d_k: int
    order: Order | None = None
    moved: int = 0
    mixed: bool = False
    head: int = 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is one of {', '.join(KINDS)}, not {self.kind!r}")
        if self.order is not None and sorted(self.order) != list(range(self.n)):
            raise ValueError(f"the order {self.order} does not name every row of {self.n} once")

    @property
    def compared(self) -> str:
        """The line whose difference is asked for: what the softmax is made from, but for the mask."""
        return "output" if self.order is not None else "biased" if self.kind == "alibi" else "scores"


# fmt: off
_PLACES = given("places", "P", mark("P"), "Table of positions", "place d_model", 0, (
    "The number added to feature j of whichever token stands at this position.",
    "One row per position, learned in a model. Beyond its last row there is nothing to add."),
    is_learned=True)
_ROWS = ("table", r"P_{\text{rows}}", mark("P", "rows"), "Rows of the table", "token d_model", 0)
_ROWS_SAYS = (
    "One number of the row of the table for the position of token i.",
    "The table does not know how its rows belong together; each is learned for itself.")
_PLACED = stage(("placed", "X_P", mark("X", "P"), "X with positions", "token d_model", 0), ADD, "x table", (
    "One number of X plus the same number of the row for its position.",
    "The same word at two positions now has two different rows."))
_EXPONENTS = given("slope_exponents", "e", mark("e"), "Exponents of the slopes", f"{ONE} head", 0, (
    "The slope of this head is 2 to the power of minus this number.",
    "8h/H for head h of H where H is a power of 2; other numbers of heads take some from twice as many."))
_TWO = given("two", "2", mark("2"), "Base of the slopes", "", 0, (
    "The number whose powers are the slopes.", "It is 2."))
_SLOPES = stage(("slopes", "m", mark("m"), "Slopes", f"{ONE} head", 0), FREQUENCY, "slope_exponents two", (
    "How much of its score a pair of tokens loses in this head for every step between them.",
    "A steep slope keeps a head to its neighbours, a flat one sees far."))
_SHIFT = given("position_shift", r"\delta", mark("δ"), "Position shift", "", 0, (
    "The number added to the positions of all tokens.",
    "The distances between tokens stay what they were."))
_SHIFTED = stage(("positions_b", "p'", mark("p", sup="′"), "Positions, moved on", f"token {ONE}", 0),
                 PLUS_NUMBER, "positions position_shift", (
    "The position of token i, moved on by the shift.",
    "All tokens move by the same number, so their distances stay."))
_X_B = ("x_b", "X'", mark("X", sup="′"), "X, reordered", "token_b d_model", 0)
_X_B_SAYS = (
    "One number of the token that stands here now.",
    "The rows of X have changed places; the positions, counted down the rows, stay.")
_BACK = ("back", r"O'_{\text{back}}", mark("O", "back", "′"), "Output, put back", "query d_v", 0)
_BACK_SAYS = (
    "One number of the output of the same token, now in its old row.",
    "Compare it with the output before the tokens changed places.")
_DIFFERENCE = ("difference", "D", mark("D"), "Difference")
_DIFFERENCE_SAYS = {
    "output": (
        "What the output of this token has become, less what it was.",
        "0 everywhere means that the rows have changed places and nothing else has happened."),
    "scores": (
        "The score of query i and key j after the move, less what it was.",
        "0 everywhere means that only the distances count, or no position at all."),
}
# fmt: on


@cache
def placed_twice(placed: Placed) -> Sheet:
    """One head on X with positions, as the tokens stand and with something moved; then what differs.

    It starts from x, w_q, w_k, w_v, mask, divisor and, by kind, positions, exponents and base (sinusoids,
    RoPE), places (learned) or positions, slope_exponents and two (ALiBi); position_shift where these move on.
    Raises ValueError for another kind, an order that does not name every row once, RoPE of an odd width.
    """
    givens, stages = _once(placed)
    more, moved, word = _moved(placed)
    again = _again(stages, moved, word, own_tokens=placed.order is not None)
    beside = tuple(replace(line, step=0) for line in _ATTENTION.given)
    return Sheet((*beside, *givens, *more[0]), (*stages, *more[1], *again, *_results(placed, again)))


def _once(placed: Placed) -> Lines:
    """The lines as the tokens stand."""
    stages = [replace(line, step=0) for line in _ATTENTION.stages]
    if placed.kind == "none":
        return (), tuple(stages)
    if placed.kind == "alibi":
        return _with_slopes(placed, stages)
    if placed.kind in PAIRINGS:
        return _turned(placed, stages)
    if placed.kind == "sinusoids":
        givens, first = sinusoid_lines(placed.d_model)
    else:
        givens, first = (
            (_PLACES,),
            (stage(_ROWS, taken_rows(tuple(range(placed.n))), "places", _ROWS_SAYS), _PLACED),
        )
    return givens, (*first, *(_reading(line, {"x": "placed"}) for line in stages))


def _with_slopes(placed: Placed, stages: Sequence[Stage]) -> Lines:
    """ALiBi: one head's slope times the distance is taken off the scaled scores."""
    positions, distances = distance_lines()
    (number,), penalties = alibi_lines()
    line = ("slope", f"m_{{{placed.head}}}", mark("m", str(placed.head)), f"Slope of head {placed.head}",
            f"{ONE} {ONE}", 0)  # fmt: skip
    slope = stage(line, columns(placed.head - 1, 1), "slopes", (number.meaning, number.look))
    before = [line for line in stages if line.name in ("q", "k", "v", "k_t", "scores", "scaled")]
    after = [_reading(line, {"scaled": "biased"}) for line in stages if line not in before]
    return (*positions, _EXPONENTS, _TWO), (*before, *distances, _SLOPES, slope, *penalties, *after)


def _turned(placed: Placed, stages: Sequence[Stage]) -> Lines:
    """RoPE: the rows of Q and K are turned by their positions before they meet."""
    givens, angles = angle_lines()
    pairing = PAIRINGS[placed.kind]
    of_k = _OTHER[pairing] if placed.mixed else pairing
    q, k, v, *rest = stages
    turned = (turned_stage(q, placed.d_k, pairing=pairing), turned_stage(k, placed.d_k, pairing=of_k))
    names = {"q": "turned_q", "k": "turned_k"}
    return givens, (q, k, v, *angles, *turned, *(_reading(line, names) for line in rest))


def _moved(placed: Placed) -> tuple[Lines, dict[str, str], str]:
    """The lines that make the move, which line they stand in for, and the word for it in titles."""
    if placed.order is not None:
        return ((), (stage(_X_B, taken_rows(placed.order), "x", _X_B_SAYS),)), {"x": "x_b"}, "reordered"
    if placed.kind == "none":
        return ((), ()), {}, "moved on"
    if placed.kind == "learned":
        rows = taken_rows(tuple(range(placed.moved, placed.moved + placed.n)))
        (line,) = _again([stage(_ROWS, rows, "places", _ROWS_SAYS)], {"places": "places"}, "moved on")
        return ((), (line,)), {"table": line.name}, "moved on"
    return ((_SHIFT,), (_SHIFTED,)), {"positions": _SHIFTED.name}, "moved on"


def _again(
    stages: Sequence[Stage], moved: Mapping[str, str], word: str, *, own_tokens: bool = False
) -> tuple[Stage, ...]:
    """The stages that follow from what has moved, once more. own_tokens: their rows are in another order."""
    names = dict(moved)
    found = []
    for line in stages:
        if line.name in names or not any(name in names for name in line.inputs):
            continue
        names[line.name] = f"{line.name}_b"
        found.append(
            replace(
                _reading(line, names),
                name=names[line.name],
                symbol=f"{{{line.symbol}}}'",
                mark=(*line.mark, ("′", "sup")),
                title=f"{line.title}, {word}",
                axes=tuple(f"{axis}_b" if own_tokens and axis in _TOKENS else axis for axis in line.axes),
            )
        )
    return tuple(found)


def _reading(line: Stage, names: Mapping[str, str]) -> Stage:
    """The stage with other lines for its inputs."""
    return replace(
        line,
        inputs=tuple(names.get(name, name) for name in line.inputs),
        aside=names.get(line.aside, line.aside),
    )


def _results(placed: Placed, again: Sequence[Stage]) -> tuple[Stage, ...]:
    """What differs. Where nothing followed from the move, a line is compared with itself."""
    line = placed.compared
    other = f"{line}_b" if any(stage.name == f"{line}_b" for stage in again) else line
    if placed.order is None:
        return (
            stage((*_DIFFERENCE, "query key", 0), DIFFERENCE, f"{other} {line}", _DIFFERENCE_SAYS["scores"]),
        )
    back = stage(_BACK, taken_rows(inverse(placed.order)), other, _BACK_SAYS)
    says = _DIFFERENCE_SAYS["output"]
    return (back, stage((*_DIFFERENCE, "query d_v", 0), DIFFERENCE, f"back {line}", says))


def inverse(order: Order) -> Order:
    """The order that puts rows taken in another order back."""
    return tuple(order.index(i) for i in range(len(order)))

"""The sheet of lesson 4: attention with softmax taken apart, one stage for each of its steps.

Two things can go wrong on purpose: the largest score of a row is not taken off, so that exp can run over,
and the mask comes after softmax, so that what a row gives to blocked keys is lost.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from attention_core.elementwise import OVER_FIRST, PLUS_NUMBER
from attention_core.operations import Operation
from attention_core.sheet import ONE, Mark, Sheet, Stage, given, mark, stage
from attention_core.sheets import OUTPUT, RULE, WEIGHTS, attention_sheet
from attention_core.softmax_steps import EXP, MAXIMUM, MAXIMUM_OFF, OPEN_ONLY, OVER_NUMBER, SHARE, TOTAL

_Written = tuple[tuple[str, str, Mark, str, str, int], tuple[str, str]]  # a line, and what it says

_TABLE, _COLUMN = "query key", f"query {ONE}"

# fmt: off
TEMPERATURE = given("temperature", "T", mark("T"), "Temperature", "", 0, (
    "The number that every score is divided by before softmax.",
    "Below 1 the largest weight of a row grows, above 1 the weights come closer to one another."))
AMOUNT = given("amount", "c", mark("c"), "Amount", "", 0, (
    "The number added to every score.",
    "The same number for a whole row changes no weight."))

_TEMPERED = (("tempered", "S_T", mark("S", "T"), "Over temperature", _TABLE, 0), (
    "The scaled score divided by the temperature.",
    "The order within a row stays the same; the distances change."))
_RAISED = (("raised", "S_c", mark("S", "c"), "Plus amount", _TABLE, 0), (
    "The score so far plus the amount.",
    "Every score of the table moves by the same amount, so no distance changes."))
_MAXIMUM = (("maximum", "m", mark("m"), "Row maximum", _COLUMN, 0), (
    "The largest score of row i.",
    "One number per query."))
_BELOW = (("below", "D", mark("D"), "Maximum off", _TABLE, 0), (
    "How far the score lies below the largest of its row.",
    "The largest score of every row has become 0, all others lie below."))
_POWERS = (("powers", "E", mark("E"), "Exponentials", _TABLE, 0), (
    "e to the power of the number before it.",
    "Never negative. −∞ becomes 0, and 0 becomes 1."))
_TOTALS = (("totals", "z", mark("z"), "Sum of the row", _COLUMN, 0), (
    "All exponentials of row i added up.",
    "One number per query. With the maximum off it is at least 1, unless the query may look nowhere."))
_SHARES = (("shares", r"A_{\text{all}}", mark("A", "all"), "Shares of all keys", _TABLE, 0), (
    "The share of key j before the mask is looked at.",
    "Blocked keys still have a share: every row adds up to 1 with them."))
_ZEROED = ("The share of key j, put to 0 where query i may not look.",
           "What the blocked keys had is lost, and a row no longer adds up to 1.")
# fmt: on


@cache
def softmax_sheet(
    *,
    from_x: bool = False,
    temperature: bool = False,
    amount: bool = False,
    keep_maximum: bool = False,
    mask_after: bool = False,
) -> Sheet:
    """Attention from Q, K and V or from X, softmax in steps.

    temperature and amount add a line each, given under these names. keep_maximum leaves out the maximum;
    where exponentials then run over or all vanish, a weight has no value. mask_after puts the shares of
    blocked keys to 0 after softmax instead of their scores to −∞ before it.
    """
    whole = attention_sheet(from_x=from_x)
    scaled = [line.name for line in whole.stages].index("scaled")
    stages = [*whole.stages[: scaled + 1]]
    if temperature:
        stages.append(_stage(_TEMPERED, OVER_NUMBER, stages[-1].name, "temperature"))
    if amount:
        stages.append(_stage(_RAISED, PLUS_NUMBER, stages[-1].name, "amount"))
    if not mask_after:
        stages.append(replace(whole.stage("masked"), inputs=(stages[-1].name, "mask")))
    stages += _exponentials(stages[-1].name, keep_maximum)
    stages += _weights(OVER_FIRST if keep_maximum else SHARE, mask_after)
    stages.append(replace(OUTPUT, aside="" if mask_after else OUTPUT.aside))
    matrices = [line for line in whole.given if line.name != RULE.name]
    return Sheet((*matrices, *(TEMPERATURE,) * temperature, *(AMOUNT,) * amount, RULE), tuple(stages))


def _exponentials(scores: str, keep_maximum: bool) -> list[Stage]:
    """From the scores to the exponentials and their sums, with or without taking the maximum off."""
    powers, totals = _stage(_POWERS, EXP, "below"), _stage(_TOTALS, TOTAL, "powers")
    if keep_maximum:
        return [replace(powers, inputs=(scores,)), totals]
    return [
        _stage(_MAXIMUM, MAXIMUM, scores),
        _stage(_BELOW, MAXIMUM_OFF, scores, "maximum"),
        powers,
        totals,
    ]


def _weights(divide: Operation, mask_after: bool) -> list[Stage]:
    """The weights, with the mask already in the scores or put over the shares."""
    if not mask_after:
        return [replace(WEIGHTS, operation=divide, inputs=("powers", "totals"))]
    meaning, look = _ZEROED
    return [
        _stage(_SHARES, divide, "powers", "totals"),
        replace(WEIGHTS, operation=OPEN_ONLY, inputs=("shares", "mask"), meaning=meaning, look=look),
    ]


def _stage(written: _Written, operation: Operation, *inputs: str) -> Stage:
    line, says = written
    return stage(line, operation, " ".join(inputs), says)

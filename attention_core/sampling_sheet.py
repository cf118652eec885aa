r"""The sheet of choosing a token: logits, temperature, probabilities, the k largest, the first that reach p.

    softmax(z / T)        top-k: the k largest stay        top-p: those stay before which the sum is below p

After either filter what stays is shared out again. Temperature 0 gives everything to the largest logit.
Top-k: Fan et al. 2018; top-p, nucleus sampling: Holtzman et al. 2020. Of equal numbers the first in the
vocabulary counts as the larger, so that exactly k stay; transformers keeps all that equal the k-th.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from attention_core.elementwise import OVER_FIRST
from attention_core.operations import SOFTMAX, Array, Operation, operation, per_cell, same_matrix
from attention_core.sheet import ONE, Mark, Sheet, Stage, given, mark, stage
from attention_core.softmax_sheet import TEMPERATURE
from attention_core.softmax_steps import OVER_NUMBER, TOTAL
from attention_core.worked import Cell, Work
from attention_core.written import equals, plain_sign, read, tex, wrapped

ROUNDING = 1e-12  # a sum that should be p may fall short of it by this much


def order(a: Any) -> Any:
    """The places of each row from the largest number to the smallest, of equal ones the first first."""
    return np.argsort(-a, axis=-1, kind="stable")


def keep_largest(a: Any, k: int) -> Any:
    """The k largest numbers of each row, 0 for the others."""
    places = order(a)[..., :k]
    result = np.zeros_like(a)
    np.put_along_axis(result, places, np.take_along_axis(a, places, axis=-1), axis=-1)
    return result


def running_sum(a: Any) -> Any:
    """Each number and all larger ones of its row added up."""
    places = order(a)
    result = np.zeros_like(a)
    sums = np.cumsum(np.take_along_axis(a, places, axis=-1), axis=-1)
    np.put_along_axis(result, places, sums, axis=-1)
    return result


def _largest_only(a: Array) -> Array:
    first: Array = (np.arange(a.shape[-1]) == a.argmax(axis=-1, keepdims=True)) * 1.0
    return first


def _until(a: Array, sums: Array, enough: Array) -> Array:
    return same_matrix(a, np.where(sums - a < enough - ROUNDING, a, 0.0))


def largest_only(here: Cell) -> Work:
    """All for the largest of the row, nothing for the others."""
    is_it = int(np.argmax(here.inputs[0][here.i])) == here.j
    why = f"{'' if is_it else 'not '}the largest of its row"
    text, value = here.show(here.number(0)), here.show(float(is_it))
    return Work(f"{text} is {why}: {value}", (rf"&\text{{{why}}}", f"{here.name} &= {tex(value)}"))


def summed(here: Cell) -> Work:
    """A number of the row after all larger ones, added up."""
    row, places = here.inputs[0][here.i], order(here.inputs[0][here.i]).tolist()
    terms = row[places[: places.index(here.j) + 1]].tolist()
    texts, value = [here.show(number) for number in terms], here.value(lambda: sum(terms))
    sign = equals([sum(map(read, texts))], [value])
    joined = [text if k == 0 or not text.startswith("−") else f"({text})" for k, text in enumerate(texts)]
    lines = wrapped(f"{here.name} &= ", [tex(text) for text in joined])
    return Work(f"{' + '.join(joined)} {plain_sign(sign)} {value}", (*lines, f"&{sign} {tex(value)}"))


def until(here: Cell) -> Work:
    """The number, where what is larger does not come to p."""
    number, sums, enough = here.number(0), here.number(1), here.number(2)
    text, before, p = here.show(number), here.show(sums - number), here.show(enough)
    stays = sums - number < enough - ROUNDING
    value = text if stays else here.show(0.0)
    said = f"larger ones have {before} together, {'less than' if stays else 'so they reach'} {p}"
    return Work(
        f"{said}: {f'{text} stays {text}' if stays else value}",
        (rf"&\text{{{said}}}".replace("−", "-"), f"{here.name} &= {tex(value)}"),
    )


@cache
def largest(k: int) -> Operation:
    """The operation that keeps the k largest numbers of every row and puts 0 for the others."""

    def compute(a: Array) -> Array:
        kept: Array = keep_largest(a, k)
        return kept

    def work(here: Cell) -> Work:
        text, zero = here.show(here.number(0)), here.show(0.0)
        stays = here.j in order(here.inputs[0][here.i])[:k]
        among = "the largest of its row" if k == 1 else f"among the {k} largest of its row"
        why = among if stays else f"not {among}"
        said = f"{text} stays {text}" if stays else zero
        return Work(f"{why}: {said}", (rf"&\text{{{why}}}", f"{here.name} &= {tex(text if stays else zero)}"))

    values = f"{{0}}.topk({k}, dim=-1)"
    return Operation(
        f"the {k} largest of a row",
        compute,
        rf"\operatorname{{{{top}}}}_{{{{{k}}}}}\left({{0}}\right)",
        f"keep_largest({{0}}, {k})",
        f"torch.zeros_like({{0}}).scatter(-1, {values}.indices, {values}.values)",
        ("row",),
        work,
        per_cell(0),
        (order, keep_largest),
    )


# fmt: off
LARGEST_ONLY = operation("all to the largest of a row", _largest_only, "row", largest_only, per_cell(0),
                         latex=r"\operatorname{{onehot}}\left(\arg\max_j \left({0}\right)_{{ij}}\right)",
                         code="(np.arange({0}.shape[-1]) == {0}.argmax(axis=-1, keepdims=True)) * 1.0",
                         torch="(torch.arange({0}.shape[-1]) == {0}.argmax(dim=-1, keepdim=True)).double()")
RUNNING_SUM = operation("sum from the largest on", running_sum, "row", summed, per_cell(1),
                        latex=r"\textstyle\sum_{{l:\, \left({0}\right)_{{il}} \ge \left({0}\right)_{{ij}}}} "
                              r"\left({0}\right)_{{il}}",
                        code="running_sum({0})", helpers=(order, running_sum),
                        torch="{0}.sort(dim=-1, descending=True).values.cumsum(-1)"
                              ".gather(-1, {0}.argsort(dim=-1, descending=True).argsort(-1))")
UNTIL = operation("until the sum is reached", _until, "cell cell all", until, per_cell(0),
                  latex=r"{0} \text{{ where }} {1} - {0} < {2} \text{{, else }} 0",
                  code=f"np.where({{1}} - {{0}} < {{2}} - {ROUNDING}, {{0}}, 0.0)",
                  torch=f"torch.where({{1}} - {{0}} < {{2}} - {ROUNDING}, {{0}}, 0.0)")

OPERATIONS = (LARGEST_ONLY, RUNNING_SUM)

_TABLE, _COLUMN = "token vocabulary", f"token {ONE}"
LOGITS = given("logits", "Z", mark("Z"), "Logits", _TABLE, 0, (
    "How strongly token j of the vocabulary is put forward as the next one.",
    "Any number; only differences within a row will matter."))
TOP_P = given("top_p", "p", mark("p"), "Top-p", "", 0, (
    "How much the tokens that stay must have together, at least.",
    "1 keeps all of them."))
_TEMPERED = stage(("tempered", "Z_T", mark("Z", "T"), "Logits over temperature", _TABLE, 0),
                  OVER_NUMBER, "logits temperature", (
    "The logit divided by the temperature.",
    "Below 1 the differences grow, above 1 they shrink."))
_PROBABILITIES = ("probabilities", "P", mark("P"), "Probabilities", _TABLE, 0)
_P_SAYS = ("The share of token j of the vocabulary.",
           "Every row adds up to 1.")
_GREEDY_SAYS = ("1 for the largest logit of the row, 0 for all others.",
                "At temperature 0 nothing is left to chance.")
_KEPT_SAYS = ("The probability, put to 0 where the token falls out.",
              "What falls out had a share; the rest no longer adds up to 1.")
_SUM_SAYS = ("What the tokens that stay have together.",
             "One number per row.")
_AGAIN_SAYS = ("The probability among the tokens that stay.",
               "Every row adds up to 1 again, in the same proportions.")
_RUNNING_SAYS = ("The probability of token j and of all likelier ones together.",
                 "Read it from the likeliest token on: it climbs to 1.")
# fmt: on


@cache
def sampling_sheet(*, greedy: bool = False, top_k: int | None = None, top_p: bool = False) -> Sheet:
    """From logits (n, vocabulary) to the probabilities that a token is drawn from, the last line.

    greedy: temperature 0, else it is given as `temperature`. top_k: how many stay, None for all. top_p: the
    sum that is enough is given as `top_p`. Raises ValueError for a top_k below 1.
    """
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k has to be at least 1, not {top_k}")
    stages = [*_shared_out(greedy)]
    if top_k is not None:
        kept = stage(
            _line("kept_k", "P_{k}", "k", "The k largest"), largest(top_k), "probabilities", _KEPT_SAYS
        )
        stages += [kept, *_again("k", "top-k")]
    if top_p:
        last = stages[-1].name
        running = ("running", "F", mark("F"), "Running sum", _TABLE, 0)
        stages.append(stage(running, RUNNING_SUM, last, _RUNNING_SAYS))
        line = _line("kept_p", "P_{p}", "p", "The first that reach p")
        stages += [stage(line, UNTIL, f"{last} running top_p", _KEPT_SAYS), *_again("p", "top-p")]
    warmth = () if greedy else (replace(TEMPERATURE, meaning="The number that every logit is divided by."),)
    return Sheet((LOGITS, *warmth, *(TOP_P,) * top_p), tuple(stages))


def _shared_out(greedy: bool) -> Iterator[Stage]:
    if greedy:
        yield stage(_PROBABILITIES, LARGEST_ONLY, "logits", _GREEDY_SAYS)
        return
    yield _TEMPERED
    yield stage(_PROBABILITIES, SOFTMAX, "tempered", _P_SAYS)


def _again(letter: str, word: str) -> Iterator[Stage]:
    """What stays, shared out again."""
    total = (f"sum_{letter}", f"s_{letter}", mark("s", letter), f"Sum after {word}", _COLUMN, 0)
    yield stage(total, TOTAL, f"kept_{letter}", _SUM_SAYS)
    line = _line(f"after_{letter}", rf"\widehat{{P}}_{{{letter}}}", letter, f"Probabilities after {word}")
    yield stage(line, OVER_FIRST, f"kept_{letter} sum_{letter}", _AGAIN_SAYS)


def _line(name: str, symbol: str, sub: str, title: str) -> tuple[str, str, Mark, str, str, int]:
    return name, symbol, mark("P", sub), title, _TABLE, 0

r"""The same tokens twice on one sheet: all at once under a causal mask, and one at a time with a cache.

    at once:  O = softmax(Q Kᵀ / √d_k + M) V
    step t:   q_t = x_t W_Q,  K_t = [ K_{t−1} ; x_t W_K ],  V_t = [ V_{t−1} ; x_t W_V ]
              o_t = softmax(q_t K_tᵀ / √d_k) V_t

A step needs no mask: the keys after it are not there yet. The lines of step 3 are x_3, q_3, k_3, …, where k_3
and v_3 are the cache after that step. Both ways add up the same products (Shazeer 2019, Fast Transformer
Decoding, 2.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Literal

from attention_core.appending import appended, one_under_another
from attention_core.cross_entropy_sheet import DIFFERENCE
from attention_core.operations import KEEP, MATMUL
from attention_core.rows import taken_rows
from attention_core.sheet import Given, Mark, Sheet, Stage, given, mark, stage
from attention_core.sheets import ATTENTION, PROJECTED, W_K, W_Q, W_V, X

Mistake = Literal["overwritten", "as first"]
MISTAKES = (None, "overwritten", "as first")
WORDS = {"k": "key", "v": "value"}

# fmt: off
_ROW_SAYS = ("One number of the vector that stands for token {t}.",
             "No other row of X is needed in this step.")
_Q_SAYS = ("One of the numbers that token {t} is compared by.",
           "It is used in this step only and is not kept.")
_NEW_SAYS = ("One number of the {word} of token {t}.",
             "It is worked out once and goes into the cache.")
_CACHE_SAYS = ("One number of the {word} of a token so far.",
               "The last row is new; the others are those of the step before.")
_RULE_SAYS = ("0 where token {t} may look at key j, −∞ where it may not.",
              "The mask of a first token: every key but the first is closed.")
_STEPPED = ("stepped", r"O_{\text{steps}}", mark("O", "steps"), "Output, token by token", "query_u d_v", 0)
_STEPPED_SAYS = ("One feature of the output of a token, from the step in which it was the new one.",
                 "A row for every step so far.")
_SAME = ("so_far", r"O_{\text{so far}}", mark("O", "so far"), "Output at once, so far", "query_u d_v", 0)
_SAME_SAYS = ("One feature of the output of a token, worked out with all tokens at once.",
              "The first rows of the output, as many as there have been steps.")
_APART = ("apart", r"\Delta", mark("Δ"), "Difference", "query_u d_v", 0)
_APART_SAYS = ("How far the output of a step lies from the same number worked out at once.",
               "0 everywhere, but for what float64 cannot hold.")
# fmt: on


@cache
def token_by_token(n: int, steps: int, *, mistake: Mistake | None = None) -> Sheet:
    """n tokens at once, the first `steps` of them one at a time, and the difference of the outputs.

    mistake "overwritten": every new row of K and V takes the place of the last one. "as first": a new token
    is masked by the rule of a first one, given as mask_2, mask_3, …
    Raises ValueError where steps is not from 1 to n, and for any other mistake.
    """
    if not 1 <= steps <= n:
        raise ValueError(f"of {n} tokens 1 to {n} can be worked through, not {steps}")
    if mistake not in MISTAKES:
        raise ValueError(f"mistake is one of {', '.join(map(str, MISTAKES))}, not {mistake!r}")
    beside = tuple(line for line in ATTENTION.given if line.name in ("divisor", "mask"))
    rules = tuple(_rule(t) for t in range(2, steps + 1) if mistake == "as first")
    lines = [line for t in range(1, steps + 1) for line in _step(t, mistake)]
    outputs = " ".join(f"output_{t}" for t in range(1, steps + 1))
    compared = (
        stage(_STEPPED, one_under_another(steps), outputs, _STEPPED_SAYS),
        stage(_SAME, taken_rows(tuple(range(steps))), "output", _SAME_SAYS),
        stage(_APART, DIFFERENCE, "stepped so_far", _APART_SAYS),
    )
    givens = (X, W_Q, W_K, W_V, *beside, *rules)
    return Sheet(tuple(replace(line, step=0) for line in givens), (*_at_once(), *lines, *compared))


def step_lines(sheet: Sheet, t: int) -> tuple[Stage, ...]:
    """The lines of one step, in their order."""
    return tuple(line for line in sheet.stages if line.name.endswith(f"_{t}"))


def _at_once() -> Iterator[Stage]:
    for line in PROJECTED.stages:
        yield replace(line, step=0)


def _step(t: int, mistake: Mistake | None) -> Iterator[Stage]:
    row = (f"x_{t}", f"x_{{{t}}}", mark("x", str(t)), f"Row of token {t}", f"query_{t} d_model", 0)
    query = (f"q_{t}", f"q_{{{t}}}", mark("q", str(t)), f"Query of token {t}", f"query_{t} d_k", 0)
    yield stage(row, taken_rows((t - 1,)), "x", _told(_ROW_SAYS, t))
    yield stage(query, MATMUL, f"x_{t} w_q", _told(_Q_SAYS, t))
    for letter in "kv":
        yield from _kept(letter, t, over=mistake == "overwritten")
    masked = mistake == "as first" and t > 1
    axis = f"key_{1 if mistake == 'overwritten' else t}"
    for line in ATTENTION.stages:
        if line.name != "masked" or masked:
            yield _numbered(line, t, axis, masked=masked)


def _kept(letter: str, t: int, *, over: bool) -> Iterator[Stage]:
    """The new row of K or V, and the cache after it."""
    symbol, word = letter.upper(), WORDS[letter]
    new = (
        f"new_{letter}_{t}", f"{letter}_{{{t}}}", mark(letter, str(t)), f"{word.capitalize()} of token {t}",
        f"query_{t} d_{letter}", 0,
    )  # fmt: skip
    axis = f"key_{1 if over else t}"
    whole = (
        f"{letter}_{t}", f"{symbol}_{{{t}}}", mark(symbol, str(t)), f"{symbol} in the cache after {t}",
        f"{axis} d_{letter}", 0,
    )  # fmt: skip
    yield stage(new, MATMUL, f"x_{t} w_{letter}", _told(_NEW_SAYS, t, word))
    if t == 1 or over:
        yield stage(whole, KEEP, new[0], _told(_CACHE_SAYS, t, word))
    else:
        yield stage(whole, appended(t - 1), f"{letter}_{t - 1} {new[0]}", _told(_CACHE_SAYS, t, word))


def _numbered(line: Stage, t: int, axis: str, *, masked: bool) -> Stage:
    """A line of attention as a line of step t; the weights read what comes before them, masked or not."""
    before = "masked" if masked else "scaled"
    names = {"masked": f"{before}_{t}", "divisor": "divisor"}
    axes = {"query": f"query_{t}", "key": axis}
    base, hat, power = line.symbol.partition("^")
    return replace(
        line,
        name=f"{line.name}_{t}",
        symbol=(f"{base[:-1]},{t}}}" if base.endswith("}") else f"{base}_{{{t}}}") + hat + power,
        mark=_mark(line.mark, t),
        title=f"{line.title}, step {t}",
        inputs=tuple(names.get(name, f"{name}_{t}") for name in line.inputs),
        axes=tuple(axes.get(each, each) for each in line.axes),
        aside=f"masked_{t}" if line.aside and masked else "",
        step=0,
    )


def _mark(pieces: Mark, t: int) -> Mark:
    """The plain pieces of a symbol, numbered."""
    sub = next((text for text, place in pieces if place == "sub"), "")
    sup = next((text for text, place in pieces if place == "sup"), "")
    return mark(pieces[0][0], f"{sub}, {t}" if sub else str(t), sup)


def _rule(t: int) -> Given:
    line = (f"mask_{t}", f"M_{{{t}}}", mark("M", str(t)), f"Mask, step {t}", f"query_{t} key_{t}", 0)
    return given(*line, _told(_RULE_SAYS, t), is_rule=True)


def _told(says: tuple[str, str], t: int, word: str = "") -> tuple[str, str]:
    return says[0].format(t=t, word=word), says[1]

"""Lesson 15, find the bug: twelve wrong attentions behind numbers, to be told apart by what they give.

Four heads of queries share two heads of keys and values, all made from the bench's own numbers. The board
shows one head as it should be, and beside it the weights and the output that the hidden program gave. What a
reader has answered is part of the link; which mistake is behind which number follows from the round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from string import ascii_lowercase

import numpy as np

from attention_core.head_sheets import heads_sheet
from attention_core.numbers import show
from attention_core.operations import Array
from attention_core.sheet import Sheet, arrow, given, mark
from attention_core.verify import Tolerance as Within
from attention_core.verify import agree, apart, outcome
from attention_core.written import visible
from attention_core.wrong import TWELVE, WRONG, Problem, hidden
from attention_ui import prose, teaching
from attention_ui.bench import Bench
from attention_ui.board import Unit
from attention_ui.choices import Amount, Choice
from attention_ui.desk import Desk
from attention_ui.grids import PROJECTIONS
from attention_ui.scene import Scene, worked
from attention_ui.teaching import SHOWN, UNDECIDED

HEADS, SHARED, WIDTH = 4, 2, 2
LEAST = 0.005  # what two numbers have to differ by to be told apart at two decimals
ROUNDED = Within("rounding", 1e-9, 1e-9)
ROUNDS = {"1": "first", "2": "second", "3": "third"}

BUG = Amount("p15.bug", "Bug", 1, len(TWELVE), 1)
ROUND = Choice(
    "p15.round", "Round", {word: word for word in ROUNDS}, "1", help="The same twelve in another order."
)
HEAD = Choice("p15.head", "Head in detail", {str(n): str(n) for n in range(1, HEADS + 1)}, "2")
ADDED = Choice(
    "p15.added", "Added to every score", {"0": "nothing", "1000": "1000"}, "1000",
    help="The same number on every score of a row changes no weight, unless the maximum is forgotten.",
)  # fmt: skip

# fmt: off
FOUND = (
    given("weights_f", r"A^{\text{found}}", mark("A", sup="found"), "Weights found", "query key", 0, (
        "What the wrong program gave for the share of query i that goes to key j.",
        "Compare it with the weights as they should be, row by row.")),
    given("output_f", r"O^{\text{found}}", mark("O", sup="found"), "Output found", "query d_v", 0, (
        "What the wrong program gave for one feature of the output.",
        "Compare it with the output as it should be.")),
)
# fmt: on


def guess_of(bench: Bench, number: int | None = None) -> Choice:
    """What asks for the mistake behind a bug of this round, by default the one that is shown."""
    number = int(BUG.of(bench)) if number is None else number
    name = f"p15.{ROUNDS[ROUND.of(bench)]}_{ascii_lowercase[number - 1]}"
    options = {UNDECIDED: "not yet", **{word: WRONG[word].title for word in TWELVE}, SHOWN: "just show me"}
    return Choice(name, f"Which mistake is behind bug {number}?", options, UNDECIDED, kind="list")


def behind(bench: Bench, number: int | None = None) -> str:
    """The mistake that is hidden behind a bug of this round."""
    return hidden(int(ROUND.of(bench)))[int(BUG.of(bench)) - 1 if number is None else number - 1]


@lru_cache(maxsize=16)
def _sheet(head: int, from_x: bool) -> Sheet:
    """One head of four, and what was found for it."""
    whole = heads_sheet(HEADS, SHARED, d_head=WIDTH, d_value=WIDTH, from_x=from_x, bias=True)
    own = {f"{name}_{head}" for name in ("q", "scores", "scaled", "biased", "masked", "weights", "output")}
    own |= {f"{name}_{key_head(head)}" for name in ("k", "v", "k_t")} | {"q", "k", "v"}
    givens = tuple(line for line in whole.given if line.name != "w_o")
    return Sheet((*givens, *FOUND), tuple(line for line in whole.stages if line.name in own))


def key_head(head: int) -> int:
    """The head of keys and values that a head of queries reads, both counted from 1."""
    return (head - 1) // (HEADS // SHARED) + 1


def scene_of(desk: Desk) -> Scene:
    """The head in detail as it should be, and what the hidden mistake makes of it."""
    bench = desk.bench
    n, head = bench.n_k, int(HEAD.of(bench))
    sizes = {
        "token": n, "query": n, "key": n, "d_k": WIDTH, "d_v": WIDTH,
        "n_heads·d_k": HEADS * WIDTH, "n_kv_heads·d_k": SHARED * WIDTH, "n_kv_heads·d_v": SHARED * WIDTH,
    }  # fmt: skip
    empty = {"weights_f": np.zeros((n, n)), "output_f": np.zeros((n, WIDTH))}
    numbers = {"divisor": np.sqrt(WIDTH), "bias": np.full((n, n), float(ADDED.of(bench)))}
    now = worked(
        bench, _sheet(head, bench.way == "x"), numbers | empty, sizes=sizes,
        compared=(
            (f"scores_{head}",), (f"biased_{head}", f"masked_{head}"),
            (f"v_{key_head(head)}", f"output_{head}", "output_f"),
        ),
    )  # fmt: skip
    made = found(now)
    return replace(
        now, values={**now.values, **{f"{name}_f": made[name][head - 1] for name in ("weights", "output")}}
    )


def problem_of(now: Scene) -> Problem:
    """Q, K and V of all heads, as the program gets them."""
    v = now.values
    added = float(ADDED.of(now.bench))
    return Problem(v["q"], v["k"], v["v"], v["mask"], HEADS * WIDTH, HEADS, SHARED, added)


def found(now: Scene) -> Mapping[str, Array]:
    """Every stage of all heads as the hidden mistake makes them."""
    return _made(now, behind(now.bench))


def _made(now: Scene, name: str | None) -> Mapping[str, Array]:
    made = outcome(name, problem_of(now))
    assert made is not None  # as many queries as keys: every mistake can be made
    return made


def layout_of(desk: Desk, now: Scene) -> list[list[Unit]]:
    """One head as it should be, below it what was found, and the numbers that both come from."""
    bench = desk.bench
    head, few = HEAD.of(bench), key_head(int(HEAD.of(bench)))
    ways = [("scores", "masked")] if float(ADDED.of(bench)) else [("scores", "scaled"), ("biased", "masked")]
    numbers = {"divisor": f"√{WIDTH}", "bias": ADDED.of(bench)}
    said = [arrow(now.sheet, f"{since}_{head}", f"{name}_{head}", **numbers) for since, name in ways]
    start = PROJECTIONS if bench.way == "x" else [Unit("q"), Unit("k"), Unit("v")]
    return [
        [
            Unit(f"scores_{head}", left=f"q_{head}", top=f"k_t_{few}"),
            Unit(f"masked_{head}", via=", ".join(said)),
        ],
        [Unit(f"output_{head}", left=f"weights_{head}", top=f"v_{few}")],
        [Unit("output_f", left="weights_f")],
        start,
    ]


def alike(now: Scene) -> list[str | None]:
    """The twelve, and None for the right calculation, that cannot be told from the hidden one on screen."""
    made = found(now)
    return [name for name in (None, *TWELVE) if not apart(_made(now, name), made, LEAST)]


def tell(desk: Desk, now: Scene) -> None:
    """What came of the guess about the bug on screen, and how far all twelve have come."""
    bench, names = desk.bench, alike(now)
    guess = guess_of(bench).of(bench)
    if guess == UNDECIDED:
        prose.paragraph("Say above which mistake it is; the numbers then answer.", kind="quiet")
    elif guess in (SHOWN, *names):
        opening = "It is this mistake" if guess == SHOWN else "Yes"
        shown = behind(bench) if guess == SHOWN else guess
        prose.paragraph(f"{opening}: {WRONG[shown].title}. {WRONG[shown].consequence}", kind="strong")
        prose.terms(lines(shown))
    else:
        prose.paragraph(_refuted(now, guess), kind="strong")
    if guess != UNDECIDED and len(names) > 1:
        prose.paragraph(_cannot_tell(names))
    prose.paragraph(progress(bench, now), kind="quiet")


def lines(name: str) -> list[tuple[str, str]]:
    """The lines of the program that a mistake changes, as they should be and as they are."""
    pairs = WRONG[name].changed
    return [
        (what, code)
        for right, wrong in pairs
        for what, code in (("The line should be", right), ("The line is", wrong))
    ]


def _refuted(now: Scene, guess: str) -> str:
    """A number that the guessed mistake would not have given, from the head in detail if it can be."""
    head = int(HEAD.of(now.bench))
    is_here, would = found(now), _made(now, guess)
    for at in (head, *(other for other in range(1, HEADS + 1) if other != head)):
        for name in ("weights", "output"):
            here, there = is_here[name][at - 1], would[name][at - 1]
            gap = np.abs(here - there)
            gap[np.isnan(here) & np.isnan(there)] = 0.0
            gap[np.isnan(here) != np.isnan(there)] = np.inf
            if gap.max() > LEAST:
                i, j = (int(place) for place in np.unravel_index(int(gap.argmax()), gap.shape))
                return (
                    f"Not this one: {WRONG[guess].title} would give {_said(there[i, j])} in row {i + 1}, "
                    f"column {j + 1} of the {name} of head {at}. Found is {_said(here[i, j])}."
                )
    raise AssertionError("a guess that is not told apart is right")


def _said(number: float) -> str:
    return "no value" if np.isnan(number) else visible(float(number), show)


def _cannot_tell(names: list[str | None]) -> str:
    """Which answers these numbers cannot tell apart."""
    titles = [WRONG[name].title for name in names if name is not None]
    if None in names:
        others = f" Neither do these change anything: {'; '.join(titles)}." if len(titles) > 1 else ""
        nothing = f"On these numbers the bug changes nothing by more than {_least()}."
        return f"{nothing}{others} Any answer of these counts."
    return f"To within {_least()} these give the same numbers, and each counts: {'; '.join(titles)}."


def _least() -> str:
    return visible(LEAST, show)


def progress(bench: Bench, now: Scene) -> str:
    """How many of the twelve have been found, and which were tried in vain."""
    made = {name: _made(now, name) for name in TWELVE}
    right: list[str] = []
    tried: list[str] = []
    for number in range(1, len(TWELVE) + 1):
        guess = guess_of(bench, number).of(bench)
        if guess in (UNDECIDED, SHOWN):
            continue
        is_right = not apart(made[guess], made[behind(bench, number)], LEAST)
        (right if is_right else tried).append(str(number))
    text = f"Found {len(right)} of {len(TWELVE)}{_which(right)}."
    return f"{text} Tried, and not right yet{_which(tried)}." if tried else text


def _which(numbers: list[str]) -> str:
    if not numbers:
        return ""
    *first, last = numbers
    return f": bugs {', '.join(first)} and {last}" if first else f": bug {last}"


def clues(now: Scene) -> list[tuple[str, bool]]:
    """What holds of what was found, in all heads: each mistake leaves some of it standing."""
    right, made = _made(now, None), found(now)
    mask = now.values["mask"]
    weights, output = made["weights"], made["output"]
    sums = np.broadcast_to(mask.any(axis=1).astype(float), weights.shape[:-1])
    open_only = np.where(mask, weights, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        total = open_only.sum(axis=-1, keepdims=True)
        shares = open_only / np.where(total == 0.0, 1.0, total)
    values = np.repeat(np.stack(np.split(now.values["v"], SHARED, axis=1)), HEADS // SHARED, axis=0)
    return [
        (
            "Every row of weights adds up to 1, or to 0 where its query may look nowhere.",
            agree(weights.sum(axis=-1), sums, ROUNDED),
        ),
        ("No key that the mask blocks has any weight.", not np.where(mask, 0.0, weights).any()),
        (
            "Of two open keys, the one with the larger score never has less weight.",
            _in_order(weights, right, mask),
        ),
        (
            "Open keys share what they have as e to the scaled scores.",
            agree(shares, right["weights"], ROUNDED),
        ),
        (
            "The output is the weights found times the values of each head.",
            agree(output, weights @ values, ROUNDED),
        ),
    ]


def _in_order(weights: Array, right: Mapping[str, Array], mask: np.ndarray) -> bool:
    """Whether larger scores have at least as much weight, row by row over the open keys."""
    for head, table in zip(weights, right["scaled"], strict=True):
        for row, scores, allow in zip(head, table, mask, strict=True):
            if np.isnan(row).any():
                return False
            order = np.argsort(scores[allow], kind="stable")
            ranked, ties = row[allow][order], np.diff(scores[allow][order]) <= 1e-9
            if ((np.diff(ranked) < -1e-9) & ~ties).any():
                return False
    return True


def answer(desk: Desk) -> None:
    """The part of the page below the arithmetic."""
    now = scene_of(desk)
    tell(desk, now)
    teaching.check(clues(now), title="What holds of the numbers found, in all four heads")

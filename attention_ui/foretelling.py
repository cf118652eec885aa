"""Lesson 11, on the board: logits of a few tokens, their loss, its gradient, and one step by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import log

import numpy as np

from attention_core.cross_entropy import one_hot
from attention_core.cross_entropy_sheet import cross_entropy_sheet
from attention_core.gradients import STEP
from attention_core.numbers import show
from attention_core.sheet import Sheet, Stage
from attention_core.tried import losses_around
from attention_core.written import visible
from attention_ui import teaching
from attention_ui.bench import Bench, token_at
from attention_ui.board import Unit
from attention_ui.choices import Amount, Choice, Switch
from attention_ui.desk import Desk
from attention_ui.grids import unit_after
from attention_ui.scene import Scene, worked
from attention_ui.theme import colour_limit
from attention_ui.tokens import isolated, literal

START = Choice(
    "p11.start", "Start from", {"logits": "logits", "rows": "H and W_out"}, "logits",
    help="H holds the rows of the tokens after the last layer; H times W_out are the logits.",
)  # fmt: skip
RATE = Amount("p11.rate", "Learning rate η", 0.1, 10.0, 1.0, 0.1)
UNSHIFTED = Switch("p11.unshifted", "Mistake: targets not moved on by one")
WITHOUT_Y = Switch("p11.without_y", "Mistake: forget to subtract y")
GUESS = teaching.prediction(
    "p11.guess",
    "One step is taken against the gradient. Which logits of a row go up?",
    {"one": "only that of the token that came", "likely": "those that were likely", "all": "all of them"},
)
CLOSE = 1e-6  # of the gradient and what trying finds
SUM = 1e-12  # how far a row of the gradient may be from adding up to 0
_FORGOTTEN = (
    "How much the step is told that the loss moves with this logit.",
    "The probability alone, over the number of tokens: y is missing.",
)


def n_of(bench: Bench) -> int:
    """Tokens of the text; the last one is foretold and foretells nothing."""
    return max(2, bench.n_k)


def tokens_of(bench: Bench) -> list[str]:
    return [token_at(bench, i) for i in range(n_of(bench))]


def vocabulary_of(bench: Bench) -> list[str]:
    """Every token of the text once, in the order in which they come."""
    return list(dict.fromkeys(tokens_of(bench)))


def targets_of(bench: Bench, *, shifted: bool) -> np.ndarray:
    """(n − 1,): for each token but the last the number of the one after it; with the mistake its own."""
    tokens, vocabulary = tokens_of(bench), vocabulary_of(bench)
    return np.array([vocabulary.index(token) for token in (tokens[1:] if shifted else tokens[:-1])])


@cache
def sheet_of(start: str, *, without_y: bool) -> Sheet:
    """Logits to loss, gradient, step and loss again; with the mistake the gradient lacks y."""
    sheet = cross_entropy_sheet(from_rows=start == "rows", step=True)
    if not without_y:
        return sheet
    return Sheet(sheet.given, tuple(map(_without_y, sheet.stages)))


def _without_y(line: Stage) -> Stage:
    if line.name != "d_logits":
        return line
    return replace(line, inputs=("probabilities",), meaning=_FORGOTTEN[0], look=_FORGOTTEN[1])


def scene_of(desk: Desk) -> Scene:
    bench = desk.bench
    words = [literal(token) for token in vocabulary_of(bench)]
    tokens = tuple(literal(token) for token in tokens_of(bench)[:-1])
    targets = targets_of(bench, shifted=not UNSHIFTED.of(bench))
    now = worked(
        bench, sheet_of(START.of(bench), without_y=WITHOUT_Y.of(bench)),
        {"targets": one_hot(targets, len(words)), "rate": RATE.of(bench)},
        sizes={"token": len(tokens), "vocabulary": len(words)},
        named={"token": tokens, "vocabulary": tuple(words)},
        compared=(
            ("logits", "logits_new"), ("losses", "losses_new", "loss", "loss_new"), ("w_out", "w_out_new"),
            ("h", "h_t"),
        ),
    )  # fmt: skip
    now.limits.update({(name,): 1.0 for name in ("probabilities", "targets", "error")})
    now.limits[("taken_off",)] = colour_limit(now.values[moved(bench)])
    return now


def moved(bench: Bench) -> str:
    """What the step moves."""
    return "w_out" if START.of(bench) == "rows" else "logits"


def layout_of(desk: Desk, now: Scene) -> list[list[Unit]]:
    """Forward, the loss, the gradient, and where the prediction has been made, the step."""
    rows = START.of(desk.bench) == "rows"
    logits = Unit("logits", left="h", top="w_out") if rows else Unit("logits")
    is_whole = not WITHOUT_Y.of(desk.bench)
    error = [Unit("error"), unit_after(now, "error", "d_logits") if is_whole else Unit("d_logits")]
    lines = [
        [logits, unit_after(now, "logits", "probabilities"), Unit("targets")],
        [Unit("logs"), unit_after(now, "logs", "losses"), unit_after(now, "losses", "loss")],
        error,
    ]
    if rows:
        lines.append([Unit("d_w_out", left="h_t", top="d_logits", echo=["d_logits"])])
    if teaching.is_open(desk, GUESS):
        changed = moved(desk.bench)
        step = [unit_after(now, f"d_{changed}", "taken_off"), Unit(f"{changed}_new", via="taken off")]
        after = [Unit("logits_new")] * rows + [Unit("losses_new"), unit_after(now, "losses_new", "loss_new")]
        lines += [step, after]
    return lines


def verdict(desk: Desk, now: Scene) -> None:
    """Which logits go up with the step, in numbers."""
    change = now.values["logits_new"] - now.values["logits"]
    up, right = change > 0, now.values["targets"] > 0
    teaching.verdict(desk, GUESS, _which(up, right), _went_up(now, change, up, right))


def _which(up: np.ndarray, right: np.ndarray) -> str:
    """The answer that these rises stand for; "" where it is none of them."""
    if up.any() and not (up & ~right).any():
        return "one"
    return "all" if up.all() else ""


def _went_up(now: Scene, change: np.ndarray, up: np.ndarray, right: np.ndarray) -> str:
    if not up.any():
        return "No logit goes up: " + (
            "without y every probability is taken off, and nothing says which token came."
            if WITHOUT_Y.of(now.bench)
            else "the gradient is 0."
        )
    count = f"{int(up.sum())} of {up.size} logits go up"
    if (up & ~right).any():
        return (
            f"{count}, and {int((up & ~right).sum())} of them belong to tokens that did not come: the rows "
            "share W_out, and what helps one of them moves the others, too."
        )
    row = int(np.argmax(change.max(axis=1)))
    column = int(change[row].argmax())
    word = isolated(now.labels["vocabulary"][column])
    return (
        f"{count}, one for the token that came in each row that changes. In row {row + 1} it is “{word}”, "
        f"from {show(now.values['logits'][row, column])} to {show(now.values['logits_new'][row, column])}: "
        "p − y is below 0 only where y is 1."
    )


def claims(now: Scene) -> list[tuple[str, bool]]:
    values = now.values
    next_ones = targets_of(now.bench, shifted=True)
    before, after = (float(values[name][0, 0]) for name in ("loss", "loss_new"))
    sums = float(np.abs(values["d_logits"].sum(axis=1)).max())
    apart, close = _tried(now)
    still = not values["taken_off"].any()
    return [
        (
            "Every row’s target is the token that comes after it in the text.",
            bool(np.array_equal(values["targets"].argmax(axis=1), next_ones)),
        ),
        (f"The gradient is what trying finds: the largest difference is {visible(apart, show)}.", close),
        (
            "Every row of the gradient adds up to 0: what one token wins, others lose. The sums are off by "
            f"{visible(sums, show)} at most.",
            sums <= SUM,
        ),
        (
            f"The step takes the loss from {show(before)} to {show(after)}"
            + (": the gradient is 0, and nothing moves." if still else ", which is less."),
            _is_less(now),
        ),
    ]


def _is_less(now: Scene) -> bool:
    """Whether the step has made the loss smaller, or there was nothing to step along."""
    values = now.values
    return bool(values["loss_new"][0, 0] < values["loss"][0, 0] or not values["taken_off"].any())


def _tried(now: Scene) -> tuple[float, bool]:
    """How far the gradient of the logits is from what trying finds, and whether that is rounding."""
    sheet = sheet_of(START.of(now.bench), without_y=False)
    values = {**now.values, "one": np.ones((1, 1))}
    above, below = losses_around(sheet, values, "logits", target="loss", d_target="one")
    apart = float(np.abs(now.values["d_logits"] - (above - below) / (2 * STEP)).max())
    return apart, apart <= CLOSE * max(1.0, abs(float(now.values["loss"][0, 0])))


def chance(now: Scene) -> str:
    """The loss beside that of equal shares."""
    size = len(now.labels["vocabulary"])
    loss, equal = float(now.values["loss"][0, 0]), log(size)
    side = "worse" if loss > equal + 1e-12 else "better" if loss < equal - 1e-12 else "no better or worse"
    return (
        f"Equal shares for all {size} tokens of this vocabulary have the loss log {size} = {show(equal)}. "
        f"These logits have {show(loss)}: {side} than that."
    )


def why_wrong(now: Scene) -> list[str]:
    """What each mistake that is switched on has done."""
    found = []
    if UNSHIFTED.of(now.bench):
        found.append(
            "Every token is asked to foretell itself. It stands in its own row, so that copying it is "
            "enough: such a model reaches a loss near 0 and, asked to go on, repeats its last token for ever."
        )
    if WITHOUT_Y.of(now.bench):
        found.append(
            "p alone has no token that came in it. The step lowers every logit by its share, the likely ones "
            "most, whatever the text says: probabilities become equal, and nothing is learned."
        )
    elif not _is_less(now):
        largest = show(float(np.abs(now.values["taken_off"]).max()))
        found.append(
            f"The learning rate {show(float(now.values['rate']))} is too large here. The gradient says how "
            f"the loss falls where the step begins; a step that moves numbers by up to {largest} goes past "
            "the lowest place and up the other side. Make η smaller."
        )
    return found

"""What lesson 12 says of the numbers on screen: the two outputs, the work of every step, the draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attention_core.cost import sheet_costs, total
from attention_core.numbers import show
from attention_core.sampling import Draw, draw
from attention_core.sampling_sheet import ROUNDING
from attention_core.sheet import Cost
from attention_core.sheets import PROJECTED
from attention_core.token_by_token import step_lines
from attention_core.written import visible
from attention_ui import amounts, decoding
from attention_ui.decoding import SEED, TOP_K, TOP_P
from attention_ui.scene import Scene
from attention_ui.tokens import isolated

PRODUCTS = {"q": "q", "k": "new_k", "v": "new_v"}  # at once, and in a step
WEIGHTS = "fp16"  # two bytes a number, as in lesson 9


def last(now: Scene) -> int:
    """The number of the step that is on the board."""
    return decoding.steps(now.bench)


def apart(now: Scene) -> str:
    """The largest difference between the two outputs."""
    return visible(float(np.abs(now.values["apart"]).max()), show)


def is_same(now: Scene) -> bool:
    return _close(now.values["stepped"], now.values["so_far"])


def because(now: Scene) -> str:
    t = last(now)
    rows = f"the {t} rows" if t > 1 else "the row"
    reason = {
        None: "A key or a value depends on its own row of X only, so that a kept row is the row that would "
        "be worked out again.",
        "overwritten": "The cache holds the newest row alone, and a token that sees only itself gives its "
        "own value.",
        "as first": "A token that may look at the first key only gives the first value, whatever it asks.",
    }[decoding.mistake(now.bench)]
    return f"The largest difference between {rows} of both outputs is {apart(now)}. {reason}"


def claims(now: Scene, *, is_open: bool) -> list[tuple[str, bool]]:
    """What the lesson says, tried on the numbers on screen."""
    t, values = last(now), now.values
    found = []
    if is_open:
        found.append(
            (
                f"The outputs of {_count(t, 'step')} are rows of the output at once: the largest difference "
                f"is {apart(now)}.",
                is_same(now),
            )
        )
    kept = len(values[f"k_{t}"])
    found += [
        (
            f"The cache after {_count(t, 'step')} has {_count(kept, 'row')}, those of K and V worked out at "
            "once.",
            all(_close(values[f"{letter}_{t}"], values[letter][:t]) for letter in "kv"),
        ),
        (
            f"The weights of step {t} are row {t} of the weights at once, as far as it may look.",
            _close(values[f"weights_{t}"], values["weights"][t - 1 : t, :t]),
        ),
    ]
    return found + _counted(now) + _filtered(now)


def _counted(now: Scene) -> list[tuple[str, bool]]:
    """Claims about the work of the steps."""
    t = last(now)
    sizes = {axis: len(labels) for axis, labels in now.labels.items()}
    costs = {each.name: each for each in sheet_costs(now.sheet, sizes, numbers=WEIGHTS)}
    once = {each.name: each for each in at_once(now, t)}
    steps = [costs[f"{name}_{step}"].operations for step in range(1, t + 1) for name in PRODUCTS.values()]
    together = sum(once[name].operations for name in PRODUCTS)
    step, again = of_step(now, t), total(at_once(now, t))
    return [
        (
            f"The products with W_Q, W_K and W_V take {amounts.whole(sum(steps))} operations in "
            f"{_count(t, 'step')} and {amounts.whole(together)} for the same tokens at once.",
            sum(steps) == together,
        ),
        (
            f"Step {t} takes {amounts.whole(step.operations)} operations; without a cache it would take "
            f"{amounts.whole(again.operations)}, those of all {_count(t, 'token')} again.",
            step.operations <= again.operations,
        ),
    ]


def _filtered(now: Scene) -> list[tuple[str, bool]]:
    """Claims about the distribution of the next token."""
    final, bench = final_row(now), now.bench
    total_ = show(float(final.sum()))
    found = [
        (
            f"The shares that the next token is drawn from add up to {total_}.",
            bool(np.isclose(final.sum(), 1)),
        )
    ]
    if decoding.is_greedy(bench):
        best, drawn = int(now.values["logits"][0].argmax()), drawn_of(now).token
        words = now.labels["vocabulary"]
        found.append(
            (f"At temperature 0 the largest logit is taken, that of {isolated(words[best])}.", best == drawn)
        )
    elif "kept_k" in now.values:
        k, stay = int(TOP_K.of(bench)), int((now.values["kept_k"] > 0).sum())
        found.append((f"Top-k leaves {_count(stay, 'word')}, {k} at most.", stay <= k))
    if "kept_p" in now.values and not decoding.is_greedy(bench):
        p, kept = float(TOP_P.of(bench)), now.values["kept_p"][0]
        sum_, least = float(kept.sum()), float(kept[kept > 0].min())
        found.append(
            (
                f"The words that top-p leaves have {show(sum_)} together, at least {show(p)}; without the "
                "least likely of them they would have less.",
                sum_ >= p - 1e-9 and sum_ - least < p - ROUNDING,
            )
        )
    return found


def final_row(now: Scene) -> np.ndarray:
    """What the next token is drawn from: the last line of the sheet."""
    row: np.ndarray = now.values[now.sheet.stages[-1].name][0]
    return row


def drawn_of(now: Scene) -> Draw:
    """The draw of this step, from the seed and the step alone."""
    return draw(final_row(now), (int(SEED.of(now.bench)), last(now)))


def said_of_draw(now: Scene) -> str:
    """Which word is drawn, and why."""
    found, words = drawn_of(now), now.labels["vocabulary"]
    return (
        f"The draw is a number between 0 and 1, {visible(found.number, show)} here. The first running sum "
        f"above it is {show(float(found.sums[found.token]))}, so that {isolated(words[found.token])} comes "
        "next."
    )


def draw_rows(now: Scene) -> list[list[str]]:
    """Each word with its share, the running sum up to it, and whether it is drawn."""
    found, final = drawn_of(now), final_row(now)
    return [
        [
            isolated(word),
            visible(float(share), show),
            visible(float(sum_), show),
            "drawn" if place == found.token else "",
        ]
        for place, (word, share, sum_) in enumerate(
            zip(now.labels["vocabulary"], final.tolist(), found.sums.tolist(), strict=True)
        )
    ]


def of_step(now: Scene, t: int) -> Cost:
    """What step t takes: the lines that take an operation."""
    sizes = {axis: len(labels) for axis, labels in now.labels.items()}
    names = {line.name for line in step_lines(now.sheet, t)}
    costs = sheet_costs(now.sheet, sizes, numbers=WEIGHTS)
    return total((each for each in costs if each.name in names and each.operations), f"step {t}")


def at_once(now: Scene, t: int) -> Sequence[Cost]:
    """What t tokens at once take, line by line."""
    bench = now.bench
    sizes = {"token": t, "query": t, "key": t}
    sizes |= {axis: getattr(bench, axis) for axis in ("d_model", "d_k", "d_v")}
    return [each for each in sheet_costs(PROJECTED, sizes, numbers=WEIGHTS) if each.operations]


def work_rows(now: Scene) -> list[list[str]]:
    """Every step so far: rows in the cache after it, its operations and bytes, and those without a cache."""
    rows, words = [], now.labels["query"]
    steps = [of_step(now, t) for t in range(1, last(now) + 1)]
    again = [total(at_once(now, t)) for t in range(1, last(now) + 1)]
    for t, (step, whole) in enumerate(zip(steps, again, strict=True), 1):
        kept = len(now.values[f"k_{t}"])
        rows.append([f"step {t}, {isolated(words[t - 1])}", str(kept), *_numbers(step), *_numbers(whole)])
    rows.append(["together", "", *_numbers(total(steps)), *_numbers(total(again))])
    rows.append([f"{_count(last(now), 'token')} at once", "", *_numbers(again[-1]), "", ""])
    return rows


def _numbers(cost: Cost) -> list[str]:
    return [amounts.whole(cost.operations), amounts.whole(cost.bytes)]


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'s' * (n != 1)}"


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(
        np.allclose(a, b, rtol=1e-9, atol=1e-9 * (1 + np.abs(b).max(initial=0)))
    )

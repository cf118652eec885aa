"""Lesson 4 behind its page: the three-token window, softmax in steps, and what can be said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attention_core.numbers import show
from attention_core.softmax import softmax
from attention_core.softmax_sheet import softmax_sheet
from attention_core.softmax_steps import LARGEST, LARGEST_POWER
from attention_ui.bench import Bench
from attention_ui.board import Unit
from attention_ui.choices import Amount, Choice, Switch
from attention_ui.grids import PROJECTIONS, unit_after
from attention_ui.naming import named
from attention_ui.scene import Scene, worked
from attention_ui.teaching import prediction

Array = NDArray[np.float64]

STEPS = {
    "scores": "scores",
    "masked": "+ M",
    "maximum": "max",
    "below": "− max",
    "powers": "exp",
    "totals": "sum",
}
LAST = "totals"

N = Amount("p4.n", "Tokens n", 1, 8, 3)
UPTO = Choice("p4.upto", "Steps shown, up to", STEPS, LAST)
TEMPERATURE = Amount("p4.t", "Temperature T", 0.1, 5.0, 1.0, 0.1, help="Every score is divided by it.")
ADDED = Choice(
    "p4.add",
    "Added to every score",
    {"-1000": "−1000", "0": "0", "100": "100", "1000": "1000"},
    "0",
    help="The same amount everywhere: on paper it changes no weight.",
)
RAW = Switch("p4.raw", "Mistake: leave the maximum in")
AFTER = Switch("p4.after", "Mistake: put 0 after softmax, not −∞ before it")
GUESS = prediction(
    "p4.guess",
    "What will the first row of the weights be?",
    {"one": "1 for one token, 0 for the others", "equal": "equal shares", "shares": "shares by its scores"},
)


def amount_of(bench: Bench) -> float:
    return float(ADDED.of(bench))


def scene_of(bench: Bench) -> Scene:
    """The lesson's sheet on the first n tokens of the bench."""
    n, temperature, amount = int(N.of(bench)), float(TEMPERATURE.of(bench)), amount_of(bench)
    sheet = softmax_sheet(
        from_x=bench.way == "x",
        temperature=temperature != 1,
        amount=amount != 0,
        keep_maximum=RAW.of(bench),
        mask_after=AFTER.of(bench),
    )
    scores, moved = ("scores", "scaled", "tempered"), ("raised", "masked", "maximum")
    compared = (scores, moved) if amount else ((*scores, *moved, "below"),)
    return worked(
        replace(bench, n_q=n, n_k=n),
        sheet,
        {"divisor": np.sqrt(bench.d_k), "temperature": temperature, "amount": amount},
        compared=(*compared, ("powers", "totals"), ("k", "k_t"), ("v", "output")),
    )


def layout_of(bench: Bench, now: Scene, *, is_open: bool) -> list[list[Unit]]:
    """The scores, the steps as far as they are shown, and once it is open what comes of them."""
    from_x, shown = bench.way == "x", _shown(bench)
    scores = Unit("scores", left="q", top="k_t", corner=None if from_x else "k", echo=["q"] * from_x)
    lines = [[scores]]
    if "masked" in shown:
        lines[0] += _follow(now, "scaled", "tempered")
        lines.append(_follow(now, "raised"))
        lines[1] += [] if AFTER.of(bench) else [Unit("mask"), *_follow(now, "masked")]
    lines.append(_follow(now, *(name for name in ("maximum", "below", "powers") if name in shown)))
    lines.append(_follow(now, *(name for name in ("totals",) if name in shown)))
    if is_open:
        shares = "shares" if AFTER.of(bench) else "weights"
        lines[-1] += _follow(now, shares) if UPTO.of(bench) == LAST else [Unit(shares, via="softmax")]
        lines.append([Unit("mask"), *_follow(now, "weights")] if AFTER.of(bench) else [])
    if is_open and np.isfinite(now.values["output"]).all():
        lines.append([Unit("output", left="weights", top="v", echo=["weights", *["v"] * from_x])])
    lines += [PROJECTIONS] * from_x
    here = [[unit for unit in line if unit.result in now.sheet] for line in lines]
    return [line for line in here if line]


def _shown(bench: Bench) -> list[str]:
    names = list(STEPS)
    return names[: names.index(UPTO.of(bench)) + 1]


def _follow(now: Scene, *names: str) -> list[Unit]:
    """Those of these lines that the sheet has, each with what makes it of its first input."""
    return [unit_after(now, now.sheet.stage(name).inputs[0], name) for name in names if name in now.sheet]


def claims(bench: Bench, now: Scene) -> list[tuple[str, bool]]:
    """What the lesson says, tried on the numbers on screen."""
    weights, mask, powers = now.values["weights"], now.values["mask"], now.values["powers"]
    sums, is_somewhere = weights.sum(axis=1), mask.any(axis=1)
    right = _softmax(now, mask_after=False)
    smallest = "" if np.isnan(sums).any() else f" The smallest sum is {show(float(sums.min()))}."
    nowhere = "" if is_somewhere.all() else ", or to 0 where a query may look nowhere"
    tops = np.where(is_somewhere | AFTER.of(bench), powers.max(axis=1), 1.0)
    found = [
        (f"Every row of the weights adds up to 1{nowhere}.{smallest}", _close(sums, is_somewhere)),
        ("The steps come to what softmax gives in one call.", _close(weights, right)),
        ("The largest exponential of every row is 1, so none can run over.", bool((tops == 1.0).all())),
    ]
    if not mask.all():
        blocked = bool((weights[~mask] == 0.0).all())
        found.append(("Where the mask blocks, the weight is exactly 0.", blocked))
    if (amount := amount_of(bench)) != 0:
        plain = _softmax(now, mask_after=AFTER.of(bench))
        found.append((f"Adding {show(amount)} to every score changes no weight.", _close(weights, plain)))
    if "tempered" in now.sheet:
        found.append(_cooler(now, float(TEMPERATURE.of(bench))))
    return found


def _softmax(now: Scene, *, mask_after: bool) -> Array:
    """What softmax makes of the scores in one call, with nothing added to them."""
    scores = now.values["tempered" if "tempered" in now.sheet else "scaled"]
    mask = now.values["mask"]
    if mask_after:
        return np.where(mask, softmax(scores), 0.0)
    return softmax(np.where(mask, scores, -np.inf))


def _cooler(now: Scene, temperature: float) -> tuple[str, bool]:
    """Whether the largest weight of every row has moved as the temperature says, with the last row's."""
    before = softmax(np.where(now.values["mask"], now.values["scaled"], -np.inf)).max(axis=1)
    after = now.values["weights"].max(axis=1)
    direction, less = (after - before, "smaller") if temperature < 1 else (before - after, "larger")
    last = "" if np.isnan(after[-1]) else f" In the last row it is {show(float(after[-1]))}"
    last += f" instead of {show(float(before[-1]))}." if last else ""
    claim = f"Temperature {show(temperature)} makes no row’s largest weight {less} than temperature 1 does."
    return claim + last, bool((direction >= -1e-12).all())


def because(bench: Bench, now: Scene) -> tuple[str, str]:
    """The right answer to the prediction, and the numbers that make it so; no answer where a row broke."""
    row, may_look = now.values["weights"][0], now.values["mask"][0]
    count = int(may_look.sum())
    if np.isnan(row).any():
        return "", "Row 1 has no value."
    listed = f"Row 1 is {', '.join(show(float(weight)) for weight in row)}"
    if not count:
        return "", f"{listed}: query 1 may look nowhere."
    if AFTER.of(bench) and count < len(row):
        total = show(float(row.sum()))
        return "", f"{listed}, which adds up to {total}: what blocked keys had been given is lost."
    open_weights, best = row[may_look], named(now.labels["key"], np.array([int(row.argmax())]))
    if count == 1:
        return "one", f"{listed}: query 1 may look at key {best} alone, whose share is the whole."
    if np.count_nonzero(row) == 1:
        return "one", f"{listed}: next to key {best}, the exponentials of all others are 0."
    if _close(open_weights, 1 / count):
        return "equal", f"{listed}: its {count} open keys have the same score."
    return "shares", f"{listed}: query 1 may look at {count} keys, and {best} has the largest score."


def overflow(now: Scene) -> str:
    """What became of the exponentials where the maximum was left in, row by row."""
    powers, totals = now.values["powers"], now.values["totals"][:, 0]
    scores = now.values[now.sheet.stage("powers").inputs[0]]
    said = []
    if (over := np.isinf(powers).any(axis=1)).any():
        said.append(
            f"In {_rows(over)} a score is above {show(LARGEST_POWER)}: e to its power is more than float64 "
            f"holds ({show(LARGEST)}). It is written ∞, and ∞ / ∞ has no value."
        )
    empty = (scores == -np.inf).all(axis=1)
    if (vanished := (totals == 0.0) & ~empty).any():
        said.append(
            f"In {_rows(vanished)} every exponential is too small for float64 and became 0; "
            "0 / 0 has no value."
        )
    if empty.any():
        said.append(
            f"In {_rows(empty)} the query may look nowhere; the sum is 0, and 0 / 0 has no value. With the "
            "maximum off such a row is 0 by decision."
        )
    if said:
        return " ".join(said)
    return (
        "These scores are small enough, and the weights come out the same. Add 1000 to every score, or take "
        "1000 off, and they do not."
    )


def _rows(which: NDArray[np.bool_]) -> str:
    places = [str(i + 1) for i in np.flatnonzero(which).tolist()]
    if len(places) == 1:
        return f"row {places[0]}"
    return f"rows {', '.join(places[:-1])} and {places[-1]}"


def _close(a: object, b: object) -> bool:
    return bool(np.allclose(np.asarray(a), np.asarray(b, dtype=np.float64), rtol=1e-9, atol=1e-12))

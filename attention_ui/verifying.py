"""Lesson 15, verify: a learner's own numbers against those on screen, and how much a test is worth.

The calculation on the board is the eight steps on the bench's numbers. A learner works the same stages out
elsewhere, hands them in as files, and is told which stage is wrong first and which mistake gives the same
numbers. The test itself is tested, too: it has to refuse what known mistakes give.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Protocol

import numpy as np

from attention_core import uploads
from attention_core.attention import attention_sheet
from attention_core.export import to_numpy
from attention_core.numbers import show
from attention_core.operations import Array
from attention_core.tiles import flash_attention
from attention_core.uploads import read_csv, read_npz
from attention_core.verify import TOLERANCES, Compared, agree, compare, first_wrong, known_mistakes, outcome
from attention_core.verify import Tolerance as Within
from attention_core.written import visible
from attention_core.wrong import STAGES, WRONG, Problem
from attention_ui import listing, prose, teaching
from attention_ui.board import Unit
from attention_ui.bugs import lines
from attention_ui.choices import Choice, Switch
from attention_ui.desk import Desk
from attention_ui.grids import PROJECTIONS, unit_after
from attention_ui.scene import Scene, worked
from attention_ui.tokens import isolated

MOST_FILES = 8
SUMS = Switch("p15.sums", "Mistake: test only that rows add up to 1")
CLOSE = Choice(
    "p15.close", "A number is right when it agrees as",
    {word: each.title for word, each in TOLERANCES.items()}, "float32",
    help="float64 is the closest; two decimals is for numbers that were written down rounded.",
)  # fmt: skip
GUESS = teaching.prediction(
    "p15.guess",
    "A test adds up every row of the weights, and each sum has to be 1. Of the mistakes that change these "
    "numbers, how many does it find?",
    {"few": "a third or fewer", "half": "up to two thirds", "most": "more than two thirds"},
)
ROUNDING = TOLERANCES["float64"]
NUMBER = 1000.0  # added to every score to see whether a weight changes
BLOCK = 2  # queries and keys of a tile
TITLES = {"scores": "Scores", "scaled": "Scaled scores", "masked": "Masked scores", "weights": "Weights",
          "output": "Output"}  # fmt: skip
OUTCOMES = {"right": "right", "wrong": "differs", "shape": "another shape", "missing": "not given"}


class File(Protocol):
    """What an uploaded file offers."""

    name: str
    size: int

    def getvalue(self) -> bytes: ...


def scene_of(desk: Desk) -> Scene:
    """The eight steps on the bench's numbers, divided by √d_k whatever else is chosen elsewhere."""
    bench = desk.bench
    return worked(bench, attention_sheet(from_x=bench.way == "x"), {"divisor": np.sqrt(bench.d_k)})


def layout_of(now: Scene) -> list[list[Unit]]:
    """Q, K and V, the scores up to the mask, and what comes of them."""
    from_x = "x" in now.values
    scores = (
        Unit("scores", left="q", top="k_t", echo=["q"])
        if from_x
        else Unit("scores", left="q", top="k_t", corner="k")
    )
    table = [scores, unit_after(now, "scores", "scaled"), Unit("mask"), unit_after(now, "scaled", "masked")]
    output = Unit("output", left="weights", top="v", echo=["v"] if from_x else [])
    return [*([PROJECTIONS] if from_x else []), table, [output]]


def problem_of(now: Scene) -> Problem:
    """What a learner's program starts from."""
    v = now.values
    width = v["x"].shape[1] if "x" in v else v["q"].shape[1]
    return Problem(v["q"], v["k"], v["v"], v["mask"], width)


# how much a test is worth -----------------------------------------------------------------------


def changing(now: Scene) -> dict[str, Mapping[str, Array]]:
    """The known mistakes that change the weights or the output on screen, with what they give."""
    problem = problem_of(now)
    made = {name: outcome(name, problem) for name in WRONG}
    return {
        name: stages
        for name, stages in made.items()
        if stages is not None
        and not all(agree(stages[s], now.values[s], ROUNDING) for s in ("weights", "output"))
    }


def passes(now: Scene, stages: Mapping[str, Array], *, sums: bool) -> bool:
    """Whether the test takes these stages for right; sums: it only adds up the rows of the weights."""
    if not sums:
        return first_wrong(compare(stages, {name: now.values[name] for name in STAGES}, ROUNDING)) is None
    return agree(stages["weights"].sum(axis=1), now.values["mask"].any(axis=1).astype(float), ROUNDING)


def because(now: Scene) -> tuple[str, str]:
    """The right answer to the prediction, and the mistakes that make it so."""
    wrong = changing(now)
    if not wrong:
        return "", "No known mistake changes these numbers, so that no test can find one."
    found = sum(not passes(now, stages, sums=True) for stages in wrong.values())
    share = found / len(wrong)
    word = "few" if share <= 1 / 3 else "half" if share <= 2 / 3 else "most"
    return word, f"{found} of {len(wrong)} known mistakes that change these numbers are found."


def unnoticed(now: Scene) -> str:
    """The mistakes with which every row of the weights still has the sum it should have."""
    titles = [WRONG[name].title for name, made in changing(now).items() if passes(now, made, sums=True)]
    return f"Rows still add up to 1 with these: {'; '.join(titles)}." if titles else ""


def claims(now: Scene, *, sums: bool) -> list[tuple[str, bool]]:
    """What a test has to do, and two ways of testing that need no right numbers."""
    wrong, problem = changing(now), problem_of(now)
    caught = sum(not passes(now, stages, sums=sums) for stages in wrong.values())
    tiled, _ = flash_attention(
        problem.q, problem.k, problem.v, mask=problem.mask, block_q=BLOCK, block_k=BLOCK
    )
    raised = outcome(None, replace(problem, added=NUMBER))
    size = max(1.0, float(np.abs(problem.v).max()))
    test = "adding up rows" if sums else "comparing stage by stage"
    return [
        (
            f"The test, {test}, takes the right numbers for right.",
            passes(now, {name: now.values[name] for name in STAGES}, sums=sums),
        ),
        (
            f"It finds every known mistake that changes these numbers: {caught} of {len(wrong)}.",
            caught == len(wrong),
        ),
        (
            f"By tiles of {BLOCK} × {BLOCK}, in another order, the output comes out the same to rounding.",
            agree(tiled, now.values["output"], Within("", ROUNDING.rtol, ROUNDING.atol * size)),
        ),
        (
            f"With {show(NUMBER)} added to every score, every weight is the same to rounding.",
            raised is not None and agree(raised["weights"], now.values["weights"], Within("", 1e-9, 1e-9)),
        ),
    ]


def answer(desk: Desk) -> None:
    """The part of the page below the arithmetic."""
    now, sums = scene_of(desk), SUMS.of(desk.bench)
    teaching.verdict(desk, GUESS, *because(now))
    if teaching.is_open(desk, GUESS) and (said := unnoticed(now)):
        prose.paragraph(said)
    if sums:
        prose.paragraph(
            "A row adds up to 1 because softmax divides by its sum, whatever went into it. A test is worth "
            "as much as what it refuses: try it on programs that are wrong."
        )
    teaching.check(claims(now, sums=sums))


# files ------------------------------------------------------------------------------------------


def numbers_file(now: Scene) -> bytes:
    """The given numbers of the sheet as an .npz archive."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **{line.name: now.values[line.name] for line in now.sheet.given})
    return stream.getvalue()


def program(now: Scene) -> str:
    """The right program on these numbers, which saves every stage for this page."""
    saved = ", ".join(f"{name}={name}" for name in STAGES)
    return f'{to_numpy(now.sheet, now.values)}np.savez("stages.npz", {saved})\n'


def read(files: Sequence[File], now: Scene) -> dict[str, Array]:
    """The stages in some files, by name. Raises ValueError with a sentence where one cannot be read."""
    if len(files) > MOST_FILES:
        raise ValueError(
            f"these are {len(files)} files, and at most {MOST_FILES} are read; nothing was loaded"
        )
    for file in files:
        uploads.check_size(file.name, file.size)
    given: dict[str, Array] = {}
    for file in files:
        kind = PurePath(file.name).suffix.lower()
        if kind == ".npz":
            found = read_npz(file.name, file.getvalue(), STAGES)
            given |= {name: _matrix(stage) for name, stage in found.items()}
        else:
            name = _stage(file.name)
            rows, columns = now.values[name].shape
            given[name] = read_csv(file.name, file.getvalue(), (rows, columns))
    return given


def _matrix(stage: Array) -> Array:
    """A batch or a head of one is left away."""
    return stage.reshape(stage.shape[-2:]) if stage.ndim > 2 and set(stage.shape[:-2]) == {1} else stage


def _stage(file: str) -> str:
    """The stage that a CSV file is called after; a browser's " (1)" does not count."""
    name = PurePath(file).stem.partition(" (")[0].lower()
    if name not in STAGES:
        raise ValueError(f"a CSV file is called after its stage, {', '.join(STAGES)}; nothing was loaded")
    return name


def report(desk: Desk, files: Sequence[File]) -> None:
    """What came of a learner's files: every stage, the first that is wrong, the mistake it looks like."""
    now, tolerance = scene_of(desk), TOLERANCES[CLOSE.of(desk.bench)]
    try:
        given = read(files, now)
    except ValueError as reason:
        prose.notice(f"Refused: {reason}.")
        return
    compared = compare(given, {name: now.values[name] for name in STAGES}, tolerance)
    rows = [_row(each) for each in compared]
    listing.draw("Your stages", listing.table("Your stages against the board", HEADS, rows))
    prose.paragraph(_bounds(tolerance), kind="quiet")
    wrong = first_wrong(compared)
    if wrong is None:
        missing = [TITLES[each.name].lower() for each in compared if each.outcome == "missing"]
        rest = f" Not given: {', '.join(missing)}." if missing else ""
        prose.paragraph(f"Every number that was given is right.{rest}", kind="strong")
        return
    prose.paragraph(_first(now, compared, wrong), kind="strong")
    _tell_mistake(known_mistakes(given, problem_of(now), tolerance))


HEADS = ("Stage", "Outcome", "Cells that differ", "Furthest off at", "Given", "Right", "Apart by")


def _bounds(tolerance: Within) -> str:
    """How far a number may be off."""
    bound = visible(tolerance.atol, show)
    if tolerance.rtol:
        bound += f" plus {visible(tolerance.rtol, show)} times its size"
    return f"A number is right within {bound}."


def _row(each: Compared) -> tuple[str, ...]:
    title, said = TITLES[each.name], OUTCOMES[each.outcome]
    if each.outcome == "shape":
        mine, right = (" × ".join(map(str, shape)) or "one number" for shape in each.shapes)
        return title, said, "", "", mine, right, ""
    if each.outcome != "wrong":
        return title, said, "", "", "", "", ""
    place = ", ".join(f"{word} {at + 1}" for word, at in zip(("row", "column"), each.cell, strict=True))
    with np.errstate(invalid="ignore"):
        gap = abs(each.given - each.right)
    return title, said, str(each.wrong), place, _number(each.given), _number(each.right), _number(gap)


def _number(value: float) -> str:
    return visible(float(value), show)


def _first(now: Scene, compared: tuple[Compared, ...], wrong: Compared) -> str:
    """The stage that is wrong first, and what of the others follows from it."""
    before = [each for each in compared[: compared.index(wrong)] if each.outcome == "missing"]
    after = [each for each in compared[compared.index(wrong) + 1 :] if each.outcome != "missing"]
    title = TITLES[wrong.name].lower()
    if wrong.outcome == "shape":
        return f"The first stage that is wrong: {title}. Its shape is not the one on the board."
    row, column = wrong.cell
    query = isolated(now.labels["query"][row])
    text = (
        f"The first stage that is wrong: {title}. In row {row + 1}, {query}, column {column + 1} stands "
        f"{_number(wrong.given)}, and {_number(wrong.right)} is right."
    )
    if before:
        text += (
            f" It may have come from before: {', '.join(TITLES[e.name].lower() for e in before)} not given."
        )
    if after and all(each.outcome == "right" for each in after):
        text += " What follows comes out right all the same."
    return text


def _tell_mistake(names: tuple[str, ...]) -> None:
    """The known mistakes that give the same numbers."""
    if not names:
        prose.paragraph("No known mistake gives these numbers at every stage that was given.")
    elif len(names) == 1:
        wrong = WRONG[names[0]]
        prose.paragraph(f"These are the numbers of a known mistake: {wrong.title}. {wrong.consequence}")
        prose.terms(lines(names[0]))
    else:
        titles = "; ".join(WRONG[name].title for name in names)
        prose.paragraph(
            f"Several known mistakes give these numbers, and they cannot be told apart: {titles}."
        )


def chosen(state: Any) -> list[File]:
    """The files that the uploader holds."""
    return list(state or [])

"""Numbers that a learner hands in, held against the right ones."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.masks import causal
from attention_core.verify import (
    TOLERANCES,
    agree,
    apart,
    compare,
    first_wrong,
    known_mistakes,
    of_one_head,
    outcome,
)
from attention_core.wrong import STAGES, WRONG, Problem, stages

TIGHT, LOOSE = TOLERANCES["float64"], TOLERANCES["shown"]
FIRST = {  # the first stage that each mistake spoils, on one head
    "unscaled": "scaled", "d_model": "scaled", "d_k": "scaled", "columns": "weights", "after": "masked",
    "leak": "masked", "swapped": "scores", "folded": "scores", "shift": "masked", "mirrored": "output",
    "inverted": "masked", "overflow": "weights",
}  # fmt: skip


def problem(n_q=4, n_k=4, *, large=False) -> Problem:
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal(shape) for shape in ((n_q, 3), (n_k, 3), (n_k, 2)))
    return Problem(q * (1000.0 if large else 1.0), k, v, causal(n_q, n_k), 5)


def handed(name: str | None, asked: Problem) -> dict:
    return of_one_head(stages(asked, WRONG[name].program) if name else stages(asked))


@pytest.mark.parametrize("name", FIRST)
def test_the_first_wrong_stage_and_the_mistake_are_named(name):
    asked = problem(large=name == "overflow")
    compared = compare(handed(name, asked), handed(None, asked), TIGHT)
    assert first_wrong(compared).name == FIRST[name]
    assert name in known_mistakes(handed(name, asked), asked, TIGHT)


@pytest.mark.parametrize("name", [name for name in FIRST if name != "overflow"])
def test_on_numbers_that_tell_them_apart_one_mistake_is_named(name):
    assert known_mistakes(handed(name, problem()), problem(), TIGHT) == (name,)


def test_right_numbers_are_right_and_look_like_no_mistake():
    asked = problem()
    compared = compare(handed(None, asked), handed(None, asked), TIGHT)
    assert [each.outcome for each in compared] == ["right"] * len(STAGES)
    assert first_wrong(compared) is None
    assert known_mistakes(handed(None, asked), asked, TIGHT) == ()


def test_a_stage_that_is_missing_is_passed_over():
    asked = problem()
    only = {"output": handed("unscaled", asked)["output"]}
    compared = compare(only, handed(None, asked), TIGHT)
    assert [each.outcome for each in compared] == ["missing"] * 4 + ["wrong"]
    assert known_mistakes(only, asked, TIGHT) == ("unscaled",)


def test_the_cell_that_is_furthest_off_is_named_with_both_numbers():
    asked = problem()
    right = handed(None, asked)
    given = {"weights": right["weights"].copy()}
    given["weights"][2, 1] += 0.25
    given["weights"][3, 0] += 0.125
    found = compare(given, right, TIGHT)[3]
    assert (found.outcome, found.cell, found.wrong) == ("wrong", (2, 1), 2)
    assert found.given - found.right == pytest.approx(0.25)


def test_another_shape_is_told_with_both_shapes():
    asked = problem()
    found = compare({"scores": np.zeros((2, 4))}, handed(None, asked), TIGHT)[0]
    assert (found.outcome, found.shapes) == ("shape", ((2, 4), (4, 4)))
    assert first_wrong((found,)) is found


def test_minus_infinity_agrees_with_itself_and_with_no_number():
    asked = problem()
    given = handed(None, asked)
    masked = given["masked"].copy()
    masked[masked == -np.inf] = -1e9
    found = compare({"masked": masked}, given, LOOSE)[2]
    assert found.outcome == "wrong" and (found.given, found.right) == (-1e9, -np.inf)


def test_what_has_no_value_is_the_furthest_off():
    asked = problem()
    weights = handed(None, asked)["weights"].copy()
    weights[0, 0], weights[1, 1] = 7.0, np.nan
    assert compare({"weights": weights}, handed(None, asked), LOOSE)[3].cell == (1, 1)


@pytest.mark.parametrize(("name", "off", "fits"), [
    ("float64", 1e-11, True), ("float64", 1e-8, False), ("float32", 5e-6, True), ("float32", 1e-3, False),
    ("shown", 0.0049, True), ("shown", 0.006, False),
])  # fmt: skip
def test_a_tolerance_is_what_it_says(name, off, fits):
    one = np.ones((2, 2))
    assert agree(one + off, one, TOLERANCES[name]) is fits


def test_rounded_to_two_decimals_is_right_within_the_tolerance_of_two_decimals():
    asked = problem()
    rounded = {name: np.round(stage, 2) for name, stage in handed(None, asked).items()}
    assert first_wrong(compare(rounded, handed(None, asked), LOOSE)) is None


def test_a_mistake_that_shapes_do_not_allow_is_not_looked_for():
    asked = problem(2, 4)
    assert outcome("swapped", asked) is None
    assert known_mistakes(handed("unscaled", asked), asked, TIGHT) == ("unscaled",)


def test_apart_counts_holes_and_needs_more_than_the_least():
    asked = problem()
    right = handed(None, asked)
    near = {name: stage + 0.004 for name, stage in right.items()}
    hole = {**right, "weights": np.full((4, 4), np.nan)}
    assert not apart(right, near, 0.005) and apart(right, near, 0.003)
    assert apart(right, hole, 1e9) and not apart(hole, hole, 0.0)

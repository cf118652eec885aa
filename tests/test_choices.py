"""What lessons ask is part of the bench and of the link, and an answer that is not offered is told."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qsl

import numpy as np
import pytest

from attention_core.examples import EXAMPLES
from attention_core.further import FURTHER, further
from attention_core.limits import MOST_CHOICES
from attention_ui.bench import fresh, is_numbers, numbers, opened, with_edit
from attention_ui.choices import Amount, Choice, Switch, moved, with_choice
from attention_ui.links import from_query, to_query

HEADS = Choice("p5.heads", "Heads", {"1": "1", "2": "2", "4": "4"}, "2")
SHIFT = Amount("p5.shift", "Shift", -8, 8, 0)
HEAT = Amount("p4.heat", "Temperature", 0.25, 4.0, 1.0, 0.25)
MISTAKE = Switch("p5.mistake", "Without the transpose")


def test_a_control_starts_with_its_own_value():
    bench = opened("tokens")
    assert (HEADS.of(bench), SHIFT.of(bench), HEAT.of(bench), MISTAKE.of(bench)) == ("2", 0, 1.0, False)


def test_moving_a_control_is_kept_in_the_link_and_read_back():
    bench = opened("tokens")
    for name, value in {"p5.heads": "4", "p5.shift": -3, "p4.heat": 0.75, "p5.mistake": True}.items():
        bench = moved(bench, f"choice {name}", value)
    again, problem = from_query(dict(parse_qsl(to_query(bench))))
    assert (again, problem) == (bench, "")
    assert (HEADS.of(again), SHIFT.of(again), HEAT.of(again), MISTAKE.of(again)) == ("4", -3, 0.75, True)
    assert isinstance(SHIFT.of(again), int)


def test_a_second_click_on_the_chosen_option_leaves_it_chosen():
    bench = with_choice(opened("tokens"), "p5.heads", "4")
    assert moved(bench, "choice p5.heads", None) == bench


def test_switching_off_leaves_nothing_in_the_link():
    bench = moved(moved(opened("tokens"), "choice p5.mistake", True), "choice p5.mistake", False)
    assert to_query(bench) == ""


@pytest.mark.parametrize("value", ["3", "", "<b>", "4 "])
def test_a_value_that_is_not_offered_leaves_the_start(value):
    assert HEADS.of(with_choice(opened("tokens"), "p5.heads", value)) == "2"


@pytest.mark.parametrize("value", ["9", "-9", "abc", "nan", "1e999"])
def test_an_amount_out_of_range_leaves_the_start(value):
    assert SHIFT.of(with_choice(opened("tokens"), "p5.shift", value)) == 0


@pytest.mark.parametrize("value", ["x" * 41, "a\x00b", "line\nbreak"])
def test_a_choice_that_no_lesson_can_have_is_told(value):
    bench, problem = from_query({"p5.heads": value})
    assert bench.choices == {} and problem.startswith("Not understood in this link: p5.heads=")


def test_a_link_holds_no_more_choices_than_there_can_be():
    letters = "abcdefghijklmnop"
    query = {f"p{k % 10}.{letters[k // 10]}": "1" for k in range(MOST_CHOICES + 20)}
    bench, problem = from_query(query)
    assert len(bench.choices) == MOST_CHOICES and problem.count("a choice of a lesson") == 20


def test_choices_are_looked_at_and_not_taken_back():
    bench = opened("tokens")
    chosen = with_choice(bench, "p5.heads", "4")
    assert is_numbers(bench, chosen)
    assert fresh(chosen).choices == {"p5.heads": "4"}


@pytest.mark.parametrize("name", FURTHER)
def test_a_further_matrix_begins_with_the_same_numbers_at_every_size(name):
    example = EXAMPLES["tokens"]
    small, large = further(example, name, 3, 5), further(example, name, 16, 16)
    np.testing.assert_array_equal(small, large[:3, :5])
    assert not large.flags.writeable
    assert np.abs(large).max() <= 2


def test_further_matrices_differ_from_each_other_and_follow_the_seed():
    example = EXAMPLES["tokens"]
    seeded = [name for name, rule in FURTHER.items() if rule in ("weights", "numbers")]
    found = {further(example, name, 8, 8).tobytes() for name in seeded}
    assert len(found) == len(seeded)
    assert not np.array_equal(further(example, "w_o", 8, 8), further(example, "w_o", 8, 8, seed=5))


def test_a_matrix_without_a_rule_is_refused_by_name():
    with pytest.raises(ValueError, match="there is no rule for a matrix nothing"):
        further(EXAMPLES["tokens"], "nothing", 2, 2)
    with pytest.raises(ValueError, match="w_o can be 0 × 0 to 256 × 256, not 2 × 300"):
        further(EXAMPLES["tokens"], "w_o", 2, 300)


@pytest.mark.parametrize("name", FURTHER)
def test_an_edit_of_a_further_matrix_travels_in_the_link(name):
    bench = with_edit(replace(opened("tokens"), seed=3), name, 2, 1, 1 / 3)
    again, problem = from_query(dict(parse_qsl(to_query(bench))))
    assert (again, problem) == (bench, "")
    assert numbers(again, name, 3, 2)[2, 1] == 1 / 3

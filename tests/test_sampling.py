from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.numbers import show
from attention_core.sampling import distribution, draw, sample
from attention_core.sampling_sheet import sampling_sheet
from attention_core.sheet import run, work
from attention_core.softmax import softmax

pytestmark = pytest.mark.filterwarnings("error")

RNG = np.random.default_rng(13)
LOGITS = np.log([0.1, 0.4, 0.05, 0.25, 0.2])  # their own probabilities at temperature 1


def by_hand(logits: list[float], temperature: float, top_k: int | None, top_p: float | None) -> list[float]:
    """One row: exponentials, a sorted list that is cut twice, and the rest over its sum."""
    top = max(logits)
    powers = [math.exp((z - top) / temperature) for z in logits]
    shares = {place: power / sum(powers) for place, power in enumerate(powers)}
    ranked = sorted(shares, key=lambda place: (-shares[place], place))
    if top_k is not None:
        ranked = ranked[:top_k]
    total = sum(shares[place] for place in ranked)
    if top_p is not None:
        kept: list[int] = []
        while not kept or sum(shares[place] for place in kept) < total * (top_p - 1e-12):
            kept.append(ranked[len(kept)])
        ranked = kept
    total = sum(shares[place] for place in ranked)
    return [shares[place] / total if place in ranked else 0.0 for place in range(len(logits))]


@settings(derandomize=True, max_examples=200)
@given(
    arrays.arrays(np.float64, (6,), elements=st.sampled_from([-3, -1, -0.5, 0, 0.25, 1, 2])),
    st.floats(0.2, 5),
    st.none() | st.integers(1, 8),
    st.none() | st.floats(0.01, 0.99),
)
def test_what_is_left_is_what_a_sorted_list_gives(
    logits: np.ndarray, temperature: float, top_k: int | None, top_p: float | None
) -> None:
    got = distribution(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    want = by_hand(logits.tolist(), temperature, top_k, top_p)
    np.testing.assert_allclose(got.final, want, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(got.final > 0, got.stays_p)


def test_every_step_of_the_filters_can_be_seen() -> None:
    got = distribution(LOGITS, top_k=4, top_p=0.7)
    np.testing.assert_allclose(got.probabilities, [0.1, 0.4, 0.05, 0.25, 0.2])
    assert got.order.tolist() == [1, 3, 4, 0, 2]
    assert got.stays_k.tolist() == [True, True, False, True, True]
    np.testing.assert_allclose(got.after_k, np.array([0.1, 0.4, 0, 0.25, 0.2]) / 0.95)
    np.testing.assert_allclose(got.running, np.array([0.95, 0.4, 0.95, 0.65, 0.85]) / 0.95)
    assert got.stays_p.tolist() == [False, True, False, True, True]
    np.testing.assert_allclose(got.final, np.array([0, 0.4, 0, 0.25, 0.2]) / 0.85)


def test_a_sum_that_is_exactly_p_is_enough() -> None:
    """0.4 + 0.25 + 0.2 falls short of 0.85 in binary by less than rounding; a fourth is not let in."""
    assert distribution(LOGITS, top_p=0.4).stays_p.sum() == 1
    assert distribution(LOGITS, top_p=0.65).stays_p.sum() == 2
    assert distribution(LOGITS, top_p=0.85).stays_p.sum() == 3
    assert distribution(LOGITS, top_p=1.0).stays_p.all()
    assert distribution(LOGITS, top_p=1e-9).stays_p.tolist() == [False, True, False, False, False]


def test_of_equal_ones_the_first_stays() -> None:
    got = distribution([1.0, 2.0, 2.0, 2.0], top_k=2)
    assert got.stays_k.tolist() == [False, True, True, False]
    assert got.final.tolist() == [0, 0.5, 0.5, 0]
    assert distribution([1.0, 2.0, 2.0], temperature=0).final.tolist() == [0, 1, 0]


@pytest.mark.parametrize("filters", [{}, {"top_k": 3}, {"top_p": 0.5}, {"top_k": 2, "top_p": 0.9}])
def test_temperature_zero_takes_the_largest_and_a_low_one_comes_close(filters: dict[str, Any]) -> None:
    logits = RNG.normal(size=(4, 6))
    want = np.arange(6) == logits.argmax(axis=1)[:, None]
    np.testing.assert_array_equal(distribution(logits, temperature=0, **filters).final, want)
    np.testing.assert_allclose(distribution(logits, temperature=1e-5, **filters).final, want, atol=1e-12)
    assert sample(logits[0], 5, temperature=0, **filters) == logits[0].argmax()


def test_a_high_temperature_makes_all_alike_and_one_changes_nothing() -> None:
    np.testing.assert_allclose(distribution(LOGITS, temperature=1e9).final, [0.2] * 5, rtol=1e-8)
    np.testing.assert_array_equal(distribution(LOGITS).final, softmax(LOGITS))


def test_a_token_ruled_out_is_never_drawn() -> None:
    logits = np.array([0.0, -np.inf, 1.0])
    for temperature in (0, 0.5, 2):
        assert distribution(logits, temperature=temperature).final[1] == 0
    assert {sample(logits, seed) for seed in range(50)} == {0, 2}


def test_tokens_are_drawn_as_often_as_they_should_be() -> None:
    final = distribution(LOGITS, top_k=3).final
    drawn = np.bincount([draw(final, (7, step)).token for step in range(4000)], minlength=5)
    np.testing.assert_allclose(drawn / 4000, final, atol=0.03)
    assert not drawn[final == 0].any()


def test_a_draw_says_what_it_was_held_against_and_can_be_had_again() -> None:
    final = distribution(LOGITS).final
    for seed in range(20):
        one = draw(final, seed)
        assert 0 <= one.number < 1
        assert one.token == next(j for j, total in enumerate(np.cumsum(final)) if total > one.number)
        assert draw(final, seed).token == one.token
    assert draw(final, 3).number == np.random.default_rng(3).random()
    assert draw([0.0, 1.0, 0.0], 1).token == 1


REFUSED: dict[str, tuple[Any, str]] = {
    "a temperature below 0": (
        lambda: distribution(LOGITS, temperature=-1),
        "temperature has to be a finite number from 0 on, not -1",
    ),
    "no temperature": (lambda: distribution(LOGITS, temperature=math.nan), "temperature has to be a finite"),
    "too small a temperature": (
        lambda: distribution([1.0, 2.0], temperature=1e-320),
        "too small: logits over it cannot be held; 0 takes the largest",
    ),
    "none of the largest": (lambda: distribution(LOGITS, top_k=0), "top_k has to be a whole number from 1"),
    "half of the largest": (lambda: distribution(LOGITS, top_k=1.5), "top_k has to be a whole number"),  # type: ignore[arg-type]
    "no sum": (lambda: distribution(LOGITS, top_p=0.0), "top_p has to be above 0 and at most 1"),
    "too large a sum": (lambda: distribution(LOGITS, top_p=1.1), "top_p has to be above 0 and at most 1"),
    "NaN": (lambda: distribution([1.0, math.nan]), "logits (2,) have to be numbers below ∞"),
    "all ruled out": (lambda: distribution([[-math.inf] * 2, [0.0, 1.0]]), "with one above −∞ in every row"),
    "words": (lambda: distribution(["a"]), "logits (1,) hold <U1, and rows of numbers are needed"),
    "shares that lack something": (lambda: draw([0.5, 0.4], 0), "numbers from 0 on that add up to 1"),
    "a table": (lambda: draw([[1.0]], 0), "probabilities (1, 1) have to be one row"),
}


@pytest.mark.parametrize(("call", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_drawn_from_is_refused(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        call()


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("top_k", [None, 1, 3])
@pytest.mark.parametrize("top_p", [False, True])
def test_the_sheet_can_be_taken_away_and_every_cell_ends_in_its_number(
    greedy: bool, top_k: int | None, top_p: bool
) -> None:
    sheet = sampling_sheet(greedy=greedy, top_k=top_k, top_p=top_p)
    given = {"logits": RNG.normal(size=(2, 5)), "temperature": 0.7, "top_p": 0.6}
    values = run(sheet, {line.name: given[line.name] for line in sheet.given})
    np.testing.assert_allclose(values[sheet.stages[-1].name].sum(axis=1), 1, rtol=1e-12)
    scope: dict[str, Any] = {"print": lambda *_: None}
    exec(compile(to_numpy(sheet, values), "<exported>", "exec"), scope)
    for line in sheet:
        np.testing.assert_allclose(scope[line.name], values[line.name], rtol=1e-12, atol=1e-12)
    compile(to_torch(sheet, values), "<exported>", "exec")
    latex = to_latex(sheet, values)
    assert latex.count("{") == latex.count("}")
    titles = [line.title for line in sheet]
    assert len(set(titles)) == len(titles)
    for stage in sheet.stages:
        for i, j in np.ndindex(values[stage.name].shape):
            assert work(sheet, values, stage.name, i, j).text.endswith(show(values[stage.name][i, j]))


def test_why_a_token_stays_or_falls_is_written_out() -> None:
    got = distribution([LOGITS.tolist()], top_k=4, top_p=0.7)

    def text(name: str, j: int) -> str:
        return work(got.sheet, got.values, name, 0, j).text

    assert text("kept_k", 3) == "among the 4 largest of its row: 0.25 stays 0.25"
    assert text("kept_k", 2) == "not among the 4 largest of its row: 0"
    assert text("running", 3) == "0.42 + 0.26 = 0.68"
    assert text("kept_p", 3) == "larger ones have 0.42 together, less than 0.70: 0.26 stays 0.26"
    assert text("kept_p", 0) == "larger ones have 0.89 together, so they reach 0.70: 0"
    greedy = distribution([[1.0, 3.0]], temperature=0)
    assert (
        work(greedy.sheet, greedy.values, "probabilities", 0, 0).text == "1 is not the largest of its row: 0"
    )


def test_nothing_given_is_changed_and_what_comes_back_is_read_only() -> None:
    logits = LOGITS.copy()
    got = distribution(logits, temperature=0.5, top_k=3, top_p=0.9)
    np.testing.assert_array_equal(logits, LOGITS)
    for name in ("probabilities", "order", "stays_k", "after_k", "running", "stays_p", "final"):
        assert not getattr(got, name).flags.writeable, name

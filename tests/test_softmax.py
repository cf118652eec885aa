from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from attention_core.softmax import log_softmax, logsumexp, softmax

pytestmark = pytest.mark.filterwarnings("error")

INF = math.inf


def one_by_one(line: list[float]) -> list[float]:
    """Softmax from its definition, without taking the maximum off."""
    powers = [math.exp(a) for a in line]
    return [p / math.fsum(powers) for p in powers]


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_softmax_follows_its_definition_along_every_axis(axis: int) -> None:
    a = np.random.default_rng(1).normal(size=(7, 3, 2))
    want = np.apply_along_axis(lambda line: one_by_one(line.tolist()), axis, a)
    np.testing.assert_allclose(softmax(a, axis), want, rtol=1e-14)
    np.testing.assert_allclose(log_softmax(a, axis), np.log(want), rtol=1e-13)
    sums = np.apply_along_axis(lambda line: math.log(math.fsum(map(math.exp, line))), axis, a)
    np.testing.assert_allclose(logsumexp(a, axis), sums, rtol=1e-14)


def test_whole_numbers_and_lists_count_as_float64() -> None:
    assert softmax([0, 0, 0]).tolist() == [1 / 3] * 3
    assert softmax(np.array([1, 2], dtype=np.float32)).dtype == np.float64


def test_very_large_scores_stay_in_range() -> None:
    np.testing.assert_array_equal(softmax([1e308, -1e308, 0]), [1, 0, 0])
    np.testing.assert_array_equal(log_softmax([1000, 0]), [0, -1000])
    np.testing.assert_array_equal(softmax([-1000, -1000]), [0.5, 0.5])
    assert logsumexp([1000, 1000]) == 1000 + math.log(2)
    assert logsumexp([-1000, -1000]) == -1000 + math.log(2)


def test_a_very_low_row_is_not_an_empty_row() -> None:
    np.testing.assert_allclose(softmax([-1e6, -1e6 + 1]), softmax([0, 1]))


def test_a_line_of_minus_infinity_gives_zeros() -> None:
    a = [[-INF, -INF], [-INF, 3.0]]
    np.testing.assert_array_equal(softmax(a), [[0, 0], [0, 1]])
    np.testing.assert_array_equal(log_softmax(a), [[-INF, -INF], [-INF, 0]])
    np.testing.assert_array_equal(logsumexp(a), [-INF, 3])
    np.testing.assert_array_equal(softmax(a, axis=0), [[0, 0], [0, 1]])


def test_a_line_without_entries_has_nothing_to_share_out() -> None:
    assert softmax(np.zeros((2, 0))).shape == (2, 0)
    np.testing.assert_array_equal(logsumexp(np.zeros((2, 0))), [-INF, -INF])


def test_infinity_and_nan_are_not_made_up_for() -> None:
    np.testing.assert_array_equal(softmax([[INF, 0], [0, 0]]), [[np.nan, np.nan], [0.5, 0.5]])
    assert np.isnan(softmax([np.nan, 1])).all()
    assert logsumexp([INF, 0]) == INF
    assert math.isnan(float(logsumexp([np.nan, 0])))


def test_taking_the_same_number_off_every_score_changes_nothing() -> None:
    """Exact in fractions of a power of two, where no rounding can hide a difference."""
    a = np.array([0.25, -1.5, 3.0])
    for shift in (Fraction(1, 2), Fraction(-7, 4), Fraction(8)):
        np.testing.assert_array_equal(softmax(a + float(shift)), softmax(a))


def test_the_input_is_not_changed() -> None:
    a = np.array([[1.0, 2.0], [3.0, -INF]])
    before = a.copy()
    softmax(a), log_softmax(a), logsumexp(a)
    np.testing.assert_array_equal(a, before)

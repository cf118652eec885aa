"""How sharp a row of weights is, the sheet that divides scores, and dot products of random vectors."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.dot_products import (
    DIVISORS,
    ENTRIES,
    KEYS,
    QUERIES,
    WIDTHS,
    divisor,
    draws,
    expected,
    sharpness,
)
from attention_core.numbers import show
from attention_core.scaling import scaling_sheet
from attention_core.sharpness import OPERATIONS, entropy, gradient_norm, largest
from attention_core.sheet import run, work

RNG = np.random.default_rng(3)
N_Q, N_K, D_MODEL, D_K = 3, 5, 4, 2
ROWS = RNG.dirichlet(np.ones(5), size=(3,))


# the measures of a row ------------------------------------------------------------------------


def test_the_measures_are_those_of_a_loop_over_rows():
    for i, row in enumerate(ROWS):
        jacobian = np.diag(row) - np.outer(row, row)
        assert entropy(ROWS)[i, 0] == pytest.approx(-sum(a * np.log(a) for a in row))
        assert largest(ROWS)[i, 0] == max(row)
        assert gradient_norm(ROWS)[i, 0] == pytest.approx(np.linalg.norm(jacobian))


def test_a_row_with_a_single_one_has_neither_entropy_nor_gradient():
    row = np.array([[0.0, 1.0, 0.0]])
    assert (entropy(row), largest(row), gradient_norm(row)) == (0, 1, 0)
    assert not np.signbit(entropy(row))


def test_equal_weights_have_the_largest_entropy():
    row = np.full((1, 8), 1 / 8)
    assert entropy(row)[0, 0] == pytest.approx(np.log(8))
    assert gradient_norm(row)[0, 0] == pytest.approx(np.sqrt(7) / 8)


def test_the_gradient_is_that_of_finite_differences():
    scores, step = RNG.normal(size=5), 1e-6

    def weights(s: np.ndarray) -> np.ndarray:
        return np.exp(s) / np.exp(s).sum()

    columns = [(weights(scores + step * e) - weights(scores - step * e)) / (2 * step) for e in np.eye(5)]
    assert gradient_norm(weights(scores)[None])[0, 0] == pytest.approx(np.linalg.norm(columns), rel=1e-8)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_measure_is_written_worked_and_computed_alike(operation):
    got = eval(operation.code.format("a"), {"np": np, "a": ROWS})
    np.testing.assert_array_equal(got, operation.compute(ROWS))
    for i, value in enumerate(operation.compute(ROWS)[:, 0]):
        assert operation.work([ROWS], i, 0, show, name="m").text.endswith(show(value))


# the sheet ------------------------------------------------------------------------------------


def given(from_x: bool, number: float) -> dict[str, object]:
    if not from_x:
        return {"q": RNG.normal(size=(N_Q, D_K)), "k": RNG.normal(size=(N_K, D_K)), "divisor": number}
    weights = {name: RNG.normal(size=(D_MODEL, D_K)) for name in ("w_q", "w_k")}
    return {"x": RNG.normal(size=(N_K, D_MODEL)), **weights, "divisor": number}


@pytest.mark.parametrize("by", DIVISORS)
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("from_x", [False, True])
def test_the_sheet_divides_the_scores_and_keeps_what_they_were(by, twice, from_x):
    number = divisor(by, D_K, D_MODEL)
    values = run(scaling_sheet(by, twice=twice, from_x=from_x), given(from_x, number))
    scores = values["q"] @ values["k"].T
    np.testing.assert_allclose(values["scores"], scores, rtol=1e-13)
    for name, divided in (("weights_1", scores), ("weights", scores / number ** (1 + twice))):
        powers = np.exp(divided)
        np.testing.assert_allclose(values[name], powers / powers.sum(axis=1, keepdims=True), rtol=1e-12)
    assert ("scaled_2" in values) == twice


def test_titles_differ_and_every_cell_is_worked_out_with_its_own_number():
    sheet = scaling_sheet("sqrt", twice=True)
    values = run(sheet, given(True, np.sqrt(D_K)))
    assert len(set(sheet.titles.values())) == len(sheet.lines)
    for line in sheet.stages:
        value = values[line.name]
        for cell in ((0, 0), (value.shape[0] - 1, value.shape[1] - 1)):
            assert work(sheet, values, line.name, *cell).text.endswith(show(float(value[cell])))


def test_the_divisors_are_those_that_they_are_called():
    assert [divisor(by, 16, 25) for by in DIVISORS] == [4, 1, 16, 5]
    with pytest.raises(ValueError, match="a divisor is sqrt, one, d_k, d_model, not 'root'"):
        divisor("root", 4)
    with pytest.raises(ValueError, match="a divisor is"):
        scaling_sheet("root")


# random vectors -------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", ENTRIES)
def test_what_is_measured_is_what_is_worked_out_but_for_chance(entries):
    products = draws(entries, 7).products
    assert products.shape == (len(WIDTHS), QUERIES * KEYS)
    for width, scores in zip(WIDTHS, products, strict=True):
        mean, variance = expected(entries, width)
        assert abs(scores.mean() - mean) < 0.08 * np.sqrt(variance)
        assert scores.var() == pytest.approx(variance, rel=0.12)


def test_every_seed_of_the_page_keeps_to_the_bounds_of_its_claims():
    for seed in range(0, 100, 9):
        products = draws("independent", seed).products
        assert np.abs(products.var(axis=1) / WIDTHS - 1).max() < 0.1
        assert (np.abs(products.mean(axis=1)) < 0.05 * np.sqrt(WIDTHS)).all()
        assert np.ptp(sharpness("independent", seed).largest) < 0.09


def test_the_numbers_are_those_of_the_raw_stream():
    """At width 1 the first score is the product of the first two entries, worked out from whole numbers."""
    first = [np.random.PCG64([5, 2000 + index]).random_raw(1)[0] for index in (2, 3)]
    q, k = ((2 * int(raw) / 2**64 - 1) * np.sqrt(3) for raw in first)
    assert draws("independent", 5).rows[0, 0, 0] == pytest.approx(q * k, rel=1e-12)
    assert not np.array_equal(draws("independent", 5).rows, draws("independent", 6).rows)


def test_with_the_same_vectors_the_first_key_of_a_row_is_its_query():
    found = draws("same", 3)
    assert (found.products >= 0).all() and (found.rows[:, :, 0] >= 0).all()
    assert (found.rows[:, :, 1:] < 0).any()
    assert found.rows[-1, :, 0].mean() == pytest.approx(512, rel=0.02)


def test_softmax_is_measured_with_every_divisor():
    rows, measured = draws("independent", 2).rows, sharpness("independent", 2, "d_model")
    powers = np.exp(rows[3] / np.sqrt(512))
    weights = powers / powers.sum(axis=1, keepdims=True)
    assert measured.largest[3] == pytest.approx(weights.max(axis=1).mean())
    assert measured.entropy[3] == pytest.approx(-(weights * np.log(weights)).sum(axis=1).mean())
    twice = sharpness("independent", 2, "sqrt", twice=True)
    np.testing.assert_allclose(twice.largest, sharpness("independent", 2, "d_k").largest, rtol=1e-12)


def test_undivided_scores_saturate_softmax_and_those_over_the_root_do_not():
    plain, root = sharpness("independent", 1, "one"), sharpness("independent", 1, "sqrt")
    assert plain.largest[-1] > 0.9 > 0.4 > root.largest.max()
    assert plain.gradient[-1] < 0.1 < 0.3 < root.gradient.min()


def test_unknown_words_and_seeds_are_refused():
    for call in (draws, lambda word: expected(word, 4)):
        with pytest.raises(ValueError, match="entries are independent, shifted, shared, same, not 'own'"):
            call("own")
    with pytest.raises(ValueError, match="the seed must be a whole number"):
        draws("independent", -1)

"""Softmax taken apart: every step against softmax in one call, and what goes wrong without care."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from test_operations import calculated, cells, in_full, reads_place

from attention_core.attention import attention_from_x
from attention_core.export import to_latex, to_numpy
from attention_core.numbers import show
from attention_core.sheet import run, work
from attention_core.softmax import softmax
from attention_core.softmax_sheet import softmax_sheet
from attention_core.softmax_steps import (
    EXP,
    LARGEST_POWER,
    MAXIMUM,
    MAXIMUM_OFF,
    OPEN_ONLY,
    OPERATIONS,
    OVER_NUMBER,
    SHARE,
    TOTAL,
)

RNG = np.random.default_rng(4)
N, D_MODEL, D_K, D_V = 5, 4, 3, 2
GIVEN = {
    "x": RNG.normal(size=(N, D_MODEL)), "w_q": RNG.normal(size=(D_MODEL, D_K)),
    "w_k": RNG.normal(size=(D_MODEL, D_K)), "w_v": RNG.normal(size=(D_MODEL, D_V)),
    "divisor": np.sqrt(D_K), "mask": np.tri(N, dtype=bool), "temperature": 0.5, "amount": 1000.0,
}  # fmt: skip
TABLE, RULE = RNG.normal(size=(7, 5)), RNG.random((7, 5)) < 0.6
INPUTS = {
    MAXIMUM: (TABLE,), MAXIMUM_OFF: (TABLE, TABLE.max(axis=1, keepdims=True)), EXP: (TABLE,), TOTAL: (TABLE,),
    SHARE: (TABLE, RNG.random((7, 1)) + 1), OPEN_ONLY: (TABLE, RULE), OVER_NUMBER: (TABLE, np.array(0.7)),
}  # fmt: skip
FLAGS = [
    dict(zip(("temperature", "amount", "keep_maximum", "mask_after"), on, strict=True))
    for on in product([False, True], repeat=4)
]
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


def by_loops(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    weights = np.zeros_like(scores)
    for i, row in enumerate(scores):
        powers = [np.exp(s - max(row[mask[i]])) if ok else 0.0 for s, ok in zip(row, mask[i], strict=True)]
        weights[i] = [power / sum(powers) for power in powers]
    return weights


def test_the_steps_are_attention():
    values = run(softmax_sheet(from_x=True), GIVEN)
    x, w_q, w_k, w_v = (GIVEN[name] for name in ("x", "w_q", "w_k", "w_v"))
    trace = attention_from_x(x, w_q, w_k, w_v, mask=GIVEN["mask"])
    np.testing.assert_array_equal(values["weights"], trace.weights)
    np.testing.assert_array_equal(values["output"], trace.output)
    np.testing.assert_allclose(values["weights"], by_loops(values["scaled"], GIVEN["mask"]), rtol=1e-13)


def test_every_step_is_what_it_says():
    values = run(softmax_sheet(from_x=True), GIVEN)
    assert values["maximum"].shape == values["totals"].shape == (N, 1)
    for i in range(N):
        row = values["masked"][i]
        assert values["maximum"][i, 0] == max(row)
        assert values["below"][i].max() == 0 and values["powers"][i].max() == 1
        assert values["totals"][i, 0] == pytest.approx(sum(np.exp(row - max(row))))


def test_temperature_divides_the_scores_and_an_amount_changes_no_weight():
    plain = run(softmax_sheet(from_x=True), GIVEN)
    cool = run(softmax_sheet(from_x=True, temperature=True), GIVEN)
    np.testing.assert_array_equal(cool["tempered"], plain["scaled"] / 0.5)
    np.testing.assert_array_equal(cool["weights"], softmax(plain["masked"] / 0.5))
    raised = run(softmax_sheet(from_x=True, amount=True), GIVEN)
    np.testing.assert_array_equal(raised["raised"], plain["scaled"] + 1000)
    np.testing.assert_allclose(raised["weights"], plain["weights"], rtol=1e-9)


@pytest.mark.parametrize(("amount", "power"), [(1000.0, np.inf), (-1000.0, 0.0)])
def test_without_the_maximum_off_large_scores_have_no_weights(amount, power):
    values = run(softmax_sheet(from_x=True, amount=True, keep_maximum=True), {**GIVEN, "amount": amount})
    assert (values["powers"][GIVEN["mask"]] == power).all()
    assert np.isnan(values["weights"][GIVEN["mask"]]).all()
    assert "maximum" not in values and "below" not in values


def test_without_the_maximum_off_small_scores_have_the_same_weights():
    values = run(softmax_sheet(from_x=True, keep_maximum=True), GIVEN)
    np.testing.assert_allclose(values["weights"], softmax(values["masked"]), rtol=1e-13)


def test_the_largest_power_is_the_last_that_can_be_held():
    assert np.isfinite(np.exp(LARGEST_POWER))
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp(LARGEST_POWER + 0.001))


def test_put_to_0_after_softmax_a_row_no_longer_adds_up():
    values = run(softmax_sheet(from_x=True, mask_after=True), GIVEN)
    np.testing.assert_allclose(values["shares"].sum(axis=1), 1, rtol=1e-13)
    np.testing.assert_array_equal(values["weights"], values["shares"] * GIVEN["mask"])
    assert (values["weights"].sum(axis=1)[:-1] < 1 - 1e-6).all()
    assert values["weights"].sum(axis=1)[-1] == pytest.approx(1)


def test_a_query_that_may_look_nowhere_gets_zeros():
    mask = GIVEN["mask"].copy()
    mask[2] = False
    sheet = softmax_sheet(from_x=True)
    values = run(sheet, {**GIVEN, "mask": mask})
    for name in ("powers", "totals", "weights", "output"):
        assert (values[name][2] == 0).all(), name
    for name in ("below", "weights"):
        assert "this query may look nowhere" in work(sheet, values, name, 2, 0).text


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("from_x", [False, True])
def test_every_sheet_explains_its_cells_and_runs_as_a_program(flags, from_x):
    sheet = softmax_sheet(from_x=from_x, **flags)
    assert len(set(sheet.titles.values())) == len(sheet.lines)
    given = {**GIVEN, "amount": 3.0, "q": GIVEN["x"][:, :3], "k": TABLE[:N, :3], "v": TABLE[:N, 3:]}
    values = run(sheet, given)
    for line in sheet.stages:
        for (i, j), value in np.ndenumerate(values[line.name]):
            assert work(sheet, values, line.name, i, j).text.endswith(show(float(value))), line.name
    names: dict = {}
    exec(to_numpy(sheet, values).replace("print(", "last = ("), names)
    np.testing.assert_array_equal(names["last"], values["output"])
    assert to_latex(sheet, values).count("{") == to_latex(sheet, values).count("}")


@each_operation
def test_the_numpy_text_computes_the_same_matrix(operation):
    names = dict(zip("ab", INPUTS[operation], strict=False))
    text = operation.code.format(*names)
    np.testing.assert_array_equal(eval(text, {"np": np, **names}), operation.compute(*INPUTS[operation]))


@each_operation
def test_the_declared_cells_are_the_cells_that_matter(operation):
    inputs = INPUTS[operation]
    before = operation.compute(*inputs)
    for which, pattern in enumerate(operation.reads):
        for place in np.ndindex(inputs[which].shape):
            changed = [np.array(a) for a in inputs]
            is_rule = inputs[which].dtype == bool
            changed[which][place] = ~changed[which][place] if is_rule else 5.7 - changed[which][place]
            moved = np.argwhere(operation.compute(*changed) != before)
            assert all(reads_place(pattern, place, i, j) for i, j in moved.tolist()), (pattern, place)


@each_operation
def test_every_step_of_the_arithmetic_comes_to_the_same_number(operation):
    inputs = INPUTS[operation]
    result = operation.compute(*inputs)
    for i, j in cells(result):
        steps = calculated(operation.work(inputs, i, j, in_full).text)
        np.testing.assert_allclose(steps, result[i, j], rtol=1e-9, atol=1e-12)
        for line in operation.work(inputs, i, j, show, name="N").latex:
            assert line.count("{") == line.count("}") and line.count("&") == 1


def test_a_power_that_cannot_be_held_says_so():
    inputs = (np.array([[1000.0, 2.0]]),)
    assert EXP.work(inputs, 0, 0, show).text == "more than can be held: e^(1000) ≈ ∞"
    assert EXP.work(inputs, 0, 1, show).text == "e^(2) ≈ 7.39"


@pytest.mark.parametrize("operation", [MAXIMUM_OFF, SHARE, OPEN_ONLY])
def test_a_column_that_is_too_short_is_refused(operation):
    with pytest.raises(ValueError):
        operation.compute(np.zeros((4, 3)), np.zeros((2, 1), dtype=bool))

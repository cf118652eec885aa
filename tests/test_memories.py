"""Lesson 8's sheet: the network with one token's row changed, and what each hidden unit brings."""

from __future__ import annotations

import re

import numpy as np
import pytest

from attention_core.activations import gelu, gelu_tanh, relu, swish
from attention_core.differences import DIFFERENCE, plus_in_row
from attention_core.export import to_latex, to_numpy
from attention_core.memories import one_row_changed, row_by_row, strongest
from attention_core.numbers import show
from attention_core.sheet import reads, run, work

RNG = np.random.default_rng(8)
N, D_MODEL, D_FF, ROW = 5, 3, 7, 1
KINDS = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "swiglu": swish}
each_kind = pytest.mark.parametrize("kind", KINDS)
both_ways = pytest.mark.parametrize("turned", [False, True])


def given(kind: str, turned: bool = False) -> dict[str, np.ndarray]:
    high = N if turned else D_MODEL
    shapes = dict.fromkeys(("w_1", "w_gate", "w_up"), (high, D_FF)) | dict.fromkeys(
        ("w_2", "w_down"), (D_FF, high)
    )
    shapes |= {"x": (N, D_MODEL), "change": (1, D_MODEL)}
    numbers = {name: np.random.default_rng(len(name)).normal(size=shape) for name, shape in shapes.items()}
    return {line.name: numbers[line.name] for line in one_row_changed(kind, ROW, turned=turned).given}


def by_hand(kind: str, x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """One row, one hidden unit at a time."""
    result = np.zeros_like(x)
    for i, row in enumerate(x):
        for unit in range(D_FF):
            if kind == "swiglu":
                active = KINDS[kind](row @ weights["w_gate"][:, unit]) * (row @ weights["w_up"][:, unit])
                result[i] += active * weights["w_down"][unit]
            else:
                result[i] += KINDS[kind](row @ weights["w_1"][:, unit]) * weights["w_2"][unit]
    return result


@each_kind
def test_only_the_changed_row_of_the_output_is_another(kind):
    weights = given(kind)
    values = run(one_row_changed(kind, ROW), weights)
    changed = weights["x"].copy()
    changed[ROW] += weights["change"][0]
    np.testing.assert_array_equal(values["x_b"], changed)
    np.testing.assert_allclose(values["fed"], by_hand(kind, weights["x"], weights), rtol=1e-12)
    np.testing.assert_allclose(values["fed_b"], by_hand(kind, changed, weights), rtol=1e-12)
    np.testing.assert_array_equal(values["moved"], values["fed_b"] - values["fed"])
    assert not np.delete(values["moved"], ROW, axis=0).any() and values["moved"][ROW].all()


@each_kind
def test_on_x_transposed_other_rows_change_too(kind):
    weights = given(kind, turned=True)
    values = run(one_row_changed(kind, ROW, turned=True), weights)
    assert values["turned_back"].shape == (N, D_MODEL)
    assert np.delete(values["moved"], ROW, axis=0).any(axis=1).all()
    if kind != "swiglu":
        taken = KINDS[kind](weights["x"].T @ weights["w_1"]) @ weights["w_2"]
        np.testing.assert_allclose(values["turned_back"], taken.T, rtol=1e-12)


@each_kind
def test_what_the_units_bring_adds_up_to_the_row(kind):
    values = run(one_row_changed(kind, ROW), given(kind))
    np.testing.assert_allclose(values["brings"].sum(axis=0), values["fed"][ROW], rtol=1e-12)
    first = strongest(values)
    sizes = np.abs(values["brings"]).sum(axis=1)
    assert [sizes[unit] for unit in first] == sorted(sizes[sizes > 0], reverse=True)[:3]


@each_kind
def test_rows_alone_give_the_same(kind):
    values = run(one_row_changed(kind, ROW), given(kind))
    np.testing.assert_allclose(row_by_row(kind, values), values["fed"], rtol=1e-12)


def test_weights_with_a_row_for_each_token_do_not_fit_a_row():
    values = run(one_row_changed("relu", ROW, turned=True), given("relu", turned=True))
    with pytest.raises(ValueError, match="cannot be made from x"):
        row_by_row("relu", values)


@each_kind
@both_ways
def test_titles_differ_and_every_axis_has_one_length(kind, turned):
    sheet = one_row_changed(kind, ROW, turned=turned)
    assert len(set(sheet.titles.values())) == len(sheet.lines)
    values, sizes = run(sheet, given(kind, turned)), {}
    for line in sheet:
        for axis, size in zip(line.axes, values[line.name].shape, strict=True):
            assert sizes.setdefault(axis, size) == size, (line.name, axis)


@each_kind
@both_ways
def test_every_cell_is_worked_out_with_its_own_number(kind, turned):
    sheet = one_row_changed(kind, ROW, turned=turned)
    values = run(sheet, given(kind, turned))
    for line in sheet.stages:
        for (i, j), value in np.ndenumerate(values[line.name]):
            assert (
                work(sheet, values, line.name, i, j).text.replace(" stays ", " ").endswith(show(float(value)))
            )


@each_kind
@both_ways
def test_the_program_gives_the_same_numbers(kind, turned):
    sheet = one_row_changed(kind, ROW, turned=turned)
    values = run(sheet, given(kind, turned))
    names: dict[str, np.ndarray] = {}
    exec(to_numpy(sheet, values).replace("print(", "str("), names)
    for line in sheet.stages:
        np.testing.assert_allclose(names[line.name], values[line.name], rtol=1e-12, atol=1e-12)
    latex = to_latex(sheet, values)
    assert latex.count("{") == latex.count("}")


def test_a_change_reads_its_own_row_and_the_change():
    assert reads(one_row_changed("relu", ROW), "x_b") == [("x", "cell"), ("change", f"at {ROW} 0")]
    assert plus_in_row(2).flops([(4, 3), (1, 3)]) == 3


@pytest.mark.parametrize("shapes", [((4, 3), (1, 2)), ((4, 3), (2, 3)), ((2, 3), (1, 3))])
def test_a_change_that_does_not_fit_is_refused(shapes):
    with pytest.raises(ValueError, match=re.escape(f"{shapes[1]} is not one row to be added to row 3 of")):
        plus_in_row(2).compute(*map(np.zeros, shapes))


def test_a_change_is_made_in_every_batch_and_nothing_in_place():
    a, change = RNG.normal(size=(2, 4, 3)), RNG.normal(size=(1, 3))
    before = a.copy()
    after = plus_in_row(3).compute(a, change)
    np.testing.assert_array_equal(a, before)
    np.testing.assert_array_equal(after - a, np.where(np.arange(4)[:, None] == 3, after - a, 0.0))
    np.testing.assert_array_equal(after[:, 3], a[:, 3] + change[0])


def test_a_difference_is_taken_between_matrices_of_one_size():
    a, b = RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2))
    np.testing.assert_array_equal(DIFFERENCE.compute(a, b), a - b)
    with pytest.raises(ValueError):
        DIFFERENCE.compute(a, b[:1])
    for (i, j), value in np.ndenumerate(a - b):
        assert DIFFERENCE.work([a, b], i, j, show).text.endswith(show(float(value)))

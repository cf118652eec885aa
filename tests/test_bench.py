"""The bench: windows, edits and the two ways in, over all examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attention_core.examples import EXAMPLES
from attention_core.masks import MaskSpec, allowed
from attention_ui.bench import (
    EDITABLE,
    FROM_QKV,
    Bench,
    fresh,
    givens,
    is_numbers,
    numbers,
    opened,
    reseeded,
    shape,
    token_at,
    with_edit,
    with_sizes,
    with_toggle,
    with_way,
)
from attention_ui.scene import scene

examples = pytest.mark.parametrize("name", EXAMPLES)


@examples
def test_an_example_opens_with_its_own_numbers(name):
    example, bench = EXAMPLES[name], opened(name)
    for given, base in example.base.items():
        np.testing.assert_array_equal(numbers(bench, given), base)
    assert [token_at(bench, j) for j in range(bench.n_k)] == list(example.tokens)


@examples
@pytest.mark.parametrize("size", ["d_model", "d_k", "d_v", "n_k"])
def test_shrinking_and_growing_again_gives_the_same_numbers(name, size):
    bench = with_sizes(opened(name), **{"n_q" if size == "n_k" else size: 8, size: 8})
    edited = bench
    for given in givens(bench):
        rows, columns = shape(bench, given)
        edited = with_edit(edited, given, rows - 1, columns - 1, 0.125)
    small = with_sizes(edited, **{size: 2})
    again = with_sizes(small, **{size: 8})
    again = with_sizes(again, n_q=edited.n_q)
    for given in givens(edited):
        np.testing.assert_array_equal(numbers(again, given), numbers(edited, given))
        rows, columns = shape(small, given)
        if given not in FROM_QKV or EXAMPLES[name].way == "qkv":  # products follow the width of X
            np.testing.assert_array_equal(numbers(small, given), numbers(edited, given)[:rows, :columns])


@examples
def test_changing_over_keeps_q_k_and_v_to_the_last_digit(name):
    bench = opened(name)
    bench = with_sizes(bench, n_q=bench.n_k)
    before = scene(bench).trace
    there, _ = with_way(bench, "qkv" if bench.way == "x" else "x")
    back, _ = with_way(there, bench.way)
    assert there.way != bench.way and back.way == bench.way
    for changed in (there, back):
        after = scene(changed).trace
        for matrix in (*FROM_QKV, "output"):
            np.testing.assert_array_equal(getattr(after, matrix), getattr(before, matrix))


@examples
def test_edits_of_q_k_and_v_survive_the_way_to_x(name):
    bench, _ = with_way(opened(name), "qkv")
    bench = with_sizes(bench, n_q=bench.n_k)
    for matrix in FROM_QKV:
        bench = with_edit(bench, matrix, 0, 0, 1 / 3)
    from_x, said = with_way(bench, "x")
    assert from_x.way == "x" and "identity" in said
    for matrix in FROM_QKV:
        np.testing.assert_array_equal(scene(from_x).values[matrix], numbers(bench, matrix))


def test_x_is_refused_where_queries_and_keys_differ_in_number():
    bench = opened("seed")
    same, said = with_way(bench, "x")
    assert same == bench and "3 queries and 4 keys" in said


def test_an_edit_of_q_leaves_k_alone_even_where_they_are_equal():
    bench, _ = with_way(opened("same"), "qkv")
    bench = replace(bench, edits={"q": {}, "k": {}})
    q = numbers(bench, "q")
    for (i, j), value in np.ndenumerate(q):
        bench = with_edit(bench, "k", i, j, value)
    edited = with_edit(bench, "q", 0, 0, 99.0)
    np.testing.assert_array_equal(numbers(edited, "k"), q)
    assert numbers(edited, "q")[0, 0] == 99


def test_toggling_a_cell_draws_the_mask_by_hand_and_twice_is_nothing():
    bench = replace(opened("tokens"), mask=MaskSpec("causal"))
    once = with_toggle(bench, 0, 3)
    twice = with_toggle(once, 0, 3)
    assert once.mask.kind == "custom"
    assert allowed(once.mask, 4, 4)[0, 3]
    np.testing.assert_array_equal(allowed(twice.mask, 4, 4), allowed(bench.mask, 4, 4))


def test_reset_brings_the_example_back_and_keeps_what_is_looked_at():
    bench = replace(with_edit(opened("tokens"), "x", 0, 0, 5.0), view="all", step=3, seed=4, n_q=6, n_k=6)
    again = fresh(bench)
    assert is_numbers(again, opened("tokens")) and (again.view, again.step) == ("all", 3)


def test_new_numbers_change_every_matrix_and_come_again_with_their_seed():
    bench = opened("tokens")
    new = reseeded(bench)
    assert new.seed == 1 and reseeded(new).seed == 2
    for matrix in givens(new):
        assert not np.array_equal(numbers(new, matrix), numbers(bench, matrix))
        np.testing.assert_array_equal(numbers(new, matrix), numbers(reseeded(bench), matrix))


def test_minus_zero_is_stored_as_zero():
    assert str(with_edit(opened("tokens"), "x", 0, 0, -0.0).edits["x"][0, 0]) == "0.0"


def test_from_x_there_is_one_length():
    assert with_sizes(opened("tokens"), n_k=7).n_q == 7
    assert with_sizes(opened("tokens"), n_q=7).n_k == 7


def test_every_editable_matrix_has_a_shape():
    bench = Bench(n_q=2, n_k=3, d_model=5, d_k=7, d_v=11)
    shapes = {name: shape(bench, name) for name in EDITABLE}
    assert shapes == {
        "x": (3, 5), "w_q": (5, 7), "w_k": (5, 7), "w_v": (5, 11), "q": (2, 7), "k": (3, 7), "v": (3, 11),
    }  # fmt: skip


def test_a_selection_moves_into_range_with_the_matrix_it_is_in():
    bench = replace(with_sizes(opened("tokens"), n_k=8), selected=("weights", 7, 6))
    assert with_sizes(bench, n_k=4).selected == ("weights", 3, 3)
    assert with_sizes(replace(bench, selected=("w_q", 2, 1)), d_k=1).selected == ("w_q", 2, 0)

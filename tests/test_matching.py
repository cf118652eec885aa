"""Lesson 2's sheet: one query and one key, the table of scores, a lookup and a mix."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.attention import attention
from attention_core.export import to_latex, to_numpy
from attention_core.lookup import PICK, of_first, one_row
from attention_core.matching import matching
from attention_core.numbers import show
from attention_core.sheet import reads, run, work

RNG = np.random.default_rng(6)
N_Q, N_K, D_MODEL, D_K, D_V = 3, 6, 4, 2, 5
X = {
    "x": RNG.normal(size=(N_K, D_MODEL)), "w_q": RNG.normal(size=(D_MODEL, D_K)),
    "w_k": RNG.normal(size=(D_MODEL, D_K)), "w_v": RNG.normal(size=(D_MODEL, D_V)), "divisor": np.sqrt(D_K),
}  # fmt: skip
QKV = {
    "q": RNG.normal(size=(N_Q, D_K)), "k": RNG.normal(size=(N_K, D_K)), "v": RNG.normal(size=(N_K, D_V)),
    "divisor": np.sqrt(D_K),
}  # fmt: skip


def test_the_table_and_the_mix_are_attention_without_a_mask():
    values = run(matching(N_Q, N_K, from_x=False), QKV)
    trace = attention(QKV["q"], QKV["k"], QKV["v"])
    for name in ("scores", "scaled", "weights", "output"):
        np.testing.assert_array_equal(values[name], getattr(trace, name))


def test_the_example_of_the_series_gives_a_table_of_3_by_4_and_an_output_of_width_5():
    q, k = np.array([[1.0, 0], [0, 1], [1, -1]]), np.array([[1.0, 1], [2, 0], [0, 2], [-1, 0]])
    values = run(matching(3, 4, from_x=False), {"q": q, "k": k, "v": np.eye(4, 5), "divisor": np.sqrt(2)})
    assert values["match"].tolist() == [[1.0]]  # q = [1, 0] and k = [1, 1]
    assert values["scores"].shape == (3, 4) and values["output"].shape == (3, 5)


@pytest.mark.parametrize(("query", "key"), [(0, 0), (2, 5), (1, 3)])
def test_the_pair_on_its_own_comes_to_its_cell_of_the_table(query, key):
    values = run(matching(N_Q, N_K, query=query, key=key), X)
    np.testing.assert_allclose(values["match"][0, 0], values["scores"][query, key], rtol=1e-10)
    np.testing.assert_array_equal(values["products"][0], values["q"][query] * values["k"][key])


@pytest.mark.parametrize(("n_q", "n_k"), [(3, 6), (6, 3), (6, 6), (1, 6)])
def test_from_x_every_matrix_takes_the_first_rows_it_needs(n_q, n_k):
    values = run(matching(n_q, n_k), X)
    np.testing.assert_array_equal(values["q"], X["x"][:n_q] @ X["w_q"])
    np.testing.assert_array_equal(values["k"], X["x"][:n_k] @ X["w_k"])
    np.testing.assert_array_equal(values["v"], X["x"][:n_k] @ X["w_v"])


def test_a_lookup_takes_the_one_value_whose_key_has_the_largest_score():
    values = run(matching(N_Q, N_K, from_x=False), QKV)
    for i, row in enumerate(QKV["q"] @ QKV["k"].T):
        np.testing.assert_array_equal(values["looked_up"][i], QKV["v"][max(range(N_K), key=row.__getitem__)])
    assert PICK.compute(np.array([[1.0, 3, 3]])).tolist() == [[0, 1, 0]]  # of equal scores the first


def test_keys_of_another_width_are_drawn_and_not_compared():
    sheet = matching(N_Q, N_K, same_width=False)
    values = run(sheet, {**X, "w_k": RNG.normal(size=(D_MODEL, 3))})
    assert values["k"].shape == (N_K, 3) and values["k_t"].shape == (3, N_K)
    assert sheet["k"].axes == ("key", "d_key") and sheet["q"].axes == ("query", "d_k")
    assert "scores" not in values and "match" not in values


def test_q_times_k_as_it_stands_is_refused_with_both_shapes():
    with pytest.raises(ValueError, match=r"scores cannot be made from q \(3, 2\) and k \(6, 2\)"):
        run(matching(N_Q, N_K, transposed=False), X)
    assert "scores" not in run(matching(N_Q, N_K, transposed=False, scored=False), X)


def test_with_as_many_keys_as_features_nothing_refuses_it_and_the_table_is_wrong():
    sheet = matching(N_Q, D_K, from_x=False, transposed=False)
    given = {**QKV, "k": QKV["k"][:D_K], "v": QKV["v"][:D_K]}
    values = run(sheet, given)
    np.testing.assert_array_equal(values["scores"], given["q"] @ given["k"])
    assert not np.allclose(values["scores"], given["q"] @ given["k"].T)
    assert sheet["scores"].axes == ("query", "d_k")


@pytest.mark.parametrize(("query", "key"), [(3, 0), (0, 6), (-1, 0)])
def test_a_query_or_key_that_is_not_there_is_refused(query, key):
    with pytest.raises(ValueError, match="there is no query"):
        matching(N_Q, N_K, query=query, key=key)


@pytest.mark.parametrize("from_x", [False, True])
def test_the_sheet_explains_its_cells_and_runs_as_a_program(from_x):
    sheet = matching(N_Q, N_K, query=1, key=2, from_x=from_x)
    assert len(set(sheet.titles.values())) == len(sheet.lines)
    values, sizes = run(sheet, X if from_x else QKV), {}
    for line in sheet:
        for axis, size in zip(line.axes, values[line.name].shape, strict=True):
            assert sizes.setdefault(axis, size) == size
    for line in sheet.stages:
        for (i, j), value in np.ndenumerate(values[line.name]):
            assert work(sheet, values, line.name, i, j).text.endswith(show(float(value))), line.name
    names: dict = {}
    exec(to_numpy(sheet, values).replace("print(", "last = ("), names)
    np.testing.assert_array_equal(names["last"], values["output"])
    assert to_latex(sheet, values).count("{") == to_latex(sheet, values).count("}")


def test_the_patterns_say_which_cells_are_read():
    sheet = matching(N_Q, N_K, query=1, key=2)
    assert reads(sheet, "q_2") == [("q", "at 0 1")] and reads(sheet, "k_3") == [("k", "at 0 2")]
    assert reads(sheet, "q") == [("x", "row"), ("w_q", "column")]
    assert reads(sheet, "picked") == [("scaled", "row")]


def test_the_operations_count_what_they_do_and_refuse_what_is_not_there():
    assert of_first(3).flops([(6, 4), (4, 2)]) == 2 * 3 * 4 * 2
    assert one_row(2).flops([(6, 4)]) == 0
    with pytest.raises(ValueError, match="there is no row 5"):
        one_row(4).compute(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="there are no 5 rows"):
        of_first(5).compute(np.zeros((4, 2)), np.zeros((2, 3)))

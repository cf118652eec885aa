"""One new token with a cache: the sheet, and the operation that appends a row."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.appending import appended
from attention_core.cost import Layer, decode, sheet_costs, total
from attention_core.export import to_numpy, to_torch
from attention_core.multi_head import multi_head_attention
from attention_core.numbers import show
from attention_core.one_token_sheet import one_token
from attention_core.sheet import Sheet, reads, run, work

RNG = np.random.default_rng(9)
N, D_MODEL, D_HEAD = 7, 5, 3


def given(heads: int, few: int) -> dict[str, np.ndarray]:
    x = RNG.normal(size=(N, D_MODEL))
    w_k, w_v = RNG.normal(size=(2, D_MODEL, few * D_HEAD))
    return {
        "x": x, "w_q": RNG.normal(size=(D_MODEL, heads * D_HEAD)), "w_k": w_k, "w_v": w_v,
        "w_o": RNG.normal(size=(heads * D_HEAD, D_MODEL)), "k_c": x[:-1] @ w_k, "v_c": x[:-1] @ w_v,
        "divisor": np.sqrt(D_HEAD), "mask": np.ones((1, N), dtype=bool),
    }  # fmt: skip


def sizes(heads: int, few: int) -> dict[str, int]:
    return {
        "token": N, "query": 1, "key": N, "key_c": N - 1, "d_model": D_MODEL, "d_k": D_HEAD, "d_v": D_HEAD,
        "n_heads·d_k": heads * D_HEAD, "n_heads·d_v": heads * D_HEAD,
        "n_kv_heads·d_k": few * D_HEAD, "n_kv_heads·d_v": few * D_HEAD,
    }  # fmt: skip


@pytest.mark.parametrize(("heads", "few"), [(1, 1), (4, 4), (4, 2), (4, 1)])
def test_the_new_token_gets_the_row_that_it_has_among_all(heads, few):
    numbers = given(heads, few)
    values = run(one_token(N, heads, few, d_head=D_HEAD), numbers)
    weights = [numbers[name] for name in ("x", "w_q", "w_k", "w_v", "w_o")]
    at_once = multi_head_attention(*weights, n_heads=heads, n_kv_heads=few)
    np.testing.assert_allclose(values["output"], at_once.output[-1:], rtol=1e-12)
    np.testing.assert_allclose(values["k"], at_once.k, rtol=1e-13)


@pytest.mark.parametrize(("heads", "few"), [(1, 1), (4, 2)])
def test_its_operations_are_those_of_the_estimate_of_a_step(heads, few):
    costs = sheet_costs(one_token(N, heads, few, d_head=D_HEAD), sizes(heads, few))
    assert total(costs).operations == total(decode(Layer(D_MODEL, heads, few, D_HEAD), N)).operations


def test_a_row_is_kept_without_an_operation_and_says_where_it_comes_from():
    sheet, numbers = one_token(N, 2, 2, d_head=D_HEAD), given(2, 2)
    values = run(sheet, numbers)
    np.testing.assert_array_equal(values["k"][:-1], numbers["k_c"])
    np.testing.assert_array_equal(values["k"][-1:], values["k_n"])
    assert {line.name: line.operations for line in sheet_costs(sheet, sizes(2, 2))}["k"] == 0
    assert reads(sheet, "k") == [("k_c", "rows 0 1 2 3 4 5 -1"), ("k_n", "at 6 0")]
    assert work(sheet, values, "k", 2, 1).text.startswith("row 3, column 2 of K in the cache: ")
    assert (
        work(sheet, values, "k", 6, 1).text
        == f"row 1, column 2 of K of the new token: {show(values['k'][6, 1])}"
    )


def test_titles_differ_and_every_axis_has_one_length():
    sheet = one_token(N, 4, 2, d_head=D_HEAD)
    assert len(set(sheet.titles.values())) == len(sheet.lines)
    values, found = run(sheet, given(4, 2)), {}
    for line in sheet:
        for axis, size in zip(line.axes, values[line.name].shape, strict=True):
            assert found.setdefault(axis, size) == size


def test_the_exported_program_gets_the_same_numbers():
    sheet: Sheet = one_token(N, 2, 1, d_head=D_HEAD)
    values = run(sheet, given(2, 1))
    names: dict[str, np.ndarray] = {}
    exec(to_numpy(sheet, values), names)
    np.testing.assert_allclose(names["output"], values["output"], rtol=1e-12)
    compile(to_torch(sheet, values), "torch", "exec")


def test_what_cannot_be_appended_is_refused():
    with pytest.raises(ValueError, match="are not 3 rows and one of the same width"):
        appended(3).compute(np.ones((2, 4)), np.ones((1, 4)))
    with pytest.raises(ValueError, match="are not 3 rows and one of the same width"):
        appended(3).compute(np.ones((3, 4)), np.ones((1, 5)))
    with pytest.raises(ValueError, match="1 row or more"):
        appended(0)
    with pytest.raises(ValueError, match="1 token has none before it"):
        one_token(1, 1, 1, d_head=2)

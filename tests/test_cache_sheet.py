"""One step with a cache: the same numbers as all tokens at once, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from test_operations import reads_place

from attention_core.appending import appended
from attention_core.attention import attention
from attention_core.cache_sheet import step_sheet
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.numbers import show
from attention_core.sheet import run, work

N, D_MODEL, D_K, D_V = 7, 5, 3, 2
RNG = np.random.default_rng(13)
X = RNG.normal(size=(N, D_MODEL)) / 2
WEIGHTS = {f"w_{letter}": RNG.normal(size=(D_MODEL, d)) for letter, d in (("q", D_K), ("k", D_K), ("v", D_V))}
AT_ONCE = attention(*(X @ WEIGHTS[f"w_{letter}"] for letter in "qkv"), mask=np.tri(N, dtype=bool))
each_step = pytest.mark.parametrize("t", range(1, N + 1))


def given_for(t: int) -> dict[str, np.ndarray | float]:
    kept = {f"{letter}_b": (X @ WEIGHTS[f"w_{letter}"])[: t - 1] for letter in "kv"} if t > 1 else {}
    return {"x": X, **WEIGHTS, "divisor": np.sqrt(D_K), **kept}


@each_step
def test_a_step_gives_the_row_that_causal_attention_gives_all_at_once(t):
    values = run(step_sheet(t), given_for(t))
    np.testing.assert_allclose(values["output"][0], AT_ONCE.output[t - 1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(values["weights"][0], AT_ONCE.weights[t - 1, :t], rtol=1e-12, atol=1e-14)
    assert values["k"].shape == (t, D_K) and values["v"].shape == (t, D_V)


@each_step
def test_filling_the_cache_step_by_step_gives_all_rows_of_k_and_v(t):
    given = given_for(1)
    for step in range(1, t + 1):
        values = run(step_sheet(step), given)
        given |= {"k_b": values["k"], "v_b": values["v"]}
    np.testing.assert_allclose(values["k"], (X @ WEIGHTS["w_k"])[:t], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(values["v"], (X @ WEIGHTS["w_v"])[:t], rtol=1e-12, atol=1e-14)


@each_step
def test_who_looks_too_early_misses_the_own_row(t):
    values = run(step_sheet(t, late=True), given_for(t))
    assert values["k"].shape == (t, D_K)
    if t == 1:
        np.testing.assert_allclose(values["output"][0], AT_ONCE.output[0], rtol=1e-12)
        return
    early = attention(X[t - 1 : t] @ WEIGHTS["w_q"], given_for(t)["k_b"], given_for(t)["v_b"]).output
    np.testing.assert_allclose(values["output"], early, rtol=1e-12, atol=1e-14)
    assert values["weights"].shape == (1, t - 1)
    assert np.abs(values["output"][0] - AT_ONCE.output[t - 1]).max() > 1e-3


@pytest.mark.parametrize("late", [False, True])
@each_step
def test_the_program_gives_the_same_numbers_and_every_line_has_a_name_of_its_own(t, late):
    sheet, values = step_sheet(t, late=late), run(step_sheet(t, late=late), given_for(t))
    program: dict[str, object] = {}
    exec(to_numpy(sheet, values), program)
    np.testing.assert_allclose(program["output"], values["output"], rtol=0, atol=1e-12)
    compile(to_torch(sheet, values), "torch", "exec")
    assert to_latex(sheet)
    for attribute in ("title", "symbol", "name"):
        named = [getattr(line, attribute) for line in sheet]
        assert len(set(named)) == len(named), attribute


@pytest.mark.parametrize("t", [1, 2, 5])
def test_every_cell_is_worked_out_to_the_number_that_is_shown(t):
    sheet, values = step_sheet(t), run(step_sheet(t), given_for(t))
    for stage in sheet.stages:
        for i, j in np.ndindex(values[stage.name].shape):
            assert work(sheet, values, stage.name, i, j).text.endswith(show(values[stage.name][i, j]))
    for name, title in (("k", "New key"), ("v", "New value")):
        assert title in work(sheet, values, name, t - 1, 0).text or t == 1


def test_a_row_under_others_is_made_of_the_cells_that_it_says():
    operation, above, below = appended(3), RNG.normal(size=(3, 4)), RNG.normal(size=(1, 4))
    result = operation.compute(above, below)
    for which, part in enumerate((above, below)):
        for place in np.ndindex(part.shape):
            here = [p for p in np.ndindex(result.shape) if reads_place(operation.reads[which], place, *p)]
            assert [result[p] for p in here if p[0] < 3 or which] == [part[place]]


def test_what_does_not_fit_is_refused_with_its_shapes():
    with pytest.raises(ValueError, match="there is no step 0"):
        step_sheet(0)
    with pytest.raises(ValueError, match=r"\(2, 4\) and \(1, 4\) are not 3 rows and one of the same width"):
        appended(3).compute(np.zeros((2, 4)), np.zeros((1, 4)))

"""All tokens at once and one at a time on one sheet."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.appending import one_under_another
from attention_core.attention import attention
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.masks import causal
from attention_core.numbers import show
from attention_core.sheet import cost, run, work
from attention_core.token_by_token import MISTAKES, step_lines, token_by_token

RNG = np.random.default_rng(12)
N, D_MODEL, D_K, D_V = 7, 5, 3, 2
GIVEN = {
    "x": RNG.normal(size=(N, D_MODEL)), "w_q": RNG.normal(size=(D_MODEL, D_K)),
    "w_k": RNG.normal(size=(D_MODEL, D_K)), "w_v": RNG.normal(size=(D_MODEL, D_V)),
    "divisor": np.sqrt(D_K), "mask": causal(N),
} | {f"mask_{t}": causal(1, t) for t in range(2, N + 1)}  # fmt: skip


def given_for(sheet):
    return {line.name: GIVEN[line.name] for line in sheet.given}


def worked(steps: int, mistake=None):
    sheet = token_by_token(N, steps, mistake=mistake)
    return sheet, run(sheet, given_for(sheet))


@pytest.mark.parametrize("steps", range(1, N + 1))
def test_every_step_gives_the_row_that_the_token_has_at_once(steps):
    _, values = worked(steps)
    q, k, v = (GIVEN["x"] @ GIVEN[f"w_{letter}"] for letter in "qkv")
    at_once = attention(q, k, v, mask=causal(N)).output
    np.testing.assert_allclose(values["output"], at_once, rtol=1e-13)
    np.testing.assert_allclose(values["stepped"], at_once[:steps], rtol=1e-12)
    assert np.abs(values["apart"]).max() < 1e-14


def test_the_cache_grows_by_the_new_row_and_keeps_the_others():
    _, values = worked(N)
    for t in range(2, N + 1):
        for letter in "kv":
            np.testing.assert_array_equal(values[f"{letter}_{t}"][:-1], values[f"{letter}_{t - 1}"])
            np.testing.assert_array_equal(values[f"{letter}_{t}"][-1:], values[f"new_{letter}_{t}"])
    np.testing.assert_allclose(values[f"k_{N}"], values["k"], rtol=1e-13)


def test_a_row_written_over_the_last_one_leaves_the_token_alone_with_itself():
    _, values = worked(N, "overwritten")
    np.testing.assert_allclose(values["stepped"], values["v"], rtol=1e-13)
    assert np.abs(values["apart"][1:]).max() > 0.01 and np.allclose(values["apart"][0], 0)


def test_a_token_masked_as_a_first_one_sees_the_first_key_only():
    _, values = worked(N, "as first")
    np.testing.assert_allclose(values["stepped"], np.repeat(values["v"][:1], N, axis=0), rtol=1e-13)
    np.testing.assert_array_equal(values["weights_4"], [[1, 0, 0, 0]])


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("steps", [1, 2, N])
def test_every_line_has_a_title_of_its_own_and_every_axis_one_length(steps, mistake):
    sheet, values = worked(steps, mistake)
    assert len(set(sheet.titles.values())) == len({line.name for line in sheet}) == len(sheet.lines)
    sizes: dict[str, int] = {}
    for line in sheet:
        for axis, size in zip(line.axes, values[line.name].shape, strict=True):
            assert sizes.setdefault(axis, size) == size, line.name
    assert sum(each.operations for each in cost(sheet, sizes)) > 0


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_cell_is_worked_out_with_its_own_number(mistake):
    sheet, values = worked(4, mistake)
    for line in (*step_lines(sheet, 4), *sheet.stages[-3:]):
        for (i, j), value in np.ndenumerate(values[line.name]):
            text = work(sheet, values, line.name, i, j).text
            assert text.endswith(show(float(value))) or abs(value) < 1e-9, (line.name, text)


def test_the_lines_of_a_step_are_its_own():
    sheet, _ = worked(3)
    names = [line.name for line in step_lines(sheet, 3)]
    assert names[:3] == ["x_3", "q_3", "new_k_3"] and names[-1] == "output_3" and len(names) == 11


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_exported_program_gets_the_same_numbers(mistake):
    sheet, values = worked(3, mistake)
    names: dict[str, np.ndarray] = {}
    exec(to_numpy(sheet, values), names)
    np.testing.assert_allclose(names["stepped"], values["stepped"], rtol=1e-12)
    compile(to_torch(sheet, values), "torch", "exec")
    assert r"\begin{" in to_latex(sheet, values)


def test_what_is_not_offered_is_refused():
    with pytest.raises(ValueError, match="of 3 tokens 1 to 3 can be worked through, not 4"):
        token_by_token(3, 4)
    with pytest.raises(ValueError, match="mistake is one of None, overwritten, as first, not 'x'"):
        token_by_token(3, 2, mistake="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 single rows of one width are needed"):
        one_under_another(2).compute(np.ones((1, 3)), np.ones((2, 3)))

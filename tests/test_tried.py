"""Gradients beside what trying finds: the losses all at once, the sheet, and the mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.gradients import attention_grad, by_differences
from attention_core.sheet import run, work
from attention_core.tried import TRIED, backward, losses_around, tried_sheet

pytestmark = pytest.mark.filterwarnings("error")

RNG = np.random.default_rng(15)
N_Q, N_K, D_K, D_V = 4, 5, 3, 2
STEP = 1e-5
GIVEN: dict[str, Any] = {
    "q": RNG.normal(size=(N_Q, D_K)),
    "k": RNG.normal(size=(N_K, D_K)),
    "v": RNG.normal(size=(N_K, D_V)),
    "d_output": RNG.normal(size=(N_Q, D_V)),
    "divisor": np.sqrt(D_K),
    "mask": np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0]], dtype=bool),
}
each = pytest.mark.parametrize("name", TRIED)


def worked(name: str, *, alone: bool = False) -> dict[str, Any]:
    above, below = losses_around(backward(), run(backward(), GIVEN), name)
    given = {**GIVEN, "loss_above": above, "loss_below": below, "step": STEP}
    return run(tried_sheet(name, alone=alone), given)


@each
def test_all_changes_at_once_give_the_losses_of_one_change_at_a_time(name):
    values = run(backward(), GIVEN)
    above, below = losses_around(backward(), values, name)
    want = by_differences(backward(), values, name)
    np.testing.assert_allclose((above - below) / (2 * STEP), want, rtol=0, atol=1e-9)
    assert above.shape == values[name].shape
    whole = float((values["d_output"] * values["output"]).sum())
    assert np.abs(above - whole).max() < 1e-3 and np.abs(above - whole).max() > 0


def test_a_line_after_which_nothing_changes_leaves_the_loss_as_it_is():
    values = run(backward(), GIVEN)
    above, below = losses_around(backward(), values, "output", target="weights", d_target="weights")
    np.testing.assert_array_equal(above, below)
    assert above.shape == (N_Q, D_V)
    with pytest.raises(KeyError):
        losses_around(backward(), values, "nothing")


@each
def test_every_gradient_is_what_trying_finds(name):
    values = worked(name)
    np.testing.assert_allclose(values["apart"], 0, atol=1e-9)
    np.testing.assert_allclose(values["tried"], values[f"d_{name}"], rtol=0, atol=1e-9)
    own = attention_grad(GIVEN["q"], GIVEN["k"], GIVEN["v"], GIVEN["d_output"], mask=GIVEN["mask"])
    np.testing.assert_array_equal(values["d_q"], own.d_q)


@each
def test_without_the_average_of_the_row_what_comes_after_softmax_is_wrong(name):
    apart = np.abs(worked(name, alone=True)["apart"]).max()
    assert apart < 1e-9 if name in ("v", "weights") else apart > 0.01


@each
def test_every_cell_says_how_it_was_made_and_the_losses_keep_the_digits_that_differ(name):
    values, sheet = worked(name), tried_sheet(name)
    for line in ("tried", "apart", "loss_above"):
        for i, j in np.ndindex(values[line].shape):
            assert work(sheet, values, line, i, j).text
    text = work(sheet, values, "tried", 0, 0).text
    high, low = text[1 : text.index(")")].replace("−", "-").split(" - ")
    assert float(high.strip("()")) - float(low.strip("()")) == pytest.approx(
        2 * STEP * values["tried"][0, 0], abs=1e-10
    )
    assert "(2 × 0.00001)" in text


@each
@pytest.mark.parametrize("alone", [False, True])
def test_the_programs_give_the_same_numbers(name, alone):
    sheet, values = tried_sheet(name, alone=alone), worked(name, alone=alone)
    space: dict[str, Any] = {}
    exec(to_numpy(sheet, values), space)
    for line in sheet.stages:
        np.testing.assert_allclose(space[line.name], values[line.name], rtol=1e-12, atol=1e-12)
    compile(to_torch(sheet, values), "torch", "exec")
    assert r"\mathrm{d}" in to_latex(sheet, values)


def test_names_and_titles_are_each_their_own():
    for name in TRIED:
        lines = tried_sheet(name).lines
        assert len({line.title for line in lines}) == len({line.name for line in lines}) == len(lines)
    with pytest.raises(ValueError, match="can be tried, not of 'output'"):
        tried_sheet("output")

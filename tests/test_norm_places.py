"""Lesson 6's sheet: a normalisation worked line by line, before and after a sub-layer."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.norm_places import norm_places
from attention_core.numbers import show
from attention_core.sheet import run, work

RNG = np.random.default_rng(9)
N, D = 4, 3
GIVEN = {
    "x": RNG.normal(size=(N, D)), "epsilon": 0.01, "gain": RNG.normal(size=(1, D)),
    "shift": RNG.normal(size=(1, D)), "w_o": RNG.normal(size=(D, D)),
}  # fmt: skip
MISTAKES = [{}, {"over": "column"}, {"variance": "sample"}, {"over": "column", "variance": "sample"}]


def by_hand(rows: np.ndarray, kind: str, over: str = "row", variance: str = "population") -> np.ndarray:
    """The normalisation one line at a time."""
    lines = rows.T if over == "column" else rows
    made = []
    for line in lines:
        if kind == "rms":
            made.append(line / np.sqrt(sum(line**2) / len(line) + 0.01))
            continue
        centred = line - sum(line) / len(line)
        count = len(line) - (variance == "sample")
        made.append(centred / np.sqrt(sum(centred**2) / count + 0.01))
    even = np.array(made).T if over == "column" else np.array(made)
    shift = 0 if kind == "rms" else GIVEN["shift"]
    return even * GIVEN["gain"] + shift


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_the_two_places_are_those_of_the_formulas(kind, mistake):
    values = run(norm_places(kind, **mistake), GIVEN)
    x, w_o = GIVEN["x"], GIVEN["w_o"]
    np.testing.assert_allclose(values["pre"], x + by_hand(x, kind, **mistake) @ w_o, rtol=1e-12)
    np.testing.assert_allclose(values["post"], by_hand(x + x @ w_o, kind, **mistake), rtol=1e-12)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_gain_shift_and_epsilon_are_given_once_and_shared(kind):
    names = [line.name for line in norm_places(kind).given]
    assert names == ["x", "epsilon", "gain", *["shift"] * (kind == "layer"), "w_o"]


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_titles_differ_and_every_cell_is_worked_out_with_its_own_number(kind, mistake):
    sheet = norm_places(kind, **mistake)
    values = run(sheet, GIVEN)
    assert len(set(sheet.titles.values())) == len(sheet.lines)
    for line in sheet.stages:
        for cell in np.ndindex(*values[line.name].shape):
            said = work(sheet, values, line.name, *cell)
            assert said.text.endswith(show(float(values[line.name][cell]))), (line.name, said.text)


def test_an_unknown_normalisation_is_refused():
    with pytest.raises(ValueError, match="a normalisation is layer or rms, not 'batch'"):
        norm_places("batch")

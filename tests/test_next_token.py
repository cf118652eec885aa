"""Tokens worked through with a cache, and the shares of the one that comes next."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.export import to_numpy, to_torch
from attention_core.masks import causal
from attention_core.next_token import choosing, next_token
from attention_core.numbers import show
from attention_core.sampling import distribution
from attention_core.sheet import run, work

RNG = np.random.default_rng(21)
N, D_MODEL, D_K, D_V, WORDS = 5, 4, 3, 2, 7
GIVEN = {
    "x": RNG.normal(size=(N, D_MODEL)), "w_q": RNG.normal(size=(D_MODEL, D_K)),
    "w_k": RNG.normal(size=(D_MODEL, D_K)), "w_v": RNG.normal(size=(D_MODEL, D_V)),
    "w_out": 3 * RNG.normal(size=(D_V, WORDS)), "divisor": np.sqrt(D_K), "mask": causal(N),
    "temperature": 0.7, "top_p": 0.6,
}  # fmt: skip
KINDS = [{}, {"greedy": True}, {"top_k": 3}, {"top_p": True}, {"top_k": 3, "top_p": True}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_last_line_is_the_distribution_of_the_steps_logits(kind):
    values = run(sheet := next_token(N, 3, **kind), {line.name: GIVEN[line.name] for line in sheet.given})
    want = distribution(
        (values["output_3"] @ GIVEN["w_out"])[0],
        temperature=0.0 if kind.get("greedy") else 0.7,
        top_k=kind.get("top_k"),
        top_p=0.6 if kind.get("top_p") else None,
    )
    np.testing.assert_allclose(values[sheet.stages[-1].name][0], want.final, rtol=1e-12)
    np.testing.assert_allclose(values["output_3"], values["output"][2:3], rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_line_has_a_title_of_its_own_and_every_axis_one_length(kind):
    values = run(sheet := next_token(N, 3, **kind), {line.name: GIVEN[line.name] for line in sheet.given})
    assert len(set(sheet.titles.values())) == len(sheet.lines)
    sizes: dict[str, int] = {}
    for line in sheet:
        for axis, size in zip(line.axes, values[line.name].shape, strict=True):
            assert sizes.setdefault(axis, size) == size, line.name
    assert choosing(sheet)[0].name == "logits" and choosing(sheet)[-1] == sheet.stages[-1]
    for line in choosing(sheet):
        for (i, j), value in np.ndenumerate(values[line.name]):
            assert work(sheet, values, line.name, i, j).text.endswith(show(float(value))), line.name


def test_the_exported_program_gets_the_same_numbers():
    values = run(
        sheet := next_token(N, 3, **KINDS[-1]), {line.name: GIVEN[line.name] for line in sheet.given}
    )
    names: dict[str, np.ndarray] = {}
    exec(to_numpy(sheet, values), names)
    np.testing.assert_allclose(names["after_p"], values["after_p"], rtol=1e-12)
    compile(to_torch(sheet, values), "torch", "exec")

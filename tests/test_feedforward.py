from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from attention_core.feedforward import (
    GATED,
    KINDS,
    PLAIN,
    feed_forward,
    feed_forward_lines,
    feed_forward_sheet,
    gated_feed_forward,
)
from attention_core.sheet import Sheet, cost, parameters, reads, run, work
from attention_core.sheets import PROJECTED, X

pytestmark = pytest.mark.filterwarnings("error")

N, D_MODEL, D_FF = 7, 5, 11
SIZES = {"token": N, "d_model": D_MODEL, "d_ff": D_FF}
SHEETS = {kind: feed_forward_sheet(kind) for kind in KINDS} | {
    f"{kind}-no-biases": feed_forward_sheet(kind, biases=False) for kind in PLAIN
}
each_sheet = pytest.mark.parametrize(("name", "sheet"), SHEETS.items(), ids=SHEETS)
BENT = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "swiglu": lambda x: x / (1 + math.exp(-x)),
}
BENT |= {"reglu": BENT["relu"], "geglu": BENT["gelu"], "geglu_tanh": BENT["gelu_tanh"]}


def made_up(sheet: Sheet, seed: int = 15) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    sizes = SIZES | {"one": 1}
    return {line.name: rng.normal(size=tuple(sizes[a] for a in line.axes)) for line in sheet.given}


def one_row(kind: str, row: np.ndarray, given: dict[str, Any]) -> list[float]:
    """The formulas of Vaswani et al. 2017 and Shazeer 2020 for one token, one hidden unit at a time."""
    bend, out = BENT[kind], np.zeros(D_MODEL)
    for unit in range(D_FF):
        if kind in GATED:
            active = bend(row @ given["w_gate"][:, unit]) * (row @ given["w_up"][:, unit])
            out += active * given["w_down"][unit]
        else:
            bias = given["b_1"][0, unit] if "b_1" in given else 0.0
            out += bend(row @ given["w_1"][:, unit] + bias) * given["w_2"][unit]
    return (out + (given["b_2"][0] if "b_2" in given else 0.0)).tolist()


@each_sheet
def test_the_sheet_is_the_formula_row_by_row(name: str, sheet: Sheet) -> None:
    given = made_up(sheet)
    values = run(sheet, given)
    want = [one_row(name.removesuffix("-no-biases"), row, given) for row in given["x"]]
    np.testing.assert_allclose(values["fed"], want, rtol=1e-11, atol=1e-12)
    assert sheet.stages[-1].name == "fed"


@pytest.mark.parametrize("kind", PLAIN)
def test_the_function_takes_biases_as_rows_and_none_as_0(kind: str) -> None:
    given = made_up(feed_forward_sheet(kind))
    x, w_1, b_1, w_2, b_2 = (given[name] for name in ("x", "w_1", "b_1", "w_2", "b_2"))
    want = [one_row(kind, row, given) for row in x]
    np.testing.assert_allclose(feed_forward(x, w_1, w_2, b_1[0], b_2[0], kind=kind), want, atol=1e-12)
    np.testing.assert_allclose(feed_forward(x, w_1, w_2, b_1, kind=kind), want - b_2, atol=1e-12)
    bare = [one_row(kind, row, {"w_1": w_1, "w_2": w_2}) for row in x]
    np.testing.assert_allclose(feed_forward(x, w_1, w_2, kind=kind), bare, atol=1e-12)


@pytest.mark.parametrize("kind", GATED)
def test_the_gated_function_takes_stacked_rows(kind: str) -> None:
    given = made_up(feed_forward_sheet(kind))
    weights = [given[name] for name in ("w_gate", "w_up", "w_down")]
    x = np.random.default_rng(16).normal(size=(2, 3, N, D_MODEL))
    got = gated_feed_forward(x, *weights, kind=kind)
    for place in np.ndindex(2, 3, N):
        np.testing.assert_allclose(got[place], one_row(kind, x[place], given), rtol=1e-11, atol=1e-12)


@each_sheet
def test_editing_the_row_of_one_token_leaves_all_others_as_they_are(name: str, sheet: Sheet) -> None:
    given = made_up(sheet)
    before = run(sheet, given)
    changed = given | {"x": given["x"].copy()}
    changed["x"][3] += 1.0
    after = run(sheet, changed)
    for stage in sheet.stages:
        moved = (after[stage.name] != before[stage.name]).any(axis=1)
        assert moved.tolist() == [i == 3 for i in range(N)], stage.name


def test_a_hidden_unit_adds_its_row_of_w_2_as_often_as_it_is_active() -> None:
    given = made_up(feed_forward_sheet("relu"))
    values = run(feed_forward_sheet("relu"), given)
    memory = sum(values["active"][:, [unit]] * given["w_2"][[unit]] for unit in range(D_FF))
    np.testing.assert_allclose(values["narrowed"], memory, atol=1e-13)


@each_sheet
def test_every_line_says_what_it_is_and_has_the_shape_its_axes_say(name: str, sheet: Sheet) -> None:
    values, sizes = run(sheet, made_up(sheet)), SIZES | {"one": 1}
    for line in sheet:
        assert values[line.name].shape == tuple(sizes[axis] for axis in line.axes), line.name
        assert line.meaning.endswith(".") and line.look.endswith(".")
    for field in ("name", "symbol", "title", "mark"):
        assert len({getattr(line, field) for line in sheet}) == len(sheet.lines), field
    for stage in sheet.stages:
        assert work(sheet, values, stage.name, 0, 0).text
    assert reads(sheet, "active")[0][1] == "cell"


def test_parameters_are_the_learned_numbers() -> None:
    """2 · d_model · d_ff numbers and the biases; three matrices with a gate. X is not learned."""
    assert parameters(feed_forward_sheet("gelu"), SIZES) == {"w_1": 55, "b_1": 11, "w_2": 55, "b_2": 5}
    assert sum(parameters(feed_forward_sheet("relu", biases=False), SIZES).values()) == 2 * D_MODEL * D_FF
    assert sum(parameters(feed_forward_sheet("swiglu"), SIZES).values()) == 3 * D_MODEL * D_FF
    attention = parameters(PROJECTED, {"d_model": 5, "d_k": 3, "d_v": 2})
    assert attention == {"w_q": 15, "w_k": 15, "w_v": 10}
    with pytest.raises(ValueError, match="sizes has no d_ff"):
        parameters(feed_forward_sheet("relu"), {"d_model": 5})


def test_four_times_the_width_costs_four_times_as_much() -> None:
    sheet = feed_forward_sheet("relu", biases=False)
    narrow, wide = (
        sum(c.operations for c in cost(sheet, SIZES | {"d_ff": width})) for width in (D_MODEL, 4 * D_MODEL)
    )
    assert wide == 4 * narrow
    assert narrow == N * D_MODEL * (2 * D_MODEL + 1 + 2 * D_MODEL)


def test_parts_stand_in_a_larger_sheet_under_their_own_names() -> None:
    one = feed_forward_lines("relu", index="1", where="of block 1")
    two = feed_forward_lines("swiglu", one[1][-1].name, prefix="next_", index="2", where="of block 2")
    sheet = Sheet((X, *one[0], *two[0]), (*one[1], *two[1]))
    for field in ("name", "symbol", "title", "mark"):
        assert len({getattr(line, field) for line in sheet}) == len(sheet.lines), field
    assert sheet["w_1_1"].symbol == "W_{1,1}"
    assert sheet["next_w_gate_2"].symbol == r"W_{\text{gate},2}"
    values = run(sheet, made_up(sheet))
    want = gated_feed_forward(
        values["fed_1"], *(values[f"next_{name}_2"] for name in ("w_gate", "w_up", "w_down"))
    )
    np.testing.assert_allclose(values["next_fed_2"], want, rtol=1e-13)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="kind is one of relu, gelu"):
        feed_forward_lines("tanh")
    with pytest.raises(ValueError, match="kind is one of relu, gelu, gelu_tanh, not 'swiglu'"):
        feed_forward(np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 3)), kind="swiglu")
    with pytest.raises(ValueError, match="kind is one of swiglu"):
        gated_feed_forward(np.ones((2, 3)), np.ones((3, 4)), np.ones((3, 4)), np.ones((4, 3)), kind="relu")
    with pytest.raises(ValueError, match=r"hidden cannot be made from x \(2, 3\) and w_1 \(4, 4\)"):
        feed_forward(np.ones((2, 3)), np.ones((4, 4)), np.ones((4, 3)))
    with pytest.raises(ValueError, match=r"hidden cannot be made from widened \(2, 4\) and b_1 \(1, 3\)"):
        feed_forward(np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 3)), np.ones(3))
    with pytest.raises(ValueError, match=r"active cannot be made from opened \(2, 4\) and up \(2, 5\)"):
        gated_feed_forward(np.ones((2, 3)), np.ones((3, 4)), np.ones((3, 5)), np.ones((4, 3)))

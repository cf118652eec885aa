from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given as over_all
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attention_core.normalisation import (
    layer_norm,
    layer_norm_lines,
    layer_norm_sheet,
    rms_norm,
    rms_norm_lines,
    rms_norm_sheet,
)
from attention_core.sheet import Sheet, cost, run, work
from attention_core.sheets import X

pytestmark = pytest.mark.filterwarnings("error")

N, D = 7, 5
SHEETS = {
    f"layer-{over}-{variance}{'-gain' * gain}{'-shift' * shift}": layer_norm_sheet(
        gain=gain, shift=shift, over=over, variance=variance
    )
    for over, variance, gain, shift in itertools.product(
        ("row", "column"), ("population", "sample"), (False, True), (False, True)
    )
} | {
    f"rms-{over}{'-gain' * gain}": rms_norm_sheet(gain=gain, over=over)
    for over, gain in itertools.product(("row", "column"), (False, True))
}
each_sheet = pytest.mark.parametrize("sheet", SHEETS.values(), ids=SHEETS)
some_rows = arrays(np.float64, (4, 6), elements=st.floats(-50, 50).map(lambda a: round(a, 3)))


def made_up(sheet: Sheet, seed: int = 6, epsilon: float = 1e-5) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    sizes = {"token": N, "d_model": D, "one": 1}
    given = {line.name: rng.normal(size=tuple(sizes[a] for a in line.axes)) * 2 for line in sheet.given}
    return given | {"epsilon": epsilon}


def by_hand(row: list[float], epsilon: float, gain: Any, shift: Any, one_less: bool = False) -> list[float]:
    """LayerNorm of one row as in the paper, one number at a time."""
    mean = sum(row) / len(row)
    variance = sum((a - mean) ** 2 for a in row) / (len(row) - one_less)
    return [
        (a - mean) / math.sqrt(variance + epsilon) * g + b for a, g, b in zip(row, gain, shift, strict=True)
    ]


def test_layer_norm_is_the_formula_of_the_paper() -> None:
    rng = np.random.default_rng(7)
    x, gain, shift = rng.normal(size=(N, D)), rng.normal(size=D), rng.normal(size=D)
    want = [by_hand(row, 1e-3, gain, shift) for row in x.tolist()]
    np.testing.assert_allclose(layer_norm(x, gain, shift, eps=1e-3), want, rtol=1e-12)
    plain = [by_hand(row, 1e-5, [1.0] * D, [0.0] * D) for row in x.tolist()]
    np.testing.assert_allclose(layer_norm(x), plain, rtol=1e-12)


def test_rms_norm_is_the_formula_of_the_paper() -> None:
    rng = np.random.default_rng(8)
    x, gain = rng.normal(size=(N, D)), rng.normal(size=D)
    want = [
        [a / math.sqrt(sum(b * b for b in row) / D + 1e-3) * g for a, g in zip(row, gain, strict=True)]
        for row in x.tolist()
    ]
    np.testing.assert_allclose(rms_norm(x, gain, eps=1e-3), want, rtol=1e-12)
    np.testing.assert_allclose(rms_norm(x, eps=1e-3), np.array(want) / gain, rtol=1e-12)


def test_the_row_1_2_3_has_mean_2_and_population_variance_two_thirds() -> None:
    """(−1)² + 0² + 1² is 2, over 3; over 2 it would be the variance of a sample."""
    given = {"x": [[1, 2, 3]], "epsilon": 0.0, "gain": [[1, 1, 1]], "shift": [[0, 0, 0]]}
    sheet = layer_norm_sheet()
    values = run(sheet, given)
    assert values["mean"].tolist() == [[2]]
    assert values["variance"][0, 0] == pytest.approx(2 / 3)
    assert work(sheet, values, "mean", 0, 0).text == "(1 + 2 + 3) / 3 = 2"
    shown = work(sheet, values, "variance", 0, 0)
    assert shown.text == "population variance, divided by d, not d − 1: ((−1)² + 0² + 1²) / 3 ≈ 0.67"
    assert shown.latex == (
        r"&\text{population variance: divided by } d \text{, not } d - 1",
        r"\textstyle\sum &= (-1)^2 + 0^2 + 1^2",
        "&= 1 + 0 + 1",
        "&= 2",
        r"\left(\sigma^2\right)_{1,1} &= \frac{2}{3} \approx 0.67",
    )
    sample = layer_norm_sheet(variance="sample")
    assert (
        work(sample, run(sample, given), "variance", 0, 0).text
        == "sample variance, divided by d − 1, not d: ((−1)² + 0² + 1²) / 2 = 1"
    )


def test_epsilon_is_visible_however_small_it_is() -> None:
    sheet = layer_norm_sheet()
    values = run(sheet, made_up(sheet) | {"x": np.ones((N, D))})
    assert work(sheet, values, "deviation", 0, 0).text == "√(0 + 1e−5) ≈ 0.00"
    assert work(sheet, values, "deviation", 0, 0).latex[0].endswith(r"\sqrt{0 + 1 \cdot 10^{-5}}")
    assert work(sheet, values, "normalised", 0, 0).text == "0 / 3.2e−3 = 0"
    assert work(sheet, values, "epsilon", 0, 0).text == "1e−5, given"


@over_all(some_rows)
def test_every_row_comes_out_with_mean_0_and_variance_just_below_1(x: np.ndarray) -> None:
    result = layer_norm(x)
    spread = x.var(axis=1)
    np.testing.assert_allclose(result.mean(axis=1), 0, atol=1e-8)
    np.testing.assert_allclose(result.var(axis=1), spread / (spread + 1e-5), rtol=1e-6, atol=1e-9)


@over_all(some_rows, st.floats(-9, 9), st.integers(0, 3))
def test_a_token_is_normalised_on_its_own_and_a_shift_of_its_row_changes_nothing(
    x: np.ndarray, amount: float, row: int
) -> None:
    moved = x.copy()
    moved[row] += amount
    np.testing.assert_allclose(layer_norm(moved), layer_norm(x), atol=1e-6)
    others = np.arange(4) != row
    np.testing.assert_array_equal(rms_norm(moved)[others], rms_norm(x)[others])


def test_rms_norm_equals_layer_norm_where_the_mean_is_0_already() -> None:
    x = np.random.default_rng(9).normal(size=(N, D))
    x -= x.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(rms_norm(x), layer_norm(x), rtol=1e-12)


def test_statistics_over_columns_mix_the_tokens() -> None:
    sheet = layer_norm_sheet(gain=False, shift=False, over="column")
    given = made_up(sheet)
    values = run(sheet, given)
    x = given["x"]
    want = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)
    np.testing.assert_allclose(values["normalised"], want, rtol=1e-12)
    assert values["mean"].shape == (1, D)
    given["x"] = x.copy()
    given["x"][2] += [3, 0, 0, 0, 0]
    moved = run(sheet, given)["normalised"] != values["normalised"]
    assert moved[:, 0].all()
    right = layer_norm(given["x"]) != layer_norm(x)
    assert right.any(axis=1).tolist() == [i == 2 for i in range(N)]


def test_the_variance_of_a_sample_makes_every_number_smaller_by_the_same_factor() -> None:
    """√((d − 1) / d), where ε is 0."""
    sheet = layer_norm_sheet(gain=False, shift=False, variance="sample")
    given = made_up(sheet, epsilon=0.0)
    got, right = run(sheet, given)["normalised"], layer_norm(given["x"], eps=0.0)
    np.testing.assert_allclose(got, right * math.sqrt((D - 1) / D), rtol=1e-12)


def test_one_feature_has_no_sample_variance_and_becomes_its_shift() -> None:
    given = {"x": [[3.0]], "epsilon": 1e-5, "gain": [[2.0]], "shift": [[0.5]]}
    sheet = layer_norm_sheet(variance="sample")
    values = run(sheet, given)
    assert np.isnan(values["variance"]).all()
    assert work(sheet, values, "variance", 0, 0).text.endswith("(0²) / 0 = not a number")
    assert layer_norm([[3.0]], [2.0], [0.5]).tolist() == [[0.5]]


@each_sheet
def test_every_line_says_what_it_is_and_has_the_shape_its_axes_say(sheet: Sheet) -> None:
    sizes = {"token": N, "d_model": D, "one": 1}
    values = run(sheet, made_up(sheet))
    for line in sheet:
        assert values[line.name].shape == tuple(sizes[axis] for axis in line.axes), line.name
        assert line.meaning.endswith(".") and line.look.endswith(".")
        assert "{" not in line.meaning + line.look
    for field in ("name", "symbol", "title", "mark"):
        assert len({getattr(line, field) for line in sheet}) == len(sheet.lines), field
    assert all(c.operations > 0 for c in cost(sheet, {"token": N, "d_model": D}))


@each_sheet
def test_stacked_matrices_are_normalised_one_by_one(sheet: Sheet) -> None:
    given = made_up(sheet)
    stack = np.random.default_rng(10).normal(size=(3, 2, N, D))
    together = run(sheet, given | {"x": stack})[sheet.stages[-1].name]
    for b, h in np.ndindex(3, 2):
        alone = run(sheet, given | {"x": stack[b, h]})[sheet.stages[-1].name]
        np.testing.assert_allclose(together[b, h], alone, rtol=1e-13)


def test_two_normalisations_stand_in_one_sheet_and_share_their_epsilon() -> None:
    one = layer_norm_lines(index="1", where="before attention")
    two = rms_norm_lines(one[1][-1].name, index="2", where="before the end", epsilon="epsilon_1")
    sheet = Sheet((X, *one[0], *two[0]), (*one[1], *two[1]))
    for field in ("name", "symbol", "title", "mark"):
        assert len({getattr(line, field) for line in sheet}) == len(sheet.lines), field
    assert sheet["mean_1"].title == "Mean before attention"
    assert sheet["mean_1"].symbol == r"\mu_1"
    assert sheet["variance_1"].symbol == r"\sigma_1^2"
    assert sheet["gain_2"].mark == (("γ", ""), ("2", "sub"))
    rng = np.random.default_rng(11)
    x, gain, shift, again = rng.normal(size=(N, D)), *rng.normal(size=(3, D))
    given = {"x": x, "epsilon_1": 0.01, "gain_1": gain[None], "shift_1": shift[None], "gain_2": again[None]}
    values = run(sheet, given)
    want = rms_norm(layer_norm(x, gain, shift, 0.01), again, 0.01)
    np.testing.assert_allclose(values[sheet.stages[-1].name], want, rtol=1e-13)


def test_a_prefix_names_lines_too() -> None:
    givens, stages = layer_norm_lines(prefix="norm_", shift=False)
    assert [line.name for line in (*givens, *stages)][:3] == ["norm_epsilon", "norm_gain", "norm_mean"]
    assert stages[-1].inputs == ("norm_normalised", "norm_gain")


def test_what_does_not_fit_is_refused_with_names_and_shapes() -> None:
    with pytest.raises(ValueError, match=r"x \(7, 5\) and gain \(4,\) do not fit"):
        layer_norm(np.ones((7, 5)), np.ones(4))
    with pytest.raises(ValueError, match=r"x \(7, 5\) and shift \(5, 5\) do not fit"):
        layer_norm(np.ones((7, 5)), np.ones(5), np.ones((5, 5)))
    with pytest.raises(ValueError, match=r"x \(5,\) is not a matrix"):
        rms_norm(np.ones(5))
    with pytest.raises(ValueError, match=r"gained cannot be made from normalised \(7, 5\) and gain \(7, 5\)"):
        run(rms_norm_sheet(), {"x": np.ones((7, 5)), "epsilon": 0.1, "gain": np.ones((7, 5))})
    with pytest.raises(ValueError, match="over is row or column, not 'token'"):
        layer_norm_lines(over="token")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="over is row or column, not 'token'"):
        rms_norm_lines(over="token")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="population or sample, not 'half'"):
        layer_norm_lines(variance="half")  # type: ignore[arg-type]


def test_pytorch_gives_the_same_numbers_where_it_is_installed() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(12)
    x, gain, shift = rng.normal(size=(3, N, D)), rng.normal(size=D), rng.normal(size=D)
    tensors = [torch.tensor(a) for a in (x, gain, shift)]
    want = torch.nn.functional.layer_norm(tensors[0], (D,), tensors[1], tensors[2], eps=1e-5)
    np.testing.assert_allclose(layer_norm(x, gain, shift), want.numpy(), rtol=1e-11, atol=1e-13)
    want = torch.nn.functional.rms_norm(tensors[0], (D,), tensors[1], eps=1e-6)
    np.testing.assert_allclose(rms_norm(x, gain, 1e-6), want.numpy(), rtol=1e-11, atol=1e-13)

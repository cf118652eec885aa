from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attention_core.cross_entropy import cross_entropy, cross_entropy_grad, nll_loss, one_hot
from attention_core.cross_entropy_sheet import cross_entropy_sheet
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.gradients import by_differences, finite_difference
from attention_core.numbers import show
from attention_core.sheet import run, work
from attention_core.softmax import log_softmax

pytestmark = pytest.mark.filterwarnings("error")

RNG = np.random.default_rng(11)
CLASSES = 5
LOGITS = RNG.normal(size=(2, 3, CLASSES)) * 2
TARGETS = np.array([[4, 0, 2], [1, 1, 3]])
WEIGHT = RNG.random(CLASSES) + 0.2
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "weight": {"weight": WEIGHT},
    "weight and sum": {"weight": WEIGHT, "reduction": "sum"},
    "ignored": {"ignore_index": 1},
    "smoothing": {"label_smoothing": 0.1},
    "only smoothing": {"label_smoothing": 1.0},
    "all together": {"weight": WEIGHT, "ignore_index": 1, "label_smoothing": 0.3},
    "all together, none": {
        "weight": WEIGHT,
        "ignore_index": 1,
        "label_smoothing": 0.3,
        "reduction": "none",
    },
}
with_settings = pytest.mark.parametrize("chosen", SETTINGS.values(), ids=SETTINGS)


def one_by_one(
    logits: np.ndarray,
    targets: np.ndarray,
    weight: np.ndarray | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The definition with a loop over targets and classes, and Python's own exp and log."""
    each = [1.0] * logits.shape[-1] if weight is None else weight.tolist()
    losses, divisor = np.zeros(targets.shape), 0.0
    for place in np.ndindex(targets.shape):
        row, target = logits[place].tolist(), int(targets[place])
        if target == ignore_index:
            continue
        total = math.log(sum(math.exp(z) for z in row))
        hard = -each[target] * (row[target] - total)
        soft = -sum(w * (z - total) for w, z in zip(each, row, strict=True)) / len(row)
        losses[place] = (1 - label_smoothing) * hard + label_smoothing * soft
        divisor += each[target]
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / divisor}[reduction]


@with_settings
def test_the_loss_is_its_definition(chosen: dict[str, Any]) -> None:
    got = cross_entropy(LOGITS, TARGETS, **chosen)
    np.testing.assert_allclose(got, one_by_one(LOGITS, TARGETS, **chosen), rtol=1e-13)
    assert got.shape == (TARGETS.shape if chosen.get("reduction") == "none" else ())


@with_settings
def test_the_gradient_is_what_trying_finds(chosen: dict[str, Any]) -> None:
    got = cross_entropy_grad(LOGITS, TARGETS, **chosen)
    want = finite_difference(lambda z: float(cross_entropy(z, TARGETS, **chosen).sum()), LOGITS)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)


def test_for_one_target_the_gradient_is_p_minus_y() -> None:
    logits = np.array([[math.log(1), math.log(2), math.log(5)]])
    np.testing.assert_allclose(cross_entropy_grad(logits, [1]), [[1 / 8, 2 / 8 - 1, 5 / 8]], rtol=1e-14)
    assert cross_entropy(logits, [1]) == pytest.approx(math.log(4))


def test_equal_logits_cost_the_logarithm_of_the_number_of_classes() -> None:
    for classes in (1, 2, 7, 65):
        assert cross_entropy(np.zeros((3, classes)), [0] * 3) == pytest.approx(math.log(classes))


def test_the_loss_of_log_probabilities_is_the_same() -> None:
    chosen: dict[str, Any] = {"weight": WEIGHT, "ignore_index": 1}
    for reduction in ("none", "sum", "mean"):
        got = nll_loss(log_softmax(LOGITS), TARGETS, reduction=reduction, **chosen)  # type: ignore[arg-type]
        want = cross_entropy(LOGITS, TARGETS, reduction=reduction, **chosen)  # type: ignore[arg-type]
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_classes_may_stand_on_any_axis() -> None:
    """ONNX and PyTorch put them second: (N, C, d1, …)."""
    second = np.moveaxis(LOGITS, -1, 1)
    assert cross_entropy(second, TARGETS, axis=1) == cross_entropy(LOGITS, TARGETS)
    gradient = cross_entropy_grad(second, TARGETS, axis=1)
    assert gradient.shape == second.shape
    np.testing.assert_array_equal(np.moveaxis(gradient, 1, -1), cross_entropy_grad(LOGITS, TARGETS))


def test_an_ignored_target_counts_nothing_whatever_stands_in_its_row() -> None:
    logits = np.array([[1.0, 2.0, 0.5], [np.nan, np.inf, 3.0]])
    for ignored in (-1, -100, 2, 9):  # −1 is not the last class
        targets = np.array([1, ignored])
        loss = cross_entropy(logits, targets, ignore_index=ignored)
        assert loss == pytest.approx(float(cross_entropy(logits[:1], [1])))
        gradient = cross_entropy_grad(logits, targets, ignore_index=ignored)
        assert not gradient[1].any()
        np.testing.assert_allclose(gradient[0], cross_entropy_grad(logits[:1], [1])[0])


def test_where_nothing_counts_a_mean_is_refused_and_a_sum_is_nothing() -> None:
    logits, targets = np.zeros((2, 3)), np.array([-1, -1])
    for function in (cross_entropy, cross_entropy_grad):
        with pytest.raises(ValueError, match="nothing to average: 2 of 2 targets are ignored"):
            function(logits, targets, ignore_index=-1)
        with pytest.raises(ValueError, match="nothing to average: 0 of 0 targets"):
            function(np.zeros((0, 3)), np.zeros(0, dtype=int))
        with pytest.raises(ValueError, match="1 of 2 targets are ignored, and the weights of the others"):
            function(logits, [0, -1], ignore_index=-1, weight=[0.0, 1, 1])
        assert not function(logits, targets, ignore_index=-1, reduction="sum").any()
        assert not function(logits, targets, ignore_index=-1, reduction="none").any()


def test_large_logits_leave_a_finite_loss() -> None:
    assert cross_entropy([[1e4, 0.0]], [1]) == 1e4
    assert cross_entropy([[1e308, -1e308]], [0]) == 0
    np.testing.assert_array_equal(cross_entropy_grad([[1e4, 0.0]], [1]), [[1, -1]])


def test_a_class_ruled_out_costs_nothing_until_it_is_the_target() -> None:
    logits = [[1.0, -np.inf, 2.0]]
    assert cross_entropy(logits, [0]) == pytest.approx(math.log(1 + math.e))
    assert cross_entropy(logits, [1]) == np.inf
    np.testing.assert_allclose(cross_entropy_grad(logits, [0])[0].sum(), 0, atol=1e-16)


@settings(derandomize=True, max_examples=100)
@given(
    logits=arrays.arrays(np.float64, (4, 3), elements=st.floats(-700, 700, allow_subnormal=False)),
    targets=arrays.arrays(np.int64, (4,), elements=st.integers(0, 2)),
    smoothing=st.floats(0, 1),
    moved=st.floats(-100, 100),
)
def test_every_row_of_the_gradient_adds_up_to_nothing_and_a_moved_row_costs_the_same(
    logits: np.ndarray, targets: np.ndarray, smoothing: float, moved: float
) -> None:
    gradient = cross_entropy_grad(logits, targets, label_smoothing=smoothing)
    np.testing.assert_allclose(gradient.sum(axis=1), 0, atol=1e-15)
    one = cross_entropy(logits, targets, label_smoothing=smoothing)
    other = cross_entropy(logits + moved, targets, label_smoothing=smoothing)
    assert one >= 0
    np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10)


def test_a_table_of_targets_has_a_one_per_row_or_shares_it_out() -> None:
    assert one_hot([2, 0], 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    np.testing.assert_allclose(one_hot([1], 4, label_smoothing=0.2), [[0.05, 0.85, 0.05, 0.05]])
    assert one_hot(np.zeros((2, 0), dtype=int), 3).shape == (2, 0, 3)


def test_nothing_given_is_changed() -> None:
    before = LOGITS.copy(), TARGETS.copy(), WEIGHT.copy()
    cross_entropy_grad(LOGITS, TARGETS, weight=WEIGHT, ignore_index=1, label_smoothing=0.1)
    for now, then in zip((LOGITS, TARGETS, WEIGHT), before, strict=True):
        np.testing.assert_array_equal(now, then)


REFUSED = {
    "a target that is no class": ({"targets": [0, 3]}, "targets hold 3, and the 3 classes are 0 to 2"),
    "a negative target": ({"targets": [0, -1]}, "targets hold -1, and the 3 classes are 0 to 2"),
    "too few targets": ({"targets": [0]}, "targets (1,) do not fit logits with 3 classes for (2,)"),
    "targets with a fraction": ({"targets": [0.0, 1.0]}, "targets hold float64, and whole numbers"),
    "a weight too short": ({"weight": [1.0, 2.0]}, "weight (2,) has to hold one number for each of the 3"),
    "no classes": ({"logits": np.zeros((2, 0))}, "logits (2, 0) has no classes along axis -1"),
    "another axis": ({"axis": 2}, "logits (2, 3) has no classes along axis 2"),
    "words": ({"logits": [["a", "b"]]}, "logits holds <U1, and numbers are needed"),
    "another reduction": ({"reduction": "avg"}, "reduction is none, sum or mean, not 'avg'"),
    "too much smoothing": ({"label_smoothing": 1.5}, "label_smoothing lies between 0 and 1, not 1.5"),
}


@pytest.mark.parametrize(("change", "said"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    given = {"logits": np.zeros((2, 3)), "targets": [0, 1], **change}
    with pytest.raises(ValueError, match=re.escape(said)):
        cross_entropy(**given)
    with pytest.raises(ValueError, match=re.escape(said)):
        cross_entropy_grad(**given)


N, D = 4, 3
SHEETS = {
    (rows, step): cross_entropy_sheet(from_rows=rows, step=step)
    for rows in (False, True)
    for step in (False, True)
}
GIVEN = {
    "logits": RNG.normal(size=(N, CLASSES)),
    "h": RNG.normal(size=(N, D)),
    "w_out": RNG.normal(size=(D, CLASSES)),
    "targets": one_hot([3, 0, 3, 1], CLASSES),
    "rate": 0.7,
}


def values_of(rows: bool, step: bool) -> dict[str, np.ndarray]:
    sheet = SHEETS[rows, step]
    return run(sheet, {line.name: GIVEN[line.name] for line in sheet.given})


with_rows_and_step = pytest.mark.parametrize(("rows", "step"), SHEETS)


@with_rows_and_step
def test_the_sheet_has_the_loss_and_the_gradient_of_the_functions(rows: bool, step: bool) -> None:
    values = values_of(rows, step)
    np.testing.assert_allclose(values["loss"], [[cross_entropy(values["logits"], [3, 0, 3, 1])]], rtol=1e-14)
    want = cross_entropy_grad(values["logits"], [3, 0, 3, 1])
    np.testing.assert_allclose(values["d_logits"], want, rtol=1e-13, atol=1e-16)
    if step:
        moved = "w_out" if rows else "logits"
        np.testing.assert_array_equal(values[f"{moved}_new"], values[moved] - 0.7 * values[f"d_{moved}"])
        again = values["h"] @ values["w_out_new"] if rows else values["logits_new"]
        assert values["loss_new"][0, 0] == pytest.approx(float(cross_entropy(again, [3, 0, 3, 1])))
        assert values["loss_new"] < values["loss"]


@pytest.mark.parametrize("name", ["h", "w_out", "logits"])
def test_every_gradient_of_the_sheet_is_what_trying_finds(name: str) -> None:
    values = {**values_of(True, False), "one": np.ones((1, 1))}
    want = by_differences(SHEETS[True, False], values, name, target="loss", d_target="one")
    np.testing.assert_allclose(values[f"d_{name}"], want, rtol=1e-6, atol=1e-10)


@with_rows_and_step
def test_the_sheet_can_be_taken_away_as_a_program(rows: bool, step: bool) -> None:
    sheet, values = SHEETS[rows, step], values_of(rows, step)
    scope: dict[str, Any] = {"print": lambda *_: None}
    exec(compile(to_numpy(sheet, values), "<exported>", "exec"), scope)
    for line in sheet:
        np.testing.assert_allclose(scope[line.name], values[line.name], rtol=1e-12, atol=1e-12)
    compile(to_torch(sheet, values), "<exported>", "exec")
    latex = to_latex(sheet, values)
    assert latex.count("{") == latex.count("}")


@with_rows_and_step
def test_titles_are_names_and_every_cell_ends_in_its_number(rows: bool, step: bool) -> None:
    sheet, values = SHEETS[rows, step], values_of(rows, step)
    titles = [line.title for line in sheet]
    assert len(set(titles)) == len(titles)
    for stage in sheet.stages:
        for i, j in np.ndindex(values[stage.name].shape):
            assert work(sheet, values, stage.name, i, j).text.endswith(show(values[stage.name][i, j]))


def test_the_loss_of_a_row_is_written_out_and_what_is_ruled_out_takes_no_part() -> None:
    sheet = SHEETS[False, False]
    values = run(sheet, {"logits": [[0.0, 0.0, -np.inf]], "targets": [[0, 1, 0]]})
    assert work(sheet, values, "losses", 0, 0).text == (
        "−(0×(−0.69) + 1×(−0.69) + 0×(−∞) (takes no part)) = 0.69"
    )
    assert work(sheet, values, "d_logits", 0, 1).text == "−0.50 / 1 = −0.50"

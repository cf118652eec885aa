from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as steps
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attention_core.attention import attention
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.gradient_sheet import gradient_sheet
from attention_core.gradients import attention_grad, by_differences, finite_difference
from attention_core.masks import causal
from attention_core.sheet import run, work
from attention_core.sheets import SCALINGS

pytestmark = pytest.mark.filterwarnings("error")

RNG = np.random.default_rng(14)
N_Q, N_K, D_K, D_V = 4, 5, 3, 2
Q, K, V = RNG.normal(size=(N_Q, D_K)), RNG.normal(size=(N_K, D_K)), RNG.normal(size=(N_K, D_V))
D_OUTPUT = RNG.normal(size=(N_Q, D_V))
RULE = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0]], dtype=bool)
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mask": {"mask": RULE},
    "bias": {"bias": RNG.normal(size=(N_Q, N_K))},
    "bias for every query alike": {"bias": RNG.normal(size=(1, N_K)), "mask": RULE},
    "scale": {"scale": -0.7},
    "scale 0": {"scale": 0.0},
    "softcap": {"softcap": 0.8},
    "all together": {
        "mask": RULE,
        "bias": RNG.normal(size=(N_Q, N_K)),
        "scale": 1.3,
        "softcap": 1.5,
    },
}
with_settings = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)


def tried(q: Any, k: Any, v: Any, d_output: Any, **settings: Any) -> dict[str, np.ndarray]:
    """The gradients of q, k, v and bias by finite differences of `attention`, which knows no gradients."""
    given = {"q": np.asarray(q), "k": np.asarray(k), "v": np.asarray(v)}
    given |= {"bias": settings["bias"]} if "bias" in settings else {}

    def loss(name: str, changed: np.ndarray) -> float:
        now = {**settings, **given, name: changed}
        return float((attention(**now).output * d_output).sum())

    return {
        f"d_{name}": finite_difference(lambda a, name=name: loss(name, a), value)
        for name, value in given.items()
    }


def assert_close(got: np.ndarray | None, want: np.ndarray) -> None:
    assert got is not None
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


@with_settings
def test_every_gradient_is_what_trying_finds(settings: dict[str, Any]) -> None:
    got = attention_grad(Q, K, V, D_OUTPUT, **settings)
    for name, want in tried(Q, K, V, D_OUTPUT, **settings).items():
        assert_close(getattr(got, name), want)


@with_settings
def test_every_stage_between_is_what_trying_finds_too(settings: dict[str, Any]) -> None:
    got = attention_grad(Q, K, V, D_OUTPUT, **settings)
    for name in ("weights", "masked", "scaled", "scores"):
        assert_close(getattr(got, f"d_{name}"), by_differences(got.sheet, got.values, name))


@with_settings
def test_the_way_there_is_that_of_attention(settings: dict[str, Any]) -> None:
    got, trace = attention_grad(Q, K, V, D_OUTPUT, **settings), attention(Q, K, V, **settings)
    np.testing.assert_array_equal(got.output, trace.output)
    np.testing.assert_array_equal(got.weights, trace.weights)


def test_softmax_sends_back_its_jacobian_row_by_row() -> None:
    """∂a_j / ∂s_l = a_j (1[j = l] − a_l), written as a full table for every query."""
    got = attention_grad(Q, K, V, D_OUTPUT, mask=RULE)
    for a, back, want in zip(got.weights, got.d_weights, got.d_masked, strict=True):
        jacobian = np.diag(a) - np.outer(a, a)
        np.testing.assert_allclose(jacobian @ back, want, atol=1e-15)
    np.testing.assert_allclose(got.d_masked.sum(axis=1), 0, atol=1e-15)


def test_a_query_that_may_look_nowhere_sends_nothing_back() -> None:
    got = attention_grad(Q, K, V, D_OUTPUT, mask=RULE)
    assert not got.d_q[1].any() and not got.d_scores[1].any()
    alone = attention_grad(Q, K, V, D_OUTPUT, mask=np.zeros((N_Q, N_K), dtype=bool))
    for gradient in (alone.d_q, alone.d_k, alone.d_v, alone.d_scores):
        assert not gradient.any()


def test_nothing_masked_takes_part_not_even_a_nan() -> None:
    closed = RULE & (np.arange(N_K) != 2)  # key 2 is blocked for every query
    k, v, q = K.copy(), V.copy(), Q.copy()
    k[2], v[2], q[1] = np.nan, np.inf, np.nan  # query 1 may look nowhere
    for settings in ({}, {"softcap": 1.5}):
        got = attention_grad(q, k, v, D_OUTPUT, mask=closed, **settings)
        want = attention_grad(Q, K, V, D_OUTPUT, mask=closed, **settings)
        for name in ("d_q", "d_k", "d_v", "d_scores"):
            np.testing.assert_allclose(getattr(got, name), getattr(want, name), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("shared", [1, 2, 3, 6])
def test_shared_heads_add_up_what_comes_back_from_their_queries(shared: int) -> None:
    rng = np.random.default_rng(shared)
    q, k = rng.normal(size=(2, 6, 4, 3)), rng.normal(size=(2, shared, 5, 3))
    v, d_output = rng.normal(size=(2, shared, 5, 2)), rng.normal(size=(2, 6, 4, 2))
    got = attention_grad(q, k, v, d_output, mask=causal(4, 5))
    for name in ("d_k", "d_v"):
        want = np.zeros((2, shared, 5, 3 if name == "d_k" else 2))
        for b, head in np.ndindex(2, 6):
            own = head // (6 // shared)
            each = attention_grad(q[b, head], k[b, own], v[b, own], d_output[b, head], mask=causal(4, 5))
            want[b, own] += getattr(each, name)
        np.testing.assert_allclose(getattr(got, name), want, rtol=1e-12, atol=1e-14)


def test_what_was_broadcast_is_added_up() -> None:
    """One k for a batch, v for every head, a bias of one number."""
    q, v, k = RNG.normal(size=(2, 3, 4, 3)), RNG.normal(size=(2, 1, 5, 2)), RNG.normal(size=(5, 3))
    d_output, bias = RNG.normal(size=(2, 3, 4, 2)), np.float64(0.5)
    got = attention_grad(q, k, v, d_output, bias=bias)
    for name, want in tried(q, k, v, d_output, bias=bias).items():
        if name == "d_bias":  # a number added to every score changes nothing
            np.testing.assert_allclose(got.d_bias, 0, atol=1e-14)  # type: ignore[arg-type]
        else:
            assert_close(getattr(got, name), want)


@pytest.mark.parametrize(("n_q", "n_k", "d_k", "d_v"), [(1, 1, 1, 1), (1, 4, 1, 2), (3, 1, 2, 1)])
def test_one_token_and_one_feature_are_enough(n_q: int, n_k: int, d_k: int, d_v: int) -> None:
    rng = np.random.default_rng(n_k)
    q, k, v = rng.normal(size=(n_q, d_k)), rng.normal(size=(n_k, d_k)), rng.normal(size=(n_k, d_v))
    d_output = rng.normal(size=(n_q, d_v))
    got = attention_grad(q, k, v, d_output)
    for name, want in tried(q, k, v, d_output).items():
        assert_close(getattr(got, name), want)
    if n_k == 1:  # the one weight is 1 whatever the score
        assert not got.d_q.any() and not got.d_k.any()


def test_very_large_scores_leave_finite_gradients() -> None:
    got = attention_grad(1e4 * Q, 1e4 * K, V, D_OUTPUT)
    assert all(np.isfinite(gradient).all() for gradient in (got.d_q, got.d_k, got.d_v))


@steps(derandomize=True, max_examples=60)
@given(
    q=arrays.arrays(np.float64, (3, 2), elements=st.floats(-5, 5, allow_subnormal=False)),
    k=arrays.arrays(np.float64, (4, 2), elements=st.floats(-5, 5, allow_subnormal=False)),
    mask=arrays.arrays(np.bool_, (3, 4)),
    turn=st.permutations(range(4)),
)
def test_keys_in_another_order_have_their_gradients_in_that_order(
    q: np.ndarray, k: np.ndarray, mask: np.ndarray, turn: list[int]
) -> None:
    v, d_output = V[:4], D_OUTPUT[:3]
    one = attention_grad(q, k, v, d_output, mask=mask)
    other = attention_grad(q, k[turn], v[turn], d_output, mask=mask[:, turn])
    np.testing.assert_allclose(other.d_q, one.d_q, atol=1e-12)
    np.testing.assert_allclose(other.d_k, one.d_k[turn], atol=1e-12)
    np.testing.assert_allclose(other.d_v, one.d_v[turn], atol=1e-12)


def test_nothing_given_is_changed_and_what_comes_back_is_read_only() -> None:
    before = [a.copy() for a in (Q, K, V, D_OUTPUT, RULE)]
    got = attention_grad(Q, K, V, D_OUTPUT, mask=RULE, bias=np.zeros((1, N_K)))
    for a, b in zip((Q, K, V, D_OUTPUT, RULE), before, strict=True):
        np.testing.assert_array_equal(a, b)
    for gradient in (got.d_q, got.d_k, got.d_v, got.d_bias, got.d_scores):
        assert not gradient.flags.writeable  # type: ignore[union-attr]


def test_a_gradient_of_another_shape_is_refused() -> None:
    said = re.escape("d_output (4, 3) does not fit the output (4, 2): one number is needed for every")
    with pytest.raises(ValueError, match=said):
        attention_grad(Q, K, V, np.ones((4, 3)))
    with pytest.raises(ValueError, match=re.escape("q (4, 3) and k (5, 2) cannot be compared")):
        attention_grad(Q, K[:, :2], V, D_OUTPUT)


def test_finite_differences_find_the_slope_of_a_cube_and_leave_the_numbers_alone() -> None:
    a = np.array([[1.0, -2.0, 0.5]])
    np.testing.assert_allclose(finite_difference(lambda x: float((x**3).sum()), a), 3 * a**2, atol=1e-9)
    assert a.tolist() == [[1.0, -2.0, 0.5]]
    assert finite_difference(lambda x: float(x) ** 2, 3.0) == pytest.approx(6)
    with pytest.raises(ValueError, match="step has to be above 0, not 0"):
        finite_difference(lambda x: 0.0, a, step=0)


N, D_MODEL = 4, 5
FROM_X = {
    "x": RNG.normal(size=(N, D_MODEL)),
    "w_q": RNG.normal(size=(D_MODEL, D_K)),
    "w_k": RNG.normal(size=(D_MODEL, D_K)),
    "w_v": RNG.normal(size=(D_MODEL, D_V)),
}
BESIDE = {
    "divisor": np.sqrt(D_K),
    "scale": 1.3,
    "softcap": 1.5,
    "bias": RNG.normal(size=(N, N)),
    "mask": causal(N),
    "d_output": D_OUTPUT,
}


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("more", [{}, {"softcap": True, "bias": True}], ids=["plain", "cap and bias"])
@pytest.mark.parametrize("from_x", [False, True], ids=["from q", "from x"])
def test_every_line_of_the_sheet_has_the_gradient_that_trying_finds(
    scaling: Any, more: dict[str, bool], from_x: bool
) -> None:
    sheet = gradient_sheet(from_x=from_x, scaling=scaling, **more)
    start = FROM_X if from_x else {"q": Q, "k": K[:N], "v": V[:N]}
    values = run(sheet, {line.name: {**start, **BESIDE}[line.name] for line in sheet.given})
    gradients = [name for name in values if name.startswith("d_") and f"{name[2:]}" in values]
    assert {"d_q", "d_k", "d_v", "d_weights", "d_scores"} <= set(gradients)
    assert from_x == ({"d_x", "d_w_q", "d_w_k", "d_w_v"} <= set(gradients))
    for name in set(gradients) - {"d_output"}:
        assert_close(values[name], by_differences(sheet, values, name[2:]))


@pytest.mark.parametrize("from_x", [False, True], ids=["from q", "from x"])
def test_the_sheet_can_be_taken_away_as_a_program(from_x: bool) -> None:
    sheet = gradient_sheet(from_x=from_x, softcap=True)
    start = FROM_X if from_x else {"q": Q, "k": K[:N], "v": V[:N]}
    values = run(sheet, {line.name: {**start, **BESIDE}[line.name] for line in sheet.given})
    scope: dict[str, Any] = {"print": lambda *_: None}
    exec(compile(to_numpy(sheet, values), "<exported>", "exec"), scope)
    for line in sheet:
        np.testing.assert_allclose(scope[line.name], values[line.name], rtol=1e-12, atol=1e-12)
    compile(to_torch(sheet, values), "<exported>", "exec")
    latex = to_latex(sheet, values)
    assert latex.count("{") == latex.count("}")
    assert r"\mathrm{d}V &= A^\top\,\mathrm{d}O" in latex


def test_titles_are_names_and_every_cell_is_worked_with_its_own_numbers() -> None:
    sheet = gradient_sheet(from_x=True, softcap=True)
    titles = [line.title for line in sheet]
    assert len(set(titles)) == len(titles)
    values = run(sheet, {line.name: {**FROM_X, **BESIDE}[line.name] for line in sheet.given})
    assert work(sheet, values, "slope", 0, 0).text.startswith("1 − (")
    blocked = work(sheet, values, "d_masked", 0, 3).text
    assert blocked.startswith("0 × ") and blocked.endswith("= 0")


def test_a_line_that_is_not_there_has_no_difference() -> None:
    got = attention_grad(Q, K, V, D_OUTPUT)
    with pytest.raises(KeyError, match="capped"):
        by_differences(got.sheet, got.values, "capped")
    with pytest.raises(KeyError, match="loss"):
        by_differences(got.sheet, got.values, "q", target="loss")

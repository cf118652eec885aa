"""What holds for all numbers, masks and shapes, tried out by hypothesis with a fixed seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attention_core.attention import AttentionTrace, attention
from attention_core.softmax import log_softmax, logsumexp, softmax

pytestmark = pytest.mark.filterwarnings("error")

steadily = settings(derandomize=True, max_examples=100)
numbers = st.floats(-100, 100, allow_subnormal=False)
some = st.integers(1, 6)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """q, k, v, a mask and whatever else attention takes."""
    n_q, n_k, d_k, d_v = draw(some), draw(some), draw(some), draw(some)
    lead = draw(st.sampled_from([(), (2,), (2, 3)]))

    def matrix(rows: int, columns: int) -> np.ndarray:
        return draw(arrays.arrays(np.float64, (*lead, rows, columns), elements=numbers))

    return {
        "q": matrix(n_q, d_k),
        "k": matrix(n_k, d_k),
        "v": matrix(n_k, d_v),
        "mask": draw(arrays.arrays(np.bool_, (*lead, n_q, n_k))),
        "bias": draw(st.none() | arrays.arrays(np.float64, (n_q, n_k), elements=numbers)),
        "scale": draw(st.none() | st.floats(-4, 4)),
        "softcap": draw(st.none() | st.floats(0.1, 100)),
    }


def trace_of(case: dict[str, Any]) -> AttentionTrace:
    rest = {name: value for name, value in case.items() if name not in "qkv"}
    return attention(case["q"], case["k"], case["v"], **rest)


@steadily
@given(cases())
def test_a_row_of_weights_adds_up_to_one_or_to_nothing(case: dict[str, Any]) -> None:
    sums = trace_of(case).weights.sum(axis=-1)
    open_somewhere = case["mask"].any(axis=-1)
    np.testing.assert_allclose(sums[open_somewhere], 1, rtol=1e-12)
    assert not sums[~open_somewhere].any()


@steadily
@given(cases())
def test_no_weight_is_negative_and_a_masked_one_is_exactly_zero(case: dict[str, Any]) -> None:
    weights = trace_of(case).weights
    assert (weights >= 0).all()
    assert not weights[~case["mask"]].any()


@steadily
@given(cases())
def test_an_output_lies_within_the_values_that_its_row_may_see(case: dict[str, Any]) -> None:
    trace = trace_of(case)
    seen = case["mask"][..., None]
    values = trace.v[..., None, :, :]
    low = np.where(seen, values, np.inf).min(axis=-2)
    high = np.where(seen, values, -np.inf).max(axis=-2)
    room = 1e-12 * (1 + np.abs(trace.v).max(initial=0))
    looks = case["mask"].any(axis=-1)
    assert (trace.output[looks] >= low[looks] - room).all()
    assert (trace.output[looks] <= high[looks] + room).all()
    assert not trace.output[~looks].any()


@steadily
@given(cases(), st.floats(-50, 50))
def test_the_same_number_added_to_a_row_of_scores_changes_nothing(
    case: dict[str, Any], number: float
) -> None:
    before = trace_of(case)
    bias = np.zeros(case["mask"].shape[-2:]) if case["bias"] is None else case["bias"]
    after = trace_of(case | {"bias": bias + number * np.arange(1, len(bias) + 1)[:, None]})
    np.testing.assert_allclose(after.weights, before.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(after.output, before.output, rtol=1e-9, atol=1e-9)


@steadily
@given(cases(), st.randoms(use_true_random=False))
def test_reordering_the_keys_reorders_the_weights(case: dict[str, Any], random: Any) -> None:
    order = list(range(case["k"].shape[-2]))
    random.shuffle(order)
    bias = None if case["bias"] is None else case["bias"][:, order]
    moved = {"k": case["k"][..., order, :], "v": case["v"][..., order, :], "mask": case["mask"][..., order]}
    before, after = trace_of(case), trace_of(case | moved | {"bias": bias})
    np.testing.assert_allclose(after.weights, before.weights[..., order], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(after.output, before.output, rtol=1e-9, atol=1e-9)


@steadily
@given(cases())
def test_queries_do_not_know_of_one_another(case: dict[str, Any]) -> None:
    whole = trace_of(case)
    i = case["q"].shape[-2] - 1
    bias = None if case["bias"] is None else case["bias"][i:]
    alone = trace_of(case | {"q": case["q"][..., i:, :], "mask": case["mask"][..., i:, :], "bias": bias})
    np.testing.assert_allclose(alone.output, whole.output[..., i:, :], rtol=1e-9, atol=1e-9)


@steadily
@given(cases(), st.sampled_from([np.nan, np.inf, -np.inf, 1e300]))
def test_what_is_masked_for_a_query_does_not_reach_it(case: dict[str, Any], poison: float) -> None:
    """Key 0 is closed to all queries; whatever it holds, nothing changes."""
    mask = case["mask"].copy()
    mask[..., 0] = False
    k, v = case["k"].copy(), case["v"].copy()
    k[..., 0, :], v[..., 0, :] = poison, poison
    before, after = trace_of(case | {"mask": mask}), trace_of(case | {"mask": mask, "k": k, "v": v})
    np.testing.assert_array_equal(after.weights, before.weights)
    np.testing.assert_allclose(after.output, before.output, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(after.lse, before.lse)


@steadily
@given(cases())
def test_the_log_sum_exp_lies_between_the_maximum_and_the_maximum_plus_log_n(case: dict[str, Any]) -> None:
    trace = trace_of(case)
    top = trace.masked.max(axis=-1)
    assert (trace.lse >= top - 1e-12).all()
    looks = np.isfinite(top)
    assert (trace.lse[looks] <= top[looks] + np.log(case["k"].shape[-2]) + 1e-12).all()
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_allclose(
            np.exp(trace.masked - trace.lse[..., None])[looks], trace.weights[looks], rtol=1e-9
        )


@steadily
@given(cases())
def test_nothing_given_is_changed(case: dict[str, Any]) -> None:
    before = {name: None if value is None else np.array(value) for name, value in case.items()}
    trace_of(case)
    for name, value in case.items():
        if value is not None:
            np.testing.assert_array_equal(value, before[name], err_msg=name)


@steadily
@given(
    arrays.arrays(np.int64, (4, 3), elements=st.integers(-9, 9)),
    arrays.arrays(np.float32, (7, 3), elements=st.floats(-9, 9, width=32)),
    arrays.arrays(np.uint8, (7, 2)),
)
def test_whole_numbers_and_float32_are_taken_at_their_value(q: Any, k: Any, v: Any) -> None:
    wide = attention(q.astype(np.float64), k.astype(np.float64), v.astype(np.float64))
    np.testing.assert_array_equal(attention(q, k, v).output, wide.output)


@steadily
@given(
    arrays.arrays(np.float64, st.tuples(some, some, some), elements=st.floats(-1e308, 1e308)),
    st.integers(-3, 2),
)
def test_softmax_its_logarithm_and_log_sum_exp_belong_together(a: np.ndarray, axis: int) -> None:
    shares = softmax(a, axis)
    np.testing.assert_allclose(shares.sum(axis=axis), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(log_softmax(a, axis)), shares, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(logsumexp(a, axis), a.max(axis=axis), rtol=1e-12, atol=np.log(6))

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest

from attention_core.attention import AttentionTrace, attention, attention_from_x
from attention_core.masks import causal, padding, window
from attention_core.softmax import logsumexp

pytestmark = pytest.mark.filterwarnings("error")

N_Q, N_K, D_MODEL, D_K, D_V = 4, 7, 5, 3, 2
RNG = np.random.default_rng(5)
Q, K, V = RNG.normal(size=(N_Q, D_K)), RNG.normal(size=(N_K, D_K)), RNG.normal(size=(N_K, D_V))
MASK = RNG.random((N_Q, N_K)) < 0.6
MASK[1] = False
BIAS = RNG.normal(size=(N_Q, N_K))


def one_at_a_time(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> np.ndarray:
    """Attention from its definition, one query, one key and one feature at a time."""
    output = np.zeros((len(q), v.shape[1]))
    for i, query in enumerate(q):
        powers = {}
        for j, key in enumerate(k):
            if mask is not None and not mask[i, j]:
                continue
            score = sum(a * b for a, b in zip(query, key, strict=True))
            score *= 1 / math.sqrt(len(query)) if scale is None else scale
            score = softcap * math.tanh(score / softcap) if softcap else score
            powers[j] = math.exp(score + (bias[i, j] if bias is not None else 0))
        for c in range(v.shape[1]):
            output[i, c] = sum(p * v[j, c] for j, p in powers.items()) / (math.fsum(powers.values()) or 1)
    return output


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "masked": {"mask": MASK},
    "biased": {"bias": BIAS},
    "scaled": {"scale": 0.3},
    "turned over": {"scale": -2.0},
    "unscaled": {"scale": 1.0},
    "capped": {"softcap": 0.7},
    "all": {"mask": MASK, "bias": BIAS, "scale": 1.3, "softcap": 0.9},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_attention_follows_its_definition(settings: dict[str, Any]) -> None:
    np.testing.assert_allclose(
        attention(Q, K, V, **settings).output, one_at_a_time(Q, K, V, **settings), rtol=1e-13
    )


def test_the_eight_steps_of_the_walk_through_by_hand() -> None:
    """Two tokens that can be followed with a pencil: scores 2 and 0, 0 and 2, divided by √4."""
    trace = attention([[1, 1, 0, 0], [0, 0, 1, 1]], [[1, 1, 0, 0], [0, 0, 1, 1]], [[1, 0], [0, 1]])
    share = math.e / (math.e + 1)
    assert trace.k_t.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
    assert trace.scores.tolist() == [[2, 0], [0, 2]]
    assert trace.scaled.tolist() == [[1, 0], [0, 1]]
    np.testing.assert_allclose(trace.output, [[share, 1 - share], [1 - share, share]], rtol=1e-15)


def test_the_shapes_of_three_queries_and_four_keys() -> None:
    """Q 3 × 2 times 2 × 4 is 3 × 4; four values of width 5 make it 3 × 5."""
    trace = attention(np.ones((3, 2)), np.ones((4, 2)), np.ones((4, 5)))
    shapes = {
        f.name: getattr(trace, f.name).shape
        for f in dataclasses.fields(trace)
        if f.name not in ("sheet", "values")
    }
    assert shapes == {
        "q": (3, 2),
        "k": (4, 2),
        "v": (4, 5),
        "k_t": (2, 4),
        **dict.fromkeys(("scores", "scaled", "capped", "biased", "mask", "masked", "weights"), (3, 4)),
        "lse": (3,),
        "output": (3, 5),
    }


def test_every_field_is_the_stage_of_that_name() -> None:
    trace = attention(Q, K, V, mask=MASK, bias=BIAS, scale=0.5, softcap=2.0)
    for name in ("q", "k_t", "scores", "scaled", "capped", "biased", "masked", "weights", "lse", "output"):
        assert getattr(trace, name) is trace.values[name]
    np.testing.assert_allclose(trace.capped, 2 * np.tanh(trace.scores * 0.5 / 2))
    np.testing.assert_allclose(trace.biased, trace.capped + BIAS)
    np.testing.assert_array_equal(trace.masked, np.where(MASK, trace.biased, -np.inf))
    np.testing.assert_allclose(trace.lse, logsumexp(trace.masked), rtol=1e-14)
    plain = attention(Q, K, V)
    assert plain.capped is plain.biased is plain.scaled


def test_a_trace_cannot_be_changed() -> None:
    trace = attention(Q, K, V)
    with pytest.raises(ValueError, match="read-only"):
        trace.weights[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.weights = trace.scores  # type: ignore[misc]
    with pytest.raises(TypeError):
        trace.values["weights"] = trace.scores  # type: ignore[index]


def test_nothing_given_is_changed_or_shared() -> None:
    given = [np.array(a) for a in (Q, K, V)]
    trace = attention(*given, mask=MASK, bias=BIAS)
    for a, original in zip(given, (Q, K, V), strict=True):
        np.testing.assert_array_equal(a, original)
    given[0][:] = 0
    np.testing.assert_array_equal(trace.q, Q)


def test_a_query_that_may_look_nowhere_gets_zeros() -> None:
    trace = attention(Q, K, V, mask=MASK)
    assert trace.weights[1].tolist() == [0] * N_K
    assert trace.output[1].tolist() == [0] * D_V
    assert trace.lse[1] == -np.inf
    np.testing.assert_allclose(trace.weights.sum(axis=-1), [1, 0, 1, 1])


def test_no_keys_at_all_give_zeros() -> None:
    trace = attention(np.ones((2, 3)), np.ones((0, 3)), np.ones((0, 5)))
    assert trace.output.tolist() == [[0] * 5] * 2
    assert trace.lse.tolist() == [-np.inf] * 2
    assert attention(np.ones((0, 3)), np.ones((4, 3)), np.ones((4, 5))).output.shape == (0, 5)


def test_one_key_gets_the_whole_weight() -> None:
    trace = attention([[3.0]], [[-2.0]], [[0.25, 4.0]])
    assert trace.weights.tolist() == [[1]]
    assert trace.output.tolist() == [[0.25, 4]]
    assert trace.lse.tolist() == [-6]


def test_equal_scores_share_equally() -> None:
    trace = attention(np.zeros((1, 2)), RNG.normal(size=(3, 2)), [[3.0], [6.0], [9.0]])
    assert trace.weights.tolist() == [[1 / 3] * 3]
    np.testing.assert_allclose(trace.output, [[6]])


def test_the_same_token_twice_gets_the_same_row_twice() -> None:
    tokens = np.array([[1.0, 2.0], [0.5, -1.0], [1.0, 2.0]])
    trace = attention(tokens, tokens, tokens)
    np.testing.assert_array_equal(trace.output[0], trace.output[2])
    np.testing.assert_array_equal(trace.weights[:, 0], trace.weights[:, 2])


@pytest.mark.parametrize("size", [1e9, 1e200])
def test_very_large_scores_choose_one_key(size: float) -> None:
    trace = attention([[size, 0.0]], [[1.0, 0.0], [-1.0, 0.0], [0.5, 0.0]], [[1.0], [2.0], [3.0]])
    assert trace.weights.tolist() == [[1, 0, 0]]
    assert trace.output.tolist() == [[1]]


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_a_masked_key_or_value_takes_no_part_whatever_it_holds(poison: float) -> None:
    mask = np.ones((N_Q, N_K), dtype=bool)
    mask[:, 2] = False
    mask[3] = False
    clean = attention(Q, K, V, mask=mask)
    k, v = K.copy(), V.copy()
    k[2, 1] = poison
    v[2] = poison
    dirty = attention(Q, k, v, mask=mask, softcap=None)
    np.testing.assert_array_equal(dirty.weights, clean.weights)
    np.testing.assert_array_equal(dirty.output, clean.output)
    np.testing.assert_array_equal(dirty.lse, clean.lse)


def test_a_nan_that_is_open_is_not_hidden() -> None:
    v = V.copy()
    v[2, 0] = np.nan
    trace = attention(Q, K, v, mask=causal(N_Q, N_K, offset=1))
    assert np.isnan(trace.output[:, 0]).tolist() == [False, True, True, True]
    assert np.isfinite(trace.output[:, 1]).all()
    k = K.copy()
    k[2, 0] = np.nan
    trace = attention(Q, k, V, mask=causal(N_Q, N_K, offset=1))
    assert np.isnan(trace.weights).any(axis=-1).tolist() == [False, True, True, True]
    assert np.isnan(trace.lse).tolist() == [False, True, True, True]


def test_minus_infinity_in_a_bias_closes_a_key_as_a_mask_does() -> None:
    bias = np.where(MASK, 0.0, -np.inf)
    v = V.copy()
    closed = ~MASK.any(axis=0)
    v[closed] = np.nan
    np.testing.assert_array_equal(attention(Q, K, v, bias=bias).output, attention(Q, K, v, mask=MASK).output)


@pytest.mark.parametrize(
    ("q_lead", "k_lead", "v_lead"),
    [
        ((3,), (3,), (3,)),
        ((2, 1), (1, 3), (1, 3)),
        ((), (6,), (6,)),
        ((6,), (), ()),
        ((2, 3, 2), (2, 3, 2), (3, 2)),
    ],
)
def test_leading_axes_broadcast(
    q_lead: tuple[int, ...], k_lead: tuple[int, ...], v_lead: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(6)
    q, k, v = (
        rng.normal(size=(*q_lead, 4, 3)),
        rng.normal(size=(*k_lead, 7, 3)),
        rng.normal(size=(*v_lead, 7, 2)),
    )
    lead = np.broadcast_shapes(q_lead, k_lead, v_lead)
    mask = rng.random((*lead, 4, 7)) < 0.7
    trace = attention(q, k, v, mask=mask)
    assert trace.output.shape == (*lead, 4, 2)
    q, k, v = (np.broadcast_to(a, (*lead, *a.shape[-2:])) for a in (q, k, v))
    for place in np.ndindex(lead):
        np.testing.assert_allclose(
            trace.output[place], one_at_a_time(q[place], k[place], v[place], mask[place]), rtol=1e-13
        )


@pytest.mark.parametrize(("heads", "shared"), [(6, 2), (6, 3), (4, 1), (3, 3)])
def test_fewer_key_heads_serve_runs_of_query_heads(heads: int, shared: int) -> None:
    """Grouped-query attention: query heads 0 0 0 1 1 1, not 0 1 0 1 0 1."""
    rng = np.random.default_rng(7)
    q = rng.normal(size=(2, heads, 4, 3))
    k, v = rng.normal(size=(2, shared, 7, 3)), rng.normal(size=(2, shared, 7, 5))
    trace = attention(q, k, v)
    for b, h in np.ndindex(2, heads):
        group = h // (heads // shared)
        np.testing.assert_allclose(
            trace.output[b, h], one_at_a_time(q[b, h], k[b, group], v[b, group]), rtol=1e-13
        )


def test_masks_and_biases_broadcast_from_the_right() -> None:
    rng = np.random.default_rng(8)
    q, k, v = rng.normal(size=(2, 3, 4, 3)), rng.normal(size=(2, 3, 7, 3)), rng.normal(size=(2, 3, 7, 5))
    for shape in ((7,), (1, 7), (4, 1), (4, 7), (3, 4, 7), (2, 1, 4, 7), (2, 1, 1, 7), (5, 2, 3, 4, 7)):
        mask, bias = rng.random(shape) < 0.7, rng.normal(size=shape)
        trace = attention(q, k, v, mask=mask, bias=bias)
        lead = np.broadcast_shapes(shape[:-2], (2, 3))
        whole = np.broadcast_to(mask, (*lead, 4, 7)), np.broadcast_to(bias, (*lead, 4, 7))
        for place in np.ndindex(lead):
            b, h = place[-2:]
            want = one_at_a_time(q[b, h], k[b, h], v[b, h], whole[0][place], whole[1][place])
            np.testing.assert_allclose(trace.output[place], want, rtol=1e-12, atol=1e-15)


def test_the_masks_of_masks_py_can_be_given_as_they_are() -> None:
    q, k, v = RNG.normal(size=(2, 5, 3)), RNG.normal(size=(2, 5, 3)), RNG.normal(size=(2, 5, 2))
    mask = window(5, left=2) & causal(5) & padding([5, 3], 5)
    assert attention(q, k, v, mask=mask).weights.shape == (2, 5, 5)


def test_whole_numbers_and_float32_count_as_float64() -> None:
    whole = attention(np.array([[1, 2]]), np.array([[3, 4], [5, 6]], dtype=np.uint8), [[1], [2]])
    assert whole.scores.tolist() == [[11, 17]]
    halves = attention(Q.astype(np.float32), K.astype(np.float16), V)
    assert {a.dtype for name, a in halves.values.items() if name != "mask"} == {np.dtype(np.float64)}


def test_scaling_divides_by_the_root_that_is_not_cut_to_a_whole_number() -> None:
    q = np.eye(1, 5)
    assert attention(q, q, [[1.0]]).scaled[0, 0] == 1 / math.sqrt(5)


def test_from_x_is_three_projections_and_then_the_same() -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(size=(7, D_MODEL))
    w_q, w_k, w_v = (
        rng.normal(size=(D_MODEL, D_K)),
        rng.normal(size=(D_MODEL, D_K)),
        rng.normal(size=(D_MODEL, D_V)),
    )
    trace = attention_from_x(x, w_q, w_k, w_v, mask=causal(7), softcap=1.5, bias=np.ones((7, 7)))
    assert isinstance(trace, AttentionTrace)
    for name, w in (("q", w_q), ("k", w_k), ("v", w_v)):
        want = [[sum(x[i, r] * w[r, c] for r in range(D_MODEL)) for c in range(w.shape[1])] for i in range(7)]
        np.testing.assert_allclose(getattr(trace, name), want, rtol=1e-13)
    np.testing.assert_allclose(
        trace.output,
        one_at_a_time(x @ w_q, x @ w_k, x @ w_v, causal(7), np.ones((7, 7)), softcap=1.5),
        rtol=1e-12,
    )
    np.testing.assert_array_equal(trace.x, x)
    assert list(trace.sheet.symbols)[:4] == ["x", "w_q", "w_k", "w_v"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "three features against two": (
        {"q": np.ones((4, 3)), "k": np.ones((7, 2))},
        "q (4, 3) and k (7, 2) cannot be compared: a query with 3 features meets keys with 2",
    ),
    "keys and values of different number": (
        {"v": np.ones((6, 2))},
        "k (7, 3) and v (6, 2) do not fit: 7 keys need as many values, and there are 6",
    ),
    "a vector": ({"q": np.ones(3)}, "q (3,) is not a matrix"),
    "words": ({"k": [["a", "b"]]}, "k holds <U1, and numbers are needed"),
    "rows of different lengths": ({"v": [[1, 2], [3]]}, "v has rows of different lengths"),
    "no features": ({"q": np.ones((4, 0)), "k": np.ones((7, 0))}, "no features"),
    "heads that cannot be shared out": (
        {"q": np.ones((4, 4, 3)), "k": np.ones((3, 7, 3)), "v": np.ones((3, 7, 2))},
        "3 heads (axis -3) cannot be shared out equally among 4 query heads",
    ),
    "more key heads than query heads": (
        {"q": np.ones((2, 4, 3)), "k": np.ones((4, 7, 3)), "v": np.ones((4, 7, 2))},
        "4 heads (axis -3) cannot be shared out equally among 2 query heads",
    ),
    "keys and values of different heads": (
        {"q": np.ones((4, 4, 3)), "k": np.ones((2, 7, 3)), "v": np.ones((4, 7, 2))},
        "k (2, 7, 3) and v (4, 7, 2) do not fit: they need the same number of heads",
    ),
    "batches that do not broadcast": (
        {"q": np.ones((2, 1, 4, 3)), "k": np.ones((3, 1, 7, 3)), "v": np.ones((3, 1, 7, 2))},
        "the leading axes of q (2, 1, 4, 3), k (3, 1, 7, 3) and v (3, 1, 7, 2) do not broadcast",
    ),
    "a mask of numbers": ({"mask": np.ones((4, 7))}, "numbers to be added to the scores go in bias"),
    "a mask of whole numbers": ({"mask": np.ones((4, 7), dtype=int)}, "mask holds int64"),
    "a mask shorter than the keys": (
        {"mask": np.ones((4, 6), dtype=bool)},
        "mask (4, 6) does not fit the scores (4, 7)",
    ),
    "a mask kept from a longer sequence": ({"mask": np.ones((8, 8), dtype=bool)}, "mask (8, 8) does not fit"),
    "a mask for more queries than there are": (
        {"q": np.ones((1, 3)), "mask": np.ones((4, 7), dtype=bool)},
        "mask (4, 7) does not fit the scores (1, 7)",
    ),
    "a mask for another batch": (
        {"q": np.ones((2, 4, 3)), "mask": np.ones((3, 4, 7), dtype=bool)},
        "its leading axes do not broadcast",
    ),
    "a bias of truths": ({"bias": np.ones((4, 7), dtype=bool)}, "True and False go in mask"),
    "a bias that does not fit": ({"bias": np.ones((7, 4))}, "bias (7, 4) does not fit the scores (4, 7)"),
    "a scale that is no number": ({"scale": math.nan}, "scale has to be a finite number, not nan"),
    "no cap at all": ({"softcap": 0.0}, "softcap has to be a finite number above 0"),
    "a negative cap": ({"softcap": -1.0}, "softcap has to be a finite number above 0"),
    "an infinite cap": ({"softcap": math.inf}, "softcap has to be a finite number above 0"),
}


@pytest.mark.parametrize(("changed", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_in_a_sentence(changed: dict[str, Any], sentence: str) -> None:
    given = {"q": Q, "k": K, "v": V} | changed
    with pytest.raises(ValueError, match=re.escape(sentence)):
        attention(given.pop("q"), given.pop("k"), given.pop("v"), **given)


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        (((7, 5), (4, 3), (5, 3), (5, 2)), "x (7, 5) and w_q (4, 3) do not fit"),
        (((7, 5), (5, 3), (5, 3), (7, 2)), "w_v needs one row for each of the 5 features of x"),
        (((7, 5), (5, 3), (5, 4), (5, 2)), "w_q (5, 3) and w_k (5, 4) do not fit"),
        (((7, 5), (1, 5, 3), (5, 3), (5, 2)), "x (7, 5) and w_q (1, 5, 3) do not fit"),
    ],
)
def test_projections_that_do_not_fit_are_refused(shapes: tuple[tuple[int, ...], ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        attention_from_x(*(np.ones(shape) for shape in shapes))

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_core.attention import attention
from attention_core.decoding import Cache, decode_step, prefill
from attention_core.masks import causal, padding, window

pytestmark = pytest.mark.filterwarnings("error")

RNG = np.random.default_rng(12)
N, D_K, D_V = 7, 3, 2
Q, K, V = RNG.normal(size=(N, D_K)), RNG.normal(size=(N, D_K)), RNG.normal(size=(N, D_V))


def in_chunks(q: Any, k: Any, v: Any, chunks: list[int], **chosen: Any) -> list[np.ndarray]:
    """Output rows, weights and log-sum-exp, one step after the other."""
    step, stop = None, 0
    found = []
    for rows in chunks:
        start, stop = stop, stop + rows
        new = [a[..., start:stop, :] for a in (q, k, v)]
        step = prefill(*new, **chosen) if step is None else decode_step(step.cache, *new, **chosen)
        assert len(step.cache) == stop
        assert step.trace.weights.shape[-2:] == (rows, stop)
        found.append(step.output)
    return found


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=7), st.none() | st.integers(0, 4))
def test_token_by_token_comes_out_what_one_pass_gives(chunks: list[int], left: int | None) -> None:
    n = sum(chunks)
    rng = np.random.default_rng(n)
    q, k, v = rng.normal(size=(2, 4, n, 3)), rng.normal(size=(2, 2, n, 3)), rng.normal(size=(2, 2, n, 5))
    got = np.concatenate(in_chunks(q, k, v, chunks, left=left), axis=-2)
    whole = attention(q, k, v, mask=window(n, left=left, right=0))
    np.testing.assert_allclose(got, whole.output, rtol=1e-12, atol=1e-14)


def test_cell_by_cell_the_weights_are_those_of_the_whole_table_too() -> None:
    whole = attention(Q, K, V, mask=causal(N), softcap=2.0, scale=0.9)
    step = prefill(Q[:3], K[:3], V[:3], softcap=2.0, scale=0.9)
    np.testing.assert_allclose(step.trace.weights, whole.weights[:3, :3], rtol=1e-13)
    for t in range(3, N):
        new = slice(t, t + 1)
        step = decode_step(step.cache, Q[new], K[new], V[new], softcap=2.0, scale=0.9)
        np.testing.assert_allclose(step.trace.weights[0], whole.weights[t, : t + 1], rtol=1e-13)
        np.testing.assert_allclose(step.trace.lse[0], whole.lse[t], rtol=1e-13)
        np.testing.assert_array_equal(step.cache.k, K[: t + 1])


def test_a_mask_only_takes_away_and_a_bias_is_for_all_keys() -> None:
    """Left padding of one entry of a batch, and distances as a bias."""
    q, k, v = RNG.normal(size=(2, N, D_K)), RNG.normal(size=(2, N, D_K)), RNG.normal(size=(2, N, D_V))
    bias = -np.abs(np.arange(N)[:, None] - np.arange(N)).astype(float)
    real = padding([N, N - 2], N, side="left")
    whole = attention(q, k, v, mask=causal(N) & real, bias=bias)
    step = prefill(q[:, :5], k[:, :5], v[:, :5], mask=real[..., :5], bias=bias[:5, :5])
    np.testing.assert_allclose(step.output, whole.output[:, :5], rtol=1e-13)
    step = decode_step(step.cache, q[:, 5:], k[:, 5:], v[:, 5:], mask=real, bias=bias[5:])
    np.testing.assert_allclose(step.output, whole.output[:, 5:], rtol=1e-13)
    everything = decode_step(Cache(K[:5], V[:5]), Q[5:], K[5:], V[5:], mask=np.ones((2, N), dtype=bool))
    np.testing.assert_allclose(everything.output, attention(Q, K, V, mask=causal(N)).output[5:])


def test_a_cache_that_grows_is_a_new_one() -> None:
    first = Cache(K[:2], V[:2])
    second = first.append(K[2:3], V[2:3])
    assert (len(first), len(second), second.numbers) == (2, 3, 3 * (D_K + D_V))
    np.testing.assert_array_equal(second.k, K[:3])
    np.testing.assert_array_equal(second.v, V[:3])
    np.testing.assert_array_equal(first.k, K[:2])
    for rows in (first.k, first.v, second.k, second.v):
        assert not rows.flags.writeable


def test_a_cache_keeps_its_own_rows() -> None:
    k = K.copy()
    cache = Cache(k, V)
    k[0] = 99
    np.testing.assert_array_equal(cache.k, K)
    assert k.flags.writeable


def test_nothing_new_changes_nothing() -> None:
    step = decode_step(Cache(K, V), Q[:0], K[:0], V[:0])
    assert step.output.shape == (0, D_V) and len(step.cache) == N
    assert prefill(Q[:1], K[:1], V[:1]).output == pytest.approx(V[:1])


CACHE = Cache(K, V)
REFUSED: dict[str, tuple[Any, str]] = {
    "other tokens in v": (lambda: Cache(K, V[:3]), "k (7, 3) and v (3, 2) cannot be kept together"),
    "other features": (
        lambda: CACHE.append(K[:1, :2], V[:1]),
        "k (1, 2) cannot go under the k (7, 3) of the cache: only the number of rows may differ",
    ),
    "other heads": (
        lambda: CACHE.append(K[:1], np.ones((2, 1, D_V))),
        "v (2, 1, 2) cannot go under the v (7, 2) of the cache",
    ),
    "more queries than keys": (
        lambda: decode_step(CACHE, Q[:2], K[:1], V[:1]),
        "q (2, 3) and k (1, 3) do not fit: every new token has one row in each",
    ),
    "a mask of the new keys only": (
        lambda: decode_step(CACHE, Q[:2], K[:2], V[:2], mask=np.ones((2, 2), dtype=bool)),
        "mask (2, 2) does not fit the scores (2, 9)",
    ),
    "a mask of numbers": (
        lambda: decode_step(CACHE, Q[:1], K[:1], V[:1], mask=np.ones((1, 8))),
        "mask holds float64, and True or False is needed",
    ),
    "a window below 0": (
        lambda: decode_step(CACHE, Q[:1], K[:1], V[:1], left=-1),
        "left must be a whole number, 0 or more, not -1",
    ),
}


@pytest.mark.parametrize(("call", "said"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_by_name(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        call()

from __future__ import annotations

import itertools

import numpy as np
import pytest

from attention_core.stream import NORMS, Norm, Stream, seeded_layers, stream, streams

pytestmark = pytest.mark.filterwarnings("error")

N, D = 5, 3
X = np.random.default_rng(3).normal(size=(N, D))
each_way = pytest.mark.parametrize(
    ("residual", "norm"), list(itertools.product((True, False), NORMS)), ids=lambda word: str(word)
)


def by_hand(x: np.ndarray, layers: int, residual: bool, norm: str, seed: int, first: int = 0) -> np.ndarray:
    """The layers from `first` on, one token at a time."""
    for w_q, w_k, w_v, w_o, w_1, w_2 in seeded_layers(layers, D, seed)[first:]:
        made = attended(normalised(x) if norm == "pre" else x, w_q, w_k, w_v) @ w_o
        x = x + made if residual else made
        x = normalised(x) if norm == "post" else x
        made = np.array([np.maximum(row @ w_1, 0) @ w_2 for row in (normalised(x) if norm == "pre" else x)])
        x = x + made if residual else made
        x = normalised(x) if norm == "post" else x
    return x


def normalised(rows: np.ndarray) -> np.ndarray:
    return np.array([(row - row.mean()) / np.sqrt(row.var() + 1e-5) for row in rows])


def attended(rows: np.ndarray, w_q: np.ndarray, w_k: np.ndarray, w_v: np.ndarray) -> np.ndarray:
    made = []
    for query in rows @ w_q:
        powers = np.exp([query @ key / np.sqrt(D) for key in rows @ w_k])
        made.append(sum(p * value for p, value in zip(powers, rows @ w_v, strict=True)) / powers.sum())
    return np.array(made)


@each_way
def test_the_states_are_those_of_the_definition(residual: bool, norm: Norm) -> None:
    got = stream(X, 4, residual=residual, norm=norm, seed=6)
    assert got.states.shape == (5, N, D)
    np.testing.assert_array_equal(got.states[0], X)
    for layer in range(5):
        want = by_hand(X, layer, residual, norm, 6)
        np.testing.assert_allclose(got.states[layer], want, rtol=1e-11, atol=1e-12)
    for layer, state in enumerate(got.states):
        lengths = [np.linalg.norm(row) for row in state]
        assert got.lengths[layer] == pytest.approx(sum(lengths) / N, rel=1e-12)


@each_way
def test_the_gradients_are_those_of_finite_differences(residual: bool, norm: Norm) -> None:
    got = stream(X, 4, residual=residual, norm=norm, seed=6)
    for place in range(5):
        at, step, total = got.states[place], 1e-6, 0.0
        for cell in np.ndindex(N, D):
            moved = np.zeros((N, D))
            moved[cell] = step
            ends = [by_hand(at + sign * moved, 4, residual, norm, 6, first=place) for sign in (1, -1)]
            total += (((ends[0] - ends[1]) / (2 * step)) ** 2).sum()
        assert got.gradients[place] == pytest.approx(np.sqrt(total / (N * D)), rel=1e-5)


def test_without_layers_the_output_is_the_input() -> None:
    got = stream(X, 0)
    np.testing.assert_array_equal(got.states, X[None])
    assert got.gradients.tolist() == [1.0]


def test_the_first_layers_stay_the_same_however_many_follow() -> None:
    few, many = stream(X, 3, seed=9), stream(X, 24, seed=9)
    np.testing.assert_array_equal(few.states, many.states[:4])
    assert not np.array_equal(few.states[1:], stream(X, 3, seed=10).states[1:])


def test_the_weights_are_the_same_on_every_machine_and_have_the_variance_that_is_promised() -> None:
    """The first numbers of NumPy's raw PCG64 stream, worked out from the whole numbers."""
    raw = np.random.PCG64([0, 1000]).random_raw(2)
    first = seeded_layers(1, D, 0)[0][0].ravel()[:2]
    np.testing.assert_allclose(first, [(2 * int(r) / 2**64 - 1) for r in raw], rtol=1e-12)
    for matrix in seeded_layers(3, 40, 5)[2]:
        assert np.abs(matrix).max() <= np.sqrt(3 / matrix.shape[0])
        assert matrix.var() * matrix.shape[0] == pytest.approx(1, rel=0.06)


def test_with_the_skip_connection_the_gradient_arrives_and_without_it_it_is_lost() -> None:
    """Over 24 layers, for every seed tried: what lesson 6 claims."""
    x = np.random.default_rng(4).normal(size=(4, 8))

    def arrives(residual: bool, norm: Norm) -> list[float]:
        runs: list[Stream] = [stream(x, 24, residual=residual, norm=norm, seed=seed) for seed in range(8)]
        return [run.gradients[0] for run in runs]

    assert min(arrives(True, "pre")) > 1
    assert max(arrives(False, "none")) < 1e-3
    for with_skip, without in zip(arrives(True, "pre"), arrives(False, "pre"), strict=True):
        assert with_skip > 10 * without


def test_with_and_without_the_skip_at_once_are_the_same_as_each_by_itself() -> None:
    for norm in NORMS:
        for got, residual in zip(streams(X, 5, (True, False), norm=norm, seed=2), (True, False), strict=True):
            want = stream(X, 5, residual=residual, norm=norm, seed=2)
            np.testing.assert_allclose(got.states, want.states, rtol=1e-13)
            np.testing.assert_allclose(got.gradients, want.gradients, rtol=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x \(2, 5, 3\) has to be one matrix"):
        stream(np.ones((2, 5, 3)), 2)
    with pytest.raises(ValueError, match="norm is one of pre, post, none, not 'both'"):
        stream(X, 2, norm="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot be -1 layers"):
        stream(X, -1)
    with pytest.raises(ValueError, match="the seed must be a whole number"):
        stream(X, 2, seed=-1)


def test_weights_that_are_kept_for_the_next_call_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        seeded_layers(1, D, 0)[0][0][0, 0] = 1.0

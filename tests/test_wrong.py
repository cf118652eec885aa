"""The program in seven lines, and the mistakes in it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from attention_core.attention import attention
from attention_core.examples import EXAMPLES
from attention_core.masks import allowed, causal
from attention_core.multi_head import multi_head_attention
from attention_core.wrong import STAGES, TWELVE, WRONG, Problem, hidden, stages
from attention_ui.bench import numbers, opened


def problem(n_q=5, n_k=5, *, heads=4, few=2, d_k=3, d_v=2, added=0.0, seed=0) -> Problem:
    rng = np.random.default_rng(seed)
    return Problem(
        rng.standard_normal((n_q, heads * d_k)), rng.standard_normal((n_k, few * d_k)),
        rng.standard_normal((n_k, few * d_v)), causal(n_q, n_k), heads * d_k + 1, heads, few, added,
    )  # fmt: skip


def the_example(name: str = "tokens", added: float = 1000.0) -> Problem:
    """What the page shows at first: four heads of the example, two of keys and values."""
    bench = opened(name)
    n = bench.n_k
    q, k, v = (numbers(bench, letter, n, width) for letter, width in zip("qkv", (8, 4, 4), strict=True))
    return Problem(q, k, v, allowed(bench.mask, n, n), 8, 4, 2, added)


def same(one: dict, other: dict) -> bool:
    return all(
        np.allclose(one[name], other[name], rtol=1e-9, atol=1e-9, equal_nan=True)
        for name in ("weights", "output")
    )


def test_the_seven_lines_give_what_attention_gives():
    asked = problem()
    made = stages(asked)
    q, k, v = (
        np.stack(np.split(a, parts, axis=1)) for a, parts in ((asked.q, 4), (asked.k, 2), (asked.v, 2))
    )
    trace = attention(q, k, v, mask=asked.mask)
    for name in STAGES:
        np.testing.assert_allclose(made[name], getattr(trace, name), rtol=1e-12, atol=1e-12)


def test_the_seven_lines_give_what_multi_head_attention_gives():
    asked = problem(d_v=3)
    width = asked.q.shape[1]
    trace = multi_head_attention(
        np.hstack([asked.q, asked.k, asked.v]),
        *(np.eye(24)[:, part] for part in (slice(0, 12), slice(12, 18), slice(18, 24))),
        np.eye(width), n_heads=4, n_kv_heads=2, mask=asked.mask,
    )  # fmt: skip
    np.testing.assert_allclose(np.hstack(list(stages(asked)["output"])), trace.output, rtol=1e-12, atol=1e-12)


def test_a_number_added_to_every_score_changes_no_right_weight():
    np.testing.assert_allclose(
        stages(problem(added=1000.0))["output"], stages(problem())["output"], rtol=1e-10, atol=1e-12
    )


def test_the_twelve_and_the_right_one_give_pairwise_different_numbers_on_the_page_s_example():
    """By more than 0.005, so that they can be told apart at two decimals; and so do the other two."""
    asked = the_example()
    made = {"right": stages(asked)} | {name: stages(asked, wrong.program) for name, wrong in WRONG.items()}
    for (a, one), (b, other) in combinations(made.items(), 2):
        gaps = [np.abs(one[name] - other[name]) for name in ("weights", "output")]
        holes = any(not np.array_equal(np.isnan(one[n]), np.isnan(other[n])) for n in ("weights", "output"))
        assert holes or max(np.nanmax(gap) for gap in gaps) > 0.005, (a, b)


@pytest.mark.parametrize("name", TWELVE)
def test_each_of_the_twelve_shows_in_the_second_head_of_the_page_s_example(name):
    """That is the head which the page opens with."""
    right, wrong = stages(the_example()), stages(the_example(), WRONG[name].program)
    assert any(
        not np.allclose(right[part][1], wrong[part][1], rtol=0, atol=0.005) for part in ("weights", "output")
    )


def test_there_are_twelve_and_they_come_in_an_order_of_the_seed():
    assert len(TWELVE) == 12
    assert all(sorted(hidden(seed)) == sorted(TWELVE) for seed in range(1, 30))
    assert hidden(3) == hidden(3)
    assert len({hidden(seed) for seed in range(1, 30)}) == 29
    with pytest.raises(ValueError, match="seed"):
        hidden(-1)


def test_the_first_order_is_the_same_on_every_machine():
    assert hidden(1)[:3] == ("mirrored", "shift", "tiled")


# each mistake against a definition of its own, on one head of its own sizes ---------------------


def by_hand(weights_of, n=5, d_k=3, output_of=None):
    """Weights and output of one head, the scores and the mask handed to `weights_of`."""
    asked = problem(n, n, heads=1, few=1, d_k=d_k)
    scores = np.array([[float(q @ k) for k in asked.k] for q in asked.q])
    weights = weights_of(asked, scores)
    return asked, weights, (output_of or np.matmul)(weights, asked.v)


def rows(scores, mask):
    """Softmax row by row, in a loop, over what the mask lets through."""
    weights = np.zeros_like(scores)
    for i, row in enumerate(scores):
        powers = [np.exp(s) if ok else 0.0 for s, ok in zip(row, mask[i], strict=True)]
        weights[i] = [p / sum(powers) if sum(powers) else 0.0 for p in powers]
    return weights


DEFINED = {
    "unscaled": lambda a, s: rows(s, a.mask),
    "d_model": lambda a, s: rows(s / 4**0.5, a.mask),
    "d_k": lambda a, s: rows(s / 3, a.mask),
    "columns": lambda a, s: rows((s / 3**0.5).T, a.mask.T).T,
    "after": lambda a, s: rows(s / 3**0.5, np.ones_like(a.mask)) * a.mask,
    "leak": lambda a, s: rows(s / 3**0.5 - 4 * ~a.mask, np.ones_like(a.mask)),
    "swapped": lambda a, s: rows(s.T / 3**0.5, a.mask),
    "shift": lambda a, s: rows(s / 3**0.5, causal(5, 5, offset=1)),
    "inverted": lambda a, s: rows(s / 3**0.5, ~a.mask),
}


@pytest.mark.parametrize("name", DEFINED)
def test_a_mistake_is_what_its_name_says(name):
    asked, weights, output = by_hand(DEFINED[name])
    made = stages(asked, WRONG[name].program)
    np.testing.assert_allclose(made["weights"][0], weights, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(made["output"][0], output, rtol=1e-10, atol=1e-12)


def test_where_k_is_square_reshaping_leaves_k_itself():
    asked = problem(3, 3, heads=1, few=1)
    np.testing.assert_allclose(stages(asked, WRONG["folded"].program)["scores"][0], asked.q @ asked.k)


def test_tiled_heads_read_1_2_1_2():
    asked = problem()
    made = stages(asked, WRONG["tiled"].program)["output"]
    for head, few in enumerate((0, 1, 0, 1)):
        own = Problem(
            asked.q[:, 3 * head : 3 * head + 3], asked.k[:, 3 * few : 3 * few + 3],
            asked.v[:, 2 * few : 2 * few + 2], asked.mask, 3,
        )  # fmt: skip
        np.testing.assert_allclose(made[head], stages(own)["output"][0])


def test_heads_cut_across_hold_whole_rows():
    made = stages(problem(), WRONG["across"].program)["scores"]
    asked = problem()
    q, k = asked.q.ravel().reshape(4, 5, 3), asked.k.ravel().reshape(2, 5, 3)
    np.testing.assert_allclose(made[3], q[3] @ k[1].T)


def test_mixing_down_takes_the_columns_of_the_weights():
    made = stages(problem(), WRONG["mirrored"].program)
    values = np.repeat(np.stack(np.split(problem().v, 2, axis=1)), 2, axis=0)
    np.testing.assert_allclose(made["output"], np.einsum("hji,hjd->hid", made["weights"], values))


def test_a_forgotten_maximum_shows_when_scores_are_large_and_not_before():
    right, wrong = stages(problem()), stages(problem(), WRONG["overflow"].program)
    np.testing.assert_allclose(wrong["output"], right["output"])
    assert np.isnan(stages(problem(added=1000.0), WRONG["overflow"].program)["output"]).all()


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize(("n_q", "n_k"), [(1, 1), (1, 4), (4, 1), (2, 5), (5, 2)])
def test_a_mistake_that_does_not_fit_the_shapes_is_refused_and_never_broadcast(name, n_q, n_k):
    asked = problem(n_q, n_k)
    try:
        made = stages(asked, WRONG[name].program)
    except ValueError:
        assert n_q != n_k
        return
    assert made["weights"].shape == (4, n_q, n_k)


@pytest.mark.parametrize("name", EXAMPLES)
def test_one_token_or_equal_numbers_make_no_error(name):
    for wrong in WRONG.values():
        stages(the_example(name), wrong.program)


def test_nothing_is_changed_in_place():
    asked = problem()
    before = [a.copy() for a in (asked.q, asked.k, asked.v, asked.mask)]
    for wrong in WRONG.values():
        stages(asked, wrong.program)
    for a, b in zip(before, (asked.q, asked.k, asked.v, asked.mask), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_mistake_tells_its_line_and_the_right_one():
    assert WRONG["unscaled"].changed == [("scores / sqrt(d_k)", "scores")]
    assert WRONG["tiled"].changed == [("np.repeat(a, times, axis=0)", "np.tile(a, (times, 1, 1))")]
    assert len(WRONG["after"].changed) == 2
    for name, wrong in WRONG.items():
        assert wrong.changed, name
        assert all(right and made and "\n" not in right + made for right, made in wrong.changed), name

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_core.examples import EXAMPLES, MATRICES, Example, matrix, token
from attention_core.masks import allowed

PRESETS = json.loads((Path(__file__).parent / "presets.json").read_text(encoding="utf-8"))
NAMES_OF_PRESETS = {
    "previous": "previous_token",
    "same": "same_token",
    "induction-1": "induction_layer1",
    "induction-2": "induction_layer2",
    "brackets": "bracket_matching",
    "average": "causal_average",
    "pronoun": "pronoun_it",
}
every_example = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
some_example = st.sampled_from(list(EXAMPLES.values()))
sizes = st.integers(0, 40)
seeds = st.none() | st.integers(0, 2**32 - 1)


def own(example: Example) -> dict[str, np.ndarray]:
    return {name: np.array(values) for name, values in example.base.items()}


def attend(example: Example, changed: dict[str, np.ndarray] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Weights and output by a loop over rows, sharing nothing with the core's attention."""
    given_ = own(example) | (changed or {})
    if example.way == "x":
        q, k, v = (given_["x"] @ given_[name] for name in ("w_q", "w_k", "w_v"))
    else:
        q, k, v = given_["q"], given_["k"], given_["v"]
    allow = allowed(example.mask, len(q), len(k))
    weights = np.zeros((len(q), len(k)))
    for i, row in enumerate(q):
        raised = {j: math.exp(float(row @ k[j]) / math.sqrt(len(row))) for j in range(len(k)) if allow[i, j]}
        for j, value in raised.items():
            weights[i, j] = value / sum(raised.values())
    return weights, weights @ v


def changed(example: Example, name: str, cells: dict[tuple[int, int], float]) -> np.ndarray:
    """The weights after a reader has changed these cells, which rows and columns count from 1."""
    values = own(example)[name]
    for (row, column), value in cells.items():
        values[row - 1, column - 1] = value
    return attend(example, {name: values})[0]


# what they are ---------------------------------------------------------------------------------


def test_the_examples_stand_in_reading_order_under_short_words() -> None:
    assert list(EXAMPLES) == ["tokens", "seed", *NAMES_OF_PRESETS]
    assert all(re.fullmatch(r"[a-z]+(-[0-9])?", name) for name in EXAMPLES)
    assert all(name == example.name for name, example in EXAMPLES.items())


@every_example
def test_an_example_has_a_title_a_note_and_matrices_that_fit(example: Example) -> None:
    assert example.title
    assert 2 <= len(re.findall(r"[.:?] |\.$", example.note)) <= 5
    assert tuple(example.base) == MATRICES[example.way]
    assert len(example.tokens) == example.sizes["n_k"]
    assert len(example.query_tokens or example.tokens) == example.sizes["n_q"]
    s = example.sizes
    shapes = {
        "x": (s["n_k"], s["d_model"]), "w_q": (s["d_model"], s["d_k"]), "w_k": (s["d_model"], s["d_k"]),
        "w_v": (s["d_model"], s["d_v"]), "q": (s["n_q"], s["d_k"]), "k": (s["n_k"], s["d_k"]),
        "v": (s["n_k"], s["d_v"]),
    }  # fmt: skip
    assert {name: values.shape for name, values in example.base.items()} == {
        name: shapes[name] for name in example.base
    }
    assert max(s["n_q"], s["n_k"], s["d_model"], s["d_k"], s["d_v"]) <= 16


@every_example
def test_the_numbers_of_an_example_cannot_be_changed(example: Example) -> None:
    for name, values in example.base.items():
        assert not values.flags.writeable
        assert not matrix(example, name, 3, 3).flags.writeable
    with pytest.raises(TypeError):
        example.base["x"] = np.zeros((1, 1))  # type: ignore[index]


@pytest.mark.parametrize("name", NAMES_OF_PRESETS)
def test_a_named_head_gives_the_weights_and_outputs_that_were_worked_out_for_it(name: str) -> None:
    example, preset = EXAMPLES[name], PRESETS[NAMES_OF_PRESETS[name]]
    assert list(example.tokens) == preset["tokens"]
    assert example.mask.kind == ("causal" if preset["causal"] else "none")
    for ours, theirs in zip(("x", "w_q", "w_k", "w_v"), ("X", "Wq", "Wk", "Wv"), strict=True):
        assert example.base[ours].tolist() == preset[theirs]
    weights, output = attend(example)
    np.testing.assert_allclose(weights, preset["expected_A"], atol=1e-5)
    np.testing.assert_allclose(output, preset["expected_out"], atol=1e-5)


# what their notes say ---------------------------------------------------------------------------


def test_four_tokens_have_small_whole_numbers_and_weights_worth_reading() -> None:
    example = EXAMPLES["tokens"]
    x, w_q, w_k, w_v = own(example).values()
    scores = (x @ w_q) @ (x @ w_k).T
    assert scores.tolist() == [[3, 2, 1, 0], [4, 1, 3, 5], [2, 1, 1, 1], [0, 1, -1, -3]]
    assert (x @ w_v).tolist() == [[1, 2, 2], [0, 4, 1], [1, 1, 1], [2, -2, 1]]
    assert example.sizes["d_v"] != example.sizes["d_k"]
    weights, _ = attend(example)
    assert weights[3].argmax() == 1  # "down" looks back at "cat", not at itself
    assert all(0.02 < weight < 0.9 for i in range(1, 4) for weight in weights[i, : i + 1])


def test_the_second_seeds_case_has_its_shapes_and_its_dot_product() -> None:
    """For q = [1, 0] and k = [1, 1] the dot product is 1; 3 queries, 4 keys, widths 2 and 5."""
    example = EXAMPLES["seed"]
    q, k, v = own(example).values()
    assert (q.shape, k.shape, v.shape) == ((3, 2), (4, 2), (4, 5))
    assert (q[0].tolist(), k[0].tolist()) == ([1, 0], [1, 1])
    assert (q @ k.T)[0, 0] == 1
    assert attend(example)[1].shape == (3, 5)


def test_the_previous_token_has_the_largest_weight_until_its_query_is_undone() -> None:
    example = EXAMPLES["previous"]
    weights, _ = attend(example)
    assert [int(row.argmax()) for row in weights[1:]] == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(changed(example, "w_q", {(1, 2): 12})[3], [0.25] * 4 + [0, 0])


def test_equal_words_share_the_weight_in_halves() -> None:
    example = EXAMPLES["same"]
    weights, _ = attend(example)
    for row, pair in ((0, [0, 3]), (3, [0, 3]), (1, [1, 5]), (5, [1, 5])):
        np.testing.assert_allclose(weights[row, pair], 0.5, atol=1e-3)
    lowered = changed(example, "w_q", {(1, 1): 2})
    assert lowered[0, [1, 2, 4, 5]].min() > 0.1
    assert lowered[0, 0] > lowered[0, 1]


def test_the_first_induction_layer_passes_on_the_word_before() -> None:
    example = EXAMPLES["induction-1"]
    _, output = attend(example)
    words = ["ABC"[row.argmax()] for row in output]
    assert words[1:] == list(example.tokens[:-1])
    np.testing.assert_allclose(changed(example, "x", {(3, 6): 0})[3], [0.25] * 4 + [0])


def test_the_second_induction_layer_guesses_what_comes_next() -> None:
    example = EXAMPLES["induction-2"]
    weights, output = attend(example)
    assert (weights[3].argmax(), weights[4].argmax()) == (1, 2)
    assert ("ABC"[output[3].argmax()], "ABC"[output[4].argmax()]) == ("B", "C")
    assert example.base["x"][1].tolist() == [0, 1, 0, 1, 0, 0]
    np.testing.assert_allclose(changed(example, "x", {(2, 4): 0})[3], [0.25] * 4 + [0])


def test_each_closing_bracket_finds_its_own() -> None:
    example = EXAMPLES["brackets"]
    weights, _ = attend(example)
    assert {i: int(weights[i].argmax()) for i in (2, 3, 5, 7)} == {2: 1, 3: 0, 5: 4, 7: 6}
    earliest = changed(example, "w_q", {(1, 4): -6, (2, 4): -6})
    assert {i: int(earliest[i].argmax()) for i in (2, 3, 5, 7)} == {2: 1, 3: 0, 5: 0, 7: 0}


def test_without_queries_attention_is_a_plain_average() -> None:
    example = EXAMPLES["average"]
    weights, output = attend(example)
    np.testing.assert_allclose(weights, np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None])
    np.testing.assert_allclose(output[3], [1, 2, 3, 4])
    w_q, w_k = own(example)["w_q"], own(example)["w_k"]
    w_q[-1, -1], w_k[-1, -1] = 2, 3
    assert attend(example, {"w_q": w_q, "w_k": w_k})[0][3].argmax() == 3


def test_it_refers_to_the_animal_until_one_sign_is_changed() -> None:
    example = EXAMPLES["pronoun"]
    it, animal, street = (example.tokens.index(word) for word in ("it", "animal", "street"))
    assert attend(example)[0][it, animal] > 0.99
    assert changed(example, "w_q", {(2, 2): -2.12})[it, street] > 0.99


# how they grow -----------------------------------------------------------------------------------


@given(some_example, st.data(), sizes, sizes, sizes, sizes, seeds)
def test_any_block_is_the_corner_of_every_larger_one(example, data, rows, columns, more, wider, seed) -> None:
    names = MATRICES["x"] if example.way == "x" else MATRICES["x"] + MATRICES["qkv"]
    name = data.draw(st.sampled_from(names))
    small = matrix(example, name, rows, columns, seed)
    large = matrix(example, name, rows + more, columns + wider, seed)
    assert small.shape == (rows, columns)
    assert np.array_equal(large[:rows, :columns], small)


@every_example
def test_an_example_keeps_its_own_block_and_grows_by_small_halves(example: Example) -> None:
    for name, base in example.base.items():
        large = np.array(matrix(example, name, 256, 256))
        assert np.array_equal(large[: base.shape[0], : base.shape[1]], base)
        large[: base.shape[0], : base.shape[1]] = 0
        assert np.abs(large).max() <= 2
        assert np.array_equal(large * 2, np.round(large * 2))


def test_more_features_leave_the_weights_of_a_named_head_in_their_order() -> None:
    for name in NAMES_OF_PRESETS:
        example = EXAMPLES[name]
        d_model, d_k = example.sizes["d_model"], example.sizes["d_k"]
        wider = {key: np.array(matrix(example, key, d_model, d_k + 3)) for key in ("w_q", "w_k")}
        before, after = attend(example)[0], attend(example, wider)[0]
        scale = math.sqrt(d_k / (d_k + 3))
        with np.errstate(divide="ignore"):
            expected = np.exp(np.log(before) * scale)
        np.testing.assert_allclose(after, expected / expected.sum(axis=1, keepdims=True), atol=1e-12)


def test_new_numbers_come_from_the_seed_alone() -> None:
    one, other = EXAMPLES["previous"], EXAMPLES["brackets"]
    assert np.array_equal(matrix(one, "x", 5, 3, 7), matrix(other, "x", 5, 3, 7))
    assert not np.array_equal(matrix(one, "x", 5, 3, 7), matrix(one, "x", 5, 3, 8))
    assert not np.array_equal(matrix(one, "w_q", 5, 3, 7), matrix(one, "w_k", 5, 3, 7))
    assert set(np.unique(matrix(one, "x", 50, 50, 7))) == set(np.arange(-4, 5) / 2)
    assert set(np.unique(matrix(one, "w_q", 50, 50, 7))) == {-1, -0.5, 0, 0.5, 1}


def test_the_numbers_are_the_same_on_every_machine() -> None:
    """Written down once; a change here would change the numbers behind links that people have kept."""
    grown = matrix(EXAMPLES["tokens"], "x", 5, 5)
    assert grown[4].tolist() == [-0.5, 2.0, -0.5, 1.0, 1.5]
    assert grown[:, 4].tolist() == [1.0, -1.5, -1.0, -0.5, 1.5]
    assert matrix(EXAMPLES["tokens"], "w_q", 2, 3, 2024).tolist() == [[0.5, -1.0, 1.0], [-1.0, 1.0, 1.0]]


@pytest.mark.parametrize("seed", [None, 5])
def test_a_qkv_example_seen_from_x_gives_the_same_numbers(seed: int | None) -> None:
    example = EXAMPLES["seed"]
    for n, d_k, d_v in ((4, 2, 5), (7, 3, 6), (2, 1, 1)):
        x = matrix(example, "x", n, n, seed)
        for name, width in (("q", d_k), ("k", d_k), ("v", d_v)):
            product = x @ matrix(example, f"w_{name}", n, width, seed)
            assert np.array_equal(product, matrix(example, name, n, width, seed))


def test_tokens_continue_in_plain_words_and_then_with_numbers() -> None:
    words = [token(EXAMPLES["tokens"], i) for i in range(18)]
    assert words[:6] == ["the", "cat", "sat", "down", "on", "the"]
    assert all(word.isalpha() for word in words[:16])
    assert words[16:] == ["t17", "t18"]
    assert token(EXAMPLES["pronoun"], 8) == "t9"


def test_queries_have_words_of_their_own_where_they_are_not_the_keys() -> None:
    example = EXAMPLES["seed"]
    assert [token(example, i, query=True) for i in range(4)] == ["le", "chat", "dort", "t4"]
    assert [token(example, i) for i in range(4)] == ["the", "cat", "is", "asleep"]
    assert token(EXAMPLES["tokens"], 1, query=True) == "cat"


@pytest.mark.parametrize(
    ("name", "rows", "columns", "seed", "words"),
    [
        ("q", 2, 2, None, "the example tokens has no matrix q"),
        ("scores", 2, 2, None, "no matrix scores"),
        ("x", 257, 2, None, "x can be 0 × 0 to 256 × 256, not 257 × 2"),
        ("x", 2, -1, None, "not 2 × -1"),
        ("x", 2, 2, -1, "the seed must be a whole number from 0"),
        ("x", 2, 2, 2**32, "the seed must be a whole number from 0"),
    ],
)
def test_what_an_example_cannot_give_is_refused_by_name(name, rows, columns, seed, words) -> None:
    with pytest.raises(ValueError, match=words):
        matrix(EXAMPLES["tokens"], name, rows, columns, seed)


def test_consecutive_seeds_look_nothing_alike() -> None:
    blocks = [matrix(EXAMPLES["tokens"], "x", 8, 8, seed).ravel() for seed in range(1, 30)]
    assert all(np.mean(one == other) < 0.35 for one, other in pairwise(blocks))

"""Lesson 1's sheet: the same last word in two sentences."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.attention import attention
from attention_core.neighbours import two_sentences
from attention_core.numbers import show
from attention_core.rows import brought, last_rows, with_last_row
from attention_core.sheet import reads, run, work

RNG = np.random.default_rng(5)
N, D_MODEL, D_K, D_V = 5, 4, 3, 2
GIVEN = {
    "x": RNG.normal(size=(N, D_MODEL)), "others": RNG.normal(size=(N - 1, D_MODEL)),
    "w_q": RNG.normal(size=(D_MODEL, D_K)), "w_k": RNG.normal(size=(D_MODEL, D_K)),
    "w_v": RNG.normal(size=(D_MODEL, D_V)), "divisor": np.sqrt(D_K), "mask": np.tri(N, dtype=bool),
}  # fmt: skip


def by_hand(x: np.ndarray) -> np.ndarray:
    return attention(x @ GIVEN["w_q"], x @ GIVEN["w_k"], x @ GIVEN["w_v"], mask=GIVEN["mask"]).output


def test_both_sentences_are_attention_on_their_own_words():
    values = run(two_sentences(N), GIVEN)
    x_b = np.vstack([GIVEN["others"], GIVEN["x"][-1]])
    np.testing.assert_array_equal(values["x_b"], x_b)
    np.testing.assert_allclose(values["output_a"], by_hand(GIVEN["x"]), rtol=1e-13)
    np.testing.assert_allclose(values["output_b"], by_hand(x_b), rtol=1e-13)
    np.testing.assert_array_equal(values["after"], [values["output_a"][-1], values["output_b"][-1]])
    np.testing.assert_array_equal(values["before"][0], values["before"][1])


@pytest.mark.parametrize("letter", "ab")
def test_what_the_words_bring_adds_up_to_the_output(letter):
    values = run(two_sentences(N), GIVEN)
    np.testing.assert_allclose(
        values[f"brought_{letter}"].sum(axis=0), values[f"output_{letter}"][-1], rtol=1e-13
    )


def test_read_down_the_column_it_does_not():
    values = run(two_sentences(N, down=True), GIVEN)
    taken = values["weights_a"][:, -1, None] * values["v_a"]
    np.testing.assert_array_equal(values["brought_a"], taken)
    assert not np.allclose(values["brought_a"].sum(axis=0), values["output_a"][-1])


def test_with_every_word_alone_the_two_rows_stay_the_same():
    values = run(two_sentences(N), {**GIVEN, "mask": np.eye(N, dtype=bool)})
    np.testing.assert_array_equal(values["after"][0], values["after"][1])
    np.testing.assert_array_equal(values["after"], values["before"])


def test_a_sentence_of_one_word_is_refused():
    with pytest.raises(ValueError, match="a sentence of 1 has no neighbours"):
        two_sentences(1)


def test_titles_differ_and_every_axis_has_one_length():
    sheet = two_sentences(N)
    assert len(set(sheet.titles.values())) == len(sheet.lines)
    values, sizes = run(sheet, GIVEN), {}
    for line in sheet:
        for axis, size in zip(line.axes, values[line.name].shape, strict=True):
            assert sizes.setdefault(axis, size) == size


@pytest.mark.parametrize("name", ["x_b", "before", "after", "brought_a"])
@pytest.mark.parametrize("down", [False, True])
def test_a_cell_is_worked_out_with_its_own_number(name, down):
    sheet = two_sentences(N, down=down)
    values = run(sheet, GIVEN)
    for (i, j), value in np.ndenumerate(values[name]):
        assert work(sheet, values, name, i, j).text.endswith(show(float(value)))


def test_the_patterns_say_which_cells_are_read():
    assert with_last_row(N).reads == ("cell", f"at {N - 1} {N - 1}")
    assert last_rows(N).reads == (f"at 0 {N - 1}", f"at 1 {N - 1}")
    assert brought(N - 1).reads == (f"turned {N - 1}", "cell")
    assert reads(two_sentences(N, down=True), "brought_b") == [
        ("weights_b", f"side {N - 1}"),
        ("v_b", "cell"),
    ]


@pytest.mark.parametrize(
    ("operation", "shapes"),
    [(with_last_row(4), [(3, 2), (5, 2)]), (last_rows(4), [(4, 2), (4, 3)]), (brought(1), [(2, 4), (3, 2)])],
)
def test_rows_that_do_not_fit_are_refused(operation, shapes):
    with pytest.raises(ValueError):
        operation.compute(*map(np.zeros, shapes))

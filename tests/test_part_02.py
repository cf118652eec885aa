"""Part 2 as a reader sees it: the bench, the table, shapes that do not fit, lookup against mixing."""

from __future__ import annotations

import numpy as np
import pytest
from test_lessons import FAILS, assert_is_sound, board_of
from test_pages import open_app, send, words

from attention_core.examples import EXAMPLES
from attention_core.numbers import show
from attention_ui import matching
from attention_ui.bench import numbers, opened, with_way
from attention_ui.choices import with_choice

PAGE = "part_02_matching"
OPEN = {"p2.guess": "show"}
WINDOWS = [(1, 1, 1, 1), (8, 8, 8, 8), (8, 1, 2, 5), (1, 8, 8, 1)]
BENCHES = [{}, {"example": "seed"}, {"n": 1}, {"way": "qkv", "nq": 2, "nk": 5}]


def grids(app) -> dict:
    return board_of(app)["grids"]


def sizes(app) -> dict[str, str]:
    return {name: grid["size"] for name, grid in grids(app).items()}


def test_the_bench_of_the_series_says_one():
    app = open_app(PAGE, example="seed", **OPEN)
    found = grids(app)
    assert found["q_1"]["cells"] == [["1", "0"]] and found["k_1"]["cells"] == [["1", "1"]]
    assert found["products"]["cells"] == [["1", "0"]] and found["match"]["cells"] == [["1"]]
    assert sizes(app)["scores"] == "3 × 4" and sizes(app)["output"] == "3 × 5"
    assert "The dot product on the bench, 1, stands in row 1 and column 1 of the scores: 1." in words(app)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_seen_through_the_same_window(name):
    app = open_app(PAGE, example=name, **OPEN)
    assert sizes(app)["scores"] == "3 × 4" and sizes(app)["output"] == "3 × 5" and sizes(app)["q"] == "3 × 2"
    assert FAILS not in words(app)


def test_from_x_three_matrices_make_three_views_of_the_same_tokens():
    app = open_app(PAGE, **OPEN)
    bench = matching.seen(opened("tokens"))
    now = matching.scene_of(opened("tokens"))
    x = numbers(bench, "x", 4, bench.d_model)
    for name, rows, width in (("q", 3, 2), ("k", 4, 2), ("v", 4, 5)):
        weights = numbers(bench, f"w_{name}", bench.d_model, width)
        np.testing.assert_array_equal(now.values[name], x[:rows] @ weights)
        assert {f"w_{name}", name} <= set(grids(app))
    assert [grids(app)[name]["kind"] for name in ("x", "w_q", "q")] == ["given", "given", "computed"]


def test_from_q_k_and_v_these_are_given_and_edited():
    app = open_app(PAGE, way="qkv", **OPEN)
    assert "x" not in grids(app) and grids(app)["q"]["kind"] == "given"
    app = send(app, ["edit", "q", 0, 1, "2.5"])
    assert grids(app)["q_1"]["cells"][0][1] == "2.50"


def test_both_ways_in_show_the_same_numbers():
    bench = opened("tokens")
    other, said = with_way(bench, "qkv")
    one, two = matching.scene_of(bench), matching.scene_of(other)
    assert not said
    for name in ("q", "k", "v", "scores", "output"):
        np.testing.assert_array_equal(one.values[name], two.values[name])


@pytest.mark.parametrize(("query", "key"), [("1", "1"), ("3", "4"), ("2", "3")])
def test_any_query_and_key_can_lie_on_the_bench(query, key):
    app = open_app(PAGE, **OPEN, **{"p2.query": query, "p2.key": key})
    cell = grids(app)["scores"]["cells"][int(query) - 1][int(key) - 1]
    assert grids(app)["match"]["cells"] == [[cell]]
    assert f"stands in row {query} and column {key} of the scores: {cell}." in words(app)


def test_where_there_are_fewer_the_last_one_lies_on_the_bench():
    app = open_app(PAGE, **OPEN, **{"p2.nq": "1", "p2.nk": "2", "p2.query": "3", "p2.key": "4"})
    assert {"q_1", "k_2"} <= set(grids(app))
    assert sizes(app)["scores"] == "1 × 2"


@pytest.mark.parametrize(("n_q", "n_k", "d_k", "d_v"), WINDOWS)
@pytest.mark.parametrize("query", BENCHES, ids=str)
def test_the_window_can_have_any_size(n_q, n_k, d_k, d_v, query):
    window = {"p2.nq": n_q, "p2.nk": n_k, "p2.dk": d_k, "p2.dv": d_v}
    app = open_app(PAGE, **query, **window, **OPEN)
    assert_is_sound(app)
    assert sizes(app)["scores"] == f"{n_q} × {n_k}" and sizes(app)["output"] == f"{n_q} × {d_v}"
    assert f"Columns of Q, d_k = {d_k}, and of K, {d_k}" in words(app)
    assert FAILS not in words(app)


@pytest.mark.parametrize("width", ["1", "3", "4"])
@pytest.mark.parametrize("query", [{}, {"example": "seed"}], ids=str)
def test_a_key_of_another_width_is_refused_with_both_shapes_and_the_page_stands(width, query):
    app = open_app(PAGE, **query, **OPEN, **{"p2.width": width})
    text = words(app)
    assert f"Refused: q (3, 2) and k (4, {width}) cannot be compared" in text
    assert f"swaps its axes, 4 × {width} to {width} × 4" in text
    assert "scores" not in grids(app) and sizes(app)["k_t"] == f"{width} × 4"
    assert f"A query and a key have the same number of features: 2 and {width}." in text and FAILS in text


def test_a_key_of_the_same_width_chosen_by_number_is_compared():
    assert "scores" in grids(open_app(PAGE, **{"p2.width": "2"}))


def test_the_mistake_is_refused_with_both_shapes():
    app = open_app(PAGE, **OPEN, **{"p2.unturned": "on"})
    text = words(app)
    assert "Refused: scores cannot be made from q (3, 2) and k (4, 2)." in text
    assert "A row of Q has as many numbers as a column of K: 2 and 4." in text and FAILS in text
    assert "scores" not in grids(app)


def test_the_mistake_that_fits_by_chance_fails_in_the_check():
    app = open_app(PAGE, **OPEN, **{"p2.unturned": "on", "p2.dk": "4"})
    text = words(app)
    assert "The shapes fit by chance" in text and "Refused" not in text
    assert text.count(FAILS) >= 2
    assert grids(app)["scores"]["col_axis"] == "d_k"


@pytest.mark.parametrize("mistake", ["on", "off"])
def test_the_mistake_with_keys_of_another_width_stands_too(mistake):
    more = {"p2.unturned": "on"} if mistake == "on" else {}
    app = open_app(PAGE, **OPEN, **{"p2.width": "3", "p2.dv": "1"}, **more)
    assert "cannot be compared" in words(app)


def test_the_mix_is_hidden_until_the_reader_has_answered():
    app = open_app(PAGE)
    assert "looked_up" in grids(app) and not {"weights", "output"} & set(grids(app))
    assert {"weights", "output"} <= set(grids(open_app(PAGE, **{"p2.guess": "mix"})))


def test_the_verdict_takes_its_numbers_from_the_weights():
    weights = matching.scene_of(opened("tokens")).values["weights"][0]
    text = words(open_app(PAGE, **{"p2.guess": "mix"}))
    best = int(weights.argmax())
    assert (
        f"As you said: a mix of several values. Query 1 gives its largest weight, {show(weights[best])},"
        in text
    )
    assert f"3 other keys share {show(1 - weights[best])}" in text
    assert "Not so here: a mix" in words(open_app(PAGE, **{"p2.guess": "value"}))


def test_with_one_key_the_output_is_its_value():
    app = open_app(PAGE, **{"p2.guess": "value", "p2.nk": "1"})
    assert "As you said: the value of that key, as it is. There is one key only" in words(app)


def test_equal_scores_are_told():
    assert "keys have that largest score" in words(open_app(PAGE, example="average", **OPEN))


def test_a_lookup_row_is_a_row_of_v_and_the_output_is_not():
    values = matching.scene_of(with_choice(opened("seed"), "p2.guess", "show")).values
    for i, row in enumerate(values["scores"]):
        np.testing.assert_array_equal(values["looked_up"][i], values["v"][int(np.argmax(row))])
    assert not np.allclose(values["looked_up"], values["output"])

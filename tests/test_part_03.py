"""Part 3: the figures and the page."""

from __future__ import annotations

import numpy as np
import pytest
from test_pages import desk_of, open_app, send, words

from attention_core.dot_products import KEYS, QUERIES, WIDTHS, draws, expected, sharpness
from attention_core.examples import EXAMPLES
from attention_core.numbers import show
from attention_ui import spread
from attention_ui.graphs import Line, Panel, stacked, ticks

PAGE = "part_03_scaling"
FAILS = "does not hold for these numbers"


# the figures ----------------------------------------------------------------------------------


def test_the_figures_say_in_words_and_in_tables_what_they_draw():
    figure = spread.spread_figure("independent", 1, 64)
    products = draws("independent", 1).products
    measured = [trace for trace in figure.data if trace.name == "measured"]
    np.testing.assert_allclose(measured[0].y, products.mean(axis=1))
    np.testing.assert_allclose(measured[1].y, products.var(axis=1))
    (bars,) = (trace for trace in figure.data if trace.type == "bar")
    assert sum(bars.y) == QUERIES * KEYS
    assert show(products[-1].var()) in spread.spread_alt("independent", 1, 64)
    heads, rows = spread.spread_table("independent", 1)
    assert [row[0] for row in rows] == [str(width) for width in WIDTHS]
    assert rows[-1][3] == show(products[-1].var()) and len(rows[0]) == len(heads)


@pytest.mark.parametrize("twice", [False, True])
def test_the_chosen_divisor_is_drawn_strongest(twice):
    figure = spread.sharp_figure("shared", 1, "d_k", 64, twice=twice)
    strongest = max(figure.data, key=lambda trace: trace.line.width)
    assert strongest.name == ("d_k, twice" if twice else "d_k")
    found = sharpness("shared", 1, "d_k", twice=twice)
    np.testing.assert_allclose(strongest.y, found.entropy)
    assert f"{strongest.name}, the chosen divisor" in spread.sharp_alt("shared", 1, "d_k", twice=twice)
    heads, rows = spread.sharp_table("shared", 1, "d_k", twice=twice)
    assert len(rows) == len(WIDTHS) * (4 + twice) and all(len(row) == len(heads) for row in rows)


def test_ticks_are_few_and_round():
    assert ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert ticks(-30, 30) == [-20, 0, 20]
    assert ticks(2, 2) == [2]


def test_a_logarithmic_panel_leaves_out_what_it_cannot_hold():
    panel = Panel("p", [Line("a", [1, 2, 3], [0.0, float("inf"), 4.0])], y_log=True)
    figure = stacked([panel])
    assert tuple(figure.data[0].y) == (None, None, 4.0)
    assert list(figure.layout.yaxis.ticktext)


# the page -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("way", ["x", "qkv"])
def test_every_claim_holds_without_a_mistake(name, way):
    start = open_app(PAGE, example=name)
    sizes = {} if desk_of(start).bench.n_q == desk_of(start).bench.n_k else {"n": 4}
    assert FAILS not in words(open_app(PAGE, example=name, way=way, **sizes, **{"p3.guess": "show"}))


@pytest.mark.parametrize("by", ["one", "d_k", "d_model"])
def test_a_wrong_divisor_is_named_and_fails(by):
    shown = words(open_app(PAGE, **{"p3.divisor": by, "p3.guess": "show"}))
    assert shown.count(FAILS) == 3  # the board, the variance, the largest weight
    assert "1/√d_k" in shown or "√d_k: the wider" in shown or "divides too much" in shown


def test_dividing_twice_fails_too():
    shown = words(open_app(PAGE, **{"p3.twice": "on", "p3.guess": "show"}))
    assert shown.count(FAILS) == 3 and "√d_k twice is d_k;" in shown


@pytest.mark.parametrize(
    ("entries", "said"), [("shifted", "3 instead of 1"), ("shared", "square"), ("same", "Yang")]
)
def test_where_an_assumption_fails_the_variance_is_not_d_k(entries, said):
    shown = words(open_app(PAGE, **{"p3.entries": entries, "p3.guess": "show"}))
    variance = draws(entries, 1).products[WIDTHS.index(64)].var()
    assert FAILS in shown and said in shown
    assert f"the measured variance, {show(variance)}," in shown
    assert show(expected(entries, 64)[1]) in shown


def test_the_figure_with_the_answer_waits_for_the_prediction():
    before = open_app(PAGE)
    assert "holds the answer to the prediction" in words(before)
    assert len(before.get("plotly_chart")) == 1
    after = open_app(PAGE, **{"p3.guess": "all"})
    assert len(after.get("plotly_chart")) == 2
    average = sharpness("independent", 1, "one").largest[-1]
    assert f"As you said: nearly 1. Measured over 1,000 rows it is {show(average)}" in words(after)
    assert "Not so here: nearly 1." in words(open_app(PAGE, **{"p3.guess": "even"}))


def test_the_sentence_about_the_board_follows_an_edit():
    app = open_app(PAGE)
    before = words(app)
    app = send(app, ["edit", "x", 0, 0, "3"])
    assert "On average over the rows" in before and words(app) != before


@pytest.mark.parametrize("width", [1, 512])
@pytest.mark.parametrize("seed", [0, 99])
def test_every_width_and_seed_holds(width, seed):
    app = open_app(PAGE, **{"p3.width": width, "p3.seed": seed, "p3.guess": "show"})
    assert FAILS not in words(app)
    assert app.slider(key="choice p3.seed").value == seed

"""Part 6: the page and its figure."""

from __future__ import annotations

import numpy as np
import pytest
from test_lessons import board_of
from test_pages import desk_of, open_app, passages, send, words

from attention_core.examples import EXAMPLES
from attention_core.numbers import show
from attention_core.stream import NORMS, stream
from attention_ui import depth, svg
from attention_ui.bench import numbers

PAGE = "part_06_normalisation"
FAILS = "does not hold for these numbers"
X = np.random.default_rng(2).normal(size=(4, 16))


def test_the_figure_draws_the_stream_with_the_skip_and_without():
    found = depth.both_ways(X, 6, "pre", 3)
    drawn = [{line.name: line.y for line in panel.lines} for panel in depth.panels(found)]
    for skip, name in depth.NAMES.items():
        want = stream(X, 6, residual=skip, norm="pre", seed=3)
        np.testing.assert_allclose(drawn[0][name], want.lengths, rtol=1e-12)
        np.testing.assert_allclose(drawn[1][name], want.gradients, rtol=1e-12)
    heads, rows = depth.table(found)
    assert len(rows) == 7 and all(len(row) == len(heads) == 5 for row in rows)
    assert rows[0][3] == depth.written(found[True].gradients[0])
    assert depth.written(found[False].lengths[-1]) in depth.alt_text(found)
    assert "over 6 layers" in depth.alt_text(found)


def test_a_length_of_zero_leaves_a_gap_and_a_tiny_number_stays_visible():
    found = depth.both_ways(np.zeros((4, 16)), 2, "pre", 0)
    drawn = svg.stacked(depth.panels(found), "")
    assert drawn.count('class="line strong"') == 3  # beside its name, and two without a point
    assert drawn.count('class="line strong" d="M"') == 1
    assert depth.written(3.6e-5) == "3.6e−5"


@pytest.mark.parametrize(
    ("kind", "norm", "layers"),
    [
        ("layer", "pre", 2),
        ("rms", "pre", 24),
        ("layer", "post", 24),
        ("rms", "none", 2),
        ("layer", "none", 24),
    ],
)
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_claim_holds_without_a_mistake(name, kind, norm, layers):
    choices = {"p6.guess": "show", "p6.kind": kind, "p6.norm": norm, "p6.layers": layers}
    assert FAILS not in words(open_app(PAGE, example=name, **choices))


def test_statistics_over_the_tokens_make_a_row_depend_on_the_others():
    shown = words(open_app(PAGE, **{"p6.columns": "on"}))
    assert shown.count(FAILS) == 3  # a row's statistics, its independence, and the same after the sum
    one, two = (open_app(PAGE, **{"p6.columns": word}) for word in ("off", "on"))
    for app, same in ((one, True), (two, False)):
        before = board_of(app)["grids"]["normalised"]["cells"][0]
        after = board_of(send(app, ["edit", "x", 3, 0, "9"]))["grids"]["normalised"]["cells"][0]
        assert (before == after) == same


def test_the_sample_variance_makes_every_row_too_small():
    shown = words(open_app(PAGE, **{"p6.sample": "on"}))
    assert shown.count(FAILS) == 2  # before the sub-layer and after it
    assert "it divides by d" in shown
    assert "RMSNorm has no variance" in words(open_app(PAGE, **{"p6.sample": "on", "p6.kind": "rms"}))


@pytest.mark.parametrize("query", [{"dm": 1}, {"n": 1, "p6.columns": "on"}])
def test_a_single_number_has_no_sample_variance(query):
    app = open_app(PAGE, **{"p6.sample": "on", **query})
    assert "0 / 0" in words(app)
    assert "not a number" not in str(board_of(app)["grids"])


def test_ten_times_a_row_is_normalised_to_nearly_the_same():
    app = open_app(PAGE, **{"p6.guess": "same"})
    assert "As you said: nearly the same." in words(app)
    assert "Not so here: nearly the same." in words(open_app(PAGE, **{"p6.guess": "ten"}))


def test_with_a_large_epsilon_or_over_the_tokens_it_is_not():
    for mistake in ({"p6.epsilon": 0}, {"p6.columns": "on"}):
        shown = words(open_app(PAGE, **{"p6.guess": "same", **mistake}))
        assert "Not so here: something else. Its length goes from" in shown


def test_epsilon_stands_on_the_board_and_in_the_arithmetic():
    app = open_app(PAGE, **{"p6.epsilon": -3, "cell": "deviation.1.1"})
    vias = [unit["via"] for line in board_of(app)["layout"] for unit in line]
    assert "√(σ² + 1e−3)" in vias
    assert "10<sup>−3</sup>" in passages(app)["arithmetic"]


def test_gain_and_shift_can_be_edited_and_reach_both_places():
    app = open_app(PAGE)
    before = board_of(app)["grids"]
    after = board_of(send(app, ["edit", "gain", 0, 1, "3"], ["edit", "shift", 0, 2, "-2"]))["grids"]
    for name in ("shifted", "pre", "post"):
        assert before[name]["cells"] != after[name]["cells"]


def test_the_sentences_about_the_stream_take_their_numbers_from_it():
    app = open_app(PAGE, **{"p6.layers": 12, "p6.norm": "none", "p6.seed": 5})
    x = numbers(desk_of(app).bench, "x", 4, 16)
    with_skip, without = (stream(x, 12, residual=skip, norm="none", seed=5) for skip in (True, False))
    shown = words(app)
    assert f"to {depth.written(with_skip.lengths[-1])} with the skip" in shown
    assert f"{depth.written(without.gradients[0])} times without" in shown


def test_an_edit_of_x_reaches_the_stream():
    app = open_app(PAGE)
    before = show(stream(numbers(desk_of(app).bench, "x", 4, 16), 16).lengths[-1])
    app = send(app, ["edit", "x", 0, 0, "7"])
    after = show(stream(numbers(desk_of(app).bench, "x", 4, 16), 16).lengths[-1])
    assert before != after and f"to {after} with the skip" in words(app)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("text", ["0", "1e60"])
def test_rows_of_zeros_and_huge_numbers_are_survived(norm, text):
    app = open_app(PAGE, n=2, dm=2, **{"p6.norm": norm})
    cells = [["edit", "x", i, j, text] for i in range(2) for j in range(2)]
    assert "not a number" not in words(send(app, *cells))

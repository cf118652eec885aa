"""Part 4 as a reader sees it: softmax in steps, temperature, running over, and the mask before or after."""

from __future__ import annotations

import numpy as np
import pytest
from test_lessons import FAILS, NO_VALUE, assert_is_sound, board_of
from test_pages import checked, open_app, send, words

from attention_core.examples import EXAMPLES
from attention_core.masks import drawn
from attention_core.numbers import show
from attention_core.softmax import softmax
from attention_ui import softmax_steps
from attention_ui.bench import opened
from attention_ui.choices import with_choice
from attention_ui.softmax_steps import STEPS

PAGE = "part_04_softmax"
OPEN = {"p4.guess": "show"}
SIZES = [{}, {"n": 1}, {"n": 16}, {"mask": "padding-0"}, {"example": "seed"}]
BOTH = [{}, {"p4.add": "1000", "p4.t": "0.1"}, {"p4.add": "-1000", "p4.n": "1"}]
WRITTEN = ["scores", "masked", "maximum", "below", "powers", "totals"]


def grids(app) -> dict:
    return board_of(app)["grids"]


def scene_with(**choices: str):
    bench = opened("tokens")
    for name, value in choices.items():
        bench = with_choice(bench, f"p4.{name}", value)
    return softmax_steps.scene_of(bench)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("way", [{}, {"way": "qkv"}], ids=str)
def test_three_tokens_of_every_example(name, way):
    app = open_app(PAGE, example=name, **way, **OPEN)
    assert_is_sound(app)
    assert grids(app)["weights"]["size"] == "3 × 3" and grids(app)["maximum"]["size"] == "3 × 1"
    assert FAILS not in words(app)


@pytest.mark.parametrize("upto", WRITTEN)
def test_the_steps_are_shown_one_after_the_other(upto):
    app = open_app(PAGE, **{"p4.upto": upto})
    shown = [name for name in WRITTEN if name in grids(app)]
    assert shown == WRITTEN[: WRITTEN.index(upto) + 1]
    assert "weights" not in grids(app) and "output" not in grids(app)
    assert {"weights", "output"} <= set(grids(open_app(PAGE, **{"p4.upto": upto, **OPEN})))


def test_the_steps_are_those_of_softmax():
    assert list(STEPS) == WRITTEN
    values = scene_with().values
    masked = np.where(np.tri(3, dtype=bool), values["scaled"], -np.inf)
    np.testing.assert_array_equal(values["maximum"][:, 0], [max(row) for row in masked])
    np.testing.assert_array_equal(values["weights"], softmax(masked))


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize(
    "query", [{}, {"n": 1}, {"n": 16}, {"mask": "padding-0"}, {"example": "seed"}], ids=str
)
def test_any_number_of_tokens(n, query):
    app = open_app(PAGE, **query, **OPEN, **{"p4.n": n})
    assert_is_sound(app)
    assert grids(app)["weights"]["size"] == f"{n} × {n}"
    assert FAILS not in words(app)


@pytest.mark.parametrize("temperature", ["0.1", "0.5", "2", "5"])
def test_temperature_divides_and_says_what_became_of_the_largest_weight(temperature):
    app = open_app(PAGE, **OPEN, **{"p4.t": temperature})
    values = scene_with(t=temperature).values
    np.testing.assert_array_equal(values["tempered"], values["scaled"] / float(temperature))
    before, after = scene_with().values["weights"][-1].max(), values["weights"][-1].max()
    assert f"In the last row it is {show(after)} instead of {show(before)}." in words(app)
    assert (after > before) == (float(temperature) < 1)
    assert FAILS not in words(app)
    assert_is_sound(app)


def test_at_temperature_1_nothing_is_divided():
    assert "tempered" not in grids(open_app(PAGE, **OPEN)) and "raised" not in grids(open_app(PAGE, **OPEN))


@pytest.mark.parametrize("amount", ["-1000", "100", "1000"])
def test_with_the_maximum_off_an_amount_changes_no_weight(amount):
    app = open_app(PAGE, **OPEN, **{"p4.add": amount})
    assert_is_sound(app)
    assert f"Adding {show(float(amount))} to every score changes no weight." in words(app)
    assert FAILS not in words(app)


def test_without_the_maximum_off_large_scores_run_over_and_the_page_says_so():
    app = open_app(PAGE, **OPEN, **{"p4.add": "1000", "p4.raw": "on"})
    found, text = grids(app), words(app)
    assert found["powers"]["cells"][2] == ["∞", "∞", "∞"] and found["totals"]["cells"][2] == ["∞"]
    assert NO_VALUE in found["weights"]["cells"][2] and "output" not in found
    assert "In rows 1, 2 and 3 a score is above 709.78" in text and "∞ / ∞ has no value" in text
    assert "Row 1 has no value." in text and text.count(FAILS) >= 3
    assert NO_VALUE not in text


def test_without_the_maximum_off_very_small_scores_vanish_and_the_page_says_so():
    app = open_app(PAGE, **OPEN, **{"p4.add": "-1000", "p4.raw": "on"})
    assert grids(app)["totals"]["cells"] == [["0"]] * 3
    assert "In rows 1, 2 and 3 every exponential is too small for float64" in words(app)


def test_without_the_maximum_off_small_scores_come_out_the_same():
    app = open_app(PAGE, **OPEN, **{"p4.raw": "on"})
    text = words(app)
    assert "small enough" in text and "maximum" not in grids(app)
    assert "The largest exponential of every row is 1, so none can run over." in text and FAILS in text
    np.testing.assert_allclose(
        scene_with(raw="on").values["weights"], scene_with().values["weights"], rtol=1e-12
    )


def test_without_the_maximum_off_a_query_that_may_look_nowhere_has_no_sum():
    text = words(open_app(PAGE, mask="padding-0", **OPEN, **{"p4.raw": "on"}))
    assert "In rows 1, 2 and 3 the query may look nowhere; the sum is 0" in text


def test_put_to_0_after_softmax_the_rows_no_longer_add_up():
    app = open_app(PAGE, **OPEN, **{"p4.after": "on"})
    sums = scene_with(after="on").values["weights"].sum(axis=1)
    assert grids(app)["weights"]["sums"] == [show(total) for total in sums]
    text = words(app)
    assert f"Every row of the weights adds up to 1. The smallest sum is {show(sums.min())}." in text
    assert f"which adds up to {show(sums[0])}: what blocked keys had been given is lost." in text
    assert FAILS in text and "masked" not in grids(app) and "shares" in grids(app)
    assert (sums[:2] < 1).all()


def test_with_nothing_blocked_it_does_not_matter_when():
    app = open_app(PAGE, example="seed", **OPEN, **{"p4.after": "on"})
    assert FAILS not in words(app)


@pytest.mark.parametrize("both", BOTH, ids=str)
@pytest.mark.parametrize("query", [{}, {"way": "qkv"}, {"mask": "padding-0"}], ids=str)
def test_both_mistakes_together_stand(both, query):
    app = checked(open_app(PAGE, **query, **OPEN, **both, **{"p4.raw": "on", "p4.after": "on"}))
    assert "weights" in grids(app) and "not a number" not in words(app)


@pytest.mark.parametrize(
    ("guess", "query", "said"),
    [
        (
            "one",
            {},
            "As you said: 1 for one token, 0 for the others. Row 1 is 1, 0, 0: query 1 may look at key 1",
        ),
        ("equal", {}, "Not so here: 1 for one token"),
        (
            "equal",
            {"example": "average", "mask": "none"},
            "As you said: equal shares. Row 1 is 0.33, 0.33, 0.33",
        ),
        ("shares", {"mask": "none"}, "As you said: shares by its scores. Row 1 is "),
        ("one", {"mask": "padding-0"}, "Not so here: Row 1 is 0, 0, 0: query 1 may look nowhere."),
    ],
)
def test_the_prediction_is_judged_by_the_first_row(guess, query, said):
    assert said in words(open_app(PAGE, **query, **{"p4.guess": guess}))


def test_an_edit_reaches_the_weights():
    app = open_app(PAGE, **OPEN)
    before = grids(app)["weights"]["cells"]
    app = send(app, ["edit", "w_q", 1, 1, "4"])
    assert grids(app)["weights"]["cells"] != before


def test_a_mask_drawn_by_hand_can_be_turned_over_cell_by_cell():
    rule = np.tri(4, dtype=bool)
    app = open_app(PAGE, mask=drawn(rule).to_text(), **OPEN)
    assert grids(app)["mask"]["kind"] == "switch"
    app = send(app, ["toggle", "mask", 0, 2])
    assert grids(app)["mask"]["cells"][0] == ["0", "−∞", "0"]
    assert float(grids(app)["weights"]["cells"][0][2]) > 0


def test_a_cell_of_the_mask_beyond_the_tokens_of_the_bench_is_left_alone():
    app = open_app(PAGE, n=2, mask=drawn(np.tri(2, dtype=bool)).to_text(), **OPEN)
    before = grids(app)["mask"]["cells"]
    assert grids(send(app, ["toggle", "mask", 2, 2]))["mask"]["cells"] == before

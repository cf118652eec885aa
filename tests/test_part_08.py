"""Part 8 on the page: every switch, what the mistake breaks, and numbers in sentences."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
from test_pages import ROOT, checked, desk_of, open_app, send, words

from attention_core.examples import EXAMPLES
from attention_core.numbers import show
from attention_ui import frame

SLUG = "part_08_feed_forward"
KINDS = ("relu", "gelu", "gelu_tanh", "swiglu")
FAILS = "does not hold for these numbers"
HOLDS = "holds for these numbers"
UNMOVED = "leaves the output of every other token as it was"


@pytest.fixture(scope="module")
def page():
    """The functions of the page, without drawing it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame, "lesson", lambda *_, **__: lambda draw: None)
        return runpy.run_path(str(ROOT / "pages" / f"{SLUG}.py"))


def opened(**query):
    return open_app(SLUG, **{name.replace("p8_", "p8."): value for name, value in query.items()})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", "124")
@pytest.mark.parametrize("token", ["first", "second", "last"])
def test_every_claim_holds_whatever_is_chosen(kind, width, token):
    app = opened(p8_kind=kind, p8_width=width, p8_token=token, p8_guess="own")
    assert FAILS not in words(app) and words(app).count(HOLDS) == 4
    assert "As you said: that row only." in words(app)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("kind", ["gelu", "swiglu"])
def test_every_claim_holds_on_every_example(name, kind):
    assert FAILS not in words(opened(example=name, p8_kind=kind, p8_guess="show"))


@pytest.mark.parametrize("kind", KINDS)
def test_x_transposed_mixes_the_tokens_and_the_page_says_so(kind):
    app = opened(p8_kind=kind, p8_turned="on", p8_guess="own")
    text = words(app)
    assert text.count(FAILS) == 2 and "Not so here: all rows." in text
    assert "The network got Xᵀ" in text and "so there is nothing to read" in text
    assert words(opened(p8_turned="on", p8_kind=kind)).count(FAILS) == 1


def test_with_as_many_tokens_as_features_the_shapes_fit_and_the_mistake_is_still_seen():
    app = opened(p8_turned="on", p8_guess="all", n=3, dm=3)
    assert words(app).count(FAILS) == 2


def test_the_answer_is_not_drawn_before_the_prediction():
    assert UNMOVED not in words(opened())
    assert {"fed_b", "moved"}.isdisjoint(desk_of(opened()).board)
    assert {"fed_b", "moved"} <= set(desk_of(opened(p8_guess="after")).board)


def test_a_guess_that_is_wrong_is_told_so():
    assert "Not so here: that row only. The row is 2 cat" in words(opened(p8_guess="after"))


def test_a_change_of_nothing_changes_nothing():
    app = opened(p8_guess="show")
    for column in range(3):
        app = send(app, ["edit", "change", 0, column, "0"])
    assert "No row of the output is another" in words(app) and FAILS not in words(app)


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_in_sentences_are_those_of_the_sheet(page, kind):
    app = opened(p8_kind=kind, p8_guess="show", p8_token="last")
    values, text = page["scene_of"](desk_of(app)).values, words(app)
    assert f"the largest difference is {show(float(np.abs(values['moved']).max()))}." in text
    unit = int(np.abs(values["brings"]).sum(axis=1).argmax())
    fit = values["gate" if kind == "swiglu" else "hidden"][-1, unit]
    brings = ", ".join(show(float(value)) for value in values["brings"][unit])
    assert f"Unit {unit + 1}: column {unit + 1} of W_" in text and f"gives {show(float(fit))};" in text
    assert f"it adds ({brings})." in text
    above = int((values["active"][-1] > 0).sum())
    assert f"{above} of {values['active'].shape[1]} hidden units are above 0" in text


def test_a_token_that_no_unit_answers_to_gets_a_row_of_zeros():
    app = opened()
    for column in range(3):
        app = send(app, ["edit", "x", 1, column, "0"])
    assert "no hidden unit is active: its row of the output is 0" in words(app)


def test_four_times_the_width_is_twice_attention_in_learned_numbers():
    text = words(opened())
    assert "<td>36</td>" in text and "<td>72</td>" in text
    assert "<td>2,359,296</td>" in text and "<td>4,718,592</td>" in text
    assert "attention takes more from 1,497 tokens on" in text


def test_a_width_beyond_the_board_is_cut_and_the_page_says_so():
    app = opened(dm=6)
    assert desk_of(app).board["w_1"][1:] == (6, 16)
    assert "4 × d_model would be 24 hidden units; the board has room for 16" in words(app)
    assert "has room for" not in words(opened(dm=4))


@pytest.mark.parametrize("kind", KINDS)
def test_one_token_gets_a_second_beside_it(kind):
    app = opened(n=1, p8_kind=kind, p8_guess="show")
    assert desk_of(app).board["x"][1:] == (2, 3) and FAILS not in words(app)


def test_huge_numbers_stay_numbers():
    app = checked(send(opened(p8_kind="swiglu", p8_guess="show"), ["edit", "x", 1, 0, "1e60"]))
    assert "not a number" not in words(app)


def test_the_tables_and_programs_open():
    for also in ("tables", "code"):
        for turned in ("on", "off"):
            opened(p8_also=also, p8_turned=turned, p8_kind="swiglu")

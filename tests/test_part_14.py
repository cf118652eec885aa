"""Part 14: gradients stand beside what trying finds, and several devices get what one device gets."""

from __future__ import annotations

import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest
from test_lessons import FAILS, assert_is_sound, board_of
from test_pages import checked, desk_of, open_app, send, words

from attention_core.attention import attention
from attention_core.examples import EXAMPLES
from attention_core.gradients import attention_grad, by_differences
from attention_core.masks import allowed
from attention_core.multi_head import multi_head_attention
from attention_core.numbers import show
from attention_core.tried import TRIED, backward
from attention_core.written import visible
from attention_ui import backward as gradients
from attention_ui import dealt_heads, products, ring, sent
from attention_ui.scene import Scene

PAGE = "part_14_gradients"
GUESSES = ("p14.guess", "p14.guess_split", "p14.guess_heads", "p14.guess_ring")
SHOWN = dict.fromkeys(GUESSES, "show")
SECTIONS = {"gradients": gradients, "products": products, "heads": dealt_heads, "ring": ring}
DEVICES = ("2", "3", "4")
each_gradient = pytest.mark.parametrize("name", TRIED)
each_split = pytest.mark.parametrize(
    "asked",
    [
        {"p14.show": "products"},
        {"p14.show": "products", "p14.split": "rows"},
        {"p14.show": "heads"},
        {"p14.show": "ring"},
    ],
    ids=["columns", "rows", "heads", "ring"],
)
SIZES = [{"n": 1, "dm": 1, "dk": 1, "dv": 1}, {"n": 16, "dm": 16, "dk": 16, "dv": 16}]
SIZES += [{"way": "qkv", "nq": 2, "nk": 5}, {"mask": "padding-0"}, {"example": "seed"}]


def opened(**query: object) -> AppTest:
    return open_app(PAGE, **{**SHOWN, **query})


def scene(app: AppTest) -> Scene:
    desk = desk_of(app)
    return SECTIONS[desk.bench.choices.get("p14.show", "gradients")].scene_of(desk)


def failed(app: AppTest) -> list[str]:
    """The claims that do not hold."""
    return re.findall(r'<li class="fails">.*?</span> (.*?) <span', words(app))


@each_gradient
@pytest.mark.parametrize("example", EXAMPLES)
def test_a_gradient_stands_beside_what_trying_finds_one_number_at_a_time(name, example):
    values = scene(opened(example=example, **{"p14.of": name})).values
    want = by_differences(backward(), values, name)
    np.testing.assert_allclose(values["tried"], want, rtol=0, atol=1e-8)
    np.testing.assert_allclose(values[f"d_{name}"], want, rtol=1e-6, atol=1e-6)
    own = attention_grad(values["q"], values["k"], values["v"], values["d_output"], mask=values["mask"])
    np.testing.assert_allclose(values["d_k"], own.d_k, rtol=1e-12, atol=1e-12)


@each_gradient
def test_the_gradient_the_tried_one_and_their_difference_are_on_the_board(name):
    grids = board_of(opened(**{"p14.of": name}))["grids"]
    assert {f"d_{name}", "tried", "apart", "q", "k", "v", "d_output"} <= set(grids)
    assert not {"loss_above", "loss_below"} & set(grids)
    assert {level for row in grids["apart"]["levels"] for level in row} == {0}


@each_gradient
def test_a_claim_says_the_largest_difference_of_each_gradient(name):
    values = scene(opened(**{"p14.of": name})).values
    told = re.search(
        rf"d{TRIED[name].letter} is what trying finds: the largest difference is (\S+?)\. ", words(opened())
    )
    assert told is not None
    assert told.group(1) == visible(float(np.abs(values[f"d_{name}"] - values["tried"]).max()), show)


@each_gradient
def test_without_the_average_of_the_row_dv_and_da_stay_right_and_the_others_fail(name):
    app = opened(**{"p14.of": name, "p14.alone": "on"})
    assert_is_sound(app)
    wrong = [claim.partition(" ")[0] for claim in failed(app)]
    assert wrong == ["dS", "dQ", "dK", "Every"]
    assert "what that does on average has to be taken off: up to 5.77" in words(app)


def test_doubling_the_gradient_of_the_output_doubles_that_of_q():
    app = opened()
    before, after = re.search(r"The largest number of dQ goes from (\S+) to (\S+?)\. ", words(app)).groups()
    largest = float(np.abs(scene(app).values["d_q"]).max())
    assert (before, after) == (show(largest), show(2 * largest))
    app = open_app(PAGE, **{"p14.guess": "same"})
    assert "Not so here: it doubles." in words(app)


@each_gradient
def test_every_matrix_of_the_gradients_explains_itself(name):
    app = opened(**{"p14.of": name})
    for grid_name, grid in board_of(app)["grids"].items():
        app = send(app, ["select", grid_name, 0, 0])
        assert f"{grid['name']}, " in words(app), grid_name
    app = send(app, ["select", "tried", 0, 0])
    assert "2\u00a0×\u00a00.00001" in words(app)


@each_split
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_claim_about_devices_holds_for_every_example(asked, example):
    app = opened(example=example, **{"p14.devices": "3", **asked})
    assert_is_sound(app)
    assert failed(app) == []


@each_split
@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_devices_stand_at_every_size(asked, devices, size):
    for dropped in ("", "on"):
        app = opened(**size, **{"p14.devices": devices, "p14.dropped": dropped or "off", **asked})
        assert_is_sound(app)
        assert dropped or failed(app) == []


@pytest.mark.parametrize("split", ["columns", "rows"])
@pytest.mark.parametrize("devices", DEVICES)
def test_both_ways_of_dealing_out_give_the_product(split, devices):
    values = scene(opened(**{"p14.show": "products", "p14.split": split, "p14.devices": devices})).values
    np.testing.assert_allclose(values["output"], values["x"] @ values["w_q"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("devices", DEVICES)
def test_heads_on_devices_are_multi_head_attention(devices):
    v = scene(opened(**{"p14.show": "heads", "p14.devices": devices})).values
    whole = multi_head_attention(
        v["x"], v["w_q"], v["w_k"], v["w_v"], v["w_o"], n_heads=int(devices), mask=np.tri(4, dtype=bool)
    )
    np.testing.assert_allclose(v["output"], whole.output, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("mask", ["causal", "none", "window-1"])
def test_a_sequence_on_devices_is_plain_attention(devices, mask):
    app = opened(n=5, mask=mask, **{"p14.show": "ring", "p14.devices": devices})
    v = scene(app).values
    rule = allowed(desk_of(app).bench.mask, 5, 5)
    want = attention(v["q"], v["k"], v["v"], mask=rule).output
    np.testing.assert_allclose(v["output"], want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ({"p14.show": "products", "p14.split": "rows"}, "What stands in the output is X W_Q on one device"),
        ({"p14.show": "heads"}, "The output is that of"),
        ({"p14.show": "ring"}, "Merged, the parts are plain attention"),
    ],
)
@pytest.mark.parametrize("devices", DEVICES)
def test_a_lost_part_is_seen_to_fail_and_said_why(asked, wrong, devices):
    app = opened(**{"p14.devices": devices, "p14.dropped": "on", **asked})
    assert len(failed(app)) == 1 and failed(app)[0].startswith(wrong)
    told = {"products": "lacks the terms of device", "heads": "is missing from every row", "ring": "missing."}
    assert told[asked["p14.show"]] in words(app)


def test_a_lost_column_shows_in_the_shape_and_a_part_of_zeros_changes_nothing():
    app = opened(**{"p14.show": "products", "p14.dropped": "on"})
    assert failed(app) == [] and "the shape of the result says so" in words(app)
    app = opened(example="average", **{"p14.show": "products", "p14.split": "rows", "p14.dropped": "on"})
    assert failed(app) == [] and "is 0 everywhere here" in words(app)


def test_what_the_devices_make_together_waits_for_the_prediction():
    closed = dict.fromkeys(GUESSES, "wait")
    for asked in (
        {"p14.show": "products"},
        {"p14.show": "products", "p14.split": "rows"},
        {"p14.show": "heads"},
    ):
        assert "output" not in board_of(opened(**{**closed, **asked}))["grids"]
        assert "output" in board_of(opened(**asked))["grids"]
    drawn = board_of(opened(**{**closed, "p14.show": "ring"}))["grids"]
    assert not {"lse_2", "output", "own_2"} & set(drawn)
    assert {"lse_2", "output", "own_2"} <= set(board_of(opened(**{"p14.show": "ring"}))["grids"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dropped", ["on", "off"])
def test_every_device_of_the_ring_can_be_looked_at(device, dropped):
    app = opened(**{"p14.show": "ring", "p14.devices": "4", "p14.detail": device, "p14.dropped": dropped})
    assert_is_sound(app)
    grids = set(board_of(app)["grids"])
    assert {f"output_{device}", f"lse_{device}", "output"} <= grids
    assert (f"own_{device}" in grids) == (device != "4" or dropped == "off")


def test_with_fewer_devices_the_one_on_the_board_is_one_that_is_there():
    app = opened(**{"p14.show": "ring", "p14.devices": "2", "p14.detail": "4"})
    assert "Not understood in this link: p14.detail=4" in words(app)
    assert "lse_2" in board_of(checked(app))["grids"]


def test_the_steps_of_the_ring_say_who_waits_under_a_causal_mask():
    text = words(opened(**{"p14.show": "ring", "p14.devices": "2"}))
    assert "keys 3–4, nothing to do" in text and "the first devices wait" in text
    text = words(opened(mask="none", **{"p14.show": "ring", "p14.devices": "2"}))
    assert "nothing to do" not in text


@each_split
def test_bytes_are_called_estimates_and_the_smallest_case_is_counted_by_hand(asked):
    text = words(opened(**asked))
    assert "estimated from the shapes" in text
    here = sent.on_the_board(4, 3, 2, 5, 2)
    assert list(here.values()) == [
        4 * 2 * 8,
        2 * 4 * 2 * 8,
        2 * 4 * 3 * 8,
        2 * 2 * 4 * 3 * 8,
        4 * 7 * 8,
        4 * 6 * 8,
    ]
    whole = 4096 * 8192 * 2  # bytes of one matrix of the large model
    assert list(sent.in_the_model().values())[:4] == [7 * whole, 14 * whole, 14 * whole, 28 * whole]
    assert list(sent.in_the_model().values())[4] == 7 * 2 * 4096 * 8 * 128 * 2


@pytest.mark.parametrize("also", ["tables", "code"])
@pytest.mark.parametrize("shown", SECTIONS)
def test_all_sections_show_tables_and_programs(also, shown):
    app = opened(**{"p14.show": shown, "p14.also": also, "p14.devices": "3", "p14.split": "rows"})
    assert FAILS not in words(app)


@each_split
def test_every_given_matrix_can_be_edited_and_every_matrix_explains_itself(asked):
    app = opened(**asked)
    for name, grid in board_of(app)["grids"].items():
        app = send(app, ["select", name, 0, 0])
        assert grid["name"] in words(app), name
        if grid["kind"] == "given":
            app = send(app, ["edit", name, 0, 0, "0.125"])
            assert board_of(app)["grids"][name]["exact"][0][0] == "0.125", name
    assert FAILS not in words(app)

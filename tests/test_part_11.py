"""Part 11: the loss of the next token, one step by hand, and a model that learns in the page."""

from __future__ import annotations

import re
from math import log

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest
from test_lessons import FAILS, assert_is_sound, board_of
from test_pages import WRONG, checked, desk_of, open_app, send, words

from attention_core.cross_entropy import cross_entropy, cross_entropy_grad
from attention_core.examples import EXAMPLES
from attention_core.numbers import show
from attention_ui import foretelling, trained
from attention_ui.scene import Scene
from attention_ui.texts import LONGEST_LINKED, SAMPLE
from attention_ui.training import Training

PAGE = "part_11_learning"
SHOWN = {"p11.guess": "show"}
STARTS = ("logits", "rows")
each_start = pytest.mark.parametrize("start", STARTS)
SIZES = [{"n": 1, "dm": 1}, {"n": 2}, {"n": 16, "dm": 16}, {"way": "qkv", "nq": 2, "nk": 5}]
SIZES += [{"tokens": "a a a a"}, {"tokens": '"\\n" <s> **b** $x$'}]


def opened(**query: object) -> AppTest:
    return open_app(PAGE, **{**SHOWN, **query})


def scene(app: AppTest) -> Scene:
    return foretelling.scene_of(desk_of(app))


def failed(app: AppTest) -> list[str]:
    """The claims that do not hold."""
    return re.findall(r'<li class="fails">.*?</span> (.*?) <span', words(app))


# the board --------------------------------------------------------------------------------------


@each_start
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_loss_and_its_gradient_are_those_of_the_next_tokens(start, example):
    app = opened(example=example, **{"p11.start": start})
    assert_is_sound(app)
    assert failed(app) == []
    v, tokens = scene(app).values, foretelling.tokens_of(desk_of(app).bench)
    vocabulary = sorted(set(tokens), key=tokens.index)
    targets = [vocabulary.index(token) for token in tokens[1:]]
    assert v["logits"].shape == (len(tokens) - 1, len(vocabulary))
    np.testing.assert_allclose(v["loss"], cross_entropy(v["logits"], np.array(targets)), rtol=1e-12)
    want = cross_entropy_grad(v["logits"], np.array(targets))
    np.testing.assert_allclose(v["d_logits"], want, rtol=1e-12, atol=1e-15)


@each_start
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_it_stands_at_every_size_and_for_any_tokens(start, size):
    app = opened(**size, **{"p11.start": start})
    assert_is_sound(app)
    assert failed(app) == []


def test_the_step_takes_the_learning_rate_times_the_gradient_off():
    for rate in ("0.5", "4"):
        v = scene(opened(**{"p11.rate": rate})).values
        np.testing.assert_allclose(v["logits_new"], v["logits"] - float(rate) * v["d_logits"], rtol=1e-12)
        v = scene(opened(**{"p11.rate": rate, "p11.start": "rows"})).values
        w_out = v["w_out"] - float(rate) * v["h"].T @ v["d_logits"]
        np.testing.assert_allclose(v["logits_new"], v["h"] @ w_out, rtol=1e-12, atol=1e-12)


def test_the_step_waits_for_the_prediction():
    drawn = board_of(open_app(PAGE))["grids"]
    assert {"logits", "probabilities", "targets", "logs", "losses", "loss", "error", "d_logits"} <= set(drawn)
    assert not [name for name in drawn if name.endswith("_new") or name == "taken_off"]
    assert {"taken_off", "logits_new", "losses_new", "loss_new"} <= set(board_of(opened())["grids"])
    assert {"d_w_out", "w_out_new"} <= set(board_of(opened(**{"p11.start": "rows"}))["grids"])


def test_only_the_logit_of_the_token_that_came_goes_up_and_the_verdict_has_its_numbers():
    app = opened()
    v = scene(app).values
    assert ((v["logits_new"] > v["logits"]) == (v["targets"] > 0)).all()
    row, before, after = re.search(r"In row (\d) it is “.*?”, from (\S+) to (\S+?): ", words(app)).groups()
    column = int(v["targets"][int(row) - 1].argmax())
    assert (before, after) == tuple(show(v[name][int(row) - 1, column]) for name in ("logits", "logits_new"))
    app = open_app(PAGE, **{"p11.guess": "likely"})
    assert "Not so here: only that of the token that came." in words(app)


def test_rows_that_share_w_out_move_each_other_and_the_page_says_how_many():
    app = opened(**{"p11.start": "rows"})
    v = scene(app).values
    up = v["logits_new"] > v["logits"]
    others = int((up & (v["targets"] == 0)).sum())
    assert others and f"{int(up.sum())} of {up.size} logits go up, and {others} of them belong" in words(app)


def test_the_loss_is_compared_with_that_of_equal_shares():
    app = opened()
    loss = float(scene(app).values["loss"][0, 0])
    assert f"have the loss log 4 = {show(log(4))}. These logits have {show(loss)}: worse" in words(app)
    zeros = [["edit", "logits", i, j, "0"] for i in range(3) for j in range(4)]
    assert "no better or worse than that" in words(send(app, *zeros))


@each_start
def test_targets_that_are_not_moved_on_fail_and_a_loss_near_0_is_not_learning(start):
    app = opened(**{"p11.unshifted": "on", "p11.start": start})
    assert failed(app) == ["Every row’s target is the token that comes after it in the text."]
    np.testing.assert_array_equal(scene(app).values["targets"], np.eye(4)[:3])
    assert "copying it is enough" in words(app)


@each_start
def test_without_y_the_gradient_is_not_what_trying_finds(start):
    app = opened(**{"p11.without_y": "on", "p11.start": start})
    assert failed(app)[0].startswith("The gradient is what trying finds")
    assert failed(app)[1].startswith("Every row of the gradient adds up to 0")
    if start == "logits":
        assert "No logit goes up" in words(app)


def test_a_learning_rate_too_large_makes_the_loss_rise_and_the_page_says_why():
    app = opened(**{"p11.start": "rows", "p11.rate": "3"})
    v = scene(app).values
    assert v["loss_new"] > v["loss"]
    assert failed(app) == [
        f"The step takes the loss from {show(v['loss'][0, 0])} to {show(v['loss_new'][0, 0])}, which is less."
    ]
    assert "The learning rate 3 is too large here." in words(app)
    assert f"moves numbers by up to {show(np.abs(v['taken_off']).max())}" in words(app)


@each_start
def test_every_given_matrix_can_be_edited_and_every_matrix_explains_itself(start):
    app = opened(**{"p11.start": start})
    for name, grid in board_of(app)["grids"].items():
        app = send(app, ["select", name, 0, 0])
        assert grid["name"] in words(app), name
        if grid["kind"] == "given":
            app = send(app, ["edit", name, 0, 0, "0.125"])
            assert board_of(app)["grids"][name]["exact"][0][0] == "0.125", name
    assert FAILS not in words(app)


@each_start
@pytest.mark.parametrize("also", ["tables", "code"])
def test_tables_and_programs_can_be_shown(start, also):
    opened(**{"p11.start": start, "p11.also": also})


# the tiny model ---------------------------------------------------------------------------------


def button(app: AppTest, label: str):
    return next(each for each in app.button if each.label == label)


def press(app: AppTest, label: str) -> AppTest:
    return checked(button(app, label).click().run())


def training_of(app: AppTest) -> Training:
    found: Training = app.session_state[trained.KEY]
    return found


def test_train_stop_go_on_and_start_over():
    app = open_app(PAGE)
    assert [each.disabled for each in app.button] == [False, True, True]
    app = press(app, "Train")
    found = training_of(app)
    assert found.running and [each.disabled for each in app.button] == [True, False, False]
    found.trainer.step(7)
    app = press(app, "Stop")
    assert not found.running and training_of(app) is found and not button(app, "Go on").disabled
    assert "Mean loss of the last 7 steps" in words(app)
    app = press(app, "Go on")
    assert training_of(app) is found and found.running and found.trainer.steps == 7
    app = press(app, "Start over")
    assert trained.KEY not in app.session_state and button(app, "Train")


def test_a_training_that_is_over_shows_what_it_has_learned_and_goes_on_when_more_is_wanted():
    app = press(open_app(PAGE, **{"p11.steps": "100"}), "Train")
    found = training_of(app)
    found.trainer.step(100)
    found.running = False
    app = checked(app.run())
    assert button(app, "Go on").disabled
    text = words(app)
    assert f"Mean loss of the last 20 steps: {show(found.latest)}." in text
    assert f"The first loss, {show(log(17))}, is that of equal shares: log 17" in text
    assert found.latest < log(17) / 2 and FAILS not in text
    assert "After “the cat ” it writes: " in text
    assert text.count("<caption>Layer ") == 4 and "Every few steps." in text
    assert not [wrong for wrong in WRONG if wrong in text]
    app = checked(app.button_group(key="choice p11.steps").set_value("300").run())
    assert not button(app, "Go on").disabled and training_of(app) is found


@pytest.mark.parametrize(
    "asked", [{"p11.level": "words"}, {"p11.layers": "1"}, {"p11.seed": "5"}, {"text": "abcabcabc"}]
)
def test_what_is_learned_follows_from_the_link_alone(asked):
    one, other = (training_of(press(open_app(PAGE, **asked), "Train")) for _ in range(2))
    for found in (one, other):
        found.trainer.step(3)
    assert one.trainer.losses == other.trainer.losses
    standard = training_of(press(open_app(PAGE), "Train"))
    standard.trainer.step(3)
    assert standard.trainer.losses != one.trainer.losses


def test_another_seed_or_text_begins_anew():
    app = press(open_app(PAGE), "Train")
    training_of(app).trainer.step(2)
    app = checked(app.slider(key="choice p11.seed").set_value(9).run())
    assert button(app, "Train")
    app = checked(app.slider(key="choice p11.seed").set_value(1).run())
    assert button(app, "Go on")


def test_the_text_is_in_the_link_and_a_long_one_is_said_not_to_be():
    app = open_app(PAGE)
    assert app.text_area(key="text").value == SAMPLE
    app = checked(app.text_area(key="text").set_value("ab ab\nab").run())
    assert "text=ab+ab%0Aab" in board_of(app)["query"]
    assert "8 characters, 4 of them different" in words(app)
    again = open_app(PAGE, text="ab ab\nab")
    assert again.text_area(key="text").value == "ab ab\nab"
    app = checked(app.text_area(key="text").set_value("ab " * LONGEST_LINKED).run())
    assert "text=" not in board_of(app)["query"] and "too long for the link" in words(app)
    assert "3,000 characters" in words(app)


@pytest.mark.parametrize(
    ("text", "why"), [("aaaa", "Two different characters"), ("x", "Two different characters or more")]
)
def test_a_text_that_cannot_be_learned_is_told_and_there_is_nothing_to_press(text, why):
    app = open_app(PAGE, text=text)
    assert why in words(app) and not app.button


def test_a_readers_text_is_shown_literally_and_never_run():
    text = "<img src=x onerror=alert(1)> **b** $x$ " * 3
    app = press(open_app(PAGE, text=text, **{"p11.level": "words"}), "Train")
    found = training_of(app)
    found.trainer.step(5)
    found.running = False
    shown = words(checked(app.run()))
    assert "<img" not in shown and "&lt;img" in shown
    assert not [m for m in app.markdown if "**b**" in m.value or "onerror" in m.value]


def test_the_attention_of_a_text_shorter_than_the_drawing_is_drawn():
    app = press(open_app(PAGE, text="abab"), "Train")
    assert 'class="maps"' in words(app) and "Weights of the first 3 tokens" in words(app)

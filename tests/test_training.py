"""Training in pieces: the same numbers however it is cut up, one reader at a time, and its pictures."""

from __future__ import annotations

import re
from time import perf_counter

import numpy as np
import pytest

from attention_core.learning import Trainer
from attention_core.numbers import show
from attention_ui import learned, training
from attention_ui.texts import SAMPLE
from attention_ui.training import Asked, Training, Turns

ASKED = Asked(SAMPLE, "characters", 1, 7)


def begun(asked: Asked = ASKED) -> Training:
    return Training(asked, asked.trainer())


def test_pieces_of_any_length_give_the_numbers_of_training_in_one_go():
    found = begun()
    for seconds in (0.0, 0.03, 0.0, 1.0):
        found.piece(25, turns=Turns(), seconds=seconds)
    whole = ASKED.trainer()
    whole.step(25)
    assert found.trainer.losses == whole.losses
    for name, weight in whole.weights.items():
        np.testing.assert_array_equal(found.trainer.weights[name], weight)


def test_a_piece_ends_at_what_is_wanted_and_goes_on_when_more_is():
    found = begun()
    assert found.piece(3, turns=Turns(), seconds=60) == 3
    assert found.is_over(3) and not found.is_over(5)
    assert found.piece(3, turns=Turns()) == 0
    assert found.piece(5, turns=Turns(), seconds=60) == 2


def test_a_piece_of_the_largest_model_on_the_longest_text_is_short():
    """A machine that does other things may take longer once: the shortest of a few counts."""
    text = "".join(chr(0x4E00 + (k * k) % 250) for k in range(4_000))
    found = begun(Asked(text, "characters", 2, 1))
    times = []
    for _ in range(8):
        start = perf_counter()
        assert found.piece(10_000, turns=Turns()) >= 1
        times.append(perf_counter() - start)
    assert min(times) < 0.15


def test_one_piece_at_a_time_and_a_rest_twice_as_long():
    turns = Turns()
    assert turns.begin() and not turns.begin()
    turns.end(0.0)
    assert turns.begin()
    turns.end(0.05)
    assert not turns.begin()
    started = perf_counter()
    while not turns.begin():
        assert perf_counter() - started < 5
    assert perf_counter() - started > 0.08


def test_a_piece_that_breaks_off_gives_the_turn_back():
    turns, found = Turns(), begun()
    found.trainer.step = lambda k: 1 / 0
    with pytest.raises(ZeroDivisionError):
        found.piece(5, turns=turns)
    found.trainer = ASKED.trainer()
    while not found.piece(1, turns=turns):
        pass


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("aaaa", "Two different characters or more are needed"),
        ("", "Two different characters"),
        ("".join(map(chr, range(0x4E00, 0x4E00 + 300))), "300 different characters, and at most 256"),
    ],
)
def test_a_text_that_cannot_be_learned_is_told_in_one_sentence(text, why):
    problem = Asked(text, "characters", 1, 0).problem()
    assert why in problem and problem.endswith(".") and problem[0].isupper()
    assert ASKED.problem() == ""


def test_the_curve_follows_all_steps_once_stopped_and_now_and_then_while_it_runs(monkeypatch):
    found = begun()
    found.trainer.step(4)
    assert found.in_curve() == 4
    found.trainer.step(2)
    assert found.in_curve() == 4
    monkeypatch.setattr(training, "CURVE_EVERY", 0.0)
    assert found.in_curve() == 6
    monkeypatch.undo()
    found.trainer.step(1)
    found.running = False
    assert found.in_curve() == 7


def test_the_latest_loss_is_a_mean_and_begins_with_that_of_equal_shares():
    found = begun()
    assert found.latest == found.trainer.chance
    found.trainer.step(30)
    assert found.latest == pytest.approx(np.mean(found.trainer.losses[-20:]))


@pytest.mark.parametrize("count", [0, 1, 2, 19, 250, 251, 1000])
def test_the_points_of_the_curve_are_the_losses_and_their_means(count):
    losses = np.random.default_rng(3).random(count).tolist()
    steps, each, even = learned.points(losses)
    assert len(steps) == len(each) == len(even) <= learned.MOST_POINTS
    assert not count or steps[-1] == count
    for step, loss, mean in zip(steps, each, even, strict=True):
        at = int(step)
        assert loss == losses[at - 1]
        assert mean == pytest.approx(np.mean(losses[max(at - learned.MEAN_OF, 0) : at]))
    figure = learned.curve(losses, 2.0)
    assert [trace.name for trace in figure.data] == ["each step", "mean of 20", "equal shares, log V"]


def test_the_words_for_the_curve_hold_its_numbers():
    assert learned.curve_alt([], 2.0) == "No step has been taken yet. Equal shares have the loss 2."
    assert "Loss over 2 steps, from 3 to 2.50 on average over the last 2" in learned.curve_alt(
        [3.0, 2.0], 2.5
    )


def trainer_of(text: str) -> Trainer:
    return Asked(text, "characters", 2, 1).trainer()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_maps_have_a_cell_for_every_weight_in_the_colour_of_its_size(theme):
    weights = trainer_of("abcabcab").attention_maps("abcab")
    html = learned.maps(weights, list("abcab"), theme=theme)
    assert html.count("<table>") == 4 and html.count("<tr>") == 4 * 5
    levels = [int(step) for step in re.findall(r'<td class="w(\d+)"', html)]
    want = [round(float(w) * 10) for layer in weights for head in layer for row in head for w in row]
    assert levels == want
    assert html.count("<th>") == 4 * 5


def test_a_token_in_the_maps_is_never_run():
    weights = trainer_of("a<b>a").attention_maps("a<b>")
    html = learned.maps(weights, ["<img>", "&", '"', "<img src=x onerror=alert(1)>"])
    assert "<img" not in html and html.count("&lt;img") == 8 and "<th>&amp;</th>" in html


def test_how_far_back_a_head_looks_is_said_in_tokens():
    previous = np.zeros((4, 4))
    previous[0, 0] = 1.0
    previous[range(1, 4), range(3)] = 1.0
    text = learned.maps_alt([np.stack([previous, np.eye(4)])], list("abcd"))
    assert f"layer 1, head 1: {show(0.75)} tokens back on average" in text
    assert "layer 1, head 2: 0 tokens back" in text

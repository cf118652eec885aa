"""A small language model: its gradients, its training, and what it may be given."""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np
import pytest

from attention_core.gradients import finite_difference
from attention_core.language_model import (
    Shape,
    adam,
    all_windows,
    first_weights,
    forward,
    loss,
    loss_and_gradient,
    windows,
)
from attention_core.learning import Plan, Trainer, tokens_of
from attention_core.limits import LARGEST_MODEL, MOST_STEPS

TEXT = "the cat sat on the mat. the dog sat on the log. the cat saw the dog, and the dog saw the cat. " * 3
SMALL = Plan(shape=Shape(d_model=8, n_heads=2, n_layers=2, context=6), batch=3, seed=5)


def in_the_middle(shape: Shape, vocabulary: int) -> dict[str, np.ndarray]:
    """Weights none of which is 0, so that no gradient is."""
    rng = np.random.default_rng(11)
    start = first_weights(shape, vocabulary, 1)
    return {name: w + rng.normal(size=w.shape) * 0.3 for name, w in start.items()}


@pytest.mark.parametrize(
    "shape", [Shape(6, 2, 2, 5), Shape(4, 1, 1, 7), Shape(6, 3, 1, 4)], ids=["2 layers", "1 head", "3 heads"]
)
def test_every_gradient_is_that_of_finite_differences(shape):
    vocabulary = 5
    rng = np.random.default_rng(2)
    ids = rng.integers(0, vocabulary - 1, size=(3, 4))  # the last token does not come
    targets = rng.integers(0, vocabulary, size=(3, 4))
    weights = in_the_middle(shape, vocabulary)
    value, gradient = loss_and_gradient(shape, weights, ids, targets)
    assert value == loss(shape, weights, ids, targets)
    assert list(gradient) == list(weights)
    for name, found in gradient.items():

        def changed(w: np.ndarray, name: str = name) -> float:
            return loss(shape, {**weights, name: w}, ids, targets)

        np.testing.assert_allclose(found, finite_difference(changed, weights[name]), rtol=0, atol=1e-8)
        assert np.abs(found).max() > 1e-4
    np.testing.assert_array_equal(gradient["embedding"][-1], 0)
    np.testing.assert_array_equal(gradient["positions"][4:], 0)


def test_the_model_is_that_of_a_loop_over_places_and_heads():
    shape, vocabulary = Shape(6, 2, 2, 5), 4
    weights, ids = in_the_middle(shape, vocabulary), np.array([3, 0, 1, 1])
    x = [weights["embedding"][token] + weights["positions"][place] for place, token in enumerate(ids)]
    for layer in (1, 2):
        q, k, v = ([row @ weights[f"w_{letter}_{layer}"] for row in x] for letter in "qkv")
        rows = []
        for i in range(4):
            heads = []
            for h in (slice(0, 3), slice(3, 6)):
                powers = [math.exp(q[i][h] @ k[j][h] / math.sqrt(3)) for j in range(i + 1)]
                heads.append(sum(p * v[j][h] for j, p in enumerate(powers)) / sum(powers))
            rows.append(x[i] + np.concatenate(heads) @ weights[f"w_o_{layer}"])
        x = rows
    want = np.array(x) @ weights["w_out"]
    np.testing.assert_allclose(forward(shape, weights, ids).logits, want, rtol=1e-12)


def test_no_place_sees_a_later_one():
    shape, weights = Shape(6, 2, 2, 5), in_the_middle(Shape(6, 2, 2, 5), 4)
    one, other = (forward(shape, weights, np.array(ids)).logits for ids in ([3, 0, 1, 1], [3, 0, 1, 2]))
    np.testing.assert_array_equal(one[:3], other[:3])
    assert (one[3] != other[3]).all()


def test_the_first_step_of_adam_is_as_long_as_the_rate_whatever_the_gradient():
    weights = {"w": np.array([1.0, -2.0, 3.0])}
    zero = {"w": np.zeros(3)}
    new, first, second = adam(weights, {"w": np.array([5.0, -0.001, 0.0])}, zero, zero, 1, 0.1)
    np.testing.assert_allclose(new["w"], [0.9, -1.9, 3.0], rtol=1e-5)
    np.testing.assert_allclose(first["w"], [0.5, -0.0001, 0])
    np.testing.assert_allclose(second["w"], [0.25, 1e-8, 0])


def test_it_begins_at_chance_and_learns_the_text():
    trainer = Trainer(TEXT)
    assert trainer.loss() == pytest.approx(trainer.chance, rel=1e-12)
    assert trainer.chance == math.log(len(set(TEXT)))
    began = perf_counter()
    losses = trainer.step(150)
    assert perf_counter() - began < 30
    assert losses[0] == pytest.approx(trainer.chance, rel=1e-12)
    assert trainer.loss() < 0.2 * trainer.chance


def test_a_text_without_order_is_not_learned_beyond_its_frequencies():
    """Tokens drawn evenly and on their own: there is nothing to foretell in pieces that were not seen."""
    letters = np.random.default_rng(4).choice(list("abcd"), size=3000)
    trainer = Trainer("".join(letters[:1500]), Plan(shape=Shape(8, 1, 1, 8), batch=32))
    trainer.step(60)
    fresh = Trainer("".join(letters[1500:]), trainer.plan, state=trainer.state)
    assert fresh.loss() == pytest.approx(math.log(4), rel=0.05)


def test_training_in_one_go_step_by_step_or_resumed_gives_the_same_numbers():
    one = Trainer(TEXT, SMALL)
    one.step(12)
    two = Trainer(TEXT, SMALL)
    for _ in range(5):
        two.step()
    three = Trainer(TEXT, SMALL, state=two.state)
    assert three.step(7) == one.losses[5:]
    assert three.losses == one.losses and three.steps == 12
    for name, array in one.state.items():
        np.testing.assert_array_equal(array, three.state[name])
    assert two.steps == 5
    other = Trainer(TEXT, Plan(shape=SMALL.shape, batch=3, seed=6))
    assert other.step(12) != one.losses


def test_a_state_is_a_copy():
    trainer = Trainer(TEXT, SMALL)
    state = trainer.state
    before = trainer.loss()
    for array in state.values():
        array += 1.0
    assert trainer.loss() == before
    kept = trainer.state
    trainer.step(2)
    np.testing.assert_array_equal(kept["weights/embedding"], Trainer(TEXT, SMALL).weights["embedding"])


def test_attention_maps_are_causal_and_change_as_it_learns():
    trainer = Trainer(TEXT, SMALL)
    before = trainer.attention_maps("the cat")
    assert [layer.shape for layer in before] == [(2, 6, 6)] * 2  # the last six of seven
    trainer.step(10)
    for old, new in zip(before, trainer.attention_maps("the cat"), strict=True):
        np.testing.assert_allclose(new.sum(axis=-1), 1)
        np.testing.assert_array_equal(np.triu(new, 1), 0)
        assert np.abs(new - old).max() > 1e-3


def test_what_comes_next_is_a_distribution_and_writing_follows_it():
    trainer = Trainer("abcd" * 20, Plan(shape=Shape(8, 1, 1, 8)))
    np.testing.assert_allclose(trainer.next_token("a"), [0.25] * 4)
    trainer.step(80)
    assert trainer.next_token("ab").argmax() == 2
    assert trainer.next_token("ab").sum() == pytest.approx(1)
    assert "".join(trainer.written("ab", 9, temperature=0)) == "cdabcdabc"
    drawn = trainer.written("a", 30, temperature=5.0, seed=1)
    assert drawn == trainer.written("a", 30, temperature=5.0, seed=1)
    assert drawn != trainer.written("a", 30, temperature=5.0, seed=2)
    assert set(drawn) <= set("abcd")


def test_tokens_are_drawn_as_often_as_their_probabilities_say():
    trainer = Trainer("ab" + "c" * 30, Plan(shape=Shape(8, 1, 1, 1), batch=64))
    trainer.step(30)
    chances = trainer.next_token("c")
    drawn = [trainer.written("c", 1, seed=seed)[0] for seed in range(800)]
    for token, chance in zip("abc", chances, strict=True):
        spread = math.sqrt(chance * (1 - chance) / 800)
        assert abs(drawn.count(token) / 800 - chance) < 5 * spread + 1e-3


def test_words_are_learned_as_well_as_characters():
    trainer = Trainer(TEXT, Plan(level="words", shape=Shape(16, 2, 1, 8)))
    assert "mat." in trainer.vocabulary
    trainer.step(100)
    assert trainer.loss() < 0.3 * trainer.chance
    assert tokens_of(" the\tcat\n", "words") == ("the", "cat")


def test_a_short_text_makes_the_context_shorter():
    trainer = Trainer("ab")
    assert trainer.plan.shape.context == 1
    trainer.step(40)
    assert trainer.loss() < 0.05
    assert trainer.written("a", 1, temperature=0) == ("b",)


def test_windows_are_pieces_of_the_text_and_all_of_it_comes():
    places = windows(20, 6, 50, 3, 1)
    assert places.shape == (50, 7)
    assert places.min() >= 0 and places.max() <= 19
    assert (np.diff(places, axis=1) == 1).all()
    assert set(places[:, 0]) == set(range(14))
    whole = np.concatenate(list(all_windows(20, 6, 2)))
    np.testing.assert_array_equal(whole[:, 0], [0, 6, 12])
    assert len(list(all_windows(20, 6, 2))) == 2


def test_training_ends_after_two_thousand_steps():
    trainer = Trainer("ab", Plan(shape=Shape(2, 1, 1, 1), batch=1))
    state = trainer.state | {"losses": np.full(MOST_STEPS - 3, 0.5)}
    late = Trainer("ab", trainer.plan, state=state)
    assert len(late.step(10)) == 3
    assert late.step(10) == ()
    assert late.steps == MOST_STEPS


def test_what_cannot_be_learned_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="the text has 4001 characters, and at most 4000 can be learned"):
        Trainer("ab" * 2000 + "a")
    for text in ("", "aaaa"):
        with pytest.raises(ValueError, match="two different characters or more are needed"):
            Trainer(text)
    with pytest.raises(ValueError, match="300 different words, and at most 256"):
        Trainer(" ".join(map(str, range(300))), Plan(level="words"))
    for name, most in LARGEST_MODEL.items():
        with pytest.raises(ValueError, match=f"{name} has to be a whole number from 1 to {most}, not"):
            Shape(**{name: most + 1})
    with pytest.raises(ValueError, match="8 columns cannot be shared out among 3 heads"):
        Shape(8, 3)
    for change in ({"batch": 0}, {"rate": 0.0}, {"rate": math.nan}, {"seed": -1}, {"level": "lines"}):
        with pytest.raises(ValueError, match=next(iter(change))):
            Plan(**change)
    trainer = Trainer(TEXT, SMALL)
    with pytest.raises(ValueError, match="k has to be a whole number of steps from 1 to 200, not 201"):
        trainer.step(201)
    with pytest.raises(ValueError, match="the learned text does not have 'z'"):
        trainer.next_token("the z")
    with pytest.raises(ValueError, match="a token to begin with is needed"):
        trainer.written("", 3)
    with pytest.raises(ValueError, match="temperature has to be a finite number from 0 on, not -1"):
        trainer.written("t", 3, temperature=-1)
    with pytest.raises(ValueError, match="many has to be a whole number from 1 to 400"):
        trainer.written("t", 401)
    with pytest.raises(ValueError, match="the state does not belong to this text and plan: first/embedding"):
        Trainer("ab" * 9, SMALL, state=trainer.state)
    with pytest.raises(ValueError, match="the model sees 1 to 6 tokens at a time, not 7"):
        forward(SMALL.shape, trainer.weights, np.zeros(7, dtype=np.int64))

"""Part 12 on the page: both ways through the tokens, the work of a step, the draw, the timeline."""

from __future__ import annotations

import numpy as np
import pytest
from test_lessons import assert_is_sound, board_of
from test_pages import desk_of, open_app, send, words

from attention_core.accelerators import ACCELERATORS
from attention_core.attention import attention
from attention_core.cost import seconds
from attention_core.decoding import decode_step, prefill
from attention_core.examples import EXAMPLES
from attention_core.masks import causal
from attention_core.model_cost import step_costs
from attention_core.model_cost import timeline as moments
from attention_core.models import MODELS
from attention_core.numbers import show
from attention_core.sampling import distribution, draw
from attention_ui import amounts, decoding, decoding_found, timelines
from attention_ui.bench import numbers, opened
from attention_ui.choices import with_choice
from attention_ui.desk import Desk
from attention_ui.tokens import isolated

PAGE = "part_12_decoding"
FAILS, HOLDS = "does not hold for these numbers", ">holds for these numbers"
ANSWER = timelines.Answer(MODELS["llama3-8b"], ACCELERATORS["a100"], 300, 20)


def page(**query):
    return open_app(PAGE, **{name.replace("p12_", "p12."): value for name, value in query.items()})


def grids(app) -> dict:
    return board_of(app)["grids"]


def scene(bench=None, **choices):
    bench = opened("tokens") if bench is None else bench
    for name, value in choices.items():
        bench = with_choice(bench, f"p12.{name}", value)
    return decoding.scene_of(Desk(bench))


@pytest.mark.parametrize("step", ["1", "2", "4", "8"])
@pytest.mark.parametrize(
    "query", [{}, {"n": 1, "dk": 1, "dv": 1, "dm": 1}, {"n": 16, "dk": 16, "dv": 16}], ids=str
)
def test_every_claim_holds_at_every_size_and_step(step, query):
    app = page(p12_step=step, p12_guess="show", p12_top_k="3", p12_top_p="0.5", **query)
    assert_is_sound(app)
    assert FAILS not in words(app) and words(app).count(HOLDS) == 8


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("heat", ["0", "0.1", "1", "2"])
def test_every_claim_holds_on_every_example_and_temperature(name, heat):
    app = page(example=name, p12_temperature=heat, p12_guess="show", p12_top_k="4", p12_top_p="0.9")
    assert_is_sound(app)
    assert FAILS not in words(app)


def test_the_steps_are_those_of_prefill_and_decode_in_the_core():
    bench, now = opened("tokens"), scene(step="4")
    q, k, v = (numbers(bench, "x") @ numbers(bench, f"w_{letter}") for letter in "qkv")
    step = prefill(q[:1], k[:1], v[:1])
    outputs = [step.output]
    for t in range(1, 4):
        step = decode_step(step.cache, q[t : t + 1], k[t : t + 1], v[t : t + 1])
        outputs.append(step.output)
        np.testing.assert_allclose(now.values[f"k_{t + 1}"], step.cache.k)
    np.testing.assert_allclose(now.values["stepped"], np.concatenate(outputs), rtol=1e-12)
    np.testing.assert_allclose(now.values["output"], attention(q, k, v, mask=causal(4)).output, rtol=1e-12)


@pytest.mark.parametrize("step", range(1, 5))
def test_the_cache_on_the_board_grows_with_the_steps(step):
    app = page(p12_step=step)
    assert grids(app)[f"k_{step}"]["size"] == f"{step} × 2"
    assert len(grids(app)[f"weights_{step}"]["cells"][0]) == step
    assert f"The cache after {step} step" in words(app)


def test_both_outputs_are_hidden_until_the_reader_has_answered():
    assert {"output", "stepped", "so_far", "apart"}.isdisjoint(grids(page()))
    app = page(p12_guess="same")
    assert {"output", "stepped", "so_far", "apart"} <= set(grids(app))
    assert "As you said: the same numbers. The largest difference" in words(app)
    assert "Not so here: the same numbers." in words(page(p12_guess="other"))


def test_a_row_written_over_the_last_one_is_found_out():
    app = page(p12_over="on", p12_guess="same")
    text = words(app)
    assert text.count(FAILS) == 3 and "Not so here: other numbers." in text
    assert grids(app)["k_3"]["size"] == "1 × 2" and "has to move on by one" in text
    assert grids(app)["output_3"]["cells"] == grids(app)["new_v_3"]["cells"]
    assert "The cache after 3 steps has 1 row," in text


def test_a_token_masked_like_a_first_one_is_found_out():
    app = page(p12_as_first="on", p12_guess="show")
    text = words(app)
    assert text.count(FAILS) == 2 and "taken for the first one" in text
    assert grids(app)["weights_3"]["cells"] == [["1", "0", "0"]]
    assert "masked_3" in grids(app) and "masked_3" not in grids(page())


def test_of_two_mistakes_the_first_is_shown():
    text = words(page(p12_as_first="on", p12_over="on", p12_guess="show"))
    assert "has to move on by one" in text and "taken for the first one" not in text


def test_the_first_step_is_right_whatever_the_mistake():
    for name in ("p12_over", "p12_as_first"):
        assert FAILS not in words(page(p12_step="1", p12_guess="show", **{name: "on"}))


@pytest.mark.parametrize("top_k", [1, 3, 8])
@pytest.mark.parametrize("top_p", [0.3, 1.0])
@pytest.mark.parametrize("temperature", [0.0, 0.5, 2.0])
def test_the_shares_are_those_of_the_core_and_the_draw_is_the_seeds(top_k, top_p, temperature):
    choices = {"top_k": str(top_k), "top_p": str(top_p), "temperature": str(temperature), "seed": "7"}
    now = scene(**choices)
    logits = now.values["logits"][0]
    np.testing.assert_allclose(logits, (now.values["output_3"] @ now.values["w_out"])[0])
    want = distribution(logits, temperature=temperature, top_k=top_k, top_p=top_p).final
    np.testing.assert_allclose(decoding_found.final_row(now), want, atol=1e-15)
    found = draw(want, (7, 3))
    assert decoding_found.drawn_of(now).token == found.token
    word = now.labels["vocabulary"][found.token]
    app = page(**{f"p12_{name}": value for name, value in choices.items()})
    assert f"{show(found.number)} here." in words(app) and f"so that {isolated(word)} comes next." in words(
        app
    )
    assert sum(row[3] == "drawn" for row in decoding_found.draw_rows(now)) == 1


def test_at_temperature_0_every_seed_draws_the_largest_logit():
    for seed in range(10):
        now = scene(temperature="0", seed=str(seed))
        assert decoding_found.drawn_of(now).token == int(now.values["logits"][0].argmax())
        assert "tempered" not in now.values


def test_the_filters_are_on_the_board_only_where_they_filter():
    assert {"kept_k", "after_k", "running", "kept_p"}.isdisjoint(grids(page()))
    app = page(p12_top_k="2", p12_top_p="0.5")
    assert {"kept_k", "after_k", "running", "kept_p", "after_p"} <= set(grids(app))
    assert sum(text != "0" for text in grids(app)["kept_k"]["cells"][0]) == 2


def test_the_words_that_can_come_next_are_eight_different_ones():
    for name in EXAMPLES:
        found = decoding.vocabulary(opened(name))
        assert len(found) == len(set(found)) == decoding.VOCABULARY, name
    app = page(tokens='"<b>" "<b>" "**x**" " "', n=4)
    assert grids(app)["w_out"]["cols"][:3] == ["<b>", "**x**", "␣"]


def test_the_work_of_a_step_is_counted_from_its_lines():
    now = scene(step="4")
    rows = decoding_found.work_rows(now)
    assert [row[1] for row in rows[:4]] == ["1", "2", "3", "4"]
    n, d, d_k, d_v = 4, 3, 2, 3
    by_hand = 2 * d * (d_k + d_k + d_v) + 2 * d_k * n + n + 5 * n + 2 * n * d_v
    assert rows[3][2] == f"{by_hand}"
    assert rows[-1][2] == rows[3][4]
    text = words(page(p12_step="4"))
    assert f"Step 4 takes {by_hand} operations; without a cache it would take {rows[3][4]}," in text


def test_an_edit_reaches_the_step_the_comparison_and_the_draw():
    app = page(p12_guess="show")
    before = grids(app)
    app = send(app, ["edit", "x", 2, 0, "-2"])
    after = grids(app)
    for name in ("k_3", "output", "stepped", "logits"):
        assert before[name]["cells"] != after[name]["cells"], name
    assert FAILS not in words(app)
    assert before["k_2"]["cells"] == after["k_2"]["cells"]


def test_huge_numbers_stay_numbers():
    app = page(p12_guess="show", p12_temperature="0.1", p12_top_k="2", p12_top_p="0.5")
    app = send(app, ["edit", "x", 1, 0, "1e60"], ["edit", "w_out", 0, 0, "-1e60"])
    assert_is_sound(app)


def test_more_tokens_than_fit_are_told():
    text = words(page(n=12))
    assert "The first 8 of 12 tokens are taken" in text
    assert "are taken, so that" not in words(page())


def test_the_timeline_is_that_of_the_core():
    want = moments(ANSWER.model, 300, 20, ANSWER.accelerator)
    np.testing.assert_allclose(ANSWER.ready, want, rtol=1e-12)
    one = sum(seconds(step_costs(ANSWER.model, 1, n), ANSWER.accelerator, "fp16") for n in range(1, 301))
    assert ANSWER.token_by_token == pytest.approx(one)
    assert timelines.Answer(ANSWER.model, ANSWER.accelerator, 300, 1).ready == pytest.approx([ANSWER.first])


@pytest.mark.parametrize("prompt", [3, 300])
def test_the_figure_draws_each_token_when_it_is_ready(prompt):
    answer = timelines.Answer(MODELS["llama3-70b"], ACCELERATORS["t4"], prompt, 5)
    ready, took = (trace for trace in timelines.figure(answer).data if trace.name == "a token")
    scale = 1.0 if answer.ready[-1] >= 1 else 1e3
    np.testing.assert_allclose(ready.x, scale * answer.ready)
    np.testing.assert_allclose(took.y, scale * np.diff(answer.ready, prepend=0.0))
    assert list(ready.y) == [1, 2, 3, 4, 5]


def test_the_timeline_is_told_in_words_and_as_a_table():
    alt = timelines.alt_text(ANSWER)
    assert amounts.duration(ANSWER.first) in alt and "an estimate" in alt and "prompt of 300 tokens" in alt
    heads, rows = timelines.table(ANSWER)
    assert len(rows) == timelines.ROWS and all(len(row) == len(heads) for row in rows)
    assert rows[0] == ["1", "300", *[amounts.duration(ANSWER.first)] * 2]
    assert rows[-1][0] == "20" and rows[-1][3] == amounts.duration(ANSWER.ready[-1])


def test_times_on_the_page_are_those_of_the_choices():
    answer = timelines.Answer(MODELS["gpt2"], ACCELERATORS["h100"], 128, 8, 64)
    text = words(page(p12_model="gpt2", p12_chip="h100", p12_prompt="128", p12_new="8", p12_batch="64"))
    assert f"Time to the first token: {amounts.duration(answer.first)}." in text
    later = (answer.ready[-1] - answer.first) / 7
    assert f"Time per token after it: {amounts.duration(later)} on average." in text
    assert f"would take {amounts.duration(answer.token_by_token)} for the same numbers" in text


def test_what_does_not_fit_into_the_memory_is_told():
    assert "The weights alone do not fit into the 16 GB of one NVIDIA T4" in words(page(p12_chip="t4"))
    crowded = page(p12_chip="a100", p12_model="llama2-7b", p12_prompt="8192", p12_batch="64")
    assert "Beside the weights the 80 GB hold" in words(crowded)


def test_tables_and_programs_of_all_steps_open():
    for also in ("tables", "code"):
        for more in ({}, {"p12_over": "on"}, {"p12_as_first": "on", "p12_temperature": "0"}):
            page(p12_also=also, p12_top_k="3", p12_top_p="0.5", **more)


def test_the_board_answers_the_link_alone():
    app = page(p12_step="2", p12_seed="5")
    assert desk_of(app).bench.choices == {"p12.step": "2", "p12.seed": "5"}


def test_there_are_as_many_steps_to_choose_from_as_tokens():
    sliders = {n: [s for s in page(n=n).slider if s.label == "Steps done"] for n in (1, 4, 12)}
    assert {n: [s.max for s in found] for n, found in sliders.items()} == {1: [], 4: [4], 12: [8]}
    app = page(n=4, p12_step="8")
    assert "Not understood" not in words(app) and "k_4" in grids(app)

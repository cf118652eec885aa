"""Part 12: a prompt at once and token by token with a cache, the time of both, and the choice of a token."""

from __future__ import annotations

import streamlit as st

from attention_core.accelerators import ACCELERATORS, GIGA, number_bytes
from attention_core.cost import intensity, total
from attention_core.model_cost import step_costs, tokens_that_fit
from attention_core.models import MODELS
from attention_core.numbers import show
from attention_ui import (
    amounts,
    decoding,
    decoding_found,
    listing,
    live,
    panels,
    prose,
    teaching,
    timelines,
    workbench,
)
from attention_ui.choices import Choice
from attention_ui.decoding import (
    AS_FIRST,
    GUESS,
    MOST,
    OVER,
    SEED,
    STEP,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    VOCABULARY,
)
from attention_ui.desk import Desk
from attention_ui.figures import CONFIG
from attention_ui.frame import lesson
from attention_ui.scene import Scene, once
from attention_ui.timelines import Answer

SHOWN_MODELS = ("gpt2", "llama2-7b", "llama3-8b", "llama3-70b")

MODEL = Choice("p12.model", "Model", {word: MODELS[word].title for word in SHOWN_MODELS}, "llama3-8b")
CHIP = Choice(
    "p12.chip", "Accelerator", {word: each.title for word, each in ACCELERATORS.items()}, "a100", kind="list"
)
PROMPT = Choice(
    "p12.prompt", "Tokens of the prompt", {"128": "128", "1024": "1,024", "8192": "8,192"}, "1024"
)
NEW = Choice("p12.new", "Tokens of the answer", {"8": "8", "32": "32", "128": "128"}, "32")
BATCH = Choice("p12.batch", "Prompts at a time", {"1": "1", "8": "8", "64": "64"}, "1")
ALSO = teaching.also("p12.also")


@once
def scene_of(desk: Desk) -> Scene:
    return decoding.scene_of(desk)


def board(desk: Desk) -> None:
    now = scene_of(desk)
    workbench.draw(desk, now, decoding.layout_of(desk, now))


def answer(desk: Desk) -> None:
    now, seen = scene_of(desk), teaching.is_open(desk, GUESS)
    right = "same" if decoding_found.is_same(now) else "other"
    teaching.verdict(desk, GUESS, right, decoding_found.because(now))
    teaching.check(decoding_found.claims(now, is_open=seen))
    if OVER.of(desk.bench):
        prose.paragraph(
            "A new row was written where the last one stood: the place in the cache has to move on by one "
            "with every token. The first step is right by chance, because there was nothing to write over."
        )
    elif AS_FIRST.of(desk.bench):
        prose.paragraph(
            "A causal mask for one query and t keys has to say which of the keys is the query’s own. "
            "Counted from the first key, the new token is taken for the first one. The query stands at the "
            "last key, and then nothing is masked."
        )


def chosen(desk: Desk) -> None:
    """The draw of the next token."""
    now = scene_of(desk)
    prose.header("The next token")
    t = decoding.steps(desk.bench)
    prose.paragraph(
        f"The output of step {t} times W_out gives a logit for each of {VOCABULARY} words; a model has more "
        "layers between the two. The logits are divided by the temperature, softmax makes shares of them, "
        "and top-k and then top-p leave some words out; the rest is shared out again."
    )
    prose.paragraph(decoding_found.said_of_draw(now), kind="strong")
    heads = ["word", "share", "running sum", "the draw"]
    caption = f"The shares of step {t}, in the order of the vocabulary."
    listing.draw("The draw", listing.table(caption, heads, decoding_found.draw_rows(now)))


def work(desk: Desk) -> None:
    """Operations and bytes of every step, counted from the shapes."""
    now = scene_of(desk)
    prose.header("Work of every step")
    heads = ["step", "rows kept", "operations", "bytes", "operations, no cache", "bytes, no cache"]
    caption = "An estimate from the shapes on the board, 2 bytes a number, counted as in lesson 9."
    listing.draw("Work of every step", listing.table(caption, heads, decoding_found.work_rows(now)))
    prose.paragraph(
        "With a cache a step has one row: its products take the same in every step, and its scores grow by "
        "one key. Without a cache all tokens so far are worked through again. At once, the weights are "
        "read a single time for all tokens; in steps they are read in every one.",
        kind="quiet",
    )


def answer_of(desk: Desk) -> Answer:
    bench = desk.bench
    return Answer(
        MODELS[MODEL.of(bench)],
        ACCELERATORS[CHIP.of(bench)],
        int(PROMPT.of(bench)),
        int(NEW.of(bench)),
        int(BATCH.of(bench)),
    )


def timeline(desk: Desk) -> None:
    """Time to the first token and time per token, estimated for a whole model."""
    found = answer_of(desk)
    model, chip, batch = found.model, found.accelerator, found.batch
    prose.paragraph(_fits(found), kind="quiet")
    ready = found.ready
    later = (ready[-1] - ready[0]) / (found.new - 1)
    per_byte = [
        show(intensity(total(step_costs(model, n_q, found.prompt, batch=batch)))) for n_q in (found.prompt, 1)
    ]
    prose.paragraph(
        f"Time to the first token: {amounts.duration(found.first)}. Time per token after it: "
        f"{amounts.duration(later)} on average.",
        kind="strong",
    )
    prose.paragraph(
        f"The prompt at once makes {per_byte[0]} operations per byte, a step {per_byte[1]}; {chip.title} is "
        f"busy from {show(chip.ridge(found.numbers))} on. One token at a time the prompt alone would take "
        f"{amounts.duration(found.token_by_token)} for the same numbers, because every step reads all "
        f"matrices of weights, {amounts.size(model.step_weights * number_bytes(found.numbers))}."
    )
    with st.container(width=760, key="timeline"):
        st.plotly_chart(
            timelines.figure(found, theme=panels._theme()), key="timeline-figure", theme=None,
            alt=timelines.alt_text(found), config=CONFIG,
        )  # fmt: skip
        with st.expander("The timeline as a table"):
            caption = f"{model.title} on {chip.title}: an estimate from shapes and data sheet."
            listing.draw("Timeline, table", listing.table(caption, *timelines.table(found)))


def _fits(found: Answer) -> str:
    most = tokens_that_fit(found.model, found.accelerator, batch=found.batch)
    memory = amounts.size(GIGA * found.accelerator.memory)
    source = f"Rates: {found.accelerator.source}, {found.accelerator.date}. Shapes: {found.model.source}."
    if most is None:
        title = found.accelerator.title
        told = f"The weights alone do not fit into the {memory} of one {title}; only its rates are used."
        return f"{told} {source}"
    needed = found.prompt + found.new
    if most < needed:
        room = f"Beside the weights the {memory} hold {most:,} tokens of each prompt"
        return f"{room}; {needed:,} are needed. {source}"
    return source


@lesson(
    __file__,
    sources=[
        (
            "Shazeer 2019, Fast Transformer Decoding: One Write-Head is All You Need",
            "https://arxiv.org/abs/1911.02150",
        ),
        ("Pope et al. 2022, Efficiently Scaling Transformer Inference", "https://arxiv.org/abs/2211.05102"),
        (
            "Fan, Lewis and Dauphin 2018, Hierarchical Neural Story Generation (top-k)",
            "https://arxiv.org/abs/1805.04833",
        ),
        (
            "Holtzman et al. 2020, The Curious Case of Neural Text Degeneration (top-p)",
            "https://arxiv.org/abs/1904.09751",
        ),
    ],
)
def part_12(desk: Desk) -> None:
    st.markdown(
        "A prompt is worked through at once, under a causal mask: prefill. An answer comes token by token: "
        "decoding. A new token has one row of X, and needs its own query; the keys and values of all tokens "
        "before it were worked out in their own steps and are kept. Here the same tokens go both ways."
    )
    if desk.bench.n_k > MOST:
        prose.paragraph(
            f"The first {MOST} of {desk.bench.n_k} tokens are taken, so that every step fits.", kind="quiet"
        )
    with st.container(horizontal=True, key="choices"):
        STEP.draw(desk, high=decoding.tokens(desk.bench))
        OVER.draw(desk)
        AS_FIRST.draw(desk)
    GUESS.draw(desk)
    with st.container(horizontal=True, key="sampling"):
        for control in (TEMPERATURE, TOP_K, TOP_P, SEED):
            control.draw(desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", answer)
    live.words("chosen", chosen)
    live.words("work", work)
    st.header("Timeline of an answer", anchor=False)
    with st.container(horizontal=True, key="answer"):
        for choice in (MODEL, PROMPT, NEW, BATCH):
            choice.draw(desk)
    CHIP.draw(desk)
    timeline(desk)
    teaching.show_also(desk, ALSO, scene_of)

"""Part 7: one whole block, every number between its input and its output."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import streamlit as st

from attention_core import plain_block as plain
from attention_core.chapters import (
    CHAPTERS,
    D_FF,
    D_HEAD,
    D_MODEL,
    N_HEADS,
    Chapter,
    N,
    chapters,
    whole_block,
)
from attention_core.head_choices import beside
from attention_core.masks import causal
from attention_core.normalisation import EPSILON
from attention_core.numbers import show
from attention_core.written import visible
from attention_ui import listing, live, panels, prose, teaching, workbench
from attention_ui.arranging import arranged, givens
from attention_ui.board import Unit
from attention_ui.choices import Choice, Switch, with_choice
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.grids import unit_after
from attention_ui.links import to_queries
from attention_ui.scene import Scene, once, worked

BLOCKS = {
    "post": ("encoder", "post", plain.ENCODER_POST),
    "pre": ("encoder", "pre", plain.ENCODER_PRE),
    "gpt2": ("gpt2", "pre", plain.GPT2),
    "llama": ("llama", "pre", plain.LLAMA),
}
TITLES = {
    "given": "Given",
    "norm_1": "First norm",
    "qkv": "Q, K, V",
    "head_1": "Head 1",
    "head_2": "Head 2",
    "joined": "Heads joined",
    "norm_2": "Second norm",
    "network": "Feed-forward",
}
SAYS = {
    "given": "X, and what training finds. As when it starts, gains are 1, and shifts and biases 0.",
    "norm_1": "Every row is evened out by its own numbers, then each feature gets its gain.",
    "qkv": "Three products make Q, K and V for both heads, whose columns stand side by side.",
    "head_1": "Head 1 takes its columns and attends: this is the walk-through with narrower matrices.",
    "head_2": "Head 2 does the same with columns of its own, and may look elsewhere.",
    "joined": "The heads’ outputs stand side by side, and W_O mixes them.",
    "norm_2": "Every row is evened out once more; the gains are others.",
    "network": "Every row is made wider, bent, and made narrow again.",
}
SKIPS = {
    "joined": " The first skip adds X.",
    "network": " The second skip adds what the first half of the block left behind.",
}
SIZES = {"token": N, "query": N, "key": N, "d_model": D_MODEL, "d_k": D_HEAD, "d_v": D_HEAD, "d_ff": D_FF}
SIZES |= {"pair": D_HEAD // 2} | dict.fromkeys(("n_heads·d_k", "n_kv_heads·d_k"), D_MODEL)
SIZES |= dict.fromkeys(("n_heads·d_v", "n_kv_heads·d_v"), D_MODEL)
SCORES = ("scores", "scaled", "masked")  # of one head, in one colour range

KIND = Choice(
    "p7.kind", "Block",
    {"post": "Encoder, post-norm", "pre": "Encoder, pre-norm", "gpt2": "GPT-2", "llama": "LLaMA"}, "pre",
)  # fmt: skip
CHAPTER = Choice("p7.chapter", "On the board", {word: TITLES[word] for word in CHAPTERS}, "norm_1")
SKIPLESS = Switch("p7.skipless", "Mistake: leave the skips out")
AHEAD = Switch("p7.ahead", "Mistake: forget the causal mask")
GUESS = teaching.prediction(
    "p7.guess",
    "Take X away from the block’s output. Is what is left exactly what attention and the network wrote?",
    {"yes": "exactly that", "no": "something else"},
)
ALSO = teaching.also("p7.also")


@once
def scene_of(desk: Desk) -> Scene:
    kind, norm, block = BLOCKS[KIND.of(desk.bench)]
    sheet = whole_block(kind, norm, skips=not SKIPLESS.of(desk.bench))
    ahead = AHEAD.of(desk.bench) or not block.causal
    given = {"mask": np.ones((N, N), dtype=bool) if ahead else causal(N), "epsilon": EPSILON}
    given |= beside(sheet, N, n_heads=N_HEADS, d_head=D_HEAD)
    return worked(
        desk.bench, sheet, given, sizes=SIZES,
        compared=(("left", "written"), *(tuple(f"{name}_{head}" for name in SCORES) for head in (1, 2))),
    )  # fmt: skip


def chapter_of(desk: Desk, now: Scene) -> Chapter:
    return next(each for each in chapters(now.sheet) if each.word == CHAPTER.of(desk.bench))


def board(desk: Desk) -> None:
    now = scene_of(desk)
    chapter = chapter_of(desk, now)
    lines = (givens if chapter.word == "given" else arranged)(now.sheet, chapter.lines)
    names = [name for line in lines for unit in line for name in (unit.left, unit.top, unit.result)]
    ends = [Unit(name, echo=[name] if name in names else []) for name in ("x", "output")]
    opened = [unit_after(now, "output", "left"), Unit("written")] if teaching.is_open(desk, GUESS) else []
    workbench.draw(desk, now, [*lines, [*ends, *opened]])


def answer(desk: Desk) -> None:
    now, seen = scene_of(desk), teaching.is_open(desk, GUESS)
    left, written = now.values["left"], now.values["written"]
    apart = visible(float(np.abs(left - written).max()), show)
    because = f"The two matrices differ by {apart} at most. {_why(desk)}"
    teaching.verdict(desk, GUESS, "yes" if _same(left, written) else "no", because)
    teaching.check(_claims(desk, now, seen))
    if SKIPLESS.of(desk.bench):
        prose.paragraph(
            "Without the skips a row of the output holds only what the network made of attention’s output: X "
            "itself is gone, and the second program, which adds it, gets other numbers."
        )
    if AHEAD.of(desk.bench):
        prose.paragraph(
            "Without the causal mask a token also takes from those after it. In training it then sees the "
            "tokens that it is to guess."
            if BLOCKS[KIND.of(desk.bench)][2].causal
            else "An encoder layer has no causal mask to forget: here this switch changes nothing."
        )


def _why(desk: Desk) -> str:
    if SKIPLESS.of(desk.bench):
        return "Nothing adds X, so that it cannot be taken away."
    if KIND.of(desk.bench) == "post":
        return "A norm stands after each sum and changes what came through the skip as well."
    return "The skips run from X to the output, and no norm stands in their way."


def _claims(desk: Desk, now: Scene, seen: bool) -> list[tuple[str, bool]]:
    block = BLOCKS[KIND.of(desk.bench)][2]
    values = now.values
    other = plain.plain_block(block, values, N_HEADS)
    apart = visible(float(np.abs(other - values["output"]).max()), show)
    claims = [
        (
            "A second program, written without this sheet, gets the same output: the largest difference is "
            f"{apart}.",
            _same(other, values["output"]),
        )
    ]
    if seen and block.pre:
        claims.append(
            ("The output is X plus what both parts have written.", _same(values["left"], values["written"]))
        )
    if not block.pre:
        sums = values["normalised_2"].sum(axis=1)
        claims.append(
            ("Every row of the second norm adds up to 0 before gain and shift.", _same(sums, 0 * sums))
        )
    weights = [values[f"weights_{head}"] for head in (1, 2)]
    if block.causal:
        later = any(np.triu(table, 1).any() for table in weights)
        claims.append(("No token gives weight to a later one, in either head.", not later))
    else:
        claims.append(
            (
                "In both heads the weights of every token add up to 1.",
                all(_same(w.sum(axis=1), np.ones(N)) for w in weights),
            )
        )
    return claims


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * (1 + np.abs(b).max())))


def contents(desk: Desk) -> None:
    """Every line of the block in order, each with an address that shows it."""
    prose.header("Every line, in order")
    now = scene_of(desk)
    numbers = {line.name: place for place, line in enumerate(now.sheet, 1)}
    bench = desk.bench
    groups = []
    for chapter in chapters(now.sheet):
        there = with_choice(bench, CHAPTER.name, chapter.word)
        queries = to_queries(there, [(name, 0, 0) for name in chapter.lines])
        links = [
            (f"{numbers[name]} {_short(now.sheet[name].title)}", f"?{query}")
            for name, query in zip(chapter.lines, queries, strict=True)
        ]
        groups.append((TITLES[chapter.word], links))
    listing.draw_contents(groups)
    prose.paragraph(
        "A link opens the page with that line on the board, its first cell selected. Tables and programs of "
        "all lines are below.",
        kind="quiet",
    )


def _short(title: str) -> str:
    """A line's title where its chapter stands before it."""
    for word in (
        ", head ",
        ", shared head ",
        " before the ",
        " after the ",
        " before attention",
        " after attention",
    ):
        if not title.startswith("Stream"):
            title = title.partition(word)[0]
    return title


@lesson(
    __file__,
    sources=[
        ("Vaswani et al. 2017, Attention Is All You Need", "https://arxiv.org/abs/1706.03762"),
        (
            "Radford et al. 2019, Language Models are Unsupervised Multitask Learners",
            "https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf",
        ),
        (
            "Touvron et al. 2023, LLaMA: Open and Efficient Foundation Language Models",
            "https://arxiv.org/abs/2302.13971",
        ),
        (
            "Xiong et al. 2020, On Layer Normalization in the Transformer Architecture",
            "https://arxiv.org/abs/2002.04745",
        ),
        (
            "PyTorch, torch.nn.TransformerEncoderLayer",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html",
        ),
    ],
)
def part_07(desk: Desk) -> None:
    st.markdown(
        "A block has two parts, attention and the feed-forward network. Each has a norm before or after it, "
        "and a skip that carries its input past it. Here are three tokens of width 4, two heads and eight "
        "hidden units, and every number in between. The same sheets are tested against PyTorch’s encoder "
        "layer and the GPT-2 and LLaMA blocks of the transformers library, on numbers worked out there; "
        "here a second program works the numbers on screen out again."
    )
    with st.container(horizontal=True, key="choices"):
        KIND.draw(desk)
        SKIPLESS.draw(desk)
        AHEAD.draw(desk)
    GUESS.draw(desk)
    shown = {chapter.word: TITLES[chapter.word] for chapter in chapters(scene_of(desk).sheet)}
    replace(CHAPTER, options=shown).draw(desk)
    word = CHAPTER.of(desk.bench)
    prose.paragraph(SAYS[word] + ("" if SKIPLESS.of(desk.bench) else SKIPS.get(word, "")), kind="quiet")
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", answer)
    live.words("contents", contents)
    teaching.show_also(desk, ALSO, scene_of)

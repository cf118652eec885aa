"""Part 13: the cache of keys and values, how heads share it, and how pages hold it."""

from __future__ import annotations

import streamlit as st

from attention_ui import (
    cache_memory,
    filling,
    live,
    panels,
    pooling,
    prose,
    sharing,
    teaching,
    workbench,
)
from attention_ui.cache_memory import BATCH, D_HEAD, HEADS, KV_HEADS, LAYERS, MODEL, OWN, TOKENS, TYPE
from attention_ui.choices import Choice
from attention_ui.desk import Desk
from attention_ui.filling import GUESS as GUESS_ROWS
from attention_ui.filling import LATE, PLAYER
from attention_ui.frame import lesson
from attention_ui.pooling import GUESS as GUESS_PAGES
from attention_ui.pooling import LONGEST, LONGEST_PROMPT, MOVES, OVER, READ, SIZE
from attention_ui.scene import Scene, once
from attention_ui.sharing import FEW, TILE, WIDTH
from attention_ui.sharing import GUESS as GUESS_HEADS

SHOW = Choice("p13.show", "Show", {"fill": "The cache", "heads": "Shared heads", "pages": "Pages"}, "fill")
STEP, SPEED = PLAYER.step, PLAYER.speed
ALSO = teaching.also("p13.also")
VIEWS = {"fill": filling, "heads": sharing, "pages": pooling}


@once
def scene_of(desk: Desk) -> Scene:
    return VIEWS[SHOW.of(desk.bench)].scene_of(desk)


def board(desk: Desk) -> None:
    view = SHOW.of(desk.bench)
    if view == "heads":
        workbench.draw(desk, sharing.scene_of(desk), sharing.layout_of(desk))
    else:
        (filling if view == "fill" else pooling).board(desk)


def answer(desk: Desk) -> None:
    now, view = scene_of(desk), SHOW.of(desk.bench)
    if view == "pages":
        pooling.verdict(desk)
    else:
        (filling if view == "fill" else sharing).verdict(desk, now)
    if wrong := why_wrong(desk, now):
        prose.paragraph(wrong)
    teaching.check(VIEWS[view].claims(now))
    if view == "fill":
        prose.paragraph(filling.held(now))
    elif view == "heads":
        sharing.compare(desk)
    else:
        pooling.what_happened(desk)


def why_wrong(desk: Desk, now: Scene) -> str:
    """What the mistake of this view has done, where it is switched on."""
    bench = desk.bench
    return {
        "fill": lambda: filling.why_wrong(now) if LATE.of(bench) else "",
        "heads": lambda: sharing.why_wrong(now) if TILE.of(bench) else "",
        "pages": lambda: pooling.why_wrong(desk) if OVER.of(bench) else "",
    }[SHOW.of(bench)]()


def ask_about_the_cache(desk: Desk) -> None:
    st.markdown(
        "A causal model writes one token after the other, and every new one looks at all tokens so far. "
        "Their rows of K and V were worked out in earlier steps and are kept: each step takes one row of X, "
        "adds one row to K and V, and asks one query. Move on by one token at a time, or let it play."
    )
    with st.container(horizontal=True, key="choices"):
        PLAYER.draw(desk, desk.bench.n_k)
    LATE.draw(desk)
    GUESS_ROWS.draw(desk)


def ask_about_heads(desk: Desk) -> None:
    st.markdown(
        "With several heads, each has keys and values of its own to keep. Four heads of queries can also "
        "share two heads of keys and values (GQA) or one (MQA): less is stored, and less is read in every "
        "step. H2 K1 says that head 2 reads key head 1; only K and V are stored, once."
    )
    with st.container(horizontal=True, key="choices"):
        FEW.draw(desk)
        WIDTH.draw(desk)
        TILE.draw(desk)
    GUESS_HEADS.draw(desk)


def ask_about_pages(desk: Desk) -> None:
    st.markdown(
        "Nobody knows how long a sequence will become. Instead of one long stretch for each, memory is cut "
        "into pages, and a table says which pages a sequence has. Here A has a prompt, B begins as A does "
        "and shares its pages, and C is on its own. Let them go on, and see which rows are written where."
    )
    with st.container(horizontal=True, key="choices"):
        MOVES.draw(desk)
    with st.container(horizontal=True, key="choices-pages"):
        SIZE.draw(desk)
        READ.draw(desk)
        LONGEST.draw(desk)
    OVER.draw(desk)
    if desk.bench.n_k > LONGEST_PROMPT:
        prose.paragraph(f"A’s prompt is the first {LONGEST_PROMPT} tokens here.", kind="quiet")
    GUESS_PAGES.draw(desk)


def ask_about_memory(desk: Desk) -> None:
    st.header("A whole model’s cache, estimated", anchor=False)
    MODEL.draw(desk)
    with st.container(horizontal=True, key="choices-model"):
        for control in (TOKENS, BATCH, TYPE):
            control.draw(desk)
    if MODEL.of(desk.bench) == OWN:
        with st.container(horizontal=True, key="choices-own"):
            for size in (LAYERS, HEADS, KV_HEADS, D_HEAD):
                size.draw(desk)


ASK = {"fill": ask_about_the_cache, "heads": ask_about_heads, "pages": ask_about_pages}


@lesson(
    __file__,
    sources=[
        (
            "Shazeer 2019, Fast Transformer Decoding: One Write-Head is All You Need",
            "https://arxiv.org/abs/1911.02150",
        ),
        (
            "Ainslie et al. 2023, GQA: Training Generalized Multi-Query Transformer Models from Multi-Head "
            "Checkpoints",
            "https://arxiv.org/abs/2305.13245",
        ),
        (
            "Kwon et al. 2023, Efficient Memory Management for Large Language Model Serving with "
            "PagedAttention",
            "https://arxiv.org/abs/2309.06180",
        ),
    ],
)
def part_13(desk: Desk) -> None:
    view = SHOW.of(desk.bench)
    SHOW.draw(desk)
    ASK[view](desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", answer)
    if view != "pages":
        ask_about_memory(desk)
        cache_memory.draw(desk)
    teaching.show_also(desk, ALSO, scene_of)

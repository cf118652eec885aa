"""Part 10: attention tile by tile, with a running maximum, a running sum and an accumulator."""

from __future__ import annotations

import streamlit as st

from attention_ui import live, panels, prose, teaching, tile_bytes, tiled, workbench
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.scene import Scene, once
from attention_ui.tile_bytes import BLOCK, TYPE
from attention_ui.tiled import BLOCK_K, BLOCK_Q, GUESS, KEEP_OLD, PLAYER

STEP, SPEED = PLAYER.step, PLAYER.speed
ALSO = teaching.also("p10.also")


@once
def scene_of(desk: Desk) -> Scene:
    return tiled.scene_of(desk)


def board(desk: Desk) -> None:
    now = scene_of(desk)
    workbench.draw(desk, now, tiled.layout_of(desk, now))


def answer(desk: Desk) -> None:
    now = scene_of(desk)
    tiled.verdict(desk)
    if KEEP_OLD.of(desk.bench):
        prose.paragraph(tiled.why_wrong(now))
    teaching.check(tiled.claims(now))
    if teaching.is_open(desk, GUESS):
        tiled.draw_kept(desk, now)


@lesson(
    __file__,
    sources=[
        (
            "Dao et al. 2022, FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness",
            "https://arxiv.org/abs/2205.14135",
        ),
        (
            "Milakov and Gimelshein 2018, Online normalizer calculation for softmax",
            "https://arxiv.org/abs/1805.02867",
        ),
        (
            "Rabe and Staats 2021, Self-attention Does Not Need O(n²) Memory",
            "https://arxiv.org/abs/2112.05682",
        ),
    ],
)
def part_10(desk: Desk) -> None:
    st.markdown(
        "Plain attention writes the whole table of scores to memory and reads it back. By tiles, only a few "
        "queries and a few keys are held at a time. Softmax needs the largest score and the sum of the whole "
        "row, so both are kept as they stand so far, together with the values added up so far; when the "
        "largest score grows, what was kept is put right by one factor. Go from tile to tile, or let it play."
    )
    with st.container(horizontal=True, key="choices"):
        PLAYER.draw(desk, len(tiled.walk_of(desk.bench).steps))
    with st.container(horizontal=True, key="choices-blocks"):
        BLOCK_Q.draw(desk)
        BLOCK_K.draw(desk)
        KEEP_OLD.draw(desk)
    GUESS.draw(desk)
    tiled.draw_map(desk.bench)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", answer)
    st.header("Bytes to and from slow memory, estimated", anchor=False)
    with st.container(horizontal=True, key="choices-bytes"):
        BLOCK.draw(desk)
        TYPE.draw(desk)
    tile_bytes.draw(desk.bench)
    teaching.show_also(desk, ALSO, scene_of)

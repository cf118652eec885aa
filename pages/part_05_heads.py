"""Part 5: several heads on one X, and what tells a head where a token stands."""

from __future__ import annotations

import streamlit as st

from attention_core.placed_sheets import PAIRINGS
from attention_ui import (
    heads,
    heads_found,
    live,
    panels,
    positions,
    positions_found,
    prose,
    teaching,
    workbench,
)
from attention_ui.choices import Choice
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.heads import CUT, GUESS, HEADS, OF_FOUR, OF_TWO, SHARED, WIDTH
from attention_ui.positions import (
    CHANGE,
    GUESS_ROWS,
    GUESS_SCORES,
    KIND,
    MASKED,
    MIXED,
    SHIFT,
    SLOPE,
    SLOPES,
)
from attention_ui.scene import Scene, once

SHOW = Choice("p5.show", "Show", {"heads": "Heads", "positions": "Positions"}, "heads")
ALSO = teaching.also("p5.also")


def is_about_heads(desk: Desk) -> bool:
    return SHOW.of(desk.bench) == "heads"


@once
def scene_of(desk: Desk) -> Scene:
    return heads.scene_of(desk) if is_about_heads(desk) else positions.scene_of(desk)


def board(desk: Desk) -> None:
    now, half = scene_of(desk), heads if is_about_heads(desk) else positions
    workbench.draw(desk, now, half.layout_of(desk, now))


def answer(desk: Desk) -> None:
    now = scene_of(desk)
    found = heads_found if is_about_heads(desk) else positions_found
    found.verdict(desk, now)
    teaching.check(found.claims(now))
    if is_about_heads(desk) and CUT.of(desk.bench):
        prose.paragraph(heads_found.why_wrong(now))


def ask_about_heads(desk: Desk) -> None:
    st.markdown(
        "W_Q, W_K and W_V are as wide as all heads together, and each head owns some columns of Q, K and V: "
        "H1 and H2 say whose. Every head attends by itself, with a softmax of its own; the outputs are put "
        "side by side, and W_O mixes them. With fewer heads of keys and values, several heads of queries "
        "read the same ones, and there is less to keep for every token."
    )
    with st.container(horizontal=True, key="choices"):
        for control in (HEADS, SHARED, WIDTH):
            control.draw(desk)
        detail = {2: OF_TWO, 4: OF_FOUR}.get(heads.n_heads(desk.bench))
        if detail:
            detail.draw(desk)
        CUT.draw(desk)
    GUESS.draw(desk)


def ask_about_positions(desk: Desk) -> None:
    st.markdown(
        "Attention compares rows, and a row of X does not say where it stands. Sinusoids and learned rows "
        "are added to X. RoPE turns pairs of columns of Q and K by an angle, position times frequency. ALiBi "
        "takes a slope times the distance off each score. Here one head has all the columns, and every token "
        "may look at every other. Move something, and see what follows."
    )
    kind, moves = KIND.of(desk.bench), positions.is_move(desk.bench)
    KIND.draw(desk)
    CHANGE.draw(desk)
    with st.container(horizontal=True, key="choices"):
        if moves and kind != "none":
            SHIFT.draw(desk)
        WIDTH.draw(desk)
        if kind == "alibi":
            SLOPES.draw(desk)
            SLOPE.draw(desk)
        if kind in PAIRINGS:
            MIXED.draw(desk)
        if not moves:
            MASKED.draw(desk)
    (GUESS_SCORES if moves else GUESS_ROWS).draw(desk)


@lesson(
    __file__,
    sources=[
        ("Vaswani et al. 2017, Attention Is All You Need", "https://arxiv.org/abs/1706.03762"),
        (
            "Ainslie et al. 2023, GQA: Training Generalized Multi-Query Transformer Models from Multi-Head "
            "Checkpoints",
            "https://arxiv.org/abs/2305.13245",
        ),
        (
            "Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding",
            "https://arxiv.org/abs/2104.09864",
        ),
        (
            "Press, Smith and Lewis 2022, Train Short, Test Long: Attention with Linear Biases Enables Input "
            "Length Extrapolation",
            "https://arxiv.org/abs/2108.12409",
        ),
    ],
)
def part_05(desk: Desk) -> None:
    SHOW.draw(desk)
    (ask_about_heads if is_about_heads(desk) else ask_about_positions)(desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", answer)
    teaching.show_also(desk, ALSO, scene_of)

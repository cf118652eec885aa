"""Part 2: queries are compared with keys, and what comes of it is taken from the values."""

from __future__ import annotations

import streamlit as st

from attention_ui import live, matching, panels, prose, teaching, workbench
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.matching import D_K, D_V, GUESS, KEY, N_K, N_Q, QUERY, UNTURNED, WIDTH
from attention_ui.scene import Scene, once

WAYS = {"x": "X", "qkv": "Q, K, V"}
ALSO = teaching.also("p2.also")


@once
def scene_of(desk: Desk) -> Scene:
    return matching.scene_of(desk.bench)


def board(desk: Desk) -> None:
    now = scene_of(desk)
    workbench.draw(desk, now, matching.layout_of(desk.bench, now, is_open=teaching.is_open(desk, GUESS)))


def answer(desk: Desk) -> None:
    now, bench = scene_of(desk), desk.bench
    said, why = matching.refusal(bench, now)
    if said:
        prose.notice(said)
        prose.paragraph(why)
    elif UNTURNED.of(bench):
        prose.notice(
            "The shapes fit by chance: there are as many keys as features. So nothing is refused, but a cell "
            "now adds up products with one feature of all keys, and compares no query with any key."
        )
    else:
        teaching.verdict(desk, GUESS, *matching.because(bench, now))
    teaching.check(matching.claims(bench, now, is_open=teaching.is_open(desk, GUESS)))


def axes(desk: Desk) -> None:
    """What each axis stands for, with its length."""
    window, width = matching.seen(desk.bench), matching.key_width(desk.bench)
    first = f"; here the first {window.n_q} of X" * (desk.bench.way == "x" and window.n_q < window.n_k)
    st.header("What the axes mean", anchor=False)
    prose.terms(
        [
            (
                f"Rows of Q and of the scores, n_q = {window.n_q}",
                f"queries, the tokens that look{first}.",
            ),
            (
                f"Rows of K and V, columns of the scores, n_k = {window.n_k}",
                "keys, the tokens that are looked at.",
            ),
            (
                f"Columns of Q, d_k = {window.d_k}, and of K, {width}",
                "what is compared. A dot product adds over them, so they are no axis of the scores.",
            ),
            (
                f"Columns of V and of the output, d_v = {window.d_v}",
                "what is handed on. They are never compared, so their number is free.",
            ),
        ]
    )


def introduction(desk: Desk) -> None:
    first = "One X is multiplied by three matrices, and Q, K and V are three views of the same tokens."
    if desk.bench.way != "x":
        first = "Q, K and V are given here; made from one X, they are three views of the same tokens."
    st.markdown(
        f"{first} A query and a key are compared by their dot product: feature times feature, added up. "
        "All pairs together are Q times K transposed, the table of scores."
    )
    st.markdown(
        "A lookup takes the one value whose key has the largest score. Attention divides the scores by √d_k, "
        "makes weights of them with softmax, and mixes all values. No mask is used on this page."
    )


@lesson(
    __file__,
    sources=[
        ("Vaswani et al. 2017, Attention Is All You Need, 3.2.1", "https://arxiv.org/abs/1706.03762"),
        (
            "Graves et al. 2014, Neural Turing Machines, 3.3 (a lookup by content)",
            "https://arxiv.org/abs/1410.5401",
        ),
        ("Miller et al. 2016, Key-Value Memory Networks", "https://arxiv.org/abs/1606.03126"),
    ],
)
def part_02(desk: Desk) -> None:
    introduction(desk)
    with st.container(horizontal=True, key="sizes"):
        for size in (N_Q, N_K, D_K, D_V):
            size.draw(desk)
    with st.container(horizontal=True, key="choices"):
        if desk.bench.n_q == desk.bench.n_k:
            st.segmented_control("Start from", list(WAYS), key="way", format_func=WAYS.__getitem__)
        for choice in (QUERY, KEY, WIDTH, UNTURNED):
            choice.draw(desk)
    GUESS.draw(desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", answer)
    axes(desk)
    teaching.show_also(desk, ALSO, scene_of)

"""Part 4: from a row of scores to weights, step by step, with three tokens."""

from __future__ import annotations

import streamlit as st

from attention_ui import live, panels, prose, softmax_steps, teaching, workbench
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.scene import Scene, once
from attention_ui.softmax_steps import ADDED, AFTER, GUESS, RAW, TEMPERATURE, UPTO, N

WAYS = {"x": "X", "qkv": "Q, K, V"}
NEXT = {
    "scores": "Next, the scores are divided by √d_k and the mask is added. Which cells will be −∞?",
    "masked": "Next comes the largest number of every row. Say them before you show them.",
    "maximum": "Next, it is taken off its row. Which number will every row then hold?",
    "below": "Next comes e to the power of each. Which ones will be exactly 1, and which exactly 0?",
    "powers": "Next, every row is added up. What is the least that a sum can be?",
    "totals": "Last, every exponential is divided by the sum of its row.",
}
ALSO = teaching.also("p4.also")


@once
def scene_of(desk: Desk) -> Scene:
    return softmax_steps.scene_of(desk.bench)


def board(desk: Desk) -> None:
    now = scene_of(desk)
    layout = softmax_steps.layout_of(desk.bench, now, is_open=teaching.is_open(desk, GUESS))
    workbench.draw(desk, now, layout)


def answer(desk: Desk) -> None:
    now, bench = scene_of(desk), desk.bench
    teaching.verdict(desk, GUESS, *softmax_steps.because(bench, now))
    if RAW.of(bench):
        prose.notice(softmax_steps.overflow(now))
    if AFTER.of(bench):
        prose.paragraph(
            "Softmax shared out 1 among all keys, blocked ones too. Putting their shares to 0 afterwards "
            "takes that part away; with −∞ before softmax, the open keys share all of it."
        )
    teaching.check(softmax_steps.claims(bench, now))


@lesson(
    __file__,
    sources=[
        ("Vaswani et al. 2017, Attention Is All You Need, 3.2", "https://arxiv.org/abs/1706.03762"),
        (
            "Blanchard, Higham and Higham 2021, Accurately computing the log-sum-exp and softmax functions",
            "https://doi.org/10.1093/imanum/draa038",
        ),
        (
            "Hinton et al. 2015, Distilling the Knowledge in a Neural Network",
            "https://arxiv.org/abs/1503.02531",
        ),
    ],
)
def part_04(desk: Desk) -> None:
    st.markdown(
        "Softmax makes weights of a row of scores: take the row’s largest number off, raise e to the power "
        "of each, add the row up, divide by the sum. Before that, the mask beside the page puts −∞ wherever "
        "a query may not look; a causal mask blocks every key that comes later. Three tokens are enough to "
        "do it by hand."
    )
    with st.container(horizontal=True, key="sizes"):
        N.draw(desk)
        TEMPERATURE.draw(desk)
    with st.container(horizontal=True, key="choices"):
        if desk.bench.n_q == desk.bench.n_k:
            st.segmented_control("Start from", list(WAYS), key="way", format_func=WAYS.__getitem__)
        ADDED.draw(desk)
        UPTO.draw(desk)
    with st.container(horizontal=True, key="mistakes"):
        RAW.draw(desk)
        AFTER.draw(desk)
    GUESS.draw(desk)
    if not (RAW.of(desk.bench) or AFTER.of(desk.bench)):
        prose.paragraph(NEXT[UPTO.of(desk.bench)], kind="quiet")
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", answer)
    teaching.show_also(desk, ALSO, scene_of)

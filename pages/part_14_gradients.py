"""Part 14: the way back through attention, and one calculation on several devices."""

from __future__ import annotations

import streamlit as st

from attention_core.rings import ring_all_reduce
from attention_ui import backward, dealt_heads, live, panels, products, prose, ring, sent, teaching, workbench
from attention_ui.backward import ALONE, GUESS, OF
from attention_ui.choices import Choice
from attention_ui.dealt_heads import GUESS as GUESS_HEADS
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.products import DEVICES, DROPPED, SPLIT
from attention_ui.products import GUESS as GUESS_SPLIT
from attention_ui.ring import DETAIL
from attention_ui.ring import GUESS as GUESS_RING
from attention_ui.scene import Scene, once

SECTIONS = {"gradients": backward, "products": products, "heads": dealt_heads, "ring": ring}
GUESSES = {"gradients": GUESS, "products": GUESS_SPLIT, "heads": GUESS_HEADS, "ring": GUESS_RING}

SHOW = Choice(
    "p14.show", "Show",
    {
        "gradients": "Gradients", "products": "Split products", "heads": "Split heads",
        "ring": "Split sequence",
    },
    "gradients",
)  # fmt: skip
ALSO = teaching.also("p14.also")


@once
def scene_of(desk: Desk) -> Scene:
    return SECTIONS[SHOW.of(desk.bench)].scene_of(desk)


def board(desk: Desk) -> None:
    now = scene_of(desk)
    layout = SECTIONS[SHOW.of(desk.bench)].layout_of(desk, now)
    workbench.draw(desk, now, [line for line in layout if line])


def answer(desk: Desk) -> None:
    now, section = scene_of(desk), SECTIONS[SHOW.of(desk.bench)]
    section.verdict(desk, now)
    teaching.check(section.claims(now))
    if (ALONE if section is backward else DROPPED).of(desk.bench):
        prose.paragraph(section.why_wrong(now))


def ask(desk: Desk) -> None:
    """The controls of the section that is shown."""
    shown = SHOW.of(desk.bench)
    with st.container(horizontal=True, key="choices"):
        if shown == "gradients":
            OF.draw(desk)
            ALONE.draw(desk)
        else:
            DEVICES.draw(desk)
            if shown == "products":
                SPLIT.draw(desk)
            if shown == "ring":
                ring.as_many(DETAIL, desk.bench).draw(desk)
            DROPPED.draw(desk)
    GUESSES[shown].draw(desk)


def sending(desk: Desk) -> None:
    """What goes from device to device. Only sizes matter, so no edit draws it again."""
    bench, shown = desk.bench, SHOW.of(desk.bench)
    st.header("What is sent", anchor=False)
    if shown == "ring":
        ring.rounds(desk)
    elif shown == "heads" or (products.is_rows(bench) and teaching.is_open(desk, GUESS_SPLIT)):
        with st.expander("The all-reduce, step by step"):
            sent.all_reduce_steps(ring_all_reduce(products.parts_of(scene_of(desk))))
    devices = products.devices_of(bench)  # no dealt axis is shorter
    n = ring.n_of(bench) if shown == "ring" else bench.n_k
    d_k = bench.d_k if shown == "ring" else max(bench.d_k, devices)
    sent.draw(n, max(bench.d_model, devices), d_k, bench.d_v, devices)


@lesson(
    __file__,
    sources=[
        (
            "Rumelhart, Hinton and Williams 1986, Learning representations by back-propagating errors",
            "https://doi.org/10.1038/323533a0",
        ),
        (
            "Shoeybi et al. 2019, Megatron-LM: Training Multi-Billion Parameter Language Models Using Model "
            "Parallelism",
            "https://arxiv.org/abs/1909.08053",
        ),
        (
            "Liu, Zaharia and Abbeel 2023, Ring Attention with Blockwise Transformers for Near-Infinite "
            "Context",
            "https://arxiv.org/abs/2310.01889",
        ),
        (
            "Patarasuk and Yuan 2009, Bandwidth optimal all-reduce algorithms for clusters of workstations",
            "https://doi.org/10.1016/j.jpdc.2008.09.002",
        ),
    ],
)
def part_14(desk: Desk) -> None:
    SHOW.draw(desk)
    prose.paragraph(SECTIONS[SHOW.of(desk.bench)].SAYS)
    ask(desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", answer)
    if SHOW.of(desk.bench) != "gradients":
        sending(desk)
    teaching.show_also(desk, ALSO, scene_of)

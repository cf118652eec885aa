"""Part 11: the loss of the next token, its gradient, and a tiny model that learns in the page."""

from __future__ import annotations

import streamlit as st

from attention_ui import foretelling, live, panels, prose, teaching, trained, workbench
from attention_ui.desk import Desk
from attention_ui.foretelling import GUESS, RATE, START, UNSHIFTED, WITHOUT_Y
from attention_ui.frame import lesson
from attention_ui.scene import Scene
from attention_ui.trained import LAYERS, LEVEL, SEED, STEPS

ALSO = teaching.also("p11.also")
__all__ = ["ALSO", "GUESS", "LAYERS", "LEVEL", "RATE", "SEED", "START", "STEPS", "UNSHIFTED", "WITHOUT_Y"]


def scene_of(desk: Desk) -> Scene:
    return foretelling.scene_of(desk)


def board(desk: Desk) -> None:
    now = scene_of(desk)
    workbench.draw(desk, now, foretelling.layout_of(desk, now))


def answer(desk: Desk) -> None:
    now = scene_of(desk)
    prose.paragraph(foretelling.chance(now))
    foretelling.verdict(desk, now)
    teaching.check(foretelling.claims(now))
    for sentence in foretelling.why_wrong(now):
        prose.paragraph(sentence)


@lesson(
    __file__,
    sources=[
        (
            "Shannon 1951, Prediction and Entropy of Printed English",
            "https://doi.org/10.1002/j.1538-7305.1951.tb01366.x",
        ),
        (
            "Shannon 1948, A Mathematical Theory of Communication",
            "https://doi.org/10.1002/j.1538-7305.1948.tb01338.x",
        ),
        (
            "Bengio et al. 2003, A Neural Probabilistic Language Model",
            "https://www.jmlr.org/papers/v3/bengio03a.html",
        ),
        ("Kingma and Ba 2015, Adam: A Method for Stochastic Optimization", "https://arxiv.org/abs/1412.6980"),
        ("Vaswani et al. 2017, Attention Is All You Need", "https://arxiv.org/abs/1706.03762"),
    ],
)
def part_11(desk: Desk) -> None:
    st.markdown(
        "At every token a language model gives each word of its vocabulary a logit, and softmax makes "
        "probabilities of them. The loss is minus the logarithm of what the next token of the text got. Its "
        "gradient, p − y, says which way to move each logit, and a step moves them against it."
    )
    with st.container(horizontal=True, key="choices"):
        START.draw(desk)
        with st.container(width=260):
            RATE.draw(desk)
        UNSHIFTED.draw(desk)
        WITHOUT_Y.draw(desk)
    GUESS.draw(desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", answer)
    st.header("A tiny model, trained here", anchor=False)
    st.markdown(
        "The same loss and the same gradient, sent back through attention, train a whole model on a text: "
        "embeddings and positions, one or two layers of two heads, and W_out. Each step looks at 16 pieces "
        "of the text and moves every number by Adam’s rule. It runs on this server, a little at a time."
    )
    trained.draw(desk)
    teaching.show_also(desk, ALSO, scene_of)

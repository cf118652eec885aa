"""Part 1: the same word in two sentences, before and after mixing."""

from __future__ import annotations

import numpy as np
import streamlit as st

from attention_core.neighbours import two_sentences
from attention_core.numbers import show
from attention_ui import live, panels, prose, teaching, workbench
from attention_ui.bench import token_at
from attention_ui.board import Unit
from attention_ui.choices import Choice, Switch
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.naming import named
from attention_ui.scene import Scene, once, worked
from attention_ui.tokens import isolated, literal

OTHER_WORDS = (
    "you",
    "all",
    "fell",
    "she",
    "ran",
    "home",
    "they",
    "came",
    "back",
    "we",
    "went",
    "far",
    "he",
    "looked",
    "up",
)

ATTENTION = Choice("p1.attention", "Attention", {"on": "on", "off": "off"}, "on")
DOWN = Switch("p1.down", "Mistake: read the weights down the column")
GUESS = teaching.prediction(
    "p1.guess",
    "The last word is the same in both sentences. What will its two rows look like after mixing?",
    {"same": "the same", "different": "different"},
)
ALSO = teaching.also("p1.also")


@once
def scene_of(desk: Desk) -> Scene:
    bench = desk.bench
    n = max(2, bench.n_k)
    words = tuple(literal(token_at(bench, i)) for i in range(n))
    others = (*OTHER_WORDS[: n - 1], words[-1])
    given = {"divisor": np.sqrt(bench.d_k)}
    if ATTENTION.of(bench) == "off":
        given["mask"] = np.eye(n, dtype=bool)
    return worked(
        bench, two_sentences(n, down=DOWN.of(bench)), given,
        sizes={"token": n, "query": n, "key": n, "token_o": n - 1},
        named={
            **dict.fromkeys(("token", "query", "key", "query_a", "key_a"), words),
            **dict.fromkeys(("token_b", "query_b", "key_b"), others),
            "token_o": others[:-1], "sentence": ("A", "B"),
        },
        compared=(("x", "others", "x_b"), ("before", "after", "brought_a", "brought_b")),
    )  # fmt: skip


def board(desk: Desk) -> None:
    layout = [
        [Unit("x"), Unit("others"), Unit("x_b")],
        [Unit("weights_a"), Unit("weights_b")],
        [Unit("brought_a"), Unit("brought_b")],
        [Unit("before"), *[Unit("after")] * teaching.is_open(desk, GUESS)],
        [Unit("w_q"), Unit("w_k"), Unit("w_v")],
    ]
    workbench.draw(desk, scene_of(desk), layout)


def answer(desk: Desk) -> None:
    now = scene_of(desk)
    same = _is_same(now.values["after"])
    because = "".join(_most(now, letter) for letter in "ab")
    if ATTENTION.of(desk.bench) == "off":
        because = "Attention is off: every word keeps its own value, whatever stands beside it."
    teaching.verdict(desk, GUESS, "same" if same else "different", because)
    teaching.check(
        _claims(now, attention=ATTENTION.of(desk.bench) == "on", answered=teaching.is_open(desk, GUESS))
    )


def _most(now: Scene, letter: str) -> str:
    """Which neighbour brought most to the last word of a sentence."""
    brought = np.abs(now.values[f"brought_{letter}"][:-1]).sum(axis=1)
    if not brought.any():
        return f"In sentence {letter.upper()} no neighbour brings anything. "
    first = int(brought.argmax())
    weight = now.values[f"weights_{letter}"][-1, first]
    word = named(now.labels[f"key_{letter}"], np.array([first]))
    return f"In sentence {letter.upper()} the neighbour {word} brings most, with weight {show(weight)}. "


def _claims(now: Scene, *, attention: bool, answered: bool) -> list[tuple[str, bool]]:
    word = isolated(now.labels["token"][-1])
    claims = [
        (f"Before mixing, the row of {word} is the same in both sentences.", _is_same(now.values["before"]))
    ]
    if answered and not attention:
        claims.append(
            ("With attention off, its rows after mixing are the same, too.", _is_same(now.values["after"]))
        )
    elif answered:
        claims.append(("With attention on, its rows after mixing differ.", not _is_same(now.values["after"])))
    for letter in "ab":
        total = now.values[f"brought_{letter}"].sum(axis=0)
        right = np.allclose(total, now.values[f"output_{letter}"][-1], rtol=1e-9, atol=1e-12)
        claims.append(
            (
                f"What all words of sentence {letter.upper()} bring adds up to the word’s row after mixing.",
                right,
            )
        )
    return claims


def _is_same(pair: np.ndarray) -> bool:
    return bool(np.array_equal(pair[0], pair[1]))


@lesson(
    __file__,
    sources=[
        ("Vaswani et al. 2017, Attention Is All You Need", "https://arxiv.org/abs/1706.03762"),
        ("Peters et al. 2018, Deep contextualized word representations", "https://arxiv.org/abs/1802.05365"),
    ],
)
def part_01(desk: Desk) -> None:
    st.markdown(
        "Two sentences end with the same word. A model looks a word up in a table, so its row of X is the "
        "same in both. Attention then adds up the values of all words, each times its weight; the weights of "
        "the last word are the last row. Change a neighbour, switch attention off, and watch the word’s rows."
    )
    with st.container(horizontal=True, key="choices"):
        ATTENTION.draw(desk)
        DOWN.draw(desk)
    GUESS.draw(desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", answer)
    if DOWN.of(desk.bench):
        prose.paragraph(
            "A row of the weights belongs to the word that looks, a column to the word that is looked at. "
            "Read down the column, the weights need not sum to 1, and what they bring is not the output."
        )
    teaching.show_also(desk, ALSO, scene_of)

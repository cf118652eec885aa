"""Part 8: the feed-forward network, every row on its own."""

from __future__ import annotations

import numpy as np
import streamlit as st

from attention_core import counted
from attention_core.activations import gelu, gelu_tanh
from attention_core.feedforward import GATED
from attention_core.limits import LARGEST_SIDE
from attention_core.memories import RESULT, one_row_changed, row_by_row, strongest
from attention_core.numbers import show
from attention_core.sheet import arrow
from attention_core.written import visible
from attention_ui import curves, listing, live, panels, prose, svg, teaching, workbench
from attention_ui.board import Unit
from attention_ui.choices import Choice, Switch
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.grids import unit_after
from attention_ui.naming import named
from attention_ui.scene import Scene, once, worked

GPT2 = {"n": 1024, "d_model": 768, "n_heads": 12}  # the smallest of Radford et al. 2019
PLACES = {"first": 0, "second": 1, "last": -1}

KIND = Choice(
    "p8.kind", "Between the layers",
    {"relu": "ReLU", "gelu": "GELU (erf)", "gelu_tanh": "GELU (tanh)", "swiglu": "SwiGLU"}, "relu",
)  # fmt: skip
WIDTH = Choice("p8.width", "Hidden width", {"1": "1 × d_model", "2": "2 × d_model", "4": "4 × d_model"}, "4")
TOKEN = Choice("p8.token", "Token", {place: f"the {place}" for place in PLACES}, "second")
TURNED = Switch("p8.turned", "Mistake: hand over X transposed")
GUESS = teaching.prediction(
    "p8.guess",
    "Change is added to the row of the chosen token in X. Which rows of the output will be others?",
    {"own": "that row only", "after": "that row and those after it", "all": "all rows"},
)
ALSO = teaching.also("p8.also")


@once
def scene_of(desk: Desk) -> Scene:
    bench = desk.bench
    n = max(2, bench.n_k)
    turned = TURNED.of(bench)
    result = RESULT[turned]
    sheet = one_row_changed(KIND.of(bench), chosen(desk), turned=turned)
    return worked(
        bench, sheet, sizes={"token": n, "d_ff": d_ff(desk)},
        compared=(("x", "x_b", "change", "x_t", "x_t_b"), (result, f"{result}_b", "moved")),
    )  # fmt: skip


def d_ff(desk: Desk) -> int:
    """Hidden units on the board: as many as chosen, up to the board's edge."""
    return min(int(WIDTH.of(desk.bench)) * desk.bench.d_model, LARGEST_SIDE)


def chosen(desk: Desk) -> int:
    """The row of the chosen token, from 0."""
    return PLACES[TOKEN.of(desk.bench)] % max(2, desk.bench.n_k)


def board(desk: Desk) -> None:
    now, turned = scene_of(desk), TURNED.of(desk.bench)
    source, result = "x_t" if turned else "x", RESULT[turned]
    first = [Unit("x"), unit_after(now, "x", "x_t")] if turned else []
    again, corner = ["x_t"] * turned, None if turned else "brings"
    if KIND.of(desk.bench) in GATED:
        gate = Unit("gate", left=source, top="w_gate", echo=again)
        last, down = "up", "w_down"
        wide = [[*first, gate, unit_after(now, "gate", "opened")]]
        narrow = [Unit("up", left=source, top="w_up", echo=[source])]
    else:
        last, down = "hidden", "w_2"
        wide, narrow = [], [*first, Unit("hidden", left=source, top="w_1", echo=again)]
    bent = arrow(now.sheet, last, "active")
    narrow.append(Unit("fed", left="active", top=down, corner=corner, via=bent))
    narrow += [unit_after(now, "fed", "turned_back")] if turned else []
    seen = teaching.is_open(desk, GUESS)
    changed = [Unit("change"), Unit("x_b"), *[Unit(f"{result}_b"), Unit("moved")] * seen]
    workbench.draw(desk, now, [*wide, narrow, changed])


def answer(desk: Desk) -> None:
    now, seen = scene_of(desk), teaching.is_open(desk, GUESS)
    rows = np.flatnonzero((now.values["moved"] != 0).any(axis=1))
    teaching.verdict(desk, GUESS, _which(rows, chosen(desk), len(now.values["moved"])), _moved(now, rows))
    teaching.check(_claims(desk, now, seen))
    if TURNED.of(desk.bench):
        prose.paragraph(
            "The network got Xᵀ: its rows are features, and every one of them holds a number of every token. "
            "The product with the first weights adds over the tokens, so that a change of one token reaches "
            "the rows of others. With as many tokens as features no shape gives this away; here the weights "
            "have been given as many rows as there are tokens."
        )


def _which(rows: np.ndarray, row: int, n: int) -> str:
    """The answer that these rows stand for; "" where it is none of them."""
    found = rows.tolist()
    if found == [row]:
        return "own"
    if len(found) == n:
        return "all"
    return "after" if found == list(range(row, n)) else ""


def _moved(now: Scene, rows: np.ndarray) -> str:
    largest = show(float(np.abs(now.values["moved"]).max()))
    if not rows.size:
        return "No row of the output is another: the change does not get through these weights."
    are = "row is" if rows.size == 1 else "rows are"
    return f"The {are} {named(now.labels['token'], rows)}, and the largest difference is {largest}."


def _claims(desk: Desk, now: Scene, seen: bool) -> list[tuple[str, bool]]:
    row, kind = chosen(desk), KIND.of(desk.bench)
    word = named(now.labels["token"], np.array([row]))
    claims = []
    if seen:
        others = np.delete(now.values["moved"], row, axis=0)
        claims.append(
            (f"The change of {word} leaves the output of every other token as it was.", not others.any())
        )
    claims.append(
        ("Every token, put through the network alone, gets the same row of the output.", _alone(now))
    )
    if "brings" in now.values:
        total = now.values["brings"].sum(axis=0)
        claims.append(
            (
                f"What all hidden units bring to {word} adds up to its row of the output.",
                _same(total, now.values["fed"][row]),
            )
        )
    held = sum(now.values[line.name].size for line in now.sheet.given if line.is_learned)
    wide, high = d_ff(desk), len(now.values["w_gate" if kind in GATED else "w_1"])
    matrices = 3 if kind in GATED else 2
    claims.append(
        (
            f"The {matrices} matrices of weights hold {matrices} × {high} × {wide} = {held:,} numbers.",
            held == counted.network(kind, 1, high, wide).parameters,
        )
    )
    return claims


def _alone(now: Scene) -> bool:
    """Whether each row of X by itself gives its row of the result; not where the weights do not fit a row."""
    try:
        return _same(row_by_row(KIND.of(now.bench), now.values), now.values[RESULT[TURNED.of(now.bench)]])
    except ValueError:
        return False


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12 * (1 + np.abs(b).max()))


def memories(desk: Desk) -> None:
    """What the hidden units answer to, and what they bring to the chosen token."""
    prose.header("Rows as memories")
    now, row = scene_of(desk), chosen(desk)
    if "brings" not in now.values:
        prose.paragraph("From Xᵀ no row of hidden numbers belongs to a token, so there is nothing to read.")
        return
    gated = KIND.of(desk.bench) in GATED
    keys, stored = ("W_gate", "W_down") if gated else ("W_1", "W_2")
    prose.paragraph(
        f"Column u of {keys} is a key: its dot product with a token’s row says how well the two fit. "
        f"Row u of {stored} is the value stored with it, and the output adds up all values, each times how "
        "active its unit is."
    )
    word = named(now.labels["token"], np.array([row]))
    active = now.values["active"][row]
    prose.paragraph(
        f"For {word}, {int((active > 0).sum())} of {active.size} hidden units are above 0, and "
        f"{int((active < 0).sum())} below. These bring most:"
        if active.any()
        else f"For {word} no hidden unit is active: its row of the output is 0."
    )
    prose.bullets([_unit(now, row, unit, keys, stored) for unit in strongest(now.values)])


def _unit(now: Scene, row: int, unit: int, keys: str, stored: str) -> str:
    """One memory: how well its key fits, how active that makes it, and what it adds."""
    values = now.values
    fit = show(values["gate" if "gate" in values else "hidden"][row, unit])
    active = show(values["active"][row, unit])
    bent = f"{KIND.options[KIND.of(now.bench)]} makes it {active}"
    if "gate" in values:
        bent = f"SiLU and the {show(values['up'][row, unit])} that comes up make it {active}"
    value = ", ".join(map(show, values[stored.lower()][unit]))
    brings = ", ".join(map(show, values["brings"][unit]))
    return (
        f"Unit {unit + 1}: column {unit + 1} of {keys} gives {fit}; {bent}. "
        f"Times row {unit + 1} of {stored}, ({value}), it adds ({brings})."
    )


def figure(desk: Desk) -> None:
    """The curves, with the hidden numbers of the chosen row as points."""
    now, kind, row = scene_of(desk), KIND.of(desk.bench), chosen(desk)
    if TURNED.of(desk.bench):
        return
    hidden = now.values["gate" if kind in GATED else "hidden"][row]
    prose.header("The function between the layers")
    word = named(now.labels["token"], np.array([row]))
    far = visible(float(np.abs(gelu(hidden) - gelu_tanh(hidden)).max()), show)
    prose.paragraph(
        f"The points are the {'gate’s' if kind in GATED else 'hidden'} numbers of {word}. Without a bend the "
        f"two products would be one. The two forms of GELU differ by {far} here at most."
    )
    prose.html(svg.stacked([curves.panel(hidden, kind)], curves.alt_text(hidden, kind)))
    table = curves.twin(hidden, kind)
    listing.fold(
        "The points as a table", "The points, table",
        listing.table(
            "Every hidden unit of the token: its number, and what each function makes of it.",
            ["unit", *table.columns],
            [list(row) for row in table.itertuples(name=None)],
        ),
    )  # fmt: skip


def counts(desk: Desk) -> None:
    """Learned numbers and operations of both parts, counted from the shapes."""
    st.header("Counted against attention", anchor=False)
    bench, kind, times = desk.bench, KIND.of(desk.bench), int(WIDTH.of(desk.bench))
    here = {"n": max(2, bench.n_k), "d_model": bench.d_model, "n_heads": 1}
    rows = []
    for place, sizes, wide in (
        ("this board", here, d_ff(desk)),
        ("GPT-2, smallest", GPT2, times * GPT2["d_model"]),
    ):
        one, other = counted.attention(**sizes), counted.network(kind, sizes["n"], sizes["d_model"], wide)
        size = [f"{sizes['n']:,}", f"{sizes['d_model']:,}"]
        rows += [
            [f"{place}: attention", *size, "–", f"{one.parameters:,}", f"{one.operations:,}"],
            [f"{place}: feed-forward", *size, f"{wide:,}", f"{other.parameters:,}", f"{other.operations:,}"],
        ]
    listing.draw(
        "Counts",
        listing.table(
            "Counted from the shapes, not measured.",
            ["part", "n", "d_model", "d_ff", "learned numbers", "operations"],
            rows,
        ),
    )
    first = counted.overtakes(kind, GPT2["d_model"], times * GPT2["d_model"], GPT2["n_heads"])
    prose.paragraph(
        "Biases are left out. Attention has four matrices of d_model × d_model: W_Q, W_K, W_V and W_O. "
        "Its operations grow with the square of the number of tokens, those of the network with the number "
        f"itself: at GPT-2’s width attention takes more from {first:,} tokens on."
    )
    if d_ff(desk) < times * bench.d_model:
        units = times * bench.d_model
        prose.paragraph(
            f"{times} × d_model would be {units} hidden units; the board has room for {LARGEST_SIDE}.",
            kind="quiet",
        )


@lesson(
    __file__,
    sources=[
        ("Vaswani et al. 2017, Attention Is All You Need, 3.3", "https://arxiv.org/abs/1706.03762"),
        (
            "Geva et al. 2021, Transformer Feed-Forward Layers Are Key-Value Memories",
            "https://arxiv.org/abs/2012.14913",
        ),
        ("Shazeer 2020, GLU Variants Improve Transformer", "https://arxiv.org/abs/2002.05202"),
        (
            "Hendrycks and Gimpel 2016, Gaussian Error Linear Units (GELUs)",
            "https://arxiv.org/abs/1606.08415",
        ),
        (
            "Radford et al. 2019, Language Models are Unsupervised Multitask Learners",
            "https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf",
        ),
    ],
)
def part_08(desk: Desk) -> None:
    st.markdown(
        "After attention has mixed the tokens, the feed-forward network works on each row alone: a product "
        "makes the row wider, a function bends every number, a second product makes the row narrow again. "
        "All tokens share the same weights. Here it starts from X, without biases and normalisation."
    )
    with st.container(horizontal=True, key="choices"):
        KIND.draw(desk)
        WIDTH.draw(desk)
        TOKEN.draw(desk)
        TURNED.draw(desk)
    GUESS.draw(desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", answer)
    live.words("memories", memories)
    live.words("figure", figure)
    counts(desk)
    teaching.show_also(desk, ALSO, scene_of)

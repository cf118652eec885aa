"""Part 3: how scores grow with the width of queries and keys, and what dividing them does to softmax."""

from __future__ import annotations

from math import log

import numpy as np
import streamlit as st

from attention_core.dot_products import D_MODEL, KEYS, QUERIES, WIDTHS, divisor, draws, expected, sharpness
from attention_core.numbers import show
from attention_core.scaling import scaling_sheet
from attention_ui import listing, live, panels, prose, spread, teaching, workbench
from attention_ui.board import Unit
from attention_ui.choices import Amount, Choice, Switch
from attention_ui.desk import Desk
from attention_ui.figures import CONFIG
from attention_ui.frame import lesson
from attention_ui.grids import unit_after
from attention_ui.scene import Scene, once, worked

DIVISOR = Choice(
    "p3.divisor",
    "Divide the scores by",
    {"sqrt": "√d_k", "one": "1", "d_k": "d_k", "d_model": "√d_model"},
    "sqrt",
    help="Only √d_k is the paper’s. 1 leaves the scores as they are, d_k forgets the root, √d_model takes "
    "the width of X for the width of a key.",
)
TWICE = Switch("p3.twice", "Mistake: divide twice")
ENTRIES = Choice(
    "p3.entries",
    "Entries of q and k",
    {
        "independent": "independent, mean 0, variance 1",
        "shifted": "mean 1 instead of 0",
        "shared": "correlated features",
        "same": "the key is the query",
    },
    "independent",
    kind="list",
)
WIDTH = Choice("p3.width", "d_k of the histogram", {str(d): str(d) for d in (1, 4, 16, 64, 256, 512)}, "64")
SEED = Amount("p3.seed", "Seed of the random vectors", 0, 99, 1)
GUESS = teaching.prediction(
    "p3.guess",
    f"{KEYS} keys, d_k = {WIDTHS[-1]}, scores not divided. How large will the largest weight of a row be, "
    "on average?",
    {"even": f"about 1/{KEYS}", "half": "about 1/2", "all": "nearly 1"},
)
ALSO = teaching.also("p3.also")

CLOSE = 0.15  # how far a measured variance may be off, as a share; the draws alone are off by up to 0.08
STEADY = 0.1  # how far the largest weight may move between widths
MISTAKES = {
    "one": "Not divided, the scores spread with √d_k: the wider the keys, the nearer each row comes to a "
    "single 1, and the nearer the gradient of softmax to 0.",
    "d_k": "Divided by d_k, without the root, the spread of the scores shrinks like 1/√d_k: in wide heads "
    "all keys get the same weight, whatever they hold.",
    "d_model": f"√d_model is one number for every width of a head. With d_model = {D_MODEL} it is right for "
    f"d_k = {D_MODEL} only: where d_k is smaller, it divides too much.",
}
BREAKS = {
    "shifted": "Every entry has 1 added. Each product then has mean 1, so the mean of q·k is d_k, and the "
    "variance of a product is 3 instead of 1. What is added to all keys alike moves a whole row of "
    "scores and changes no weight; the larger variance does.",
    "shared": "Half of every entry’s variance is one number that all entries of the vector share. The "
    "products rise and fall together, and the variance grows with the square of d_k: √d_k is not enough.",
    "same": "Every product is a square: it cannot be negative, and its mean is 1. The score of a vector with "
    "itself grows like d_k, those with other keys like √d_k. After √d_k it still runs away from them; "
    "where queries and keys point the same way, d_k is the better divisor (Yang et al. 2022).",
}


@once
def scene_of(desk: Desk) -> Scene:
    bench, by = desk.bench, DIVISOR.of(desk.bench)
    return worked(
        bench,
        scaling_sheet(by, twice=TWICE.of(bench), from_x=bench.way == "x"),
        {"divisor": divisor(by, bench.d_k, bench.d_model)},
        sizes={"query": bench.n_q},
        compared=(("scores", "scaled", "scaled_2"),),
    )


def board(desk: Desk) -> None:
    now = scene_of(desk)
    from_x = desk.bench.way == "x"
    projections = [Unit("q", left="x", top="w_q"), Unit("k", left="x", top="w_k", echo=["x"])]
    echo = ["q", "k"] if from_x else []
    scores = Unit("scores", left="q", top="k_t", corner=None if from_x else "k", echo=echo)
    is_twice = TWICE.of(desk.bench)
    divided = [unit_after(now, "scores", "scaled")]
    divided += [unit_after(now, "scaled", "scaled_2")] if is_twice else []
    layout = [
        projections * from_x,
        [scores, unit_after(now, "scores", "weights_1")],
        [*divided, unit_after(now, "scaled_2" if is_twice else "scaled", "weights")],
        [*map(Unit, ("largest", "entropy", "gradient"))],
    ]
    workbench.draw(desk, now, [line for line in layout if line])


def on_the_board(desk: Desk) -> None:
    """What dividing did to the learner's own rows, and why their scores need not spread like √d_k."""
    now = scene_of(desk)
    measures = [f"{name}{index}" for name in ("largest", "entropy", "gradient") for index in ("", "_1")]
    means = {name: show(now.values[name].mean()) for name in measures}
    scores, keys = now.values["scores"], now.values["weights"].shape[1]
    prose.paragraph(
        f"On average over the rows, dividing takes the largest weight from {means['largest_1']} to "
        f"{means['largest']}, the entropy from {means['entropy_1']} to {means['entropy']} (at most "
        f"{show(log(keys))} with {keys} {'key' if keys == 1 else 'keys'}) and the gradient norm from "
        f"{means['gradient_1']} to {means['gradient']}."
    )
    prose.paragraph(
        f"The {scores.size} scores on the board have mean {show(scores.mean())} and variance "
        f"{show(scores.var())}; d_k is {desk.bench.d_k}. Numbers chosen by hand are not independent draws of "
        "mean 0 and variance 1, so the variance need not be d_k. Random vectors can be measured instead.",
        kind="quiet",
    )


def measured(desk: Desk) -> None:
    """The two figures. They do not depend on the board, so no edit draws them again."""
    bench, theme = desk.bench, panels._theme()
    entries, seed, by = ENTRIES.of(bench), int(SEED.of(bench)), DIVISOR.of(bench)
    width, twice = int(WIDTH.of(bench)), TWICE.of(bench)
    left, right = st.columns(2, gap="large")
    with left:
        prose.paragraph(f"How {QUERIES * KEYS:,} scores spread", kind="strong")
        st.plotly_chart(
            spread.spread_figure(entries, seed, width, theme=theme), key="spread", theme=None, config=CONFIG,
            alt=spread.spread_alt(entries, seed, width),
        )  # fmt: skip
        with st.expander("Mean and variance as a table"):
            caption = f"Mean and variance of q·k, {QUERIES * KEYS:,} scores, seed {seed}."
            listing.draw(
                "Mean and variance, table", listing.table(caption, *spread.spread_table(entries, seed))
            )
    with right:
        prose.paragraph(f"What softmax makes of {QUERIES:,} rows of {KEYS}", kind="strong")
        if not teaching.is_open(desk, GUESS):
            prose.paragraph("This figure holds the answer to the prediction above.", kind="quiet")
            return
        st.plotly_chart(
            spread.sharp_figure(entries, seed, by, width, twice=twice, theme=theme), key="sharp", theme=None,
            config=CONFIG, alt=spread.sharp_alt(entries, seed, by, twice=twice),
        )  # fmt: skip
        with st.expander("Entropy, largest weight and gradient norm as a table"):
            caption = f"Softmax of {QUERIES:,} rows of {KEYS} scores, seed {seed}; d_model is {D_MODEL}."
            table = spread.sharp_table(entries, seed, by, twice=twice)
            listing.draw("Softmax, table", listing.table(caption, *table))


def answer(desk: Desk) -> None:
    bench = desk.bench
    plain = sharpness(ENTRIES.of(bench), int(SEED.of(bench)), "one")
    average = float(plain.largest[-1])
    right = "even" if average < 0.25 else "half" if average < 0.75 else "all"
    teaching.verdict(
        desk, GUESS, right,
        f"Measured over {QUERIES:,} rows it is {show(average)}; the gradient norm has gone from "
        f"{show(plain.gradient[0])} at d_k = 1 to {show(plain.gradient[-1])}.",
    )  # fmt: skip
    teaching.check(_claims(desk))


def _claims(desk: Desk) -> list[tuple[str, bool]]:
    """On the board, then on the random vectors."""
    now, bench = scene_of(desk), desk.bench
    entries, seed, by, twice = ENTRIES.of(bench), int(SEED.of(bench)), DIVISOR.of(bench), TWICE.of(bench)
    values, root = now.values, np.sqrt(bench.d_k)
    last = values["scaled_2" if twice else "scaled"]
    width = int(WIDTH.of(bench))
    products = draws(entries, seed).products[WIDTHS.index(width)]
    scaled = products / divisor(by, width) ** (1 + twice)
    found = sharpness(entries, seed, by, twice=twice).largest
    in_order = np.take_along_axis(last, np.argsort(values["scores"], axis=1), axis=1)
    claims = [
        (
            f"On the board, every scaled score is the score over √d_k = {show(root)}.",
            np.allclose(last * root, values["scores"], rtol=1e-9, atol=1e-12),
        ),
        ("Dividing keeps the order of the keys in every row.", bool((np.diff(in_order, axis=1) >= 0).all())),
        (
            f"At d_k = {width} the measured mean of q·k, {show(products.mean())}, is 0 but for chance, and "
            f"the measured variance, {show(products.var())}, is d_k but for chance.",
            abs(products.mean()) < 0.06 * np.sqrt(width) and abs(products.var() / width - 1) < CLOSE,
        ),
        (
            f"Divided, these scores have variance {show(scaled.var())}: 1, but for chance.",
            abs(scaled.var() - 1) < CLOSE,
        ),
    ]
    if teaching.is_open(desk, GUESS):
        low, high = show(found.min()), show(found.max())
        claims.append(
            (
                f"The largest weight of a row, {low} to {high} on average, hardly depends on d_k.",
                bool(np.ptp(found) < STEADY),
            )
        )
    return claims


def assumption(desk: Desk) -> None:
    """What the chosen entries assume or break, in words, with what follows for mean and variance."""
    entries, width = ENTRIES.of(desk.bench), int(WIDTH.of(desk.bench))
    mean, variance = expected(entries, width)
    prose.paragraph(
        BREAKS.get(
            entries,
            "A product of two independent entries of mean 0 and variance 1 has mean 0 and variance 1, too. A "
            "score adds up d_k of them: means add up, and so do variances of independent numbers.",
        )
        + f" At d_k = {width}: mean {show(mean)}, variance {show(variance)}."
    )


@lesson(
    __file__,
    sources=[
        ("Vaswani et al. 2017, Attention Is All You Need, 3.2.1", "https://arxiv.org/abs/1706.03762"),
        (
            "Yang et al. 2022, Tensor Programs V (attention divided by d_k, not by its root)",
            "https://arxiv.org/abs/2203.03466",
        ),
    ],
)
def part_03(desk: Desk) -> None:
    st.markdown(
        "A score adds up as many products as queries and keys have features, so wide vectors have large "
        "scores. Softmax looks at differences only: when they are large, nearly all weight goes to one key. "
        "Choose what to divide by and watch the same scores become other weights."
    )
    with st.container(horizontal=True, key="choices"):
        DIVISOR.draw(desk)
        TWICE.draw(desk)
    by = DIVISOR.of(desk.bench)
    if by in MISTAKES:
        prose.paragraph(MISTAKES[by])
    if TWICE.of(desk.bench):
        prose.paragraph(
            "A program that scales Q and then calls a function that scales the scores again divides twice. "
            "√d_k twice is d_k; 1 twice is still 1."
        )
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("board_words", on_the_board)
    st.header("Measured on random vectors", anchor=False)
    with st.container(horizontal=True, key="measured_choices"):
        WIDTH.draw(desk)
        with st.container(width=260):
            SEED.draw(desk)
    ENTRIES.draw(desk)
    assumption(desk)
    GUESS.draw(desk)
    measured(desk)
    live.words("answer", answer)
    teaching.show_also(desk, ALSO, scene_of)

"""Part 6: LayerNorm and RMSNorm cell by cell, before or after a sub-layer, and the residual stream."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from attention_core.norm_places import KINDS, Kind, norm_places
from attention_core.numbers import show
from attention_core.sheet import run
from attention_core.stream import Norm
from attention_ui import depth, listing, live, panels, prose, svg, teaching, workbench
from attention_ui.bench import numbers
from attention_ui.board import Unit
from attention_ui.choices import Amount, Choice, Switch
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.grids import unit_after
from attention_ui.scene import Scene, once, worked

KIND = Choice("p6.kind", "Normalisation", KINDS, "layer")
EPSILON = Amount("p6.epsilon", "ε is 10 to the power of", -12, 0, -5)
COLUMNS = Switch("p6.columns", "Mistake: statistics over the tokens")
SAMPLE = Switch("p6.sample", "Mistake: variance divided by d − 1")
GUESS = teaching.prediction(
    "p6.guess",
    "Every number of token 1 is multiplied by 10. What becomes of its normalised row?",
    {"same": "nearly the same", "ten": "ten times as large", "other": "something else"},
)
LAYERS = Amount("p6.layers", "Layers", 2, 24, 16)
NORM = Choice("p6.norm", "LayerNorm in the stream", {"pre": "pre", "post": "post", "none": "off"}, "pre")
SEED = Amount("p6.seed", "Seed of the layers’ weights", 0, 99, 0)
ALSO = teaching.also("p6.also")

TOKENS, FEATURES = 4, 16  # of the stream: wide enough that chance does not decide
LEAST = 0.9  # over all examples and seeds of the page the least that was found is 0.99
RESULT = {"layer": "shifted", "rms": "gained"}


def kind_of(desk: Desk) -> Kind:
    return cast(Kind, KIND.of(desk.bench))


def has_sample(desk: Desk) -> bool:
    """Whether the variance is divided by one less: where there is one, of more than one number."""
    bench = desk.bench
    counted = bench.n_k if COLUMNS.of(bench) else bench.d_model
    return SAMPLE.of(bench) and kind_of(desk) == "layer" and counted > 1


@once
def scene_of(desk: Desk) -> Scene:
    sheet = norm_places(
        kind_of(desk),
        over="column" if COLUMNS.of(desk.bench) else "row",
        variance="sample" if has_sample(desk) else "population",
    )
    return worked(
        desk.bench, sheet, {"epsilon": epsilon_of(desk)}, compared=(("x", "centred"), ("pre", "sum"))
    )


def epsilon_of(desk: Desk) -> float:
    return float(10.0 ** int(EPSILON.of(desk.bench)))


def board(desk: Desk) -> None:
    now, kind, small = scene_of(desk), kind_of(desk), depth.written(epsilon_of(desk))
    gained = replace(unit_after(now, "normalised", "gained"), top="gain")
    if kind == "layer":
        worked_out = [
            [Unit("x"), unit_after(now, "x", "mean"), unit_after(now, "mean", "centred")],
            [
                unit_after(now, "centred", "variance"),
                unit_after(now, "variance", "deviation", epsilon=small),
                unit_after(now, "deviation", "normalised"),
            ],
            [gained, replace(unit_after(now, "gained", "shifted"), top="shift")],
        ]
    else:
        worked_out = [
            [
                Unit("x"),
                unit_after(now, "x", "mean_square"),
                unit_after(now, "mean_square", "root", epsilon=small),
                unit_after(now, "root", "normalised"),
            ],
            [gained],
        ]
    last = RESULT[kind]
    places = [
        [Unit("moved_pre", left=last, top="w_o", echo=[last]), unit_after(now, "moved_pre", "pre")],
        [
            Unit("moved_post", left="x", top="w_o", echo=["x", "w_o"]),
            unit_after(now, "moved_post", "sum"),
            Unit("post", via=KINDS[kind]),
        ],
    ]
    workbench.draw(desk, now, [*worked_out, *places])


def answer(desk: Desk) -> None:
    now = scene_of(desk)
    before = now.values["normalised"][0]
    after = _again(now, _times_ten(now.values["x"]))[0]
    was, is_now = (float(np.sqrt((row**2).sum())) for row in (before, after))
    right = "other"
    for word, factor in (("same", 1), ("ten", 10)):
        if np.allclose(after, factor * before, rtol=0.05, atol=0.02):
            right = word
            break
    teaching.verdict(
        desk, GUESS, right,
        f"Its length goes from {show(was)} to {show(is_now)}, its first number from {show(before[0])} to "
        f"{show(after[0])}; without ε, {depth.written(epsilon_of(desk))}, and without other tokens in its "
        "statistics nothing could tell the two rows apart.",
    )  # fmt: skip
    teaching.check([*_claims(now), _stream_claim(desk)])


def _times_ten(x: NDArray[np.float64]) -> NDArray[np.float64]:
    changed = x.copy()
    changed[0] *= 10
    return changed


def _again(now: Scene, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The normalised rows that another X would have."""
    given = {line.name: now.values[line.name] for line in now.sheet.given}
    result: NDArray[np.float64] = run(now.sheet, given | {"x": x})["normalised"]
    return result


def _claims(now: Scene) -> list[tuple[str, bool]]:
    """What the normalised rows are, whom they depend on, and what the two places leave of X."""
    values, x = now.values, now.values["x"]
    others = np.vstack([x[:1], 1 - 2 * x[1:]])
    claims = [
        _even(now, "x", "normalised", "Z"),
        (
            "Row 1 of Z is made from row 1 of X alone: other numbers in the other rows change nothing in it.",
            np.allclose(_again(now, others)[0], values["normalised"][0], rtol=1e-9, atol=1e-12),
        ),
        (
            "Pre-norm leaves the stream as it is: without what the sub-layer adds, X is left.",
            np.allclose(values["pre"] - values["moved_pre"], x, rtol=1e-9, atol=1e-9),
        ),
    ]
    return [*claims, _even(now, "sum", "normalised_2", "the sum, normalised,")]


def _even(now: Scene, source: str, result: str, name: str) -> tuple[str, bool]:
    """Mean and variance, or mean square, of normalised rows, worked out anew from the rows they came from."""
    rows, even, small = now.values[source], now.values[result], float(now.values["epsilon"])
    if "mean_square" in now.values:
        want, got = (rows**2).mean(axis=1), (even**2).mean(axis=1)
        said = f"Every row of {name} has mean square ρ² / (ρ² + ε)"
        holds = True
    else:
        want, got = rows.var(axis=1), even.var(axis=1)
        said = f"Every row of {name} has mean 0 and population variance σ² / (σ² + ε)"
        holds = bool((np.abs(even.mean(axis=1)) < 1e-9).all())
    with np.errstate(over="ignore"):
        want = 1 / (1 + small / np.maximum(want, 1e-300))
    reach = " to ".join(dict.fromkeys((show(got.min()), show(got.max()))))
    return f"{said}, here {reach}.", holds and np.allclose(got, want, rtol=1e-6, atol=1e-9)


def stream_of(desk: Desk) -> dict[bool, depth.Stream]:
    """The stream of this X, grown by the example's own rule to TOKENS tokens of FEATURES features."""
    bench = desk.bench
    x = numbers(bench, "x", TOKENS, FEATURES)
    norm = cast(Norm, NORM.of(bench))
    return dict(depth.both_ways(x, int(LAYERS.of(bench)), norm, int(SEED.of(bench))))


def _stream_claim(desk: Desk) -> tuple[str, bool]:
    found, layers = stream_of(desk), int(LAYERS.of(desk.bench))
    if NORM.of(desk.bench) == "post":
        length = float(np.sqrt(FEATURES))
        close = all(np.allclose(way.lengths[1:], length, rtol=1e-2) for way in found.values())
        return f"Post-norm gives every row the length √{FEATURES} = {show(length)} after each layer.", close
    if NORM.of(desk.bench) == "pre":
        along = found[True].gradients
        least, most = depth.written(along.min()), depth.written(along.max())
        return (
            f"With pre-norm and the skip a small change arrives from every layer: {least} to {most} times as "
            f"large, nowhere less than {show(LEAST)} times.",
            bool(along.min() >= LEAST),
        )
    with_skip, without = (depth.written(found[skip].gradients[0]) for skip in (True, False))
    return (
        f"Over {layers} layers more of a small change in X arrives with the skip, {with_skip} times as much, "
        f"than without it, {without} times.",
        bool(found[True].gradients[0] > found[False].gradients[0]),
    )


STREAM_SAYS = {
    "pre": "Each sub-layer sees normalised rows, but nothing normalises the stream itself. With the skip a "
    "change in X also finds a way to the output that leads through no sub-layer and no normalisation.",
    "post": "The stream itself is normalised after every sub-layer: no way leads around the normalisations, "
    "and a change in X passes through all of them.",
    "none": "Nothing holds the numbers: with the skip every sub-layer adds to them, without it each layer "
    "passes on only what it makes itself.",
}


def in_the_stream(desk: Desk) -> None:
    """Lengths and gradients over the layers; they follow an edit of X."""
    found = stream_of(desk)
    (first, last), (arrives, lost) = (
        [depth.written(found[True].lengths[place]) for place in (0, -1)],
        [depth.written(found[skip].gradients[0]) for skip in (True, False)],
    )
    prose.paragraph(
        f"{STREAM_SAYS[NORM.of(desk.bench)]} Here the mean length of a row goes from {first} to {last} with "
        f"the skip and to {depth.written(found[False].lengths[-1])} without. A small change in X arrives at "
        f"the output {arrives} times as large with the skip, {lost} times without."
    )
    prose.html(svg.stacked(depth.panels(found), depth.alt_text(found)))
    caption = f"Along {len(found[True].lengths) - 1} layers, seed {int(SEED.of(desk.bench))}."
    table = listing.table(caption, *depth.table(found))
    listing.fold("Lengths and gradients as a table", "Stream, table", table)


def notes(desk: Desk) -> None:
    """What a mistake does, in words, where one is switched on."""
    bench, kind = desk.bench, kind_of(desk)
    if COLUMNS.of(bench):
        prose.paragraph(
            "Mean and variance are taken down a column, over all tokens. Now a change in one token moves the "
            "rows of the others, and a token’s result depends on who happens to stand beside it."
        )
    if SAMPLE.of(bench) and kind == "rms":
        prose.paragraph(
            "RMSNorm has no variance: its mean square is divided by d, whatever this switch says."
        )
    elif SAMPLE.of(bench) and not has_sample(desk):
        prose.paragraph(
            "A single number has no sample variance: it would be 0 / 0. The population’s is shown instead."
        )
    elif SAMPLE.of(bench):
        prose.paragraph(
            "Divided by one less than there are numbers, the variance comes out larger and every normalised "
            "row too small. LayerNorm estimates nothing: the row is all there is, so it divides by d."
        )


@lesson(
    __file__,
    sources=[
        ("Ba, Kiros and Hinton 2016, Layer Normalization", "https://arxiv.org/abs/1607.06450"),
        ("Zhang and Sennrich 2019, Root Mean Square Layer Normalization", "https://arxiv.org/abs/1910.07467"),
        (
            "Xiong et al. 2020, On Layer Normalization in the Transformer Architecture",
            "https://arxiv.org/abs/2002.04745",
        ),
        ("He et al. 2015, Deep Residual Learning for Image Recognition", "https://arxiv.org/abs/1512.03385"),
    ],
)
def part_06(desk: Desk) -> None:
    st.markdown(
        "Every sub-layer adds to a token’s row; the rows on their way are the residual stream. A "
        "normalisation brings a row to a common size by that row’s own numbers: LayerNorm takes off the mean "
        "and divides by the deviation, RMSNorm only divides. Change X, ε, the gain γ or the shift β, and "
        "follow any cell."
    )
    with st.container(horizontal=True, key="choices"):
        KIND.draw(desk)
        with st.container(width=240):
            EPSILON.draw(desk)
        COLUMNS.draw(desk)
        SAMPLE.draw(desk)
    notes(desk)
    GUESS.draw(desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    st.header("The residual stream, layer after layer", anchor=False)
    st.markdown(
        f"The same X, grown by its own rule to {TOKENS} tokens of {FEATURES} features, goes through layers "
        "of attention and a feed-forward network with untrained weights drawn by seed."
    )
    with st.container(horizontal=True, key="stream_choices"):
        NORM.draw(desk)
        for amount in (LAYERS, SEED):
            with st.container(width=240):
                amount.draw(desk)
    live.words("stream", in_the_stream)
    live.words("answer", answer)
    teaching.show_also(desk, ALSO, scene_of)

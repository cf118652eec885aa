"""Lesson 11, the tiny model: what it learns from, its buttons, and what it has learned so far."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import numpy as np
import streamlit as st

from attention_core.learning import Level, Trainer, tokens_of
from attention_core.limits import LONGEST_TEXT
from attention_core.numbers import show
from attention_ui import learned, listing, live, panels, prose, teaching
from attention_ui.bench import Bench
from attention_ui.choices import Amount, Choice
from attention_ui.controls import text_area
from attention_ui.desk import Desk
from attention_ui.figures import CONFIG
from attention_ui.texts import LONGEST_LINKED, SAMPLE, is_linked
from attention_ui.tokens import literal
from attention_ui.training import EVERY, LATEST, Asked, Training

LEVEL = Choice("p11.level", "Tokens are", {"characters": "characters", "words": "words"}, "characters")
LAYERS = Choice("p11.layers", "Attention layers", {"1": "1", "2": "2"}, "2")
STEPS = Choice("p11.steps", "Steps", {"100": "100", "300": "300", "1000": "1,000"}, "300")
SEED = Amount("p11.seed", "Seed of the first weights", 0, 99, 1)

KEY = "training"  # in the session's state; the model itself, while the session lasts
LOOKING = 14  # tokens at the beginning of the text whose attention is drawn
BEGIN = {"characters": 8, "words": 2}  # tokens of the text that the model is given to go on from
WRITTEN = {"characters": 120, "words": 30}  # tokens that it then writes
TEMPERATURE = 0.7  # likelier tokens more often than they were learned


def asked(bench: Bench) -> Asked:
    """What a training of this bench follows from."""
    level = cast(Level, LEVEL.of(bench))
    return Asked(bench.text or SAMPLE, level, int(LAYERS.of(bench)), int(SEED.of(bench)))


def wanted(bench: Bench) -> int:
    return int(STEPS.of(bench))


def current(bench: Bench) -> Training | None:
    """The training of this session, as long as it follows from what is asked now."""
    found: Training | None = st.session_state.get(KEY)
    return found if found is not None and found.asked == asked(bench) else None


def draw(desk: Desk) -> None:
    """Everything below the heading: the text, what is asked, the buttons, and what has been learned."""
    help_text = "Anything you like; it is only counted and shown, never run."
    text_area(desk, "text", "Text to learn from", help_text, LONGEST_TEXT)
    _tell_link(desk.bench.text)
    with st.container(horizontal=True, key="training_choices"):
        LEVEL.draw(desk)
        LAYERS.draw(desk)
        STEPS.draw(desk)
        with st.container(width=260):
            SEED.draw(desk)
    problem = _problem(asked(desk.bench))
    if problem:
        prose.notice(problem)
        return
    found = current(desk.bench)
    _buttons(desk.bench, found)
    if found is None:
        prose.paragraph(_before(desk.bench), kind="quiet")
        return
    st.fragment(_piece, run_every=EVERY if found.running else None, key="training")()
    if not found.running:
        _after(desk.bench, found.trainer)


def _tell_link(text: str) -> None:
    if not is_linked(text):
        prose.paragraph(
            f"This text is too long for the link, which carries up to {LONGEST_LINKED:,} letters as an "
            "address writes them. Who opens the link sees the text of this page instead.",
            kind="quiet",
        )


@lru_cache(maxsize=16)
def _problem(of: Asked) -> str:
    return of.problem()


def _before(bench: Bench) -> str:
    """What is about to be learned, counted."""
    trainer = asked(bench).trainer()
    sees = trainer.plan.shape.context
    return (
        f"{len(trainer.ids):,} {LEVEL.of(bench)}, {len(trainer.vocabulary)} of them different. The model has "
        f"{trainer.parameters:,} numbers to learn, 2 heads a layer, and sees {sees} tokens at a time. "
        f"It starts with equal shares, a loss of log {len(trainer.vocabulary)} = {show(trainer.chance)}."
    )


# buttons ---------------------------------------------------------------------------------------


def _buttons(bench: Bench, found: Training | None) -> None:
    running = found is not None and found.running
    over = found is not None and found.is_over(wanted(bench))
    with st.container(horizontal=True, key="training_buttons"):
        st.button("Train" if found is None else "Go on", disabled=running or over, on_click=_go, key="train")
        st.button("Stop", disabled=not running, on_click=_stop, key="stop")
        st.button("Start over", disabled=found is None, on_click=_forget, key="forget")


def _go() -> None:
    desk: Desk = st.session_state["desk"]
    found = current(desk.bench)
    if found is None:
        of = asked(desk.bench)
        st.session_state[KEY] = Training(of, of.trainer())
    else:
        found.running = True


def _stop() -> None:
    found: Training | None = st.session_state.get(KEY)
    if found is not None:
        found.running = False


def _forget() -> None:
    st.session_state.pop(KEY, None)


# while it learns -------------------------------------------------------------------------------


def _piece() -> None:
    """Learn for a moment where the clock calls, then show how far it has come."""
    desk: Desk = st.session_state["desk"]
    found = current(desk.bench)
    if found is None or (live.alone() and desk.page != live.page_now()):
        return
    if live.alone() and found.running:
        found.piece(wanted(desk.bench))
        if found.is_over(wanted(desk.bench)):
            found.running = False
            st.rerun()  # the buttons, and what it has learned
    show_progress(found, wanted(desk.bench))


def show_progress(found: Training, most: int) -> None:
    """How far the training has come, the curve of its loss, and where its heads look."""
    trainer, theme = found.trainer, panels._theme()
    done = min(trainer.steps / most, 1.0)
    st.progress(done, text=f"Step {trainer.steps:,} of {most:,}")
    prose.paragraph(
        f"Mean loss of the last {min(LATEST, trainer.steps) or 1} steps: {show(found.latest)}. "
        f"Equal shares: log {len(trainer.vocabulary)} = {show(trainer.chance)}.",
        kind="strong",
    )
    left, right = st.columns(2, gap="large")
    with left:
        losses = trainer.losses[: found.in_curve()]
        st.plotly_chart(
            learned.curve(losses, trainer.chance, theme=theme), key="loss", theme=None, config=CONFIG,
            alt=learned.curve_alt(losses, trainer.chance),
        )  # fmt: skip
    with right:
        weights, labels = looking(found)
        st.html(learned.maps(weights, labels, theme=theme))
        prose.paragraph(
            f"Weights of the first {len(labels)} tokens of the text: row i looks at itself and at those "
            "before it. The stronger the colour, the larger the weight, up to 1.",
            kind="quiet",
        )


def looking(found: Training) -> tuple[tuple[np.ndarray, ...], list[str]]:
    """The weights of every layer for the beginning of the text, and its tokens as they are shown."""
    trainer, level = found.trainer, found.asked.level
    first = tokens_of(found.asked.text, level)[: min(LOOKING, trainer.plan.shape.context)]
    text = ("" if level == "characters" else " ").join(first)
    return trainer.attention_maps(text), [literal(token) for token in first]


# when it has stopped ---------------------------------------------------------------------------


def _after(bench: Bench, trainer: Trainer) -> None:
    """What the model writes, what holds of its training, and the numbers behind the pictures."""
    found = current(bench)
    if found is None or not trainer.steps:
        return
    begin, written = told(found)
    prose.paragraph(f"After “{begin}” it writes: {written}")
    teaching.check(claims(found), title="Check of the training")
    _twins(found)


def told(found: Training) -> tuple[str, str]:
    """The beginning of the text, and what the model writes after it, both literally."""
    trainer, level = found.trainer, found.asked.level
    first = tokens_of(found.asked.text, level)[: BEGIN[level]]
    between = "" if level == "characters" else " "
    tokens = trainer.written(
        between.join(first), WRITTEN[level], temperature=TEMPERATURE, seed=found.asked.seed
    )
    begin, written = (between.join(map(_shown, each)) for each in (first, tokens))
    return begin, written


def _shown(character: str) -> str:
    """A character as it is shown in running text: a blank stays one."""
    return " " if character == " " else literal(character)


def claims(found: Training) -> list[tuple[str, bool]]:
    trainer = found.trainer
    first, latest, chance = trainer.losses[0], found.latest, trainer.chance
    return [
        (
            f"The first loss, {show(first)}, is that of equal shares: log {len(trainer.vocabulary)} = "
            f"{show(chance)}.",
            abs(first - chance) < 1e-12,
        ),
        (
            f"The mean loss of the last {min(LATEST, trainer.steps)} steps, {show(latest)}, is below it.",
            latest < chance,
        ),
    ]


def _twins(found: Training) -> None:
    """The curve and the maps as tables."""
    losses = found.trainer.losses
    with st.expander("The curve as a table"):
        steps, each, even = learned.points(losses)
        kept = range(0, len(steps), max(1, len(steps) // 20))
        rows = [[f"{int(steps[i]):,}", show(each[i]), show(even[i])] for i in kept]
        heads = ["step", "loss", f"mean of {learned.MEAN_OF} steps"]
        listing.draw("Loss, table", listing.table("Every few steps.", heads, rows))
    with st.expander("The weights as a table"):
        weights, labels = looking(found)
        for row, layer in enumerate(weights, 1):
            for head, table in enumerate(layer, 1):
                pairs = zip(labels, table.tolist(), strict=True)
                rows = [[label, *map(show, line)] for label, line in pairs]
                title = f"Layer {row}, head {head}"
                listing.draw(f"{title}, table", listing.table(title, ["token", *labels], rows))

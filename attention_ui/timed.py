"""Lesson 15, profile: plain and tiled attention timed on this server, beside what is estimated from shapes.

A run goes on call by call in a fragment of its own, so that other readers are served in between, and one run
at a time measures. Its state stays in the session and not in the link: a link carries what follows from
numbers, and a time does not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from threading import Lock

import numpy as np
import streamlit as st

from attention_core.attention import attention
from attention_core.numbers import show
from attention_core.sheet import NUMBER_BYTES, cost
from attention_core.sheets import ATTENTION
from attention_core.tile_traffic import bytes_plain, bytes_tiled
from attention_core.tiles import flash_attention
from attention_core.timing import (
    BLOCK,
    LONGEST_ALL,
    LONGEST_CALL,
    REPEATS,
    SIZES,
    WIDTHS,
    Timing,
    inputs,
    machine,
    plan,
    step,
)
from attention_core.written import visible
from attention_ui import listing, live, prose, teaching
from attention_ui.choices import Choice
from attention_ui.desk import Desk

STATE = "p15 timing"  # in the session: one Timing, or nothing
EVERY = 0.05  # seconds from one call to the next, for everybody else
CHECKED = 256  # tokens for which both outputs are compared
WIDTH = Choice("p15.width", "Width of a head, d", {str(d): str(d) for d in WIDTHS}, "64")
_ONE_AT_A_TIME = Lock()
CAVEATS = (
    "Plain attention here keeps every stage, as this laboratory does; a program that does not is quicker.",
    "NumPy works in float64 on processor cores. The tiles of a GPU lie in fast memory beside its arithmetic, "
    "which a program in NumPy cannot choose: what tiles save there, this cannot show.",
    "NumPy stays on one core here where it comes with OpenBLAS, as on Linux and Windows: sharing products "
    "out to all cores would hold up the other readers. Large products would gain more by it than tiles.",
    "Other readers of this server share its cores. The median of a few calls forgives one of them, not many.",
)


def width(desk: Desk) -> int:
    return int(WIDTH.of(desk.bench))


def start(d: int) -> None:
    """Begin a run from its first call."""
    st.session_state[STATE] = plan(d)


def stop() -> None:
    """Leave out what is still waiting."""
    timing: Timing | None = st.session_state.get(STATE)
    if timing is not None:
        st.session_state[STATE] = replace(timing, waiting=())


def timing_of(desk: Desk) -> Timing | None:
    """The run at the width that is chosen, as far as it has come."""
    timing: Timing | None = st.session_state.get(STATE)
    return timing if timing is not None and timing.d == width(desk) else None


def controls(desk: Desk) -> None:
    """The button that starts a run, and while it goes on the one that stops it."""
    timing = timing_of(desk)
    with st.container(horizontal=True, vertical_alignment="bottom", key="choices"):
        WIDTH.draw(desk)
        if timing is None or timing.is_done:
            again = "Time it again" if timing else "Time it here"
            st.button(again, key="p15 start", on_click=start, args=(width(desk),))
        else:
            st.button("Stop", key="p15 stop", on_click=stop)
    if timing is not None and not timing.is_done:
        st.fragment(_tick, run_every=EVERY, key="p15 clock")()


def _tick() -> None:
    """One call, where the clock calls and not a run of the whole page; then how far it has come."""
    desk: Desk | None = st.session_state.get("desk")
    timing: Timing | None = st.session_state.get(STATE)
    if desk is None or timing is None:
        return
    if live.alone() and desk.page == live.page_now() and not timing.is_done:
        timing = st.session_state[STATE] = one_more(timing)
        if timing.is_done:
            st.rerun()
    st.progress(timing.share, text=said(timing))


def one_more(timing: Timing) -> Timing:
    """The run after one more call; as it is while another reader's call is being timed."""
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        return timing
    try:
        return step(timing)
    finally:
        _ONE_AT_A_TIME.release()


def said(timing: Timing) -> str:
    """Which call comes next."""
    if timing.is_done:
        return "Done."
    way, n = timing.waiting[0]
    return f"{way.capitalize()} attention, n = {n}"


def results(desk: Desk) -> None:
    """The estimate, the measurement where there is one, and what holds; each in a table of its own."""
    d, timing = width(desk), timing_of(desk)
    left, right = st.columns(2, gap="large")
    with left:
        prose.paragraph("Estimated from shapes", kind="strong")
        prose.paragraph(
            f"One head, {NUMBER_BYTES} bytes a number, tiles of {BLOCK} × {BLOCK}. Bytes go to and from slow "
            "memory; what caches save is left out.",
            kind="quiet",
        )
        estimates = [_estimated(n, d) for n in SIZES]
        listing.draw("Estimate", listing.table("Operations and bytes", ESTIMATE, estimates))
    with right:
        prose.paragraph("Measured on this server", kind="strong")
        if timing is None or not timing.is_done or not timing.taken:
            prose.paragraph(PROMISE, kind="quiet")
        else:
            prose.paragraph(f"{machine()}.", kind="quiet")
            measured = [_measured(timing, n) for n in SIZES]
            caption = f"Milliseconds, medians of up to {REPEATS} calls"
            listing.draw("Measurement", listing.table(caption, MEASURED, measured))
    if timing is not None and timing.is_done:
        for sentence in growth(timing):
            prose.paragraph(sentence)
    prose.bullets(CAVEATS)
    teaching.check(claims(d))


PROMISE = (
    f"Nothing yet. A run calls both ways up to {REPEATS} times at each size, on the same random numbers, and "
    f"ends after {show(LONGEST_ALL)} seconds of calls; a size that would take more than {show(LONGEST_CALL)} "
    "seconds is left out."
)
ESTIMATE = ("Tokens n", "Operations", "Bytes, plain", "Bytes, tiled")
MEASURED = ("Tokens n", "Plain, ms", "Tiled, ms")


def operations(n: int, d: int) -> int:
    """Of one head, counted from the sheet of attention."""
    sizes = {"query": n, "key": n, "d_k": d, "d_v": d}
    return sum(line.operations for line in cost(ATTENTION, sizes))


def _estimated(n: int, d: int) -> tuple[str, ...]:
    tiled = bytes_tiled(n, n, d, d, block_q=BLOCK, block_k=BLOCK)
    numbers = (operations(n, d), bytes_plain(n, n, d, d), tiled)
    return str(n), *(show(number) for number in numbers)


def _measured(timing: Timing, n: int) -> tuple[str, ...]:
    return str(n), *(_milliseconds(timing, way, n) for way in ("plain", "tiled"))


def _milliseconds(timing: Timing, way: str, n: int) -> str:
    seconds = timing.median(way, n)
    if seconds is not None:
        return visible(1e3 * seconds, show)
    return "left out" if (way, n) in timing.left_out else "not measured"


def growth(timing: Timing) -> list[str]:
    """By how much each way's time grew from the last size but one to the last that was measured."""
    sentences = []
    for way in ("plain", "tiled"):
        sizes = [n for n in SIZES if timing.median(way, n) is not None]
        if len(sizes) > 1:
            few, many = sizes[-2:]
            before, after = timing.median(way, few), timing.median(way, many)
            assert before and after
            sentences.append(
                f"Measured: {way} attention took {show(after / before)} times as long for {many} tokens "
                f"as for {few}."
            )
    return sentences


def claims(d: int) -> list[tuple[str, bool]]:
    """What holds of the estimate, and of both ways' numbers."""
    last, before = SIZES[-1], SIZES[-2]
    times = operations(last, d) / operations(before, d)
    return [
        (
            f"Estimated: {last} tokens take {show(times)} times the operations of {before}, because "
            "the table of queries and keys has so many times the cells.",
            operations(last, d) == 4 * operations(before, d),
        ),
        (
            f"Both ways give the same output for {CHECKED} tokens: no number differs by more than "
            f"{visible(gap(d), show)}, which is rounding.",
            gap(d) < 1e-12,
        ),
    ]


@lru_cache(maxsize=len(WIDTHS))
def gap(d: int) -> float:
    """The largest difference between the two outputs; worked out once, in about 5 ms."""
    q, k, v = inputs(CHECKED, d)
    tiled, _ = flash_attention(q, k, v, block_q=BLOCK, block_k=BLOCK)
    return float(np.abs(tiled - attention(q, k, v).output).max())

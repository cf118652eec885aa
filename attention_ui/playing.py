"""Steps that go on by themselves: a slider that moves on every so often while a switch is on.

Each move is a change of the bench like any other, so that the link always says where things stand. Whether it
plays is not part of the link: a page that is still loading must not be run again under the reader's hands.
The clock is a fragment of its own that draws nothing. It stops with the switch, at the last step, and when
the reader goes to another page.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import streamlit as st

from attention_core.numbers import exact
from attention_ui import live
from attention_ui.bench import Bench
from attention_ui.choices import Amount, Choice, with_choice
from attention_ui.desk import Desk

SECONDS = {"slow": 2.5, "medium": 1.2, "fast": 0.6}  # from one step to the next


@dataclass(frozen=True)
class Player:
    """The slider that is moved on, and how fast."""

    step: Amount
    speed: Choice

    def at(self, bench: Bench, last: int) -> int:
        """The step now, from the slider's low end to the last there is."""
        return min(int(self.step.of(bench)), last)

    def draw(self, desk: Desk, last: int) -> None:
        """The slider up to `last`, the switch, and its clock; a single step has nothing to move on to."""
        self.step.draw(desk, high=last)
        if last > self.step.low:
            key, over = f"play {self.step.name}", self.at(desk.bench, last) == last
            if over:
                st.session_state[key] = False
            playing = st.toggle("Play", key=key, disabled=over, help="Move the slider back to play again.")
            self.speed.draw(desk)
            if playing:
                seconds = SECONDS[self.speed.of(desk.bench)]
                st.fragment(partial(self._tick, last), run_every=seconds, key=f"clock {self.step.name}")()

    def _tick(self, last: int) -> None:
        """One step on, where it is the clock that calls and not a run of the whole page."""
        desk: Desk | None = st.session_state.get("desk")
        if live.alone() and desk is not None and desk.page == live.page_now():
            desk.bench = self.moved_on(desk.bench, last)
            st.rerun()

    def moved_on(self, bench: Bench, last: int) -> Bench:
        """The bench one step later; at the last step as it is."""
        return with_choice(bench, self.step.name, exact(float(min(self.at(bench, last) + 1, last))))


def player(step: Amount, prefix: str) -> Player:
    """The slider with its speed, named "p10.speed" in the link."""
    return Player(step, Choice(f"{prefix}.speed", "Speed", {word: word for word in SECONDS}, "medium"))

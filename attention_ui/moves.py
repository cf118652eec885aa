"""A row of buttons whose presses, one letter each, are part of the link: "p13.moves=bab".

A press adds its letter at the end; two more buttons take the last one back or all of them. A button is true
for one run only, so what it does is done when it is pressed, before that run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from attention_ui import prose
from attention_ui.bench import Bench
from attention_ui.choices import with_choice
from attention_ui.desk import Desk

BACK, CLEAR = "back", "clear"


@dataclass(frozen=True)
class Moves:
    """`options` are the letters and what stands on their buttons; at most `most` presses are kept."""

    name: str
    label: str
    options: Mapping[str, str]
    most: int

    def of(self, bench: Bench) -> str:
        """The presses so far; those that are not offered are left out."""
        pressed = bench.choices.get(self.name, "")
        return "".join(letter for letter in pressed if letter in self.options)[: self.most]

    def pressed(self, bench: Bench, press: str) -> Bench:
        """The bench after a button was pressed: a letter, BACK or CLEAR."""
        done = self.of(bench)
        letters = {BACK: done[:-1], CLEAR: ""}.get(press, done + press)
        return with_choice(bench, self.name, letters[: self.most] or None)

    def draw(self, desk: Desk) -> None:
        done, told = self.of(desk.bench), desk.bench.choices.get(self.name, "")
        if told != done:
            prose.notice(
                f"Not understood in this link: {self.name}={told}. “{self.label}” takes {done or 'none'}."
            )
        for letter, text in self.options.items():
            self._button(letter, text, len(done) < self.most)
        self._button(BACK, "Take the last back", bool(done))
        self._button(CLEAR, "Start again", bool(done))

    def _button(self, press: str, text: str, enabled: bool) -> None:
        key = f"press {self.name} {press}"
        st.button(text, key=key, disabled=not enabled, on_click=self._press, args=(press,))

    def _press(self, press: str) -> None:
        desk: Desk = st.session_state["desk"]
        desk.change(self.pressed(desk.bench, press))

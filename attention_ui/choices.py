"""What a lesson asks its reader: a choice, an amount, a switch. Each is part of the link.

A page declares its controls at the top, reads them from the bench wherever it draws, and places each
with `draw`, outside the parts that follow an edit:

    HEADS = Choice("p5.heads", "Heads", {"1": "1", "2": "2", "4": "4"}, "2")

What a link says that is not offered is told in a sentence, and the control shows what it starts with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import streamlit as st

from attention_core.numbers import exact, parse_number
from attention_ui import prose
from attention_ui.bench import Bench
from attention_ui.desk import Desk

KEY = "choice "  # what a control's key begins with in the session's state


def with_choice(bench: Bench, name: str, value: str | None) -> Bench:
    """The bench with one choice made; None takes it back to what the lesson starts with."""
    choices = {other: text for other, text in bench.choices.items() if other != name}
    return replace(bench, choices=choices if value is None else {**choices, name: value})


@dataclass(frozen=True)
class Choice:
    """One of a few. `options` are the link's words and what the reader sees; kind "row" or "list"."""

    name: str
    label: str
    options: Mapping[str, str]
    start: str
    help: str | None = None
    kind: str = "row"

    def of(self, bench: Bench) -> str:
        value = bench.choices.get(self.name, self.start)
        return value if value in self.options else self.start

    def draw(self, desk: Desk) -> None:
        _tell_unknown(desk, self.name, self.label, self.of(desk.bench))
        key = _hand(desk, self.name, self.of(desk.bench))
        if self.kind == "list":
            st.radio(
                self.label, list(self.options), key=key, format_func=self.options.__getitem__,
                horizontal=True, help=self.help,
            )  # fmt: skip
        else:
            st.segmented_control(
                self.label, list(self.options), key=key, format_func=self.options.__getitem__, help=self.help
            )


@dataclass(frozen=True)
class Amount:
    """A number on a slider, from `low` to `high` in steps."""

    name: str
    label: str
    low: float
    high: float
    start: float
    step: float = 1
    help: str | None = None

    def of(self, bench: Bench) -> float:
        """The number; a whole number where the step is one."""
        value = self._read(bench.choices.get(self.name, ""))
        return self.start if value is None else value

    def _read(self, text: str) -> float | None:
        try:
            value = parse_number(text)
        except ValueError:
            return None
        if not self.low <= value <= self.high:
            return None
        return int(value) if isinstance(self.step, int) and value == int(value) else value

    def draw(self, desk: Desk, high: float | None = None) -> None:
        """The slider; `high` ends it earlier where there is less to choose from, and hides it at `low`."""
        _tell_unknown(desk, self.name, self.label, exact(float(self.of(desk.bench))))
        number = int if isinstance(self.step, int) else float
        low, most, step = (
            number(value) for value in (self.low, self.high if high is None else high, self.step)
        )
        if most > low:
            value = min(number(self.of(desk.bench)), most)
            key = _hand(desk, self.name, value)
            if desk.shown.get(f"{key} high") != most:  # to Streamlit a slider with another end is a new one
                st.session_state[key] = value
                desk.shown[f"{key} high"] = most
            st.slider(self.label, low, most, key=key, step=step, help=self.help)


@dataclass(frozen=True)
class Switch:
    """On or off; off at first."""

    name: str
    label: str
    help: str | None = None

    def of(self, bench: Bench) -> bool:
        return bench.choices.get(self.name) == "on"

    def draw(self, desk: Desk) -> None:
        key = _hand(desk, self.name, self.of(desk.bench))
        st.toggle(self.label, key=key, help=self.help)


def moved(bench: Bench, key: str, value: object) -> Bench:
    """The bench after the control with that key in the session's state was moved to a value."""
    name = key.removeprefix(KEY)
    if value is None:  # a second click on the chosen option leaves it chosen
        return bench
    if isinstance(value, bool):
        return with_choice(bench, name, "on" if value else None)
    return with_choice(bench, name, value if isinstance(value, str) else exact(float(str(value))))


def _hand(desk: Desk, name: str, value: object) -> str:
    """Give a control its value before it is drawn; its key."""
    key = KEY + name
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    desk.shown[key] = value
    return key


def _tell_unknown(desk: Desk, name: str, label: str, shown: str) -> None:
    told = desk.bench.choices.get(name)
    if told is not None and told != shown:
        prose.notice(
            f"Not understood in this link: {name}={told}. “{label}” starts with its own value instead."
        )

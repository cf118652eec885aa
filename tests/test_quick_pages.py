"""A shared control that is moved runs parts of a page: what a reader then sees is what the whole page shows.

A really started server; the elements are put together as the browser does it, and compared with those of a
new tab that opens the link which the board has written.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from common import Server  # noqa: E402
from tab import Tab  # noqa: E402
from users import Tally, User  # noqa: E402

from attention_core.examples import EXAMPLES  # noqa: E402
from attention_core.masks import MASKS  # noqa: E402
from attention_ui.lessons import LESSONS  # noqa: E402
from attention_ui.mask_controls import JOINS  # noqa: E402

pytestmark = pytest.mark.server

QUICK = {lesson.slug: lesson.controls for lesson in LESSONS if lesson.quick}
OF_A_TAB = ("session", "ack", "turn", "query", "then", "key", "messages", "toolbar", "passages")
CONTROLS = ("slider", "selectbox", "text_input", "radio", "button_group")


@dataclass
class Screen(Tab):
    """A tab that keeps every element at its place, and takes away what a run has not drawn again."""

    elements: dict[tuple[int, ...], tuple[str, int, Any]] = field(default_factory=dict)
    kept: dict[str, ForwardMsg] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)  # what the controls show, by their ids
    parts: list[str] = field(default_factory=list)  # of the run that is on; none: the whole page
    whole: int = 0  # runs of the whole page

    def take(self, raw: bytes) -> bool:
        message = ForwardMsg.FromString(raw)
        if message.WhichOneof("type") == "ref_hash":
            metadata = message.metadata
            message = ForwardMsg.FromString(self.kept[message.ref_hash].SerializeToString())
            message.metadata.CopyFrom(metadata)
        elif message.hash:
            self.kept[message.hash] = message
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self.parts = list(message.metadata.run.fragment_ids)
            self.whole += not self.parts
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            place = tuple(message.metadata.delta_path)
            element = message.delta.new_element
            self.elements[place] = (message.delta.fragment_id, self.runs, element)
            part = getattr(element, element.WhichOneof("type"))
            if getattr(part, "set_value", False):
                self.held[part.id] = given(part)
        over = super().take(raw)
        if over:
            self._tidy()
        return over

    def _set(self, state: WidgetState, kind: str, value: Any) -> str:
        part = super()._set(state, kind, value)
        self.held[state.id] = moved_to(state)
        return part

    def _tidy(self) -> None:
        for place, (part, run, _) in list(self.elements.items()):
            if run < self.runs - 1 and (not self.parts or part in self.parts):
                del self.elements[place]

    def shown(self) -> list[tuple[str, ...]]:
        """What every element says, in the order of the page; of a control what it offers and holds."""
        return [self._said(self.elements[place][2]) for place in sorted(self.elements)]

    def _said(self, element: Any) -> tuple[str, ...]:
        kind = element.WhichOneof("type")
        part = getattr(element, kind)
        texts = [str(getattr(part, name, "")) for name in ("body", "label", "help", "min", "max")]
        options = [str(option) for option in getattr(part, "options", [])]
        return (kind, *texts, *options, self.held[part.id] if kind in CONTROLS else "")


def given(part: Any) -> str:
    """What the server tells a control to show."""
    names = ("value", "raw_values", "raw_value")
    value = getattr(part, next(name for name in names if hasattr(part, name)))
    return value if isinstance(value, str) else str(list(value))


def moved_to(state: WidgetState) -> str:
    """What a reader moved a control to."""
    value = getattr(state, state.WhichOneof("value"))
    return value if isinstance(value, str) else str(list(value.data))


def board_of(tab: Tab) -> dict[str, Any]:
    """What the board shows, without what belongs to a tab."""
    return {name: value for name, value in tab.board.items() if name not in OF_A_TAB}


async def opened(server: Server, page: str, query: str) -> User:
    reader = User(server.host, 1, Tally(), page=page)
    reader.tab = Screen(query)
    await reader.open()
    return reader


Moves = list[tuple[str, str | float]]  # a number for a slider, a text for what is chosen or typed
MOVES: dict[str, Moves] = {
    "n_q": [("n_q", 5)],
    "n_k": [("n_k", 5)],
    "both sizes alike": [("n_q", 5), ("n_k", 5)],
    "d_k": [("d_k", 3)],
    "d_v": [("d_v", 3)],
    "a causal mask": [("mask_0_kind", MASKS["causal"].title)],
    "a window": [("mask_0_kind", MASKS["window"].title)],
    "a window and back": [
        ("mask_0_kind", MASKS["window"].title),
        ("mask_0_left", 1),
        ("mask_0_kind", MASKS["none"].title),
    ],
    "a mask that depends on the size": [
        ("mask_0_kind", MASKS["causal"].title),
        ("n_q", 6),
    ],
    "two masks": [
        ("mask_join", JOINS["and"]),
        ("mask_1_kind", MASKS["window"].title),
    ],
    "tokens": [("tokens", "one two three")],
    "tokens that cannot be": [("tokens", " ".join("abcdefghijklmnopqrstuvwxyz"))],
    "another example": [("example", next(iter(EXAMPLES.values())).title)],
}  # fmt: skip


async def moved_and_anew(server: Server, page: str, moves: Moves) -> tuple[User, User, int]:
    """A reader who has moved something, one who opens the link that this has made, and runs of the page."""
    reader = await opened(server, page, "example=seed&view=all")
    before = reader.tab.whole
    for key, value in moves:
        move = reader.tab.choose if isinstance(value, str) else reader.tab.slide
        await reader.run(reader.tab.ask(move(key, value)))
    other = await opened(server, page, reader.tab.board["query"])
    for each in (reader, other):
        await each.close()
    return reader, other, reader.tab.whole - before


@pytest.mark.parametrize("page", QUICK)
@pytest.mark.parametrize("name", MOVES)
def test_the_screen_shows_what_the_whole_page_shows(server, page, name):
    reader, other, _ = asyncio.run(moved_and_anew(server, page, MOVES[name]))
    assert board_of(reader.tab) == board_of(other.tab)
    here, there = reader.tab.shown(), other.tab.shown()
    if name == "tokens that cannot be":  # they stay in their field with a sentence, and are not in the link
        here = [each for each in here if each[0] != "text_input" and "Nothing was changed" not in each[1]]
        there = [each for each in there if each[0] != "text_input"]
    assert here == there


@pytest.mark.parametrize("page", QUICK)
@pytest.mark.parametrize("name", [name for name in MOVES if name != "another example"])
def test_only_parts_of_the_page_run(server, page, name):
    assert asyncio.run(moved_and_anew(server, page, MOVES[name]))[2] == 0

"""A tab that has outlived its server: what its reader does next is done, whatever it is.

The server is killed and started again. The tab connects anew, as a browser does by itself, and its first word
to the new server is what the reader moves: with it come the controls as they stand, and the address.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from common import Server  # noqa: E402
from tab import Tab  # noqa: E402
from users import Tally, User  # noqa: E402

from attention_core.masks import MASKS, MaskSpec  # noqa: E402

pytestmark = pytest.mark.server


@dataclass
class Watched(Tab):
    """A tab that also keeps what stands in its fields of text."""

    fields: dict[str, str] = field(default_factory=dict)

    def _look_at(self, element: Any, fragment: str) -> None:
        super()._look_at(element, fragment)
        if element.WhichOneof("type") == "text_input":
            self.fields[element.text_input.label] = element.text_input.value


def outlived(server: Server, page: str, move: Callable[[User], str], before: str = "edit") -> User:
    """A reader who changed something, whose server was killed, and who then makes a move in the open tab."""

    async def story() -> User:
        user = User(server.host, 1, Tally(), page=page)
        user.tab = Watched(user.numbers.link)
        await user.open()
        await getattr(user, before)()
        for key in ("n_q", "n_k", "d_v"):  # a browser tells of all controls
            user.tab.slide(key, getattr(user.numbers, key))
        await user.close()
        server.kill()
        server.start()
        user.tab.query = user.tab.board["query"]
        await user.connect()
        await user.run(user.tab.ask(move(user)))
        await user.close()
        return user

    return asyncio.run(asyncio.wait_for(story(), 60))


def slide(user: User) -> str:
    user.numbers.d_k = 5
    return user.tab.slide("d_k", 5)


def choose_a_mask(user: User) -> str:
    user.numbers.mask = MaskSpec("causal" if user.numbers.mask.kind != "causal" else "window")
    return user.tab.choose("mask_0_kind", MASKS[user.numbers.mask.kind].title)


@pytest.mark.parametrize("page", ["walkthrough", "compare"])
@pytest.mark.parametrize("move", [slide, choose_a_mask])
@pytest.mark.parametrize("before", ["edit", "slide", "mask"])
def test_a_control_that_is_moved_first_stays_where_it_was_put(server, page, move, before):
    user = outlived(server, page, move, before)
    assert user.wrong() == []
    assert user.tab.board["query"] != user.tab.query  # the address follows


def test_a_text_that_cannot_be_read_is_refused_in_a_sentence_and_stays(server):
    typed = "a" * 400

    def move(user: User) -> str:
        return user.tab._set(WidgetState(id=user.tab.ids["tokens"]), "string_value", typed)

    user = outlived(server, "walkthrough", move)
    assert user.wrong() == []
    assert isinstance(user.tab, Watched) and user.tab.fields["Tokens"] == typed


@pytest.mark.parametrize(
    "forged",
    [
        {"string_value": "five"},
        {"json_value": "{"},
        {"int_value": 7},
        {"double_array_value": {"data": []}},
        {"double_array_value": {"data": [float("nan")]}},
        {"double_array_value": {"data": [1e9]}},
    ],
    ids=str,
)
def test_what_no_control_tells_does_no_harm(server, forged):
    def move(user: User) -> str:
        user.tab.states = {"d_k": WidgetState(id=user.tab.ids["d_k"], **forged)}
        return ""

    user = outlived(server, "walkthrough", move)
    user.numbers.d_k = len(user.tab.board["grids"]["q"]["cells"][0])  # that, or where the slider begins
    assert user.wrong() == []

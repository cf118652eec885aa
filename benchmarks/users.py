"""Readers by the hundred, each with numbers of its own, and a check of every answer they get.

A user opens a link, edits cells of Q, K and V, moves sliders, changes masks and pages, with a pause between.
What the board then shows is compared text by text with attention_core on what this user has typed: a number
of somebody else's, or an edit that was lost or taken twice, is an error.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlencode

import numpy as np
from common import ROOT
from numpy.typing import NDArray
from tab import PageError, Tab
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

sys.path.insert(0, str(ROOT))

from attention_core.attention import attention
from attention_core.examples import EXAMPLES, matrix
from attention_core.masks import MASKS, MaskSpec, allowed
from attention_core.numbers import show_table

EXAMPLE = "seed"  # its Q, K and V are given, and follow a seed
MASKS_TRIED = ("none", "causal", "window", "prefix")
STAGES = ("q", "k", "v", "scores", "scaled", "masked", "weights", "output")
PATIENCE = 60.0  # seconds for an answer
LOST = (OSError, WebSocketException, asyncio.TimeoutError, PageError)


@dataclass
class Tally:
    """What all users together have seen."""

    seconds: dict[str, list[float]] = field(default_factory=dict)  # by kind of change
    first: list[float] = field(default_factory=list)  # from connecting to the first page
    errors: Counter[str] = field(default_factory=Counter)
    checked: int = 0  # answers compared with the core
    late_after: float = 0.0  # changes that began before are not counted

    def note(self, kind: str, began: float) -> None:
        if began >= self.late_after:
            self.seconds.setdefault(kind, []).append(time.perf_counter() - began)

    @property
    def all(self) -> list[float]:
        """The times of all changes, without what follows a painted board."""
        return [value for kind, values in self.seconds.items() if kind != "after" for value in values]


@dataclass
class Numbers:
    """What one user has on the table, kept apart from the app."""

    seed: int
    n_q: int = 8
    n_k: int = 8
    d_k: int = 8
    d_v: int = 8
    mask: MaskSpec = field(default_factory=lambda: MaskSpec("none"))
    edits: dict[str, dict[tuple[int, int], float]] = field(default_factory=dict)

    @property
    def link(self) -> str:
        sizes = {"nq": self.n_q, "nk": self.n_k, "dk": self.d_k, "dv": self.d_v}
        return urlencode({"example": EXAMPLE, **sizes, "seed": self.seed, "view": "all"})

    def given(self, name: str) -> NDArray[np.float64]:
        """Q, K or V as this user has typed it."""
        rows, columns = {"q": (self.n_q, self.d_k), "k": (self.n_k, self.d_k), "v": (self.n_k, self.d_v)}[
            name
        ]
        values = matrix(EXAMPLES[EXAMPLE], name, rows, columns, seed=self.seed).copy()
        for (i, j), value in self.edits.get(name, {}).items():
            if i < rows and j < columns:
                values[i, j] = value
        return values

    def expected(self, mask: MaskSpec) -> dict[str, list[list[str]]]:
        """Every stage as it has to be shown under a mask."""
        trace = attention(*(self.given(name) for name in "qkv"), mask=allowed(mask, self.n_q, self.n_k))
        return {name: show_table(trace.values[name]) for name in STAGES}


@dataclass
class User:
    """One reader of the app."""

    host: str
    number: int
    tally: Tally
    think: float = 5.0
    page: str = "walkthrough"
    numbers: Numbers = field(init=False)
    tab: Tab = field(init=False)
    socket: ClientConnection | None = None

    def __post_init__(self) -> None:
        self.dice = random.Random(self.number)
        self.numbers = Numbers(seed=1 + self.number)
        self.tab = Tab(self.numbers.link)

    async def open(self) -> None:
        """Connect as a browser does, and wait for the first page."""
        began = time.perf_counter()
        await self.connect()
        await self.run(self.tab.ask(path=self.page))
        self.tally.first.append(time.perf_counter() - began)

    async def connect(self) -> None:
        """Connect, and say nothing yet."""
        self.socket = await connect(
            f"ws://{self.host}/_stcore/stream",
            subprotocols=["streamlit"],  # type: ignore[list-item]
            max_size=None,
            compression=None,
            open_timeout=PATIENCE,
            ping_interval=None,
        )

    async def close(self) -> None:
        if self.socket is not None:
            await self.socket.close()

    async def run(self, asked: bytes) -> None:
        """Ask for a run and wait until it has finished."""
        assert self.socket is not None
        await self.socket.send(asked)
        async with asyncio.timeout(PATIENCE):
            while not self.tab.take(bytes(await self.socket.recv())):  # type: ignore[arg-type]
                pass

    async def live(self, until: float) -> None:
        """Open the page and change something every so often; an error is counted, and ends it."""
        try:
            await self.open()
            self.check()
            while True:
                await asyncio.sleep(self.think * self.dice.uniform(0.5, 1.5))
                if time.perf_counter() >= until:
                    break
                await self.change()
        except LOST as error:
            self.tally.errors[f"{type(error).__name__}: {error}"[:100]] += 1
        finally:
            await self.close()

    async def change(self) -> None:
        """Do one thing, wait for the answer, and check it."""
        kind = self.dice.choices(["edit", "slide", "mask", "turn_page"], [60, 20, 12, 8])[0]
        began = time.perf_counter()
        await getattr(self, kind)()
        self.tally.note(kind, began)
        self.check()
        if self.tab.board["then"]:
            began = time.perf_counter()
            fragment, trigger = self.tab.painted()
            await self.run(self.tab.ask(fragment, states=trigger))
            self.tally.note("after", began)

    async def edit(self) -> None:
        name = self.dice.choice("qkv")
        rows, columns = self.numbers.given(name).shape
        row, column = self.dice.randrange(rows), self.dice.randrange(columns)
        text = f"{self.dice.uniform(-3, 3):.2f}"
        self.numbers.edits.setdefault(name, {})[row, column] = float(text)
        await self.run(self.tab.ask(self.tab.operate(["edit", name, row, column, text])))

    async def slide(self) -> None:
        key = self.dice.choice(["n_q", "n_k", "d_k", "d_v"])
        size = self.dice.randint(4, 8)
        setattr(self.numbers, key, size)
        await self.run(self.tab.ask(self.tab.slide(key, size)))

    async def mask(self) -> None:
        kind = self.dice.choice(MASKS_TRIED)
        if kind == self.numbers.mask.kind:
            kind = MASKS_TRIED[MASKS_TRIED.index(kind) - 1]
        self.numbers.mask = MaskSpec(kind)
        await self.run(self.tab.ask(self.tab.choose("mask_0_kind", MASKS[kind].title)))

    async def turn_page(self) -> None:
        self.page = "compare" if self.page == "walkthrough" else "walkthrough"
        self.tab.page, self.tab.states, self.tab.query = self.tab.pages[self.page], {}, ""
        await self.run(self.tab.ask())

    def check(self) -> None:
        """Compare what the board shows with the core, text by text."""
        for name in self.wrong():
            self.tally.errors[f"wrong numbers on {self.page}: {name}"] += 1
        self.tally.checked += 1

    def wrong(self) -> list[str]:
        """What the board shows that is not what the core makes of this user's numbers."""
        shown = {name: grid["cells"] for name, grid in self.tab.board["grids"].items()}
        expected = self.numbers.expected(self.numbers.mask)
        if self.page == "compare":
            shown = {name.removesuffix("_a"): cells for name, cells in shown.items()}
        wrong = [name for name in STAGES if name in shown and shown[name] != expected[name]]
        if len(set(STAGES) & set(shown)) < 5:
            wrong.append("too few matrices")
        return wrong


@dataclass
class SliderUser(User):
    """One reader of the floor app, who moves its slider as often."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.page, self.tab = "", Tab()
        self.at = 1

    async def change(self) -> None:
        """Move the slider to another place."""
        self.at = self.dice.choice([n for n in range(1, 9) if n != self.at])
        began = time.perf_counter()
        await self.run(self.tab.ask(self.tab.slide("n", self.at)))
        self.tally.note("slide", began)
        self.check()

    def check(self) -> None:
        """Whether the text tells this user's own number."""
        self.tally.checked += 1
        if self.tab.text not in ("", f"n is {self.at}"):
            self.tally.errors["wrong number on the floor"] += 1

"""The board: every matrix of a sheet as a table whose cells are a heat map, edited in place.

What the browser is told is a `Board`; what it says back is a list of operations, each with a number
that counts up. Python applies the ones after `ack` in order, exactly once, and answers with the new
ack; the browser keeps the rest and tells them again. So nothing is lost or applied twice, whatever
runs Streamlit merges, and numbers are parsed in Python only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from attention_core.limits import MOST_OPERATIONS
from attention_ui import theme

HERE = Path(__file__).parent
NAME = "attention_board"

Operation = list[Any]
Pattern = str  # a pattern of attention_core.operations.Operation

# what follows the number and the kind: s a text, n a count from 0
ARGUMENTS = {
    "edit": "snns",
    "paste": "snns",
    "toggle": "snn",
    "select": "snn",
    "step": "n",
    "undo": "",
    "redo": "",
    "reset": "",
    "new": "",
}


@dataclass(frozen=True)
class Grid:
    """One matrix. Everything shown is text made in Python; rows and columns count from 0."""

    name: str  # accessible name: "K transposed"
    cells: Sequence[Sequence[str]]  # as shown
    label: Sequence[tuple[str, str]] = ()  # title in pieces: (text, "" | "sub" | "sup"); empty: the name
    size: str = ""  # "2 × 4"
    dims: str = ""  # "d_k × n_k"
    role: str = "plain"  # a key of theme.ROLES
    kind: Literal["given", "computed", "switch"] = "computed"
    rows: Sequence[str] = ()  # tokens; empty: numbered from 1
    cols: Sequence[str] = ()
    row_axis: str = ""
    col_axis: str = ""
    first_row: int = 1  # what its rows and columns are counted from: a part of a matrix keeps its places
    first_col: int = 1
    exact: Sequence[Sequence[str]] | None = None  # what the editor opens with and what is copied
    levels: Sequence[Sequence[int | None]] | None = None  # theme.levels; None in a cell: no number, hatched
    clipped: Sequence[tuple[int, int]] = ()  # cells beyond the colour range
    scale: Literal["signed", "weight", "none"] = "signed"
    legend: str = ""  # "colour −4 to 4"
    width: int = 5  # characters of the widest cell to come, so that columns never jump
    reads: Sequence[tuple[str, Pattern]] = ()  # (grid id, which of its cells make cell (i, j))
    sums: Sequence[str] | None = None
    sums_label: str = "row sum"
    notes: Mapping[int, str] = field(default_factory=dict)  # beside a row: {2: "may look nowhere"}
    meaning: str = ""  # one sentence

    @cached_property
    def message(self) -> bytes:
        """What the browser is told, made once for a grid that is drawn again as it was."""
        return encoded(vars(self))


@dataclass(frozen=True)
class Unit:
    """What stands together: a result, its left factor beside it and its top factor above it.

    Ids in `echo` are drawn as quiet copies, because the matrix itself stands elsewhere.
    """

    result: str
    left: str | None = None
    top: str | None = None
    corner: str | None = None
    echo: Sequence[str] = ()
    via: str = ""  # how it follows from the unit before it, over an arrow: "÷ √d_k"


@dataclass(frozen=True)
class Message:
    """A sentence about a cell; `id` differs for each one said. A refused edit also marks the cell."""

    id: int
    grid: str
    row: int
    col: int
    text: str
    kind: Literal["refused", "note"] = "refused"


@dataclass(frozen=True)
class Toolbar:
    """Which buttons can be pressed, and the seed of the numbers (0: the example's own)."""

    undo: bool = False
    redo: bool = False
    reset: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Steps:
    """The titles of the steps; `now` counts from 1."""

    titles: Sequence[str]
    now: int


@dataclass(frozen=True)
class Board:
    """Everything the board shows, and how far the browser's operations have been applied."""

    grids: Mapping[str, Grid]
    layout: Sequence[Sequence[Unit]]
    session: str
    ack: int = 0
    toolbar: Toolbar | None = None
    steps: Steps | None = None
    selected: tuple[str, int, int] | None = None
    messages: Sequence[Message] = ()
    query: str | None = None  # what the address bar then holds after the question mark; None: left alone
    then: bool = False  # tell the server when this has been painted: there is more to draw
    passages: Mapping[str, str] = field(default_factory=dict)  # HTML by name: see passages.py
    turn: int = 0  # which run made them

    def message(self, key: str) -> bytes:
        """What the browser is told; `key` tells it whose operations it keeps.

        Bytes, because Streamlit forwards them, where it would search and encode a dict twice.
        """
        selected = self.selected and dict(zip(("grid", "row", "col"), self.selected, strict=True))
        rest = vars(self) | {
            "key": key,
            "layout": [[vars(unit) for unit in line] for line in self.layout],
            "toolbar": self.toolbar and vars(self.toolbar),
            "steps": self.steps and vars(self.steps),
            "selected": selected,
            "messages": [vars(message) for message in self.messages],
        }
        del rest["grids"]
        grids = b",".join(b"%b:%b" % (encoded(name), grid.message) for name, grid in self.grids.items())
        return b'{"grids":{%b},%b' % (grids, encoded(rest)[1:])


def encoded(data: object) -> bytes:
    """Data as JSON, without spaces."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


STYLE = theme.css(".board") + "\n" + _read("board.css")
PROGRAM = f"""{_read("board.js")}
{_read("passages.js")}
const style = new CSSStyleSheet();
style.replaceSync({json.dumps(STYLE)});
function boardAndPassages(component) {{
  const root = component.parentElement;
  if (root.adoptedStyleSheets && !root.adoptedStyleSheets.includes(style)) {{
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, style];
  }}
  const data = parsed(component.data);
  board({{ ...component, data }});
  tellPassages(data);
}}
const waiting = (globalThis.attentionBoard ??= {{}});
waiting.loaded = {{ board: boardAndPassages, place: placePassage }};
waiting.resolve?.(waiting.loaded);
"""


def loader(kind: str) -> str:
    """What an element carries that this program draws: a "board", or the "place" of a passage."""
    return _read("loader.js").replace("loaded.KIND", f"loaded.{kind}")


_program = st.components.v2.component(f"{NAME}_program", js=PROGRAM)
_component = st.components.v2.component(NAME, js=loader("board"), isolate_styles=True)


def provide() -> None:
    """Bring the board's program to the page, once a run, before any board and outside every fragment.

    Streamlit sends a component's program again with every change of its data. This element never
    changes, so it is sent once a session, and an edit goes without its 54 kB.
    """
    with st.container(key="board-program"):
        _program(key="board-program-once", on_again_change=lambda: None)


def draw(board: Board, key: str, on_drawn: Callable[[], None] = lambda: None) -> list[Operation]:
    """Draw the board and return the operations that this board has not taken yet.

    `on_drawn` is called when the browser has painted a board with `then` set.
    """
    result = _component(
        key=key, data=board.message(key), default={"ops": None}, width="stretch",
        on_ops_change=lambda: None, on_drawn_change=on_drawn,
    )  # fmt: skip
    return operations(result.ops, board.session, board.ack)


def pending(key: str, session: str, ack: int) -> list[Operation]:
    """The operations that wait under a board's key, for a script that applies them before it draws."""
    state = st.session_state.get(key)
    return operations(state.get("ops"), session, ack) if isinstance(state, Mapping) else []


def operations(told: object, session: str, ack: int) -> list[Operation]:
    """The well-formed operations of this session after number ack, in order, each once.

    `told` comes from a browser, so anything that is not an operation is left out. Of very many the first
    MOST_OPERATIONS are taken; the browser tells the others again, because they are not acknowledged.
    """
    if not isinstance(told, Mapping) or told.get("session") != session:
        return []
    listed = told.get("ops")
    fresh = [list(op) for op in listed if _is_operation(op)] if isinstance(listed, list) else []
    by_number = {op[0]: op for op in fresh if op[0] > ack}
    return [by_number[number] for number in sorted(by_number)[:MOST_OPERATIONS]]


def _is_operation(op: object) -> bool:
    if not isinstance(op, list | tuple) or len(op) < 2 or not _is_count(op[0]) or not isinstance(op[1], str):
        return False
    kinds = ARGUMENTS.get(op[1])
    return kinds is not None and len(op) == 2 + len(kinds) and all(map(_fits, kinds, op[2:]))


def _fits(kind: str, value: object) -> bool:
    return isinstance(value, str) if kind == "s" else _is_count(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0

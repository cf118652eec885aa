"""One reader's session: the bench now, the benches before and after it, and what to tell the reader.

The board sends every operation that it has not yet seen acknowledged; each is applied exactly once,
in order, however Streamlit merges the messages (see board.js for the other half).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from attention_core.attention import PROJECTED
from attention_core.further import FURTHER
from attention_core.limits import LARGEST_NUMBER, LARGEST_SEED, LARGEST_SIDE, LONGEST_BLOCK, MOST_UNDO
from attention_core.numbers import exact, parse_block, parse_number, show
from attention_core.steps import STEPS
from attention_ui.bench import (
    EDITABLE,
    Bench,
    fresh,
    is_numbers,
    looking,
    numbers,
    opened,
    reseeded,
    shape,
    with_edit,
    with_toggle,
)
from attention_ui.board import Message, Operation
from attention_ui.grids import Kept
from attention_ui.links import NAME

TITLES = PROJECTED.titles  # X, W_Q, …: as the sheet names them


@dataclass
class Desk:
    """What a session keeps. Everything but the undo list can be had again from the link."""

    bench: Bench = field(default_factory=lambda: opened(Bench().example))
    notice: str = ""  # one sentence for the top of the page
    session: str = field(default_factory=lambda: secrets.token_hex(4))  # tells a restarted server apart
    ack: int = 0
    drawn: int = 0  # the last operation that the board on the page shows
    past: list[Bench] = field(default_factory=list)
    future: list[Bench] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    board: dict[str, tuple[str, int, int]] = field(
        default_factory=dict
    )  # the matrices on the board: title, rows and columns
    kept: Kept = field(default_factory=Kept)  # the same, written out
    framed: tuple[Bench, str] | None = None  # what the page around the board was last drawn for
    page: str = ""  # the page that is open
    beside: tuple[str, ...] = ()  # which of the shared controls are drawn there
    quick: bool = False  # on it, a shared control runs parts and not the page
    asides: list[str] = field(default_factory=list)  # the parts with shared controls
    expected: tuple[Bench, str] | None = None  # what these will be drawn for
    released: bool = False  # Streamlit no longer holds the query that the page was opened with
    parts: list[str] = field(default_factory=list)  # what follows the board on the page that is open
    passages: dict[str, Callable[[Desk], None]] = field(default_factory=dict)  # what comes together with it
    turn: int = 0  # runs so far: what a later one says replaces what an earlier one said
    told: dict[str, Any] = field(default_factory=dict)  # by a browser that was here before this session was
    late: dict[str, Any] = field(default_factory=dict)  # controls that were moved before it was
    shown: dict[str, Any] = field(default_factory=dict)  # what each control was last given
    before: dict[str, list[Any]] = field(default_factory=dict)  # what the browser may still show instead
    unsent: set[str] = field(default_factory=set)  # controls with a value that no run has drawn to its end
    sent: float = 0.0  # when one last had
    refused: dict[str, tuple[str, Any]] = field(
        default_factory=dict
    )  # a control's sentence, and what it showed before

    def change(self, bench: Bench) -> None:
        """Put another bench on the desk; a change of numbers can be undone."""
        if not is_numbers(bench, self.bench):
            self.past = [*self.past[1 - MOST_UNDO :], self.bench]
            self.future = []
        self.bench = bench

    def has_sent(self) -> None:
        """Note that every control has been drawn with what it was given."""
        if self.unsent:
            self.unsent.clear()
            self.sent = time.monotonic()

    def undo(self) -> None:
        if self.past:
            self.future.append(self.bench)
            self._back_to(self.past.pop())

    def redo(self) -> None:
        if self.future:
            self.past.append(self.bench)
            self._back_to(self.future.pop())

    def _back_to(self, bench: Bench) -> None:
        """Other numbers, the same place: what is looked at stays."""
        self.bench = replace(looking(bench, self.bench), selected=self.bench.selected)

    @property
    def can_reset(self) -> bool:
        return not is_numbers(self.bench, fresh(self.bench))

    def receive(self, operations: Sequence[Operation]) -> None:
        """Apply what the board sent, in order; `board.pending` has left out what is not an operation."""
        if not operations:
            return
        self.messages, self.notice = [], ""
        for number, kind, *arguments in operations:
            self.ack = number
            _HANDLERS[kind](self, *arguments)

    # what the board can ask for -------------------------------------------------------------

    def _edit(self, grid: str, row: int, column: int, text: str) -> None:
        if not self._is_cell(grid, row, column):
            return
        try:
            value = read_number(text)
        except ValueError as reason:
            old = show(self._number(grid, row, column))
            self._tell(grid, row, column, "refused", f"{reason}. The old number, {old}, stays.")
            return
        if value != self._number(grid, row, column):
            self.change(with_edit(self.bench, grid, row, column, value))
        self.bench = replace(self.bench, selected=(grid, row, column))

    def _paste(self, grid: str, row: int, column: int, text: str) -> None:
        """Fill what fits; one undo takes all of it back. Nothing is filled when a cell cannot be read."""
        if not self._is_cell(grid, row, column):
            return
        rows, columns = self._shape(grid)
        bench, left_out, filled = self.bench, 0, 0
        try:
            block = parse_block(text[: LONGEST_BLOCK + 1])
        except ValueError as reason:
            self._tell(grid, row, column, "refused", f"{reason}. Nothing was pasted.")
            return
        for i, line in enumerate(block, start=row):
            for j, cell in enumerate(line, start=column):
                if i >= rows or j >= columns:
                    left_out += 1
                    continue
                try:
                    bench = with_edit(bench, grid, i, j, read_number(cell))
                except ValueError as reason:
                    self._tell(grid, i, j, "refused", f"{reason}. Nothing was pasted.")
                    return
                filled += 1
        self.change(bench)
        if left_out:
            size = f"{len(block)} × {max(map(len, block))}"
            edge = f"{self._title(grid)} ({rows} × {columns})"
            text = f"the pasted block is {size}; {filled} numbers were filled in, "
            text += f"{left_out} lie beyond the edge of {edge} and were left out."
            self._tell(grid, row, column, "note", text)

    def _toggle(self, grid: str, row: int, column: int) -> None:
        which = {"mask": "mask", "mask_a": "mask", "mask_b": "against"}.get(grid)
        if which and 0 <= row < self.bench.n_q and 0 <= column < self.bench.n_k:
            self.change(with_toggle(self.bench, row, column, which=which))

    def _select(self, grid: str, row: int, column: int) -> None:
        if NAME.fullmatch(grid) and row < LARGEST_SIDE and column < LARGEST_SIDE:
            self.bench = replace(self.bench, selected=(grid, row, column))

    def _step(self, step: int) -> None:
        self.bench = replace(self.bench, step=min(max(step, 1), len(STEPS)))

    def _reset(self) -> None:
        self.change(fresh(self.bench))

    def _new(self) -> None:
        if self.bench.seed < LARGEST_SEED:
            self.change(reseeded(self.bench))

    def _is_cell(self, grid: str, row: int, column: int) -> bool:
        if grid not in EDITABLE and grid not in FURTHER:
            return False
        rows, columns = self._shape(grid)
        return 0 <= row < rows and 0 <= column < columns

    def _shape(self, grid: str) -> tuple[int, int]:
        """Rows and columns as the board shows them; before it has been drawn, as far as they can go."""
        if grid in self.board:
            return self.board[grid][1:]
        return shape(self.bench, grid) if grid in EDITABLE else (LARGEST_SIDE, LARGEST_SIDE)

    def _title(self, grid: str) -> str:
        return self.board[grid][0] if grid in self.board else TITLES.get(grid, grid)

    def _number(self, grid: str, row: int, column: int) -> float:
        return float(numbers(self.bench, grid, *self._shape(grid))[row, column])

    def _tell(self, grid: str, row: int, column: int, kind: Literal["refused", "note"], text: str) -> None:
        place = f"{self._title(grid)}, row {row + 1}, column {column + 1}: "
        self.messages.append(Message(self.ack, grid, row, column, place + text, kind))


def read_number(text: str) -> float:
    """A number that the bench can hold. Raises ValueError with a sentence, see parse_number.

    Larger numbers than LARGEST_NUMBER are refused: products of four of them must stay finite.
    """
    value = parse_number(text)
    if abs(value) > LARGEST_NUMBER:
        raise ValueError(
            f"{exact(value)} is larger than {exact(LARGEST_NUMBER)}, the largest number that can be shown"
        )
    return value


_HANDLERS: dict[str, Callable[..., None]] = {
    "edit": Desk._edit,
    "paste": Desk._paste,
    "toggle": Desk._toggle,
    "select": Desk._select,
    "step": Desk._step,
    "undo": Desk.undo,
    "redo": Desk.redo,
    "reset": Desk._reset,
    "new": Desk._new,
}

"""The bench as a link, and a link as a bench: exact to the last digit, and never an error.

A parameter stands in the link only where the bench differs from its example. What a link says
that cannot be understood is told in one sentence; the rest of the link still counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from attention_core.examples import EXAMPLES
from attention_core.further import FURTHER
from attention_core.limits import (
    LARGEST_NUMBER,
    LARGEST_SEED,
    LARGEST_SIDE,
    LONGEST_CHOICE,
    MOST_CHOICES,
    MOST_TOKENS,
)
from attention_core.masks import MaskSpec
from attention_core.numbers import exact, parse_number
from attention_core.steps import STEPS
from attention_ui import bits
from attention_ui.bench import BOUNDS, CHOICE, EDITABLE, FIRST, WORDS, Bench, Edits, opened
from attention_ui.texts import read_linked, write_linked
from attention_ui.tokens import join_tokens, split_tokens

LARGE = BOUNDS["large"]
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")  # of a matrix, on whatever page
SHOWN = 24  # letters of a wrong value that are quoted back


@dataclass(frozen=True)
class Parameter:
    """One parameter of a link: the field it stands for, and how it is read and written."""

    name: str
    field: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    wants: str  # what the reader is told when the value cannot be read


def _whole(lowest: int, highest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 8 and lowest <= int(text) <= highest):
            raise ValueError
        return int(text)

    return read


def _word(words: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return read


def _read_scaling(text: str) -> str | float:
    if text in ("sqrt", "none"):
        return text
    if abs(factor := parse_number(text)) > LARGEST_NUMBER:
        raise ValueError
    return factor


def _write_scaling(value: str | float) -> str:
    return value if isinstance(value, str) else exact(value)


def _read_cell(text: str) -> tuple[str, int, int]:
    name, row, column = text.split(".")
    if not NAME.fullmatch(name):
        raise ValueError
    place = _whole(1, LARGEST_SIDE)
    return name, place(row) - 1, place(column) - 1


def _write_cell(cell: tuple[str, int, int]) -> str:
    return f"{cell[0]}.{cell[1] + 1}.{cell[2] + 1}"


def _size(name: str, field: str) -> Parameter:
    return Parameter(name, field, _whole(1, LARGEST_SIDE), str, f"a whole number from 1 to {LARGEST_SIDE}")


def _choice(name: str) -> Parameter:
    return Parameter(name, name, _word(WORDS[name]), str, " or ".join(WORDS[name]))


PARAMETERS = (
    _choice("way"),
    _size("nq", "n_q"),
    _size("nk", "n_k"),
    _size("dm", "d_model"),
    _size("dk", "d_k"),
    _size("dv", "d_v"),
    Parameter("seed", "seed", _whole(0, LARGEST_SEED), str, f"a whole number from 0 to {LARGEST_SEED}"),
    Parameter("tokens", "tokens", split_tokens, join_tokens, f"up to {MOST_TOKENS} tokens"),
    Parameter("scale", "scaling", _read_scaling, _write_scaling, "sqrt, none or a number"),
    Parameter("mask", "mask", MaskSpec.from_text, MaskSpec.to_text, "a mask"),
    Parameter("against", "against", MaskSpec.from_text, MaskSpec.to_text, "a mask"),
    _choice("view"),
    Parameter("step", "step", _whole(1, len(STEPS)), str, f"a whole number from 1 to {len(STEPS)}"),
    _choice("panel"),
    _choice("ranges"),
    Parameter("large", "large", _whole(*LARGE), str, f"a whole number from {LARGE[0]} to {LARGE[1]}"),
    Parameter("cell", "selected", _read_cell, _write_cell, "a matrix, a row and a column"),
    Parameter("text", "text", read_linked, write_linked, "a text short enough for a link"),
)
LENGTH = _size("n", "n_k")  # both lengths at once
EDITS = {"m": (EDITABLE, 4), "m2": (tuple(FURTHER), 6)}  # the matrices that each holds, and how it tells them


def to_query(bench: Bench) -> str:
    """The part of a link after the question mark; '' for the first example as it stands."""
    start = opened(bench.example)
    found = {} if bench.example == FIRST else {"example": bench.example}
    for parameter in PARAMETERS:
        value = getattr(bench, parameter.field)
        if value != getattr(start, parameter.field) and value is not None:
            written = parameter.write(value)
            found |= {parameter.name: written} if written else {}  # a text may be too long for a link
    if bench.n_q == bench.n_k and (start.n_q, start.n_k) != (bench.n_q, bench.n_k):
        found.pop("nq", None), found.pop("nk", None)
        found = {**found, LENGTH.name: str(bench.n_k)}
    for name, (matrices, name_bits) in EDITS.items():
        if code := bits.pack(bench.edits, matrices, name_bits):
            found[name] = code
    return urlencode({**found, **dict(sorted(bench.choices.items()))})


def to_queries(bench: Bench, cells: Sequence[tuple[str, int, int]]) -> list[str]:
    """The same link for each of many cells to be looked at; the numbers are written once for all of them."""
    shared = to_query(replace(bench, selected=None))
    return [f"{shared}{'&' * bool(shared)}cell={_write_cell(cell)}" for cell in cells]


def from_query(query: Mapping[str, str]) -> tuple[Bench, str]:
    """The bench that a link describes, and a sentence on what was not understood ('' if all was).

    Parameters that are not ours are left alone. Raises nothing, whatever the link holds.
    """
    problems: list[str] = []
    name = query.get("example", FIRST)
    if name not in EXAMPLES:
        problems.append(f"example={_quoted(name)} (one of {', '.join(EXAMPLES)})")
        name = FIRST
    bench = opened(name)
    if LENGTH.name in query:
        n = _read(LENGTH, query[LENGTH.name], problems)
        bench = bench if n is None else replace(bench, n_q=n, n_k=n)
    for parameter in PARAMETERS:
        if parameter.name in query:
            value = _read(parameter, query[parameter.name], problems)
            bench = bench if value is None else replace(bench, **{parameter.field: value})
    if bench.way == "x" and bench.n_q != bench.n_k:
        problems.append(f"nq={bench.n_q} with nk={bench.n_k} (from X there are as many queries as keys)")
        start = opened(name)
        bench = replace(bench, n_q=start.n_q, n_k=start.n_k) if start.n_q == start.n_k else opened(name)
    for name in EDITS:
        try:
            bench = replace(bench, edits={**bench.edits, **_read_edits(name, query.get(name, ""))})
        except ValueError as reason:
            problems.append(f"the edited numbers {name}={_quoted(query[name])} ({reason})")
    bench = replace(bench, choices=_read_choices(query, problems))
    if not problems:
        return bench, ""
    return bench, (
        f"Not understood in this link: {'; '.join(problems)}. The example’s own values stand there instead."
    )


def _read_choices(query: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """What lessons ask; whether a value is one that is offered, the lesson itself knows."""
    choices: dict[str, str] = {}
    for name in filter(CHOICE.fullmatch, query):
        value = query[name]
        if len(value) > LONGEST_CHOICE or not value.isprintable() or len(choices) == MOST_CHOICES:
            problems.append(f"{name}={_quoted(value)} (a choice of a lesson)")
        else:
            choices[name] = value
    return choices


def _read_edits(name: str, code: str) -> Edits:
    edits = bits.unpack(code, *EDITS[name])
    if any(abs(value) > LARGEST_NUMBER for cells in edits.values() for value in cells.values()):
        raise ValueError(f"it holds a number larger than {exact(LARGEST_NUMBER)}")
    return {matrix: cells for matrix, cells in edits.items() if cells}


def _read(parameter: Parameter, text: str, problems: list[str]) -> Any:
    try:
        value = parameter.read(text)
    except (ValueError, OverflowError):
        problems.append(f"{parameter.name}={_quoted(text)} ({parameter.wants})")
        return None
    return value


def _quoted(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else "·" for letter in text[:SHOWN])
    return f"“{shown}{'…' if len(text) > SHOWN else ''}”"

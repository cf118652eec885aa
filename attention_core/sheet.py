"""A calculation written down as a sheet: what is given, then one line per stage.

Pages, formulas, alternative texts, worked cells, exported programs, cost tables and tests all read the
same sheet, so a stage is described in exactly one place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.numbers import show as _show
from attention_core.operations import Operation
from attention_core.worked import Work
from attention_core.written import Show, cell, tex, visible

Mark = tuple[tuple[str, str], ...]  # pieces of text, each "" or "sub" or "sup"
NUMBER_BYTES = 8  # float64
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
ONE = "one"  # the axis of a single column (one number per token) or a single row (one per feature)


@dataclass(frozen=True)
class Given:
    """A matrix, a rule (True = may look) or a single number that the calculation starts from."""

    name: str  # argument of the trace, variable in exported programs
    symbol: str  # on paper, in LaTeX
    mark: Mark  # the symbol as plain pieces
    title: str  # its name for readers
    axes: tuple[str, ...]  # what rows and columns stand for, "one" where there is one; () for a single number
    meaning: str  # what one entry says
    look: str  # what to look at
    step: int  # the step of the walk-through, 1 to 8
    is_rule: bool = False  # True: entries are True and False, on paper 0 and −∞
    is_learned: bool = False  # True: in a model these numbers are learned


@dataclass(frozen=True)
class Stage:
    """One line of a calculation."""

    name: str  # field of the trace, variable in exported programs
    symbol: str
    mark: Mark
    title: str
    operation: Operation
    inputs: tuple[str, ...]  # names of earlier lines
    axes: tuple[str, ...]
    meaning: str
    look: str
    step: int
    aside: str = ""  # a line that computing also looks at, without its being part of the formula


Lines = tuple[tuple[Given, ...], tuple[Stage, ...]]  # a part of a calculation, to be put together with others


def mark(text: str, sub: str = "", sup: str = "") -> Mark:
    """The plain pieces of a symbol: a text, and what stands below and above its end."""
    return tuple(piece for piece in ((text, ""), (sub, "sub"), (sup, "sup")) if piece[0])


def given(
    name: str,
    symbol: str,
    mark: Mark,
    title: str,
    axes: str,
    step: int,
    says: tuple[str, str],
    *,
    is_rule: bool = False,
    is_learned: bool = False,
) -> Given:
    """A Given in one call: axes in one string, says = (meaning, look), step 0 outside the walk-through."""
    return Given(name, symbol, mark, title, tuple(axes.split()), *says, step, is_rule, is_learned)


def stage(
    line: tuple[str, str, Mark, str, str, int],
    operation: Operation,
    inputs: str,
    says: tuple[str, str],
    aside: str = "",
) -> Stage:
    """A Stage in one call: line = (name, symbol, mark, title, axes, step), inputs in one string."""
    name, symbol, mark, title, axes, step = line
    return Stage(
        name, symbol, mark, title, operation, tuple(inputs.split()), tuple(axes.split()), *says, step, aside
    )


def plain(mark: Mark) -> str:
    """The pieces of a symbol as one text: W_Q, √d_k, σ²."""
    before = {"": "", "sub": "_", "sup": ""}
    return "".join(
        before[place] + (text.translate(RAISED) if place == "sup" else text) for text, place in mark
    )


def again(stages: Sequence[Stage], letter: str, shared: Collection[str]) -> tuple[Stage, ...]:
    """The same stages for another case, told apart by a letter: scores_b, Scores B.

    Inputs named in `shared` are the same for every case. Token axes get the letter too, since another
    case has tokens of its own.
    """

    def name(line: str) -> str:
        return line if line in shared else f"{line}_{letter}"

    def axis(axis: str) -> str:
        return f"{axis}_{letter}" if axis in ("token", "query", "key") else axis

    return tuple(
        replace(
            stage,
            name=name(stage.name),
            symbol=f"{{{stage.symbol}}}^{{({letter})}}",
            mark=(*stage.mark, (f"({letter})", "sup")),
            title=f"{stage.title} {letter.upper()}",
            inputs=tuple(map(name, stage.inputs)),
            axes=tuple(map(axis, stage.axes)),
            aside=stage.aside and name(stage.aside),
        )
        for stage in stages
    )


@dataclass(frozen=True)
class Sheet:
    """The givens and the stages, in the order in which one would work by hand."""

    given: tuple[Given, ...]
    stages: tuple[Stage, ...]

    @property
    def lines(self) -> tuple[Given | Stage, ...]:
        return (*self.given, *self.stages)

    @property
    def symbols(self) -> dict[str, str]:
        return {line.name: line.symbol for line in self.lines}

    @property
    def titles(self) -> dict[str, str]:
        return {line.name: line.title for line in self.lines}

    def __getitem__(self, name: str) -> Given | Stage:
        for line in self.lines:
            if line.name == name:
                return line
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(line.name == name for line in self.lines)

    def __iter__(self) -> Iterator[Given | Stage]:
        return iter(self.lines)

    def stage(self, name: str) -> Stage:
        """The stage of that name; KeyError where there is none."""
        line = self[name]
        if isinstance(line, Given):
            raise KeyError(name)
        return line

    def formula(self, name: str) -> str:
        """The right-hand side of a stage in LaTeX, made of its inputs' symbols."""
        stage, symbols = self.stage(name), self.symbols
        return stage.operation.latex.format(*(symbols[n] for n in stage.inputs))


def run(sheet: Sheet, given: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    """Work through the sheet from top to bottom and keep every line, read-only.

    Numbers become float64, rules bool; what is given is copied, never changed.
    Raises ValueError where something is not given, where a rule is not boolean, and where matrices do not
    fit, naming their shapes.
    """
    missing = [line.name for line in sheet.given if line.name not in given]
    if missing:
        raise ValueError(f"the sheet also needs {', '.join(missing)}")
    values = follow(sheet.stages, {line.name: _copied(line, given[line.name]) for line in sheet.given})
    for value in values.values():
        value.flags.writeable = False
    return values


def follow(stages: Iterable[Stage], values: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The values with every stage worked out from those before it. Raises ValueError as run does."""
    lines = dict(values)
    with np.errstate(all="ignore"):
        for stage in stages:
            inputs = [lines[name] for name in (*stage.inputs, *((stage.aside,) if stage.aside else ()))]
            try:
                lines[stage.name] = np.asarray(stage.operation.compute(*inputs))
            except ValueError as error:
                shapes = " and ".join(f"{name} {lines[name].shape}" for name in stage.inputs)
                raise ValueError(f"{stage.name} cannot be made from {shapes}") from error
    return lines


def between(sheet: Sheet, name: str, target: str) -> list[Stage]:
    """The stages after a line up to another one. Raises KeyError for a line that is not there."""
    names = [line.name for line in sheet]
    for wanted in (name, target):
        if wanted not in names:
            raise KeyError(wanted)
    after = names[names.index(name) + 1 : names.index(target) + 1]
    return [stage for stage in sheet.stages if stage.name in after]


def arrow(sheet: Sheet, since: str, name: str, **said: str) -> str:
    """What is done from one line to a later one, as it stands over an arrow: "÷ √d_k, + M, softmax".

    The way back from a stage goes to its first input, and to `since` as soon as that is any of its inputs.
    said: what is written for an input instead of its symbol. Raises KeyError where the way misses `since`.
    """
    symbols = {line.name: plain(line.mark) for line in sheet} | said
    done: list[str] = []
    while name != since:
        stage = sheet.stage(name)
        place = stage.inputs.index(since) if since in stage.inputs else 0
        done.insert(0, stage.operation.over_arrow([symbols[input_] for input_ in stage.inputs], place))
        name = stage.inputs[place]
    return ", ".join(filter(None, done))


def _copied(line: Given, value: ArrayLike) -> NDArray[Any]:
    if not line.is_rule:
        return np.array(value, dtype=np.float64)
    rule = np.array(value)
    if rule.dtype != np.bool_:
        raise ValueError(f"{line.name} holds {rule.dtype}, and True or False is needed, True = may look")
    return rule


def reads(sheet: Sheet, name: str) -> list[tuple[str, str]]:
    """[(input's name, pattern)]: which cells of which matrices make one cell of this line."""
    line = sheet[name]
    return list(zip(line.inputs, line.operation.reads, strict=True)) if isinstance(line, Stage) else []


def work(
    sheet: Sheet, values: Mapping[str, NDArray[Any]], name: str, i: int, j: int, show: Show = _show
) -> Work:
    """The arithmetic of cell (i, j) of a line, counted from 0, with the numbers that made it."""
    line = sheet[name]
    value = values[name]
    if isinstance(line, Given):
        entry = value[i, j] if line.axes else value
        text = ("0" if entry else "−∞") if line.is_rule else visible(float(entry), show)
        left = cell(line.symbol, i, j) if line.axes else line.symbol
        return Work(f"{text}, given", (rf"{left} &= {tex(text)} \quad \text{{given}}",))
    return line.operation.work(
        [values[n] for n in line.inputs],
        i,
        j,
        show,
        name=cell(line.symbol, i, j),
        result=float(value[i, j] if value.ndim > 1 else value[i]),
        aside=values[line.aside] if line.aside else None,
        titles=tuple(sheet[n].title for n in line.inputs),
        symbols=tuple(sheet[n].symbol for n in line.inputs),
    )


@dataclass(frozen=True)
class Cost:
    """What one stage takes: operations on numbers (a multiply-add is 2), bytes read and written."""

    name: str
    operations: int
    bytes_read: int
    bytes_written: int

    @property
    def bytes(self) -> int:
        return self.bytes_read + self.bytes_written


def cost(sheet: Sheet, sizes: Mapping[str, int]) -> tuple[Cost, ...]:
    """One Cost per stage, from axis sizes such as {"query": 7, "key": 7, "d_k": 3, "d_v": 2}.

    Every stage is counted as if it read its inputs from memory and wrote its result back, 8 bytes a
    number and 1 byte an entry of a rule. Raises ValueError naming an axis without a size.
    """
    shapes = _shapes(sheet.lines, sizes)
    rules = {line.name for line in sheet.given if line.is_rule}

    def size(name: str) -> int:
        return prod(shapes[name]) * (1 if name in rules else NUMBER_BYTES)

    return tuple(
        Cost(s.name, s.operation.flops([shapes[n] for n in s.inputs]), sum(map(size, s.inputs)), size(s.name))
        for s in sheet.stages
    )


def parameters(sheet: Sheet, sizes: Mapping[str, int]) -> dict[str, int]:
    """How many learned numbers each given matrix holds, by name, from axis sizes as in `cost`.

    What is given but not learned (X, a mask, a divisor, ε) is left out. Raises ValueError naming an axis
    without a size.
    """
    learned = [line for line in sheet.given if line.is_learned]
    return {name: prod(shape) for name, shape in _shapes(learned, sizes).items()}


def _shapes(lines: Sequence[Given | Stage], sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    sizes = {ONE: 1, **sizes}
    lacking = {axis for line in lines for axis in line.axes} - set(sizes)
    if lacking:
        raise ValueError(f"sizes has no {', '.join(sorted(lacking))}")
    return {line.name: tuple(sizes[axis] for axis in line.axes) for line in lines}

"""The bench: which numbers lie on the table, as one value that never changes.

A bench names an example, the sizes of the window through which it is seen, the learner's edits,
the masks and what is looked at. Every change makes a new bench; links, undo and every page read it.

An edit belongs to a cell of a matrix, not to a window: shrinking a matrix hides the edits beyond
its edge, growing it again shows them. Cells without an edit follow the example's own rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_core.examples import EXAMPLES, MATRICES, matrix, token
from attention_core.further import FURTHER, further
from attention_core.limits import (
    LARGEST_MAP,
    LARGEST_NUMBER,
    LARGEST_SEED,
    LARGEST_SIDE,
    LONGEST_CHOICE,
    LONGEST_TEXT,
    LONGEST_TOKEN,
    MOST_CHOICES,
    MOST_TOKENS,
)
from attention_core.masks import MaskSpec, allowed, drawn
from attention_core.steps import STEPS

Array = NDArray[np.float64]
Edits = Mapping[str, Mapping[tuple[int, int], float]]
Cell = tuple[str, int, int]

FROM_X, FROM_QKV = MATRICES["x"], MATRICES["qkv"]
EDITABLE = FROM_X + FROM_QKV
SCALINGS = {"sqrt": "÷ √d_k", "none": "none", "number": "× a number"}  # the words a reader chooses from
FIRST = next(iter(EXAMPLES))
OPEN = MaskSpec("none")


CHOICE = re.compile(r"p\d{1,2}\.[a-z_]{1,16}", re.ASCII)  # what a lesson asks: "p5.heads"
SIDES = ("n_q", "n_k", "d_model", "d_k", "d_v")
BOUNDS = {
    **dict.fromkeys(SIDES, (1, LARGEST_SIDE)),
    "seed": (0, LARGEST_SEED),
    "large": (LARGEST_SIDE + 1, LARGEST_MAP),
    "step": (1, len(STEPS)),
}
WORDS = {
    "example": tuple(EXAMPLES),
    "way": ("x", "qkv"),
    "view": ("steps", "all"),
    "panel": ("none", "heat", "tables", "code", "large"),
    "ranges": ("shared", "each"),
}


@dataclass(frozen=True)
class Bench:
    """Everything that a link carries."""

    example: str = FIRST
    way: str = "x"  # "x": X and the weights are given; "qkv": Q, K and V are
    n_q: int = 4
    n_k: int = 4
    d_model: int = 4
    d_k: int = 4
    d_v: int = 4
    seed: int = 0  # 0: the example's own numbers; else every number follows this seed
    tokens: tuple[str, ...] = ()  # empty: the example's own
    scaling: str | float = "sqrt"  # "sqrt", "none" or a factor of one's own
    mask: MaskSpec = OPEN
    against: MaskSpec = OPEN  # the second mask of the comparison
    edits: Edits = field(default_factory=dict)
    view: str = "steps"  # "steps" or "all"
    step: int = 1
    panel: str = "none"
    ranges: str = "shared"  # one colour range for the heat maps, or one each
    large: int = 64  # tokens of the large heat maps
    selected: Cell | None = None
    choices: Mapping[str, str] = field(default_factory=dict)  # what lessons ask: {"p5.heads": "2"}
    text: str = ""  # what a model learns from; empty: the lesson's own

    def __post_init__(self) -> None:
        """Raise ValueError where something is out of bounds, whoever asks for it."""
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if not (isinstance(value, int) and low <= value <= high):
                raise ValueError(f"{name} has to be a whole number from {low} to {high}, not {value!r}")
        for name, words in WORDS.items():
            if getattr(self, name) not in words:
                raise ValueError(f"{name} has to be one of {', '.join(words)}")
        factor = isinstance(self.scaling, int | float) and abs(self.scaling) <= LARGEST_NUMBER
        if not factor and self.scaling not in ("sqrt", "none"):
            raise ValueError("scaling has to be sqrt, none or a number")
        if len(self.tokens) > MOST_TOKENS or max(map(len, self.tokens), default=0) > LONGEST_TOKEN:
            raise ValueError(f"there can be {MOST_TOKENS} tokens of {LONGEST_TOKEN} letters at most")
        longest = max(map(len, self.choices.values()), default=0)
        if len(self.choices) > MOST_CHOICES or longest > LONGEST_CHOICE:
            raise ValueError(f"there can be {MOST_CHOICES} choices of {LONGEST_CHOICE} letters at most")
        if not all(CHOICE.fullmatch(name) and value.isprintable() for name, value in self.choices.items()):
            raise ValueError("a choice has a name like p5.heads, and letters that can be seen")
        if len(self.text) > LONGEST_TEXT:
            raise ValueError(f"a text can have {LONGEST_TEXT} letters at most, not {len(self.text)}")


LOOKED_AT = ("view", "step", "panel", "ranges", "large", "choices", "text")  # no example changes these


def looking(bench: Bench, like: Bench) -> Bench:
    """The numbers of one bench, looked at as the other one is."""
    return replace(bench, **{name: getattr(like, name) for name in LOOKED_AT})


def opened(name: str) -> Bench:
    """The bench as the example of that name leaves it."""
    example = EXAMPLES[name]
    return Bench(
        name, example.way, **dict[str, Any](example.sizes),
        scaling=example.scaling, mask=example.mask, against=_other_than(example.mask),
    )  # fmt: skip


def _other_than(mask: MaskSpec) -> MaskSpec:
    """What a mask is first compared with: causal with encoder-style, and the other way round."""
    return MaskSpec("causal") if mask == OPEN else OPEN


def shape(bench: Bench, name: str) -> tuple[int, int]:
    """Rows and columns of a given matrix as the bench shows it."""
    return {
        "x": (bench.n_k, bench.d_model),
        "w_q": (bench.d_model, bench.d_k),
        "w_k": (bench.d_model, bench.d_k),
        "w_v": (bench.d_model, bench.d_v),
        "q": (bench.n_q, bench.d_k),
        "k": (bench.n_k, bench.d_k),
        "v": (bench.n_k, bench.d_v),
    }[name]


def numbers(bench: Bench, name: str, rows: int = 0, columns: int = 0) -> Array:
    """A given matrix with the learner's edits, (rows, columns), the bench's own size by default."""
    if not rows:
        rows, columns = shape(bench, name)
    values = _base(bench, name, rows, columns).copy()
    for (i, j), value in bench.edits.get(name, {}).items():
        if i < rows and j < columns:
            values[i, j] = value
    return values


def _base(bench: Bench, name: str, rows: int, columns: int) -> Array:
    """A given matrix before any edit. Q, K and V of an example that starts from X are its products."""
    example = EXAMPLES[bench.example]
    if name in FURTHER:
        return further(example, name, rows, columns, seed=bench.seed or None)
    if example.way == "x" and name in FROM_QKV:
        x = numbers(bench, "x", rows, bench.d_model)
        return x @ numbers(bench, f"w_{name}", bench.d_model, columns)
    return matrix(example, name, rows, columns, seed=bench.seed or None)


def givens(bench: Bench) -> dict[str, Array]:
    """The matrices that the calculation starts from, by the names of the sheet."""
    return {name: numbers(bench, name) for name in MATRICES[bench.way]}


def token_at(bench: Bench, position: int, *, query: bool = False) -> str:
    """The token at a position (from 0); queries have tokens of their own where an example gives them."""
    if position < len(bench.tokens):
        return bench.tokens[position]
    return token(EXAMPLES[bench.example], position, query=query and not bench.tokens)


def with_sizes(bench: Bench, **sizes: Any) -> Bench:
    """The bench at other sizes; the selection moves into range. From X there is one length only."""
    bench = replace(bench, **sizes)
    if bench.way == "x" and bench.n_q != bench.n_k:
        n = sizes.get("n_k", bench.n_q)
        bench = replace(bench, n_q=n, n_k=n)
    if bench.selected is None:
        return bench
    name, row, column = bench.selected
    rows, columns = _edges(bench, name)
    return replace(bench, selected=(name, min(row, rows - 1), min(column, columns - 1)))


def _edges(bench: Bench, name: str) -> tuple[int, int]:
    """Rows and columns of a matrix of the walk-through or the comparison, where a suffix tells which mask.

    What only a lesson draws is moved into range by the lesson's own scene.
    """
    if name in EDITABLE:
        return shape(bench, name)
    if name == "k_t":
        return bench.d_k, bench.n_k
    if name.partition("_")[0] not in ("scores", "scaled", "mask", "masked", "weights", "output"):
        return LARGEST_SIDE, LARGEST_SIDE
    return bench.n_q, bench.d_v if name.startswith("output") else bench.n_k


def with_edit(bench: Bench, name: str, row: int, column: int, value: float) -> Bench:
    """The bench with one number changed; −0 is stored as 0."""
    cells = {**bench.edits.get(name, {}), (row, column): value + 0.0}
    return replace(bench, edits={**bench.edits, name: cells})


def with_numbers(bench: Bench, name: str, values: Array) -> Bench:
    """The bench with a whole given matrix replaced."""
    base = _base(
        replace(bench, edits={k: v for k, v in bench.edits.items() if k != name}), name, *values.shape
    )
    cells = dict(bench.edits.get(name, {}))
    for (i, j), value in np.ndenumerate(values):
        cells.pop((i, j), None)
        if value != base[i, j]:
            cells[i, j] = float(value) + 0.0
    edits = {**bench.edits, name: cells}
    return replace(bench, edits={k: v for k, v in edits.items() if v})


def with_way(bench: Bench, way: str) -> tuple[Bench, str]:
    """Change over between the two ways in, keeping Q, K and V to the last digit.

    Returns the bench and a sentence for the reader, empty when there is nothing to say. From
    Q, K, V back to X the same numbers are kept by taking X as the identity and W_Q, W_K, W_V
    as Q, K, V, unless X and the weights still make them.
    """
    if way == bench.way:
        return bench, ""
    products = [numbers(bench, "x") @ numbers(bench, f"w_{name}") for name in FROM_QKV]
    if way == "qkv":
        if any((abs(product) > LARGEST_NUMBER).any() for product in products):
            return bench, "Q, K or V would hold a number too large to be given, so X and the weights stay."
        changed = replace(bench, way="qkv")
        for name, product in zip(FROM_QKV, products, strict=True):
            changed = with_numbers(changed, name, product)
        return changed, ""
    if bench.n_q != bench.n_k:
        return bench, (
            f"X makes as many queries as keys; here are {bench.n_q} queries and {bench.n_k} keys. "
            "Make the two lengths equal to start from X."
        )
    current = [numbers(bench, name) for name in FROM_QKV]
    changed = replace(bench, way="x", edits={k: v for k, v in bench.edits.items() if k not in FROM_QKV})
    if all(np.array_equal(a, b) for a, b in zip(products, current, strict=True)):
        return changed, ""
    changed = replace(changed, d_model=bench.n_k)
    for name, values in zip(FROM_X, [np.eye(bench.n_k), *current], strict=True):
        changed = with_numbers(changed, name, values)
    return changed, (
        "To keep Q, K and V as they are, X is now the identity (each token has a feature of its own), "
        "so W_Q, W_K and W_V are Q, K and V themselves."
    )


def with_toggle(bench: Bench, row: int, column: int, *, which: str = "mask") -> Bench:
    """The bench with one cell of a mask turned over; the mask becomes one drawn by hand."""
    grid = allowed(getattr(bench, which), bench.n_q, bench.n_k).copy()
    grid[row, column] = not grid[row, column]
    changed: dict[str, Any] = {which: drawn(grid)}
    return replace(bench, **changed)


def fresh(bench: Bench) -> Bench:
    """The same example as it first lay on the bench; what is looked at stays."""
    return looking(opened(bench.example), bench)


def reseeded(bench: Bench) -> Bench:
    """New numbers everywhere, from the next seed; sizes, tokens and masks stay."""
    return replace(bench, seed=bench.seed + 1, edits={})


def scaling_word(bench: Bench) -> str:
    """Which of SCALINGS the scores are scaled by."""
    return bench.scaling if isinstance(bench.scaling, str) else "number"


def is_numbers(bench: Bench, other: Bench) -> bool:
    """Whether two benches differ in nothing that undo should take back."""
    return replace(looking(bench, other), selected=other.selected) == other

r"""Multi-head attention as a sheet in which every head has stages of its own: q_1, scores_1, …, output_1, q_2

Everything between a head's Q, K, V and its output is the sheet of one attention (sheets.py) under numbered
names; here are the lines before and after. With fewer key heads than query heads, runs of heads share one
head of keys and values: of four heads with two key heads, 1 and 2 read k_1 and v_1 (Ainslie et al. 2023).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from attention_core.heads import columns, head_cut, join
from attention_core.operations import Operation
from attention_core.projections import (
    NARROW,
    ROW_SAYS,
    Line,
    bias_of,
    other,
    product,
    projection_lines,
    whole,
)
from attention_core.sheet import Lines, Mark, Sheet, Stage, given, mark, stage
from attention_core.sheets import Scaling, X, attention_sheet

Positions = Literal["rope-interleaved", "rope-half", "alibi"]
Mistake = Literal["no transpose"]

POSITIONS = (None, "rope-interleaved", "rope-half", "alibi")
MISTAKES = (None, "no transpose")
OUTPUT = Line("output", "O", mark("O"), "Output")

# fmt: off
_CUT_LOOK = "A head takes columns and keeps every row: it sees all tokens, and a part of their features."
_SHARED_LOOK = "This one head of keys and values is read by several heads of queries."
_WRONG_SAYS = (
    "A number of {0} counted on row by row, whichever token it belongs to.",
    "Whole rows have been taken and folded up: row i is no longer about token i.")
_JOIN_SAYS = (
    "One number of the output of one head.",
    "Each head has columns of its own; nothing has been mixed yet.")
_OUTPUT_SAYS = (
    "One feature of the output, made of the columns of all heads.",
    "The product with W_O is the one place where the heads meet.")
W_O = given("w_o", "W_O", mark("W", "O"), "W_O", "n_heads·d_v d_model", 0, (
    "How much one column of one head counts towards one feature of the output.",
    "It has a row for every column of every head, those of head 1 first."), is_learned=True)
# fmt: on


@dataclass(frozen=True)
class Heads:
    """What makes one multi-head attention differ from another; the words are those of heads_sheet."""

    n_heads: int
    n_kv_heads: int
    d_head: int
    d_value: int
    scaling: Scaling = "sqrt"
    bias: bool = False
    biases: bool = False
    positions: Positions | None = None
    mistake: Mistake | None = None
    n: int | None = None

    def __post_init__(self) -> None:
        few, many = self.n_kv_heads, self.n_heads
        if few < 1 or many < 1 or many % few:
            raise ValueError(f"{few} key heads cannot be shared out equally among {many} query heads")
        if self.d_head < 1 or self.d_value < 1:
            raise ValueError(f"a head needs columns, not d_head {self.d_head} and d_value {self.d_value}")
        if self.positions not in POSITIONS:
            raise ValueError(f"positions is one of {', '.join(map(str, POSITIONS))}, not {self.positions!r}")
        if self.mistake not in MISTAKES:
            raise ValueError(f"mistake is one of {', '.join(map(str, MISTAKES))}, not {self.mistake!r}")
        if self.mistake is not None and self.n is None:
            raise ValueError("n, the number of rows, is needed to cut heads without the transpose")

    def key_head(self, head: int) -> int:
        """The head of keys and values that a query head reads, both counted from 1."""
        return (head - 1) // (self.n_heads // self.n_kv_heads) + 1

    def cut(self, letter: str, head: int) -> Operation:
        """The operation that takes a head, counted from 1, out of q, k or v."""
        width = self.d_value if letter == "v" else self.d_head
        if self.mistake is None or self.n is None:
            return columns((head - 1) * width, width)
        return head_cut(head - 1, self.n_heads if letter == "q" else self.n_kv_heads, width, self.n)


@cache
def heads_sheet(
    n_heads: int,
    n_kv_heads: int | None = None,
    *,
    d_head: int,
    d_value: int,
    from_x: bool = True,
    cross: bool = False,
    scaling: Scaling = "sqrt",
    bias: bool = False,
    biases: bool = False,
    positions: Positions | None = None,
    mistake: Mistake | None = None,
    n: int | None = None,
) -> Sheet:
    """Multi-head attention from x and the weights, or from q, k and v that hold all heads, to the output.

    n_kv_heads: heads of keys and values, as many as n_heads where None. d_head and d_value: columns of a
    head. cross: keys are made of x_k and values of x_v instead of x. bias: a table is added to the scaled
    scores of every head. biases: b_q, b_k, b_v and b_o are added to the products. positions:
    "rope-interleaved" and "rope-half" turn q and k, "alibi" adds a slope times the distance. mistake
    "no transpose" cuts the heads out of rows instead of columns and needs n, the number of rows.

    Raises ValueError where a choice is not one of these and where key heads cannot be shared out equally.
    """
    heads = Heads(
        n_heads, n_kv_heads or n_heads, d_head, d_value, scaling, bias, biases, positions, mistake, n
    )
    beside, stages = heads_lines(heads)
    if not from_x:
        return Sheet((*map(whole, "qkv"), *beside), stages)
    sources = ("x", "x_k", "x_v") if cross else ("x", "x", "x")
    weights, products = projection_lines(sources, biases=biases)
    start = (replace(X, step=0), *map(other, sources[1:] if cross else ()))
    return Sheet((*start, *weights, *beside), (*products, *stages))


def heads_lines(heads: Heads, output: Line = OUTPUT) -> Lines:
    """From q, k and v of all heads to the output, and what is given beside them."""
    inner = attention_sheet(scaling=heads.scaling, bias=heads.bias)
    beside = (replace(line, step=0) for line in inner.given if line.name not in ("q", "k", "v"))
    stages = [line for head in range(1, heads.n_heads + 1) for line in _head(heads, inner, head)]
    outputs = " ".join(f"output_{head}" for head in range(1, heads.n_heads + 1))
    joined = Line("concatenated", r"O_{\text{heads}}", mark("O", "heads"), "Heads side by side")
    stages.append(
        stage((*joined, "query n_heads·d_v", 0), join((heads.d_value,) * heads.n_heads), outputs, _JOIN_SAYS)
    )
    b_o = bias_of("o")
    stages += product(output, "query d_model", "concatenated w_o", _OUTPUT_SAYS, heads.biases and b_o.name)
    return (*beside, W_O, *(b_o,) * heads.biases), tuple(stages)


def _head(heads: Heads, inner: Sheet, head: int) -> Iterator[Stage]:
    """The stages of one head; those of its keys and values only where no earlier head has made them."""
    shared = heads.key_head(head)
    first = head == 1 or heads.key_head(head - 1) != shared
    yield _cut(heads, "q", head)
    if first:
        yield from (_cut(heads, letter, shared) for letter in "kv")
    number = (
        {"q": head, "k": shared, "v": shared} | {line.name: head for line in inner.stages} | {"k_t": shared}
    )
    for line in inner.stages:
        if line.name != "k_t" or first:
            yield _numbered(line, number, heads.n_kv_heads < heads.n_heads)


def _cut(heads: Heads, letter: str, head: int) -> Stage:
    """The stage that takes a head out of q, k or v."""
    symbol = letter.upper()
    shared = letter != "q" and heads.n_kv_heads < heads.n_heads
    says = (
        ROW_SAYS[letter].replace("one of the heads", "this head"),
        _SHARED_LOOK if shared else _CUT_LOOK,
    )
    if heads.mistake is not None:
        says = (_WRONG_SAYS[0].format(symbol), _WRONG_SAYS[1])
    line = (f"{letter}_{head}", f"{symbol}_{{{head}}}", mark(symbol, str(head)), _title(symbol, head, shared))
    return stage((*line, NARROW[letter], 0), heads.cut(letter, head), letter, says)


def _numbered(line: Stage, number: dict[str, int], shared: bool) -> Stage:
    """A stage of one attention as the stage of a head: its name, symbol, mark and title with a number."""
    its = number[line.name]
    return replace(
        line,
        name=f"{line.name}_{its}",
        symbol=_symbol(line.symbol, its),
        mark=_mark(line.mark, its),
        title=_title(line.title, its, shared and line.name == "k_t"),
        inputs=tuple(f"{name}_{number[name]}" if name in number else name for name in line.inputs),
        aside=f"{line.aside}_{number[line.aside]}" if line.aside else "",
        step=0,
    )


def _symbol(symbol: str, number: int) -> str:
    r"""S becomes S_{1}, S_{\text{scaled}} S_{\text{scaled},1} and K^\top K_{1}^\top."""
    base, hat, power = symbol.partition("^")
    numbered = f"{base[:-1]},{number}}}" if base.endswith("}") else f"{base}_{{{number}}}"
    return numbered + hat + power


def _mark(pieces: Mark, number: int) -> Mark:
    """The same for the plain pieces of a symbol."""
    sub = next((text for text, place in pieces if place == "sub"), "")
    sup = next((text for text, place in pieces if place == "sup"), "")
    return mark(pieces[0][0], f"{sub}, {number}" if sub else str(number), sup)


def _title(title: str, head: int, shared: bool) -> str:
    return f"{title}, {'shared ' if shared else ''}head {head}"

r"""Multi-head attention as a sheet in which every head has stages of its own: q_1, scores_1, …, output_1, q_2

Everything between a head's Q, K, V and its output is the sheet of one attention (sheets.py) under numbered
names; here are the lines before and after. With fewer key heads than query heads, runs of heads share one
head of keys and values: of four heads with two key heads, 1 and 2 read k_1 and v_1 (Ainslie et al. 2023).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from attention_core.head_choices import Heads, Mistake
from attention_core.heads import join
from attention_core.multi_head import Positions
from attention_core.naming import numbered_mark, numbered_symbol
from attention_core.position_sheets import alibi_lines, angle_lines, distance_lines, turned_stage
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
from attention_core.sheet import Lines, Sheet, Stage, given, mark, stage
from attention_core.sheets import Scaling, X, attention_sheet

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
    shift: bool = False,
    mistake: Mistake | None = None,
    n: int | None = None,
) -> Sheet:
    """Multi-head attention from x and the weights, or from q, k and v that hold all heads, to the output.

    n_kv_heads: heads of keys and values, as many as n_heads where None. d_head and d_value: columns of a
    head. cross: keys are made of x_k and values of x_v instead of x. bias: a table is added to the scaled
    scores of every head. biases: b_q, b_k, b_v and b_o are added to the products. positions:
    "rope-interleaved" and "rope-half" turn q and k, "alibi" adds a slope times the distance; shift: all
    positions are moved by position_shift. mistake "no transpose" cuts the heads out of rows instead of
    columns and needs n, the number of rows.

    Raises ValueError where a choice is not one of these, where key heads cannot be shared out equally, and
    for choices that exclude each other.
    """
    few = n_heads if n_kv_heads is None else n_kv_heads
    heads = Heads(n_heads, few, d_head, d_value, scaling, bias, biases, positions, shift, mistake, n)
    if cross and positions is not None:
        raise ValueError("positions are those of one text, and with cross there are two")
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
    numbers = (replace(line, step=0) for line in inner.given if line.name not in ("q", "k", "v"))
    every = range(1, heads.n_heads + 1)
    givens, first = _position_lines(heads)
    slopes = [line for head in every for line in _alibi(head)[0]] if heads.positions == "alibi" else []
    stages = [*first, *(line for head in every for line in _head(heads, inner, head))]
    outputs = " ".join(f"output_{head}" for head in every)
    joined = Line("concatenated", r"O_{\text{heads}}", mark("O", "heads"), "Heads side by side")
    stages.append(
        stage((*joined, "query n_heads·d_v", 0), join((heads.d_value,) * heads.n_heads), outputs, _JOIN_SAYS)
    )
    b_o = bias_of("o")
    stages += product(output, "query d_model", "concatenated w_o", _OUTPUT_SAYS, heads.biases and b_o.name)
    return (*givens, *slopes, *numbers, W_O, *(b_o,) * heads.biases), tuple(stages)


def _position_lines(heads: Heads) -> Lines:
    """What all heads need to know about positions: angles for RoPE, distances for ALiBi."""
    if heads.positions is None:
        return (), ()
    lines = distance_lines if heads.pairing is None else angle_lines
    return lines(shift=heads.shift)


def _head(heads: Heads, inner: Sheet, head: int) -> Iterator[Stage]:
    """The stages of one head; those of its keys and values only where no earlier head has made them."""
    own = heads.key_head(head)
    first = head == 1 or heads.key_head(head - 1) != own
    names = {"k_t": f"k_t_{own}", "v": f"v_{own}"}
    for letter in "qkv" if first else "q":
        taken = _cut(heads, letter, head if letter == "q" else own)
        yield taken
        if heads.pairing is not None and letter != "v":
            turned = turned_stage(taken, heads.d_head, pairing=heads.pairing)
            yield replace(turned, title=taken.title.replace(",", " turned,"))
    for letter, number in (("q", head), ("k", own)):
        names[letter] = f"{'turned_' if heads.pairing else ''}{letter}_{number}"
    for line in inner.stages:
        if line.name != "k_t":
            yield _numbered(line, head, names)
        elif first:
            yield _transposed(line, own, names, heads)
        if line.name == "scaled" and heads.positions == "alibi":
            yield from _alibi(head)[1]
            names["scaled"] = f"biased_{head}"


def _alibi(head: int) -> Lines:
    """The slope of a head, and the bias that it makes of the distances."""
    givens, stages = alibi_lines(f"scaled_{head}", index=str(head))
    named = [replace(line, title=_title(line.title, head)) for line in stages]
    return tuple(replace(line, title=_title(line.title, head)) for line in givens), tuple(named)


def _cut(heads: Heads, letter: str, head: int) -> Stage:
    """The stage that takes a head out of q, k or v."""
    symbol = letter.upper()
    shared = letter != "q" and heads.shared
    says = (
        ROW_SAYS[letter].replace("one of the heads", "this head"),
        _SHARED_LOOK if shared else _CUT_LOOK,
    )
    if heads.mistake is not None:
        says = (_WRONG_SAYS[0].format(symbol), _WRONG_SAYS[1])
    line = (f"{letter}_{head}", f"{symbol}_{{{head}}}", mark(symbol, str(head)), _title(symbol, head, shared))
    return stage((*line, NARROW[letter], 0), heads.cut(letter, head), letter, says)


def _numbered(line: Stage, number: int, names: Mapping[str, str]) -> Stage:
    """A stage of one attention as the stage of a head; names: of inputs that are not called scores_1."""
    names = {name: name for name in ("divisor", "scale", "bias", "mask")} | dict(names)
    return replace(
        line,
        name=f"{line.name}_{number}",
        symbol=numbered_symbol(line.symbol, number),
        mark=numbered_mark(line.mark, number),
        title=_title(line.title, number),
        inputs=tuple(names.get(name, f"{name}_{number}") for name in line.inputs),
        aside=line.aside and f"{line.aside}_{number}",
        step=0,
    )


def _transposed(line: Stage, number: int, names: Mapping[str, str], heads: Heads) -> Stage:
    """The keys of a head as columns, under the symbol of keys that have been turned where they have been."""
    made = replace(_numbered(line, number, names), title=_title(line.title, number, heads.shared))
    if heads.pairing is None:
        return made
    return replace(made, symbol=rf"\widetilde{{K_{{{number}}}}}^\top", mark=mark("K", str(number), "~⊤"))


def _title(title: str, head: int, shared: bool = False) -> str:
    return f"{title}, {'shared ' if shared else ''}head {head}"

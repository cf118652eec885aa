r"""Q, K and V of all heads as products of rows and weights, with or without a bias.

The weights of all heads stand side by side in one matrix, as libraries keep them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from attention_core.elementwise import PLUS_TOP
from attention_core.operations import MATMUL
from attention_core.sheet import ONE, Given, Lines, Mark, Stage, given, mark, stage

Says = tuple[str, str]

AXES = {"q": "query n_heads·d_k", "k": "key n_kv_heads·d_k", "v": "key n_kv_heads·d_v"}  # all heads
NARROW = {"q": "query d_k", "k": "key d_k", "v": "key d_v"}  # one head


class Line(NamedTuple):
    """What a line is called."""

    name: str
    symbol: str
    mark: Mark
    title: str


# fmt: off
_X_SAYS = {
    "x_k": ("One number of the row that a key is made of.",
            "The queries come from elsewhere: they look at the rows of another text."),
    "x_v": ("One number of the row that a value is made of.",
            "One row for each row that keys are made of, and usually the same rows."),
}
_WEIGHT_SAYS = (
    "How much one feature of a row counts towards one column of {0}.",
    "The weights of all heads stand side by side, those of head 1 first.")
ROW_SAYS = {
    "q": "One of the numbers that query i is compared by, in one of the heads.",
    "k": "One of the numbers that key j is compared by, in one of the heads.",
    "v": "One of the numbers that key j contributes, in one of the heads.",
}
_WIDE_LOOK = "The columns of all heads stand side by side, those of head 1 first."
_BIAS_SAYS = (
    "The number that is added to one column of {0}, whichever the token.",
    "One row for all tokens. In a model its numbers are learned.")
_PRODUCT_LOOK = "The bias is still to come."
# fmt: on


def projection_lines(sources: Sequence[str] = ("x", "x", "x"), *, biases: bool = False) -> Lines:
    """The weights, and Q, K and V of all heads as products of them with three earlier lines."""
    givens: list[Given] = []
    stages: list[Stage] = []
    for letter, source in zip("qkv", sources, strict=True):
        weight, bias = weight_of(letter), bias_of(letter)
        givens += [weight, bias] if biases else [weight]
        line = Line(letter, letter.upper(), mark(letter.upper()), letter.upper())
        says = (ROW_SAYS[letter], _WIDE_LOOK)
        stages += product(line, AXES[letter], f"{source} {weight.name}", says, biases and bias.name)
    return tuple(givens), tuple(stages)


def product(line: Line, axes: str, factors: str, says: Says, bias: str | Literal[False]) -> tuple[Stage, ...]:
    """A product, and where there is a bias the product before it and the sum of both."""
    if not bias:
        return (stage((*line, axes, 0), MATMUL, factors, says),)
    first = Line(
        f"{line.name}_product",
        rf"{line.symbol}_{{\text{{product}}}}",
        mark(line.mark[0][0], "product"),
        f"{line.title} before its bias",
    )
    return (
        stage((*first, axes, 0), MATMUL, factors, (says[0], _PRODUCT_LOOK)),
        stage((*line, axes, 0), PLUS_TOP, f"{first.name} {bias}", says),
    )


def weight_of(letter: str) -> Given:
    """W_Q, W_K or W_V with the columns of all heads."""
    symbol, axes = letter.upper(), f"d_model {AXES[letter].split()[1]}"
    says = (_WEIGHT_SAYS[0].format(symbol), _WEIGHT_SAYS[1])
    return _learned("w", letter, axes, says)


def bias_of(letter: str) -> Given:
    """b_Q, b_K, b_V or b_O: one number for every column."""
    axes = f"{ONE} {'d_model' if letter == 'o' else AXES[letter].split()[1]}"
    what = "the output" if letter == "o" else letter.upper()
    return _learned("b", letter, axes, (_BIAS_SAYS[0].format(what), _BIAS_SAYS[1]))


def _learned(kind: str, letter: str, axes: str, says: Says) -> Given:
    base, sub = "W" if kind == "w" else "b", letter.upper()
    symbol = f"{base}_{sub}"
    return given(f"{kind}_{letter}", symbol, mark(base, sub), symbol, axes, 0, says, is_learned=True)


def whole(letter: str) -> Given:
    """Q, K or V of all heads as it is given."""
    symbol = letter.upper()
    return given(letter, symbol, mark(symbol), symbol, AXES[letter], 0, (ROW_SAYS[letter], _WIDE_LOOK))


def other(name: str) -> Given:
    """The rows that keys or values are made of, where they are not X."""
    letter = name[-1].upper()
    return given(name, f"X_{letter}", mark("X", letter), f"X_{letter}", "key d_model", 0, _X_SAYS[name])

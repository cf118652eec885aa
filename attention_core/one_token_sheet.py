r"""One new token with a cache as a sheet: its row is worked out, keys and values of the others are kept.

    q = x_n W_Q,   K = [ K_cache ; x_n W_K ],   V = [ V_cache ; x_n W_V ],   output = Heads(q, K, V) W_O

What follows from q, K and V is that of head_sheets.py, with one query.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from attention_core.appending import appended
from attention_core.head_choices import Heads
from attention_core.head_sheets import heads_lines
from attention_core.operations import MATMUL
from attention_core.projections import ROW_SAYS, weight_of
from attention_core.rows import taken_rows
from attention_core.sheet import ONE, Given, Sheet, Stage, given, mark, stage
from attention_core.sheets import X

_WIDE = {"k": "n_kv_heads·d_k", "v": "n_kv_heads·d_v"}
_WORD = {"k": "key", "v": "value"}

# fmt: off
_KEPT = ("One number of the {} of a token that came before.",
         "It was worked out when that token was the new one, and is only read here.")
_NEW = ("One number of the {} of the new token.",
        "This row alone is worked out; it goes under those that are kept.")
_ALL = ("One number of a {}, kept from before or, in the last row, new.",
        "There is a row for every token so far.")
_ROW = ("x_n", "X_n", mark("X", "n"), "Row of the new token", "query d_model", 0)
_ROW_SAYS = ("One number of the vector that stands for the new token.",
             "The rows before it are not needed: their keys and values are kept.")
_Q = stage(("q", "Q", mark("Q"), "Q", "query n_heads·d_k", 0), MATMUL, "x_n w_q", (
    ROW_SAYS["q"], "There is one query, that of the new token."))
# fmt: on


@cache
def one_token(n: int, n_heads: int, n_kv_heads: int, *, d_head: int) -> Sheet:
    """The last of n tokens, through all heads to its row of the output.

    Given are x with all n rows, the weights, and k_c and v_c: the keys and values of the n − 1 tokens before,
    which a cache has kept. Raises ValueError for fewer than two tokens, and where key heads cannot be shared
    out equally.
    """
    if n < 2:
        raise ValueError(f"{n} token has none before it; there have to be 2 or more")
    beside, stages = heads_lines(Heads(n_heads, n_kv_heads, d_head, d_head))
    weights = tuple(weight_of(letter) for letter in "qkv")
    row = stage(_ROW, taken_rows((n - 1,)), "x", _ROW_SAYS)
    grown = (line for letter in "kv" for line in _grown(letter, n))
    given_lines = (replace(X, step=0), *weights, *map(_kept, "kv"), *beside)
    return Sheet(given_lines, (row, _Q, *grown, *stages))


def _kept(letter: str) -> Given:
    symbol, says = letter.upper(), (_KEPT[0].format(_WORD[letter]), _KEPT[1])
    title = f"{symbol} in the cache"
    pieces = mark(symbol, "cache")
    return given(
        f"{letter}_c", rf"{symbol}_{{\text{{cache}}}}", pieces, title, f"key_c {_WIDE[letter]}", 0, says
    )


def _grown(letter: str, n: int) -> tuple[Stage, Stage]:
    """The new row of K or V, and the cache with it."""
    symbol, word = letter.upper(), _WORD[letter]
    new = (f"{letter}_n", f"{symbol}_n", mark(symbol, "n"), f"{symbol} of the new token")
    whole = (letter, symbol, mark(symbol), symbol, f"key {_WIDE[letter]}", 0)
    return (
        stage(
            (*new, f"{ONE} {_WIDE[letter]}", 0), MATMUL, f"x_n w_{letter}", (_NEW[0].format(word), _NEW[1])
        ),
        stage(whole, appended(n - 1), f"{letter}_c {letter}_n", (_ALL[0].format(word), _ALL[1])),
    )

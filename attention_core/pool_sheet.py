r"""The sheet of a pool of pages that several sequences share, and of one sequence read out of it.

Keys and values of A's tokens are made of x, those of B and C of `others`. A page holds some of these rows, in
the order in which they were written; K and V are read off the pages that a sequence's table names, and its
last token's query meets them. In the pattern "rows -1 0 2" a row −1 stands for none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache

import numpy as np

from attention_core.cache_sheet import LOOKS, WORDS
from attention_core.operations import FREE, MATMUL, Array, Operation
from attention_core.page_moves import Pool, Row
from attention_core.sheet import Sheet, Stage, given, mark, stage
from attention_core.sheets import ATTENTION, W_K, W_Q, W_V, X
from attention_core.worked import Cell, Work, taken

SOURCES = ("a", "b")  # the endings of what is made of x and of others
BELONG = {"a": "A’s tokens", "b": "the other tokens"}

# fmt: off
OTHERS = given("others", r"X^{\text{other}}", mark("X", sup="other"), "Other tokens", "token_b d_model", 0, (
    "One number of a token that B or C has for itself.",
    "One row per token, in the order in which they came."))
_MADE_SAYS = (
    "One number of the {0} of a token.",
    "Worked out once. Which page it goes to depends on who came when.")
_PAGE_SAYS = (
    "One number of a {0} that lies in this page.",
    "A page belongs to whichever sequences name it in their tables.")
_QUERY_SAYS = (
    "One of the numbers that the last token compares keys by.",
    "It meets every key of its own sequence, wherever the pages lie.")
_NEWEST_SAYS = (
    "One number of the last token of the sequence.",
    "The token whose output comes next.")
_TOGETHER_SAYS = (
    "One number of a {0}, read from a slot of a page.",
    "The rows stand in the order of the table, wherever the pages lie.")
# fmt: on


@cache
def gathered(rows: tuple[Row, ...]) -> Operation:
    """The operation that puts rows of several matrices under one another; (1, 2) is row 2 of the second.

    Both are counted from 0. It takes as many matrices as the largest of the first numbers asks for, and two
    at least.
    """
    many = max(2, 1 + max(which for which, _ in rows))

    def compute(*parts: Array) -> Array:
        if any(row >= parts[which].shape[-2] for which, row in rows):
            raise ValueError("there are not so many rows")
        return np.stack([parts[which][..., row, :] for which, row in rows], axis=-2)

    def work(here: Cell) -> Work:
        which, row = rows[here.i]
        return taken(here, which, row, here.j)

    listed = ", ".join(f"{{{which}}}[..., {row}, :]" for which, row in rows)
    shown = r"\\ ".join(rf"\text{{{{row {row + 1} of }}}}{{{which}}}" for which, row in rows)
    return Operation(
        f"rows {' '.join(f'{which}:{row}' for which, row in rows)}",
        compute,
        rf"\begin{{{{bmatrix}}}}{shown}\end{{{{bmatrix}}}}",
        f"np.stack([{listed}], axis=-2)",
        f"torch.stack([{listed}], dim=-2)",
        tuple(_pattern(rows, which) for which in range(many)),
        work,
        FREE,
    )


@lru_cache(maxsize=64)
def pool_sheet(pool: Pool, sequence: str) -> Sheet:
    """All pages in use, k_1, v_1, … by their numbers counted from 1, and the last token of one sequence.

    Raises ValueError for an unknown sequence.
    """
    pages = {page: pool.slots(page) for page in pool.used}
    read = pool.rows(sequence)
    divisor = next(line for line in ATTENTION.given if line.name == "divisor")
    stages = [
        *(_made(letter, source) for letter in "kv" for source in SOURCES),
        *(line for letter in "kv" for line in _pages(letter, pages, pool)),
        *_newest(read[-1]),
        *(_read_off(letter, pool, sequence) for letter in "kv"),
        *_looked(),
    ]
    givens = (X, OTHERS, W_Q, W_K, W_V, divisor)
    return Sheet(tuple(replace(line, step=0) for line in givens), tuple(stages))


def _made(letter: str, source: str) -> Stage:
    symbol, place = letter.upper(), {"a": "x", "b": "others"}[source]
    line = (
        f"{letter}_{source}", rf"{symbol}^{{({source})}}", mark(symbol, sup=f"({source})"),
        f"{symbol} of {BELONG[source]}", f"token_{source} d_{letter}", 0,
    )  # fmt: skip
    return stage(line, MATMUL, f"{place} w_{letter}", (_MADE_SAYS[0].format(WORDS[letter]), _MADE_SAYS[1]))


def _pages(letter: str, pages: dict[int, tuple[Row, ...]], pool: Pool) -> Iterator[Stage]:
    symbol = letter.upper()
    for page, rows in pages.items():
        number, held = page + 1, " and ".join(pool.pages.holders[page])
        line = (
            f"{letter}_{number}", f"{symbol}_{{{number}}}", mark(symbol, str(number)),
            f"{symbol}, page {number}, {held}", f"slot_{number} d_{letter}", 0,
        )  # fmt: skip
        says = (_PAGE_SAYS[0].format(WORDS[letter]), _PAGE_SAYS[1])
        yield stage(line, gathered(rows), " ".join(f"{letter}_{source}" for source in SOURCES), says)


def _newest(row: Row) -> tuple[Stage, Stage]:
    newest = ("x_t", "x", mark("x"), "Last token", "query d_model", 0)
    query = ("q", "q", mark("q"), "Query", "query d_k", 0)
    return (
        stage(newest, gathered((row,)), "x others", _NEWEST_SAYS),
        stage(query, MATMUL, "x_t w_q", _QUERY_SAYS),
    )


def _read_off(letter: str, pool: Pool, sequence: str) -> Stage:
    """K or V of a sequence: the slots that it reads, page by page."""
    symbol, table, size = letter.upper(), pool.pages.tables[sequence], pool.pages.page_size
    places = tuple(divmod(token, size) for token in range(pool.pages.lengths[sequence]))
    line = (letter, symbol, mark(f"{symbol} of {sequence}"), f"{symbol} of {sequence}", f"key d_{letter}", 0)
    inputs = [f"{letter}_{page + 1}" for page in table]
    operation = gathered(places)
    inputs += inputs[:1] * (len(operation.reads) - len(inputs))  # a second matrix, of which nothing is read
    return stage(
        line, operation, " ".join(inputs), (_TOGETHER_SAYS[0].format(WORDS[letter]), _TOGETHER_SAYS[1])
    )


def _looked() -> Iterator[Stage]:
    """The last token's query against K and V; nothing later has been written, so there is no mask."""
    for name, (meaning, look) in LOOKS.items():
        line = ATTENTION.stage(name)
        inputs = tuple("scaled" if source == "masked" else source for source in line.inputs)
        yield replace(line, inputs=inputs, meaning=meaning, look=look, step=0, aside="")


def _pattern(rows: tuple[Row, ...], which: int) -> str:
    return "rows " + " ".join(str(row if here == which else -1) for here, row in rows)

r"""A sequence read out of its pages as a sheet: the pages, K and V put together from them, and the attention.

The pages are given; K and V are their rows in the order of the block table, cut where the sequence ends.
In the pattern "rows -1 -1 0 1" a row −1 stands for none.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from attention_core.operations import FREE, Array, Operation
from attention_core.paging import PagedCache
from attention_core.sheet import Given, Mark, Sheet, given, mark, stage
from attention_core.sheets import ATTENTION
from attention_core.worked import Cell, Work, taken

# fmt: off
_PAGE_SAYS = ("One number of a {} that lies in this page.",
              "A page belongs to whichever sequences name it; slots after their last token are not read.")
_TOGETHER_SAYS = ("One number of a {}, read from a slot of a page.",
                  "The rows stand in the order of the block table, wherever the pages lie.")
# fmt: on


@cache
def stacked(rows: int, page_size: int, pages: int) -> Operation:
    """The operation that puts pages under one another and keeps the first `rows` rows."""

    def compute(*parts: Array) -> Array:
        if len(parts) != pages or any(part.shape[-2] != page_size for part in parts):
            raise ValueError(f"{pages} pages of {page_size} rows are needed")
        return np.concatenate(parts, axis=-2)[..., :rows, :]

    def work(here: Cell) -> Work:
        page, slot = divmod(here.i, page_size)
        return taken(here, page, slot, here.j)

    places = ", ".join(f"{{{place}}}" for place in range(pages))
    return Operation(
        f"{rows} rows out of {pages} pages of {page_size}",
        compute,
        r"\begin{{bmatrix}}" + r"\\ ".join(f"{{{place}}}" for place in range(pages)) + r"\end{{bmatrix}}",
        f"np.concatenate([{places}], axis=-2)[..., :{rows}, :]",
        f"torch.cat([{places}], dim=-2)[..., :{rows}, :]",
        tuple(_pattern(page, rows, page_size) for page in range(pages)),
        work,
        FREE,
    )


def page_sheet(paged: PagedCache, sequence: str) -> Sheet:
    """The attention of queries q to one sequence, from the pages that its table names.

    The pages are given as k_page_3 and v_page_3, counted from 1. ValueError for an unknown sequence.
    """
    k, _ = paged.read(sequence)
    table = paged.table(sequence)
    operation = stacked(len(k), paged.page_size, len(table))
    pages, together = [], []
    for letter, word in (("k", "key"), ("v", "value")):
        mine = [_page(letter, word, page + 1) for page in table]
        symbol = letter.upper()
        says = (_TOGETHER_SAYS[0].format(word), _TOGETHER_SAYS[1])
        line = (letter, symbol, mark(symbol), symbol, f"key d_{letter}", 0)
        together.append(stage(line, operation, " ".join(page.name for page in mine), says))
        pages += mine
    beside = [replace(line, step=0) for line in ATTENTION.given if line.name not in ("k", "v")]
    stages = [replace(line, step=0) for line in ATTENTION.stages]
    return Sheet((*pages, *beside), (*together, *stages))


def page_values(paged: PagedCache, sequence: str) -> dict[str, Array]:
    """The pages of a sequence by the names that they have in its sheet."""
    return {
        f"{letter}_page_{page + 1}": pages[page]
        for letter, pages in (("k", paged.k), ("v", paged.v))
        for page in paged.table(sequence)
    }


def _page(letter: str, word: str, page: int) -> Given:
    symbol = letter.upper()
    pieces: Mark = mark(symbol, f"page {page}")
    name, latex = f"{letter}_page_{page}", rf"{symbol}_{{\text{{page }}{page}}}"
    says = (_PAGE_SAYS[0].format(word), _PAGE_SAYS[1])
    return given(name, latex, pieces, f"Page {page} of {symbol}", f"slot d_{letter}", 0, says)


def _pattern(page: int, rows: int, page_size: int) -> str:
    places = [row - page * page_size for row in range(rows)]
    return "rows " + " ".join(str(slot if 0 <= slot < page_size else -1) for slot in places)

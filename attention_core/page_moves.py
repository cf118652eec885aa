r"""Three sequences in one pool of pages, and what happens to the pages as they go on.

A has a prompt; B begins as A does and shares its pages; C is on its own. A move lets one of them go on by
one token ("a", "b", "c") or lets C finish ("x"). Instead of keys and values the pages hold tags, which say
where a row comes from: (0, i) is row i of A's own tokens, (1, i) is row i of the tokens of B and C. So the
same pages serve any numbers. Pages are those of paging.py.

With copying switched off, whoever goes on writes into a page although others hold it, too: the mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from attention_core.operations import Array
from attention_core.page_records import Event
from attention_core.paging import PagedCache, paged_cache

MOVES = {"a": "A", "b": "B", "c": "C", "x": "C"}  # who each move is about
SECOND = 2  # tokens that C begins with
Row = tuple[int, int]  # which matrix, and which of its rows


@dataclass(frozen=True, eq=False)
class Pool:
    """The pages after some moves; `pages` are of the width 2 and hold tags."""

    pages: PagedCache
    written: Mapping[str, tuple[Row, ...]]  # the rows that each sequence has written or shared, in order
    events: tuple[Event, ...]  # of the last move
    others: int  # rows of the tokens of B and C in use
    refused: str = ""  # why the last move could not be made

    def rows(self, sequence: str) -> tuple[Row, ...]:
        """What a sequence reads back."""
        return _as_rows(self.pages.read(sequence)[0])

    def slots(self, page: int) -> tuple[Row, ...]:
        """The rows that a page holds, the empty slots left out."""
        return _as_rows(self.pages.k[page, : self.pages.filled[page]])

    @property
    def used(self) -> tuple[int, ...]:
        """The pages that some sequence holds."""
        return tuple(page for page, names in enumerate(self.pages.holders) if names)


@lru_cache(maxsize=256)
def pool_after(moves: str, *, prompt: int, page_size: int, n_pages: int, copying: bool = True) -> Pool:
    """The pool when A has a prompt of so many tokens, B shares it, C has two, and then every move is made.

    A move that cannot be made, because no page is free or C has finished, changes nothing and says so.
    Raises ValueError for letters that are not moves, and where the pool is too small to begin with.
    """
    if unknown := set(moves) - set(MOVES):
        raise ValueError(f"moves are made of {', '.join(MOVES)}, not {', '.join(sorted(unknown))}")
    pool = _begun(prompt, paged_cache(n_pages, page_size, 2, 1))
    for move in moves:
        pool = _moved(pool, move, copying)
    return pool


def _begun(prompt: int, empty: PagedCache) -> Pool:
    own = tuple((0, i) for i in range(prompt))
    second = tuple((1, i) for i in range(SECOND))
    begun = empty.append("A", *_tags(own))
    shared = begun.share("A", "B")
    pages = shared.append("C", *_tags(second))
    written = MappingProxyType({"A": own, "B": own, "C": second})
    return Pool(pages, written, (*begun.events, *shared.events, *pages.events), SECOND)


def _moved(pool: Pool, move: str, copying: bool) -> Pool:
    """The pool after one move."""
    name, pages = MOVES[move], pool.pages
    if name not in pages.tables:
        return replace(pool, events=(), refused=f"{name} has finished already.")
    if move == "x":
        left = {each: rows for each, rows in pool.written.items() if each != name}
        freed = pages.free(name)
        return replace(pool, pages=freed, written=MappingProxyType(left), events=freed.events, refused="")
    own = sum(which == 0 for which, _ in pool.written["A"])
    row = (0, own) if name == "A" else (1, pool.others)
    try:
        after = pages.append(name, *_tags((row,))) if copying else _over(pages, name, row)
    except ValueError as reason:
        return replace(pool, events=(), refused=f"{name} has to wait: {reason}.")
    written = MappingProxyType({**pool.written, name: (*pool.written[name], row)})
    return Pool(after, written, after.events, pool.others + (name != "A"))


def _over(pages: PagedCache, name: str, row: Row) -> PagedCache:
    """The mistake: a row written into the last page of a sequence, whoever else holds that page."""
    page, slot = pages.tables[name][-1], pages.lengths[name] % pages.page_size
    if slot == 0 or len(pages.holders[page]) == 1:
        return pages.append(name, *_tags((row,)))
    k = pages.k.copy()
    k[page, slot] = row
    k.flags.writeable = False
    lengths = MappingProxyType({**pages.lengths, name: pages.lengths[name] + 1})
    return replace(pages, k=k, lengths=lengths, events=(Event("write", name, page, 1, slot),))


def _tags(rows: tuple[Row, ...]) -> tuple[Array, Array]:
    """Rows as they are put into pages: their tags as keys, and nothing worth reading as values."""
    return np.array(rows, dtype=np.float64), np.zeros((len(rows), 1))


def _as_rows(tags: Array) -> tuple[Row, ...]:
    return tuple((int(which), int(row)) for which, row in tags)

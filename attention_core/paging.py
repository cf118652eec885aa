"""A cache of keys and values in pages: any free page serves any sequence, and equal beginnings are held once.

Every sequence has a table of pages in the order of its tokens: token t lies in page t // page_size of the
table, in slot t % page_size (Kwon et al. 2023, PagedAttention). Sequences that share pages read the same
rows; whoever writes into a page that others hold too gets a copy of it first (copy on write).

A PagedCache is never changed: append, share and free give a new one and say in `events` what they did.
Rows of a page that no table names any more stay where they are until the page is taken again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.attention import attention
from attention_core.fitting import numbers
from attention_core.limits import LARGEST_POOL
from attention_core.mask_arrays import whole
from attention_core.merging import Pair, merge_all
from attention_core.operations import Array
from attention_core.page_records import Event, Waste, waste_of


@dataclass(frozen=True, eq=False)
class PagedCache:
    """Pages of keys and values, and who reads which of them. Arrays are read-only."""

    k: Array  # (n_pages, page_size, d_k)
    v: Array  # (n_pages, page_size, d_v)
    tables: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    lengths: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    events: tuple[Event, ...] = ()  # of the last change, in order

    @property
    def n_pages(self) -> int:
        return int(self.k.shape[0])

    @property
    def page_size(self) -> int:
        return int(self.k.shape[1])

    @property
    def holders(self) -> tuple[tuple[str, ...], ...]:
        """For each page, the sequences that read it."""
        return tuple(
            tuple(name for name, table in self.tables.items() if page in table)
            for page in range(self.n_pages)
        )

    @property
    def free_pages(self) -> tuple[int, ...]:
        return tuple(page for page, names in enumerate(self.holders) if not names)

    @property
    def filled(self) -> tuple[int, ...]:
        """For each page, how many of its slots some sequence reads."""
        slots = [0] * self.n_pages
        for name, table in self.tables.items():
            for place, page in enumerate(table):
                mine = min(self.page_size, self.lengths[name] - place * self.page_size)
                slots[page] = max(slots[page], mine)
        return tuple(slots)

    def read(self, sequence: str) -> tuple[Array, Array]:
        """(length, d_k) and (length, d_v): the rows of a sequence in order. ValueError for an unknown one."""
        table, length = list(self.table(sequence)), self.lengths[sequence]
        k, v = (a[table].reshape(-1, a.shape[-1])[:length] for a in (self.k, self.v))
        return k, v

    def append(self, sequence: str, k: ArrayLike, v: ArrayLike) -> PagedCache:
        """The rows of k (m, d_k) and v (m, d_v) after those of the sequence, which begins here if it is new.

        Raises ValueError naming shapes where the rows do not fit the pages, and where too few pages are free.
        """
        k, v = numbers("k", k), numbers("v", v)
        wanted = ((k.shape[-2], self.k.shape[-1]), (k.shape[-2], self.v.shape[-1]))
        if (k.shape, v.shape) != wanted:
            raise ValueError(
                f"k {k.shape} and v {v.shape} do not fit the pages: "
                f"as many rows of both are needed, {wanted[0][1]} and {wanted[1][1]} wide"
            )
        writing = _Writing(self, sequence)
        writing.write(k, v)
        return writing.done()

    def share(self, sequence: str, new: str, length: int | None = None) -> PagedCache:
        """A new sequence that begins with the first `length` rows of another, all of them where None.

        Nothing is copied. Raises ValueError where one is unknown, the other exists, or there are fewer rows.
        """
        table, have = self.table(sequence), self.lengths[sequence]
        many = have if length is None else length
        if new in self.tables:
            raise ValueError(f"there is a sequence {new} already")
        if not whole(many) or not 1 <= many <= have:
            raise ValueError(f"{sequence} has {have} rows to share, and {many!r} were asked for")
        pages = table[: -(-many // self.page_size)]
        return self._with(
            {**self.tables, new: pages},
            {**self.lengths, new: int(many)},
            [Event("share", new, page) for page in pages],
        )

    def free(self, sequence: str) -> PagedCache:
        """The cache without the sequence. ValueError for an unknown one."""
        pages = self.table(sequence)
        tables, lengths = dict(self.tables), dict(self.lengths)
        del tables[sequence], lengths[sequence]
        return self._with(tables, lengths, [Event("release", sequence, page) for page in pages])

    def waste(self, longest: int) -> Waste:
        """What the pages hold and leave empty, and what reserving `longest` rows a sequence would.

        Raises ValueError where a sequence is longer than that.
        """
        lengths = tuple(self.lengths.values())
        plain = waste_of(lengths, self.page_size, longest)
        filled = self.filled
        used = sum(1 for slots in filled if slots)
        return replace(plain, stored=sum(filled), paged=used * self.page_size)

    def table(self, sequence: str) -> tuple[int, ...]:
        """The pages of a sequence, in order. ValueError for an unknown one."""
        if sequence not in self.tables:
            raise ValueError(
                f"there is no sequence {sequence}, only {', '.join(self.tables) or 'none at all'}"
            )
        return self.tables[sequence]

    def _with(
        self, tables: dict[str, tuple[int, ...]], lengths: dict[str, int], events: Iterable[Event]
    ) -> PagedCache:
        return replace(
            self, tables=MappingProxyType(tables), lengths=MappingProxyType(lengths), events=tuple(events)
        )


def paged_cache(n_pages: int, page_size: int, d_k: int, d_v: int) -> PagedCache:
    """An empty cache: n_pages pages of page_size rows. ValueError where a size is no whole number ≥ 1."""
    for name, size in (("n_pages", n_pages), ("page_size", page_size), ("d_k", d_k), ("d_v", d_v)):
        if not whole(size) or not 1 <= size <= LARGEST_POOL:
            raise ValueError(f"{name} has to be a whole number from 1 to {LARGEST_POOL}, not {size!r}")
    k, v = (_read_only(np.zeros((n_pages, page_size, d))) for d in (d_k, d_v))
    return PagedCache(k, v)


def paged_attention(paged: PagedCache, sequence: str, q: ArrayLike) -> Pair:
    """The output (n_q, d_v) and lse (n_q,) of queries that may look at a whole sequence, page by page.

    Every page gives an output and a log-sum-exp over its own slots, and these are merged: the rows are never
    put together. Raises ValueError for an unknown sequence, one without rows, and queries of another width.
    """
    table, length = paged.table(sequence), paged.lengths[sequence]
    parts = []
    for place, page in enumerate(table):
        filled = min(paged.page_size, length - place * paged.page_size)
        trace = attention(q, paged.k[page, :filled], paged.v[page, :filled])
        parts.append((trace.output, trace.lse))
    return merge_all(parts)


class _Writing:
    """One append under way: arrays of its own, and what has been done."""

    def __init__(self, cache: PagedCache, sequence: str) -> None:
        self.cache, self.sequence = cache, sequence
        self.k, self.v = cache.k.copy(), cache.v.copy()
        self.table = list(cache.tables.get(sequence, ()))
        self.length = cache.lengths.get(sequence, 0)
        self.free = list(cache.free_pages)
        self.events: list[Event] = []

    def write(self, k: NDArray[Any], v: NDArray[Any]) -> None:
        size, slot = self.cache.page_size, self.length % self.cache.page_size
        copies = bool(slot) and len(k) > 0 and len(self.cache.holders[self.table[-1]]) > 1
        needed = -(-(self.length + len(k)) // size) - len(self.table) + copies
        if needed > len(self.free):
            raise ValueError(f"pages needed by {self.sequence}: {needed}, pages free: {len(self.free)}")
        if copies:
            self.copy_last(slot)
        written = 0
        while written < len(k):
            slot = self.length % size
            if slot == 0:
                self.table.append(self.free.pop(0))
                self.events.append(Event("take", self.sequence, self.table[-1]))
            page, many = self.table[-1], min(size - slot, len(k) - written)
            self.k[page, slot : slot + many] = k[written : written + many]
            self.v[page, slot : slot + many] = v[written : written + many]
            self.events.append(Event("write", self.sequence, page, many, slot))
            written, self.length = written + many, self.length + many

    def copy_last(self, rows: int) -> None:
        """Put a page of one's own in the place of the last one, with the rows that this sequence reads."""
        source, page = self.table[-1], self.free.pop(0)
        self.k[page, :rows], self.v[page, :rows] = self.k[source, :rows], self.v[source, :rows]
        self.table[-1] = page
        self.events.append(Event("copy", self.sequence, page, rows, 0, source))

    def done(self) -> PagedCache:
        return replace(
            self.cache,
            k=_read_only(self.k),
            v=_read_only(self.v),
            tables=MappingProxyType({**self.cache.tables, self.sequence: tuple(self.table)}),
            lengths=MappingProxyType({**self.cache.lengths, self.sequence: self.length}),
            events=tuple(self.events),
        )


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array

"""What is told about a cache in pages: what was done to which page, and how much memory stays empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Event:
    """One thing that was done to a page; pages, slots and rows are counted from 0."""

    kind: Literal["take", "copy", "write", "share", "release"]
    sequence: str
    page: int
    rows: int = 0  # how many were written or copied
    slot: int = 0  # the first of them
    source: int = -1  # the page that was copied

    def __str__(self) -> str:
        """The event in words, counted from 1."""
        page, last = self.page + 1, self.slot + self.rows
        slots = f"slot {last}" if self.rows == 1 else f"slots {self.slot + 1} to {last}"
        return {
            "take": f"{self.sequence} takes page {page}, which was free",
            "copy": f"page {self.source + 1} is shared: {self.sequence} copies {slots} to page {page} first",
            "write": f"{self.sequence} writes {slots} of page {page}",
            "share": f"{self.sequence} shares page {page}",
            "release": f"{self.sequence} gives up page {page}",
        }[self.kind]


@dataclass(frozen=True)
class Waste:
    """Rows of a key and a value each, counted for pages and for one stretch of memory per sequence."""

    held: int  # the lengths of all sequences together
    stored: int  # the rows in pages that some sequence reads, shared ones once, copies twice
    paged: int  # slots of the pages in use
    contiguous: int  # rows reserved when every sequence gets as many as it may ever need

    @property
    def empty_paged(self) -> int:
        return self.paged - self.stored

    @property
    def empty_contiguous(self) -> int:
        return self.contiguous - self.held

    @property
    def shared(self) -> int:
        """Rows that sharing saves."""
        return self.held - self.stored


def waste_of(lengths: Sequence[int], page_size: int, longest: int) -> Waste:
    """The same count for sequences of these lengths that share nothing.

    Raises ValueError where a length is below 0 or above `longest`, or page_size is below 1.
    """
    if page_size < 1:
        raise ValueError(f"page_size has to be a whole number from 1 on, not {page_size}")
    if lengths and not 0 <= min(lengths) <= max(lengths) <= longest:
        raise ValueError(
            f"lengths have to be from 0 to the longest, {longest}, and these are {tuple(lengths)}"
        )
    pages = sum(-(-length // page_size) for length in lengths)
    return Waste(sum(lengths), sum(lengths), pages * page_size, len(lengths) * longest)

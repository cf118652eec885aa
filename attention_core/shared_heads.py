r"""Heads of queries that share fewer heads of keys and values, and two orders in which they could read them.

    repeat: 1 1 2 2     head h reads key head ⌈h · few / many⌉        Ainslie et al. 2023 (GQA), 2.2
    tile:   1 2 1 2     head h reads key head (h − 1) mod few + 1     the mistake

With as many key heads as query heads this is multi-head attention, with one it is multi-query attention
(Shazeer 2019); in both cases the two orders are the same. np.repeat makes the first, np.tile the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from attention_core.head_choices import Heads
from attention_core.head_sheets import heads_sheet
from attention_core.heads import join
from attention_core.sheet import Sheet, Stage, mark, stage

# fmt: off
_READ_SAYS = (
    "One number of the {0} that a head of queries reads.",
    "Nothing of this is stored: it is the cache, read once for every head.")
# fmt: on


def read_by(n_heads: int, few: int, *, tile: bool = False) -> tuple[int, ...]:
    """The key head that each head of queries reads, counted from 1.

    Raises ValueError where key heads cannot be shared out equally.
    """
    heads = Heads(n_heads, few, 1, 1)
    if tile:
        return tuple(h % few + 1 for h in range(n_heads))
    return tuple(heads.key_head(h + 1) for h in range(n_heads))


@cache
def shared_heads_sheet(n_heads: int, few: int, *, d_head: int, d_value: int, tile: bool = False) -> Sheet:
    """From x and the weights to the heads' outputs side by side, with `few` heads of keys and values.

    The heads of keys and values come first, then k_read and v_read, which hold them as the heads of queries
    read them. Raises ValueError where key heads cannot be shared out equally.
    """
    whole = heads_sheet(n_heads, few, d_head=d_head, d_value=d_value)
    reads = read_by(n_heads, few, tile=tile)
    lines = [line for line in whole.stages if line.name != "output"]
    stored = [line for line in lines if _is_stored(line, few)]
    heads = [_reading(line, reads) for line in lines if not _is_stored(line, few)]
    return Sheet(
        tuple(line for line in whole.given if line.name != "w_o"),
        (*stored, *_as_read(reads, d_head, d_value), *heads),
    )


def _is_stored(line: Stage, few: int) -> bool:
    """Whether a line is about keys and values alone."""
    return line.name in ("k", "v", *(f"{name}_{g}" for name in ("k", "v", "k_t") for g in range(1, few + 1)))


def _reading(line: Stage, reads: tuple[int, ...]) -> Stage:
    """The line of a head with the keys or values that it reads; other lines as they are."""
    name, _, head = line.name.partition("_")
    if name not in ("scores", "output") or not head.isdigit():
        return line
    mine = f"{line.inputs[1].rpartition('_')[0]}_{reads[int(head) - 1]}"
    return replace(line, inputs=(line.inputs[0], mine))


def _as_read(reads: tuple[int, ...], d_head: int, d_value: int) -> Iterator[Stage]:
    for letter, width, word in (("k", d_head, "keys"), ("v", d_value, "values")):
        name, symbol = f"{letter}_read", letter.upper()
        title, axes = f"{symbol} as the heads read it", f"key read·d_{letter}"
        line = (name, rf"{symbol}_{{\text{{read}}}}", mark(symbol, "read"), title, axes, 0)
        inputs = " ".join(f"{letter}_{key_head}" for key_head in reads)
        yield stage(line, join((width,) * len(reads)), inputs, (_READ_SAYS[0].format(word), _READ_SAYS[1]))

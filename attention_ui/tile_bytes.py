"""Lesson 10: bytes to and from slow memory, plain against tiled, as estimates from shapes."""

from __future__ import annotations

from functools import lru_cache

from attention_core.accelerators import NUMBERS, number_bytes
from attention_core.masks import allowed
from attention_core.numbers import show
from attention_core.tile_traffic import bytes_plain, bytes_tiled
from attention_ui import amounts, listing, prose
from attention_ui.bench import Bench
from attention_ui.choices import Choice
from attention_ui.tiled import BLOCK_K, BLOCK_Q

LENGTHS = (1024, 4096, 16_384)
D = 64  # columns of Q, K and V in the longer examples

BLOCK = Choice(
    "p10.block", "Queries and keys in a tile", {size: size for size in ("16", "64", "128", "256")}, "64"
)
TYPE = Choice("p10.type", "Numbers", {word: each.title for word, each in NUMBERS.items()}, "fp16")


def draw(bench: Bench) -> None:
    """The numbers on screen, then longer sequences."""
    size = number_bytes(TYPE.of(bench))
    block = int(BLOCK.of(bench))
    rows = [_row("On screen", *_here(bench, size), bench.n_q * bench.n_k * size, _tile(bench) * size)]
    rows += [
        _row(f"n = {n:,}, d = {D}", *_longer(n, block, size), n * n * size, block * block * size)
        for n in LENGTHS
    ]
    heads = ("One head", "Plain", "By tiles", "Plain / tiles", "Whole table of scores", "Scores of a tile")
    prose.paragraph(
        "Plain attention writes the table of scores and reads it back, twice; tiles read keys and values "
        "again for every block of queries, so that larger tiles move less. Counted from shapes, not measured."
    )
    listing.draw("Bytes moved", listing.table("Bytes read and written, estimated", heads, rows))


def _row(title: str, plain: int, tiled: int, table: int, tile: int) -> tuple[str, ...]:
    return (
        title, amounts.size(plain), amounts.size(tiled), show(plain / tiled), amounts.size(table),
        amounts.size(tile),
    )  # fmt: skip


def _here(bench: Bench, size: int) -> tuple[int, int]:
    """Plain and tiled, for the sizes, the mask and the tiles on screen."""
    shape = (bench.n_q, bench.n_k, bench.d_k, bench.d_v)
    mask = allowed(bench.mask, bench.n_q, bench.n_k)
    blocks = {"block_q": int(BLOCK_Q.of(bench)), "block_k": int(BLOCK_K.of(bench))}
    return bytes_plain(*shape, number_bytes=size), bytes_tiled(*shape, mask=mask, number_bytes=size, **blocks)


def _tile(bench: Bench) -> int:
    """The scores of a whole tile."""
    return min(int(BLOCK_Q.of(bench)), bench.n_q) * min(int(BLOCK_K.of(bench)), bench.n_k)


@lru_cache(maxsize=64)
def _longer(n: int, block: int, size: int) -> tuple[int, int]:
    """Plain and tiled without a mask; 16,384 tokens in tiles of 16 take 0.15 s, so they are kept."""
    return (
        bytes_plain(n, n, D, D, number_bytes=size),
        bytes_tiled(n, n, D, D, block_q=block, block_k=block, number_bytes=size),
    )

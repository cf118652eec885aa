"""The sheet of lesson 7: a whole block, cut into chapters, and what is left of its output without X.

A chapter is a run of lines that belong together: a norm, the three products, one head, …
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from attention_core.block import Kind, block_sheet
from attention_core.differences import DIFFERENCE
from attention_core.operations import ADD
from attention_core.sheet import Sheet, Stage, mark, stage
from attention_core.stream import Norm

CHAPTERS = ("given", "norm_1", "qkv", "head_1", "head_2", "joined", "norm_2", "network")  # their words
N_HEADS, D_HEAD, D_FF, N = 2, 2, 8, 3
D_MODEL = N_HEADS * D_HEAD
COMPARED = ("left", "written")  # the lines that are not the block's own

_NORM = r"(?:mean|centred|variance|deviation|normalised|gained|shifted|mean_square|root)_([12])"
_JOINED = r"concatenated|attended.*|stream_1"
_QKV = r"[qkv](?:_product)?|frequencies|angles"


@dataclass(frozen=True)
class Chapter:
    """A word for links, and the names of the lines in it."""

    word: str
    lines: tuple[str, ...]


# fmt: off
@cache
def whole_block(kind: Kind, norm: Norm, *, skips: bool = True) -> Sheet:
    """The block of that kind with two heads, and at its end what the output differs from X by.

    skips: False leaves the skip connections out, which is a mistake. ValueErrors are those of block_sheet.
    """
    block = block_sheet(kind, N_HEADS, d_head=D_HEAD, norm=norm, residual=skips)
    fed = "fed" if "fed" in block else "output"
    left = stage(("left", "Y - X", mark("Y − X"), "Output less X", "token d_model", 0),
                 DIFFERENCE, "output x", (
        "One number of the output, less the number that the block was given.",
        "What the block has changed."))
    written = stage(("written", "O + F", mark("O + F"), "Written by both parts", "token d_model", 0),
                    ADD, f"attended {fed}", (
        "What attention made for token i, plus what the feed-forward network made.",
        "Where the skips run from X to the output with nothing in between, this is all that is new."))
    return Sheet(block.given, (*block.stages, left, written))
# fmt: on


def chapters(sheet: Sheet) -> tuple[Chapter, ...]:
    """The sheet's matrices in chapters, in the order of their first lines. Every matrix is in one."""
    found: dict[str, list[str]] = {}
    for line in sheet:
        if len(line.axes) == 2 and line.name not in COMPARED:
            found.setdefault(_word(line) if isinstance(line, Stage) else "given", []).append(line.name)
    return tuple(Chapter(word, tuple(lines)) for word, lines in found.items())


def _word(stage: Stage) -> str:
    """The chapter of a stage. The output stands where it is made: in the network, or in the norm after it."""
    name = stage.inputs[0] if stage.name == "output" and re.fullmatch(_NORM, stage.inputs[0]) else stage.name
    if norm := re.fullmatch(_NORM, name):
        return f"norm_{norm[1]}"
    if re.fullmatch(_JOINED, name):
        return "joined"
    if re.fullmatch(_QKV, name):
        return "qkv"
    head = re.fullmatch(r"\w+_([12])", name)
    return f"head_{head[1]}" if head and name != "stream_2" else "network"

"""A reader's own text: what may be in it, and whether it can travel in a link.

A text is data: it is counted, cut into tokens and shown literally; nothing in it is ever run. One too long
for a link stays in the session, and the page says so.
"""

from __future__ import annotations

import unicodedata
from urllib.parse import quote_plus

from attention_core.limits import LONGEST_TEXT

LONGEST_LINKED = 1_000  # letters of a text as an address writes it
SAMPLE = (
    "the cat sat on the mat. the dog sat on the log. the cat saw the dog, and the dog saw the cat. "
    "the cat ran to the log, and the dog ran to the mat. the cat sat on the log, and the dog sat on the mat. "
    "the dog saw the cat on the log, and the cat saw the dog on the mat."
)


def read_text(text: str) -> str:
    """The text with plain line ends. Raises ValueError, in one sentence, where it is too long or broken."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"The text has {len(text):,} characters, and {LONGEST_TEXT:,} can be learned from.")
    if any(unicodedata.category(character) == "Cs" for character in text):
        raise ValueError("The text holds half a character, which no text can carry.")
    return text


def read_linked(text: str) -> str:
    """The text of a link. Raises ValueError for one that this app would not have written."""
    if not is_linked(text):
        raise ValueError
    return read_text(text)


def is_linked(text: str) -> bool:
    """Whether the text is short enough to be part of a link."""
    return len(quote_plus(text, errors="replace")) <= LONGEST_LINKED


def write_linked(text: str) -> str:
    """The text as a link carries it; "" where it is too long for one."""
    return text if is_linked(text) else ""

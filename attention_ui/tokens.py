r"""Tokens as text: how a token is shown, and how the reader's line of tokens is read.

A token is whatever the reader typed: a blank, a tag, a formula, a right-to-left word. On the screen it is
always its own characters and never anything they might stand for. `literal` makes the characters visible;
the other functions then keep one kind of sink (Plotly, KaTeX, Markdown) from reading them as its language.

The line of tokens: blanks separate, double quotes keep blanks together, and inside quotes a backslash writes
what a line of text cannot hold: \n, \t, \r, \", \\ and \u{200b}.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from attention_core.limits import LONGEST_LINE, LONGEST_TOKEN, MOST_TOKENS

_CONTROLS = {chr(code): chr(0x2400 + code) for code in range(32)}
_PICTURES = {**_CONTROLS, " ": "␣", "\n": "⏎", "\t": "⇥", "\x7f": "␡"}
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # letters that draw nothing
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})  # Unicode's invisible categories
_JOINERS = frozenset("\u200c\u200d")
_JOINED = frozenset({"Lo", "Mc", "Mn", "Sk", "So"})  # letters of joining scripts and emoji
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_WRITTEN = {character: f"\\{letter}" for letter, character in _ESCAPES.items()}


@lru_cache(maxsize=4096)
def literal(token: str) -> str:
    """The token with nothing hidden: a blank is ␣, a new line ⏎, a tab ⇥, an empty token ∅.

    Other characters that draw nothing (controls, zero-width, direction marks) are written as ␛ or
    [U+200B]. All visible text stays as it is, and so do the joiners inside an emoji or a word.
    """
    return "".join(_visible(token, place) for place in range(len(token))) or "∅"


def _visible(token: str, place: int) -> str:
    character = token[place]
    if character in _PICTURES:
        return _PICTURES[character]
    return f"[U+{ord(character):04X}]" if _is_hidden(token, place) else character


def _is_hidden(token: str, place: int) -> bool:
    """Whether the character at this place would draw nothing and change nothing that can be seen."""
    character = token[place]
    if character in _JOINERS:
        around = token[place - 1 : place] + token[place + 1 : place + 2]
        return len(around) < 2 or any(unicodedata.category(c) not in _JOINED for c in around)
    if _is_variation(character):
        return place == 0 or _is_variation(token[place - 1])
    return character in _BLANK_LETTERS or unicodedata.category(character) in _HIDDEN


def _is_variation(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def isolated(label: str) -> str:
    """The label, inside direction marks where it runs right to left, so that a sentence keeps its order."""
    if any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in label):
        return f"\u2068{label}\u2069"
    return label


def plotly_text(label: str) -> str:
    """The label for Plotly, which would otherwise read <b>, <a>, $…$ and &amp; as its own language."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        label = label.replace(character, entity)
    return label


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
}


def latex_text(label: str) -> str:
    r"""The label for the inside of \text{…} in KaTeX.

    An accent that has no letter of its own to sit on is written as [U+0301]: KaTeX refuses a loose one.
    Repeated -, ' and ` are kept apart, which would otherwise become dashes and quotation marks.
    """
    composed = unicodedata.normalize("NFC", label)
    text = "".join(f"[U+{ord(c):04X}]" if "\u0300" <= c <= "\u036f" else _LATEX.get(c, c) for c in composed)
    return re.sub(r"([-'`])(?=\1)", r"\1{}", text)


def markdown_text(label: str) -> str:
    """The label as a code span: the one place where Streamlit's Markdown leaves :smile:, -> and $x$ alone."""
    runs = [len(run) for run in re.findall("`+", label)]
    fence = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    padding = " " if label.startswith("`") or label.endswith("`") else ""
    return f"{fence}{padding}{label}{padding}{fence}"


def split_tokens(text: str) -> tuple[str, ...]:
    """The tokens of the reader's line.

    Raises ValueError, in one plain sentence, when there is no token or more than 16, when one is
    longer than 40 characters or the whole line than 7,000, and when a quotation mark or a backslash
    is left unfinished.
    """
    if len(text) > LONGEST_LINE:
        raise ValueError(
            f"The line of tokens has {len(text):,} characters; at most {LONGEST_LINE:,} are read."
        )
    tokens: list[str] = []
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
        elif text[place] == '"':
            token, place = _quoted(text, place + 1)
            tokens.append(token)
        else:
            end = next((p for p in range(place, len(text)) if text[p].isspace()), len(text))
            tokens.append(text[place:end])
            place = end
    _refuse_unfit(tokens)
    return tuple(tokens)


def _quoted(text: str, place: int) -> tuple[str, int]:
    """The token whose opening quotation mark is just before place, and the place after its closing one."""
    token = ""
    while place < len(text) and text[place] != '"':
        if text[place] == "\\":
            character, place = _escaped(text, place + 1)
        else:
            character, place = text[place], place + 1
        token += character
    if place == len(text):
        raise ValueError('A quotation mark is not closed: write "a b" to keep a blank inside a token.')
    place += 1
    if place < len(text) and not text[place].isspace():
        raise ValueError("After a closing quotation mark there must be a blank before the next token.")
    return token, place


def _escaped(text: str, place: int) -> tuple[str, int]:
    """The character that the backslash just before place writes, and the place after it."""
    if text[place : place + 1] in _ESCAPES:
        return _ESCAPES[text[place]], place + 1
    number = re.compile(r"u\{([0-9a-fA-F]{1,6})\}").match(text, place)
    if number and (code := int(number[1], 16)) <= 0x10FFFF:
        return chr(code), number.end()
    raise ValueError(r"Inside quotation marks a backslash must be part of \n, \t, \r, \", \\ or \u{200b}.")


def _refuse_unfit(tokens: list[str]) -> None:
    if not tokens:
        raise ValueError("There must be at least one token.")
    if len(tokens) > MOST_TOKENS:
        raise ValueError(f"There are {len(tokens)} tokens; the board holds at most {MOST_TOKENS}.")
    for number, token in enumerate(tokens, 1):
        if len(token) > LONGEST_TOKEN:
            raise ValueError(f"Token {number} has {len(token)} characters; at most {LONGEST_TOKEN} fit.")
        if any(unicodedata.category(c) == "Cs" for c in token):
            raise ValueError(f"Token {number} holds half a character, which no text can carry.")


def join_tokens(tokens: tuple[str, ...]) -> str:
    """The line that split_tokens reads back as exactly these tokens."""
    return " ".join(_written(token) for token in tokens)


def _written(token: str) -> str:
    plain = token and token[0] != '"' and not any(_needs_quotes(token, place) for place in range(len(token)))
    if plain:
        return token
    return '"' + "".join(_inside_quotes(token, place) for place in range(len(token))) + '"'


def _needs_quotes(token: str, place: int) -> bool:
    return token[place].isspace() or _is_hidden(token, place)


def _inside_quotes(token: str, place: int) -> str:
    character = token[place]
    if character in _WRITTEN:
        return _WRITTEN[character]
    if character != " " and _is_hidden(token, place):
        return f"\\u{{{ord(character):x}}}"
    return character

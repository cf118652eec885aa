"""Tokens are shown as their own characters, and the reader's line of tokens is read exactly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_ui.tokens import (
    isolated,
    join_tokens,
    latex_text,
    literal,
    markdown_text,
    plotly_text,
    split_tokens,
)

BACKSLASH = r"Inside quotation marks a backslash must be part of \n, \t, \r, \", \\ or \u{200b}."
ANY_TOKEN = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
HOSTILE = (
    "<s>",
    "<img src=x onerror=alert(1)>",
    "$x$",
    "**b**",
    "&lt;",
    "&#60;",
    "%{z}",
    ":smile:",
    "`a`",
    "``",
)
VISIBLE = ("the", "<s>", "**b**", "$x$", "🙂", "👩‍👩‍👧", "❤️", "1️⃣", "அவன்", "قطة", "می‌خواهم", "क्‍ष", "é", "é")


@pytest.mark.parametrize("token", VISIBLE)
def test_visible_text_is_never_changed(token):
    assert literal(token) == token


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" ", "␣"),
        ("\n", "⏎"),
        ("\t", "⇥"),
        ("", "∅"),
        (" cat", "␣cat"),
        ("\x00", "␀"),
        ("\x1b[1m", "␛[1m"),
        ("\x7f", "␡"),
        ("\u200b", "[U+200B]"),
        ("a\u200db", "a[U+200D]b"),
        ("\u202egnp.exe", "[U+202E]gnp.exe"),
        ("\u2066", "[U+2066]"),
        ("\xa0", "[U+00A0]"),
        ("\u2028", "[U+2028]"),
        ("\xad", "[U+00AD]"),
        ("\ufeff", "[U+FEFF]"),
        ("\ud800", "[U+D800]"),
        ("\u3164", "[U+3164]"),
        ("\ufe0f", "[U+FE0F]"),
        ("a\ufe01\ufe02", "a\ufe01[U+FE02]"),
        ("\U000e0041", "[U+E0041]"),
    ],
)
def test_what_draws_nothing_is_made_visible(token, shown):
    assert literal(token) == shown


@given(ANY_TOKEN)
def test_a_shown_token_is_never_empty_and_has_no_blank_or_control(token):
    shown = literal(token)
    assert shown
    assert not any(
        c.isspace() or c < " " or c in "\u202a\u202b\u202d\u202e\u2066\u2067\u200b\ufeff" for c in shown
    )


@given(ANY_TOKEN)
def test_showing_a_shown_token_changes_nothing(token):
    assert literal(literal(token)) == literal(token)


def test_only_right_to_left_labels_are_isolated():
    assert isolated("the") == "the"
    assert isolated("قطة") == "\u2068قطة\u2069"
    assert isolated("אבג") == "\u2068אבג\u2069"


@given(ANY_TOKEN)
def test_plotly_text_has_no_tag_and_no_formula_and_decodes_to_the_label(label):
    text = plotly_text(label)
    assert not set(text) & set("<>$")
    names = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&#36;": "$"}
    assert re.sub(r"&(?:lt|gt|amp|#36);", lambda entity: names[entity[0]], text) == label


@pytest.mark.parametrize("label", HOSTILE)
def test_markdown_text_is_one_code_span_that_holds_the_label(label):
    text = markdown_text(label)
    fence = re.match("`+", text)[0]
    assert text.endswith(fence)
    inside = text[len(fence) : -len(fence)]
    assert fence not in re.findall("`+", inside)
    if inside.startswith(" "):
        inside = inside[1:-1]  # CommonMark 0.31, 6.1: one blank is taken off at both ends
    assert inside == label


def test_latex_text_leaves_no_character_with_a_meaning():
    assert latex_text("a_b") == r"a\_b"
    assert latex_text("$x$") == r"\$x\$"
    assert latex_text(r"\frac{1}{2}") == r"\textbackslash{}frac\{1\}\{2\}"
    assert latex_text("50% ^ ~ # &") == r"50\% \textasciicircum{} \textasciitilde{} \# \&"
    assert latex_text("a--b ''c``") == "a-{}-b '{}'c`{}`"
    assert latex_text("e\u0301") == "é"
    assert latex_text("x\u0301\u0302") == "x[U+0301][U+0302]"


@given(ANY_TOKEN)
def test_latex_text_keeps_braces_balanced_whatever_the_token(label):
    bare = re.sub(r"\\[{}$&#%_]", "", re.sub(r"(?<=[-'`])\{\}(?=[-'`])", "", latex_text(label)))
    bare = re.sub(r"\\text(backslash|asciicircum|asciitilde)\{\}", "", bare)
    assert not set(bare) & set("\\{}$&#%_^~")


@given(st.lists(ANY_TOKEN, min_size=1, max_size=16))
def test_any_line_of_tokens_is_read_back_exactly(tokens):
    assert split_tokens(join_tokens(tuple(tokens))) == tuple(tokens)


@given(st.lists(ANY_TOKEN, min_size=1, max_size=16))
def test_the_written_line_fits_in_a_one_line_field(tokens):
    line = join_tokens(tuple(tokens))
    assert not any(c != " " and (c.isspace() or c < " " or c == "\u200b") for c in line)


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("the cat sat down", ("the", "cat", "sat", "down")),
        ("  the \t cat\nthe ", ("the", "cat", "the")),
        ('"a b" " " ""', ("a b", " ", "")),
        (r'"\n" "\t" "a\\n" "\"" "\u{200b}"', ("\n", "\t", "a\\n", '"', "\u200b")),
        (r"a\n b", ("a\\n", "b")),
        ('don"t 5"', ('don"t', '5"')),
        ("the\xa0cat", ("the", "cat")),
    ],
)
def test_a_line_is_split_as_a_reader_expects(line, tokens):
    assert split_tokens(line) == tokens


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "There must be at least one token."),
        (" \n ", "There must be at least one token."),
        ("a " * 17, "There are 17 tokens; the board holds at most 16."),
        ("ok " + "x" * 41, "Token 2 has 41 characters; at most 40 fit."),
        ('"a b', 'A quotation mark is not closed: write "a b" to keep a blank inside a token.'),
        ('"a"b', "After a closing quotation mark there must be a blank before the next token."),
        (r'"\x"', BACKSLASH),
        ('"\\', BACKSLASH),
        (r'"\u{110000}"', BACKSLASH),
        (r'"\u{d800}"', "Token 1 holds half a character, which no text can carry."),
    ],
)
def test_an_unreadable_line_is_refused_in_one_sentence(line, sentence):
    with pytest.raises(ValueError) as refusal:
        split_tokens(line)
    assert str(refusal.value) == sentence


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=200))
def test_a_line_gives_tokens_within_the_limits_or_a_sentence(line):
    try:
        tokens = split_tokens(line)
    except ValueError:
        return
    assert 1 <= len(tokens) <= 16
    assert max(map(len, tokens)) <= 40

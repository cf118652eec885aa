"""A reader's own text: what is taken, what a link carries, and that it is the same text at the other end."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from attention_core.limits import LONGEST_TEXT
from attention_ui.bench import Bench, is_numbers, opened
from attention_ui.controls import CONTROLS
from attention_ui.links import from_query, to_query
from attention_ui.texts import LONGEST_LINKED, SAMPLE, is_linked, read_linked, read_text, write_linked

ODD = (
    "<img src=x onerror=alert(1)>",
    "$x$ **b** :smile:",
    "வணக்கம் السلام",
    "a\nb\tc",
    "👩‍👩‍👧 &amp; %20+",
    "\u200b|\u202e|",
)


def at_the_other_end(bench: Bench) -> tuple[Bench, str]:
    query = parse_qs(urlsplit(f"?{to_query(bench)}").query)
    return from_query({name: values[0] for name, values in query.items()})


@pytest.mark.parametrize("text", ODD)
def test_a_text_travels_in_the_link_to_the_last_character(text):
    bench = replace(opened("tokens"), text=text)
    assert at_the_other_end(bench) == (bench, "")


def test_line_ends_of_all_systems_are_one_character():
    assert read_text("a\r\nb\rc\n") == "a\nb\nc\n"


def test_a_long_text_stays_out_of_the_link_and_the_rest_of_the_link_stands():
    bench = replace(opened("tokens"), text="x" * (LONGEST_LINKED + 1), seed=3)
    assert to_query(bench) == "seed=3"
    assert at_the_other_end(bench)[0] == replace(bench, text="")
    assert is_linked("x" * LONGEST_LINKED) and not is_linked("é" * LONGEST_LINKED)
    assert write_linked("x" * (LONGEST_LINKED + 1)) == ""


@pytest.mark.parametrize("text", ["x" * (LONGEST_LINKED + 1), "x" * 100_000, "a\udc80b"])
def test_a_text_that_this_app_would_not_have_written_is_told_in_one_sentence(text):
    bench, said = from_query({"text": text, "dk": "3"})
    assert bench.text == "" and bench.d_k == 3
    assert said.startswith("Not understood in this link: text=") and len(said) < 400
    with pytest.raises(ValueError):
        read_linked(text)


def test_too_long_and_broken_texts_are_refused_wherever_they_come_in():
    with pytest.raises(ValueError, match="The text has 4,001 characters, and 4,000 can be learned from"):
        CONTROLS["text"].write(opened("tokens"), "x" * (LONGEST_TEXT + 1))
    with pytest.raises(ValueError, match="half a character"):
        CONTROLS["text"].write(opened("tokens"), "\ud800")
    with pytest.raises(ValueError, match="4000 letters at most, not 4001"):
        Bench(text="x" * (LONGEST_TEXT + 1))


def test_the_lessons_own_text_is_not_written_and_an_empty_field_brings_it_back():
    bench = replace(opened("tokens"), text="other")
    control = CONTROLS["text"]
    assert control.read(bench) == "other"
    for text in ("", " \n", SAMPLE):
        back = control.write(bench, text)
        assert isinstance(back, Bench)
        assert back.text == "" and control.read(back) == SAMPLE
    assert to_query(opened("tokens")) == ""


def test_a_text_is_not_a_number_that_undo_takes_back_and_an_example_leaves_it():
    bench = opened("tokens")
    assert is_numbers(replace(bench, text="other"), bench)
    chosen = CONTROLS["example"].write(replace(bench, text="other"), "seed")
    assert isinstance(chosen, Bench) and chosen.text == "other"

"""Part 7 on the page: every kind, chapter and mistake, and the links to every line."""

from __future__ import annotations

import re
import runpy
from html import unescape
from urllib.parse import parse_qsl

import numpy as np
import pytest
from test_pages import ROOT, desk_of, open_app, send, words

from attention_core.chapters import CHAPTERS, chapters
from attention_core.examples import EXAMPLES
from attention_core.numbers import show
from attention_core.plain_block import plain_block
from attention_core.written import visible
from attention_ui import frame

SLUG = "part_07_block"
KINDS = ("post", "pre", "gpt2", "llama")
FAILS = "does not hold for these numbers"
SECOND = "A second program, written without this sheet, gets the same output: the largest difference is "
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def page():
    """The functions of the page, without drawing it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame, "lesson", lambda *_, **__: lambda draw: None)
        return runpy.run_path(str(ROOT / "pages" / f"{SLUG}.py"))


def opened(**query):
    return open_app(SLUG, **{name.replace("p7_", "p7."): value for name, value in query.items()})


@each_kind
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_of_every_block_stands(kind, chapter):
    app = opened(p7_kind=kind, p7_chapter=chapter, p7_guess="show")
    assert FAILS not in words(app)
    assert {"x", "output", "left", "written"} <= set(desk_of(app).board)


@each_kind
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_claim_holds_on_every_example(kind, name):
    assert FAILS not in words(opened(example=name, p7_kind=kind, p7_guess="show"))


@each_kind
def test_every_line_is_listed_with_a_link_that_shows_it(kind, page):
    app = opened(p7_kind=kind)
    app = send(app, ["edit", "x", 0, 0, "0.125"])
    links = [unescape(link) for link in re.findall(r'href="\?([^"]*)"', words(app))]
    sheet = page["scene_of"](desk_of(app)).sheet
    lines = [line for chapter in chapters(sheet) for line in chapter.lines]
    assert len(links) == len(lines) and len(set(links)) == len(links)
    for line, link in list(zip(lines, links, strict=True))[::7]:
        there = open_app(SLUG, **dict(parse_qsl(link)))
        assert line in desk_of(there).board and f"{sheet[line].title}, " in words(there), line
        assert page["scene_of"](desk_of(there)).values["x"][0, 0] == 0.125


@each_kind
def test_a_chapter_shows_its_lines_and_another_block_keeps_the_chapter(kind):
    app = opened(p7_kind=kind, p7_chapter="head_2")
    assert {"scores_2", "weights_2", "output_2", "mask"} <= set(desk_of(app).board)
    assert "scores_1" not in desk_of(app).board and "Not understood" not in words(app)


@pytest.mark.parametrize(
    ("kind", "right"), [("post", "no"), ("pre", "yes"), ("gpt2", "yes"), ("llama", "yes")]
)
def test_the_prediction_is_judged_by_the_numbers(kind, right, page):
    wrong = {"yes": "no", "no": "yes"}[right]
    app = opened(p7_kind=kind, p7_guess=right)
    assert "As you said: " in words(app)
    assert "Not so here: " in words(opened(p7_kind=kind, p7_guess=wrong))
    values = page["scene_of"](desk_of(app)).values
    apart = visible(float(np.abs(values["left"] - values["written"]).max()), show)
    assert f"The two matrices differ by {apart} at most." in words(app)


def test_the_answer_is_not_drawn_before_the_prediction():
    assert {"left", "written"}.isdisjoint(desk_of(opened()).board)
    assert "The output is X plus" not in words(opened())


@each_kind
def test_without_the_skips_the_second_program_gets_other_numbers(kind, page):
    app = opened(p7_kind=kind, p7_skipless="on", p7_guess="show")
    now = page["scene_of"](desk_of(app))
    other = plain_block(page["BLOCKS"][kind][2], now.values, 2)
    apart = show(float(np.abs(other - now.values["output"]).max()))
    assert f"{SECOND}{apart}." in words(app) and apart != "0"
    assert FAILS in words(app) and "Without the skips" in words(app) and "The first skip" not in words(app)


@pytest.mark.parametrize(("kind", "fails"), [("post", 0), ("pre", 0), ("gpt2", 2), ("llama", 2)])
def test_without_the_causal_mask_tokens_look_ahead_where_there_should_be_one(kind, fails):
    app = opened(p7_kind=kind, p7_ahead="on", p7_guess="show")
    assert words(app).count(FAILS) == fails
    told = "In training it then sees" if fails else "has no causal mask to forget"
    assert told in words(app)


@each_kind
def test_an_edit_of_any_given_line_reaches_the_output(kind, page):
    app = opened(p7_kind=kind, p7_chapter="given")
    given = list(page["scene_of"](desk_of(app)).editable)
    assert "x" in given and len(given) > 8
    for name in given:
        before = page["scene_of"](desk_of(app)).values["output"]
        app = send(app, ["edit", name, 0, 0, "-1.75"])
        assert not np.array_equal(page["scene_of"](desk_of(app)).values["output"], before) or name == "b_k"
        assert FAILS not in words(app), name


@each_kind
def test_the_tables_and_programs_open(kind):
    opened(p7_kind=kind, p7_also="tables")
    text = "\n".join(code.value for code in opened(p7_kind=kind, p7_also="code").code)
    assert "import numpy as np" in text and "import torch" in text and r"\begin{aligned}" in text


@pytest.mark.parametrize("query", [{"n": 1}, {"n": 16, "dm": 16}, {"way": "qkv", "nq": 2, "nk": 5}])
def test_there_are_three_tokens_whatever_the_size_elsewhere(query):
    assert desk_of(opened(**query)).board["x"][1:] == (3, 4)

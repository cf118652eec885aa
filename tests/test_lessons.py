"""Every part of the series: all examples, all its switches, every matrix it draws."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest
from test_pages import ROOT, WRONG, checked, open_app, send, words

from attention_core.examples import EXAMPLES
from attention_core.numbers import exact
from attention_ui import frame
from attention_ui.choices import Amount, Choice, Switch
from attention_ui.lessons import LESSONS

PARTS = [lesson for lesson in LESSONS if lesson.part]
each_part = pytest.mark.parametrize("slug", [lesson.slug for lesson in PARTS])
NO_VALUE = "not a number"
FAILS = "does not hold for these numbers"
SIZES = [{"n": 1}, {"n": 2, "dk": 1, "dv": 1, "dm": 1}, {"n": 16, "dk": 16, "dv": 16, "dm": 16}]
SIZES += [{"way": "qkv", "nq": 2, "nk": 5}, {"example": "seed"}, {"mask": "padding-0"}]


def board_of(app: AppTest) -> dict[str, Any]:
    """What the browser is told to draw."""
    (element,) = (found for found in elements(app._tree) if getattr(found, "key", None) == "board")
    return json.loads(element.proto.bytes)


def elements(block: Any) -> Iterator[Any]:
    for child in block.children.values():
        yield child
        if hasattr(child, "children"):
            yield from elements(child)


def questions(slug: str) -> dict[str, list[str]]:
    """What a lesson asks, by its names in the link, with the words of every answer (an amount's two ends)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame, "lesson", lambda *_, **__: lambda draw: None)
        names = runpy.run_path(str(ROOT / "pages" / f"{slug}.py"))
    found: dict[str, list[str]] = {}
    for control in names.values():
        if isinstance(control, Choice):
            found[control.name] = list(control.options)
        elif isinstance(control, Amount):
            found[control.name] = [exact(float(control.low)), exact(float(control.high))]
        elif isinstance(control, Switch):
            found[control.name] = ["on"]
    return found


def assert_is_sound(app: AppTest) -> None:
    """No error, every number has a value, every matrix a name of its own."""
    board = board_of(checked(app))
    names = [grid["name"] for grid in board["grids"].values()]
    assert len(set(names)) == len(names)
    assert names and all(grid["cells"] and grid["cells"][0] for grid in board["grids"].values())
    for grid in board["grids"].values():
        assert NO_VALUE not in {text for row in grid["cells"] for text in row}, grid["name"]
    assert not [wrong for wrong in WRONG if wrong in words(app)]


@each_part
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_part_stands_at_every_size(slug, size):
    assert_is_sound(open_app(slug, **size))


@each_part
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_part_stands_on_every_example_with_every_answer_shown(slug, name):
    shown = {question: "show" for question, answers in questions(slug).items() if "show" in answers}
    app = open_app(slug, example=name, **shown)
    assert_is_sound(app)
    assert FAILS not in words(app)


@each_part
def test_every_answer_of_every_question_can_be_given_by_link(slug):
    for question, answers in questions(slug).items():
        for answer in answers:
            app = open_app(slug, **{question: answer})
            assert "Not understood" not in words(app), (question, answer)
            assert board_of(checked(app))["grids"], (question, answer)


@each_part
def test_a_part_asks_under_its_own_number(slug):
    part = next(lesson.part for lesson in PARTS if lesson.slug == slug)
    asked = questions(slug)
    assert asked and all(question.startswith(f"p{part}.") for question in asked)
    assert slug.startswith(f"part_{part:02}_")


@each_part
def test_an_answer_that_is_not_offered_is_told_in_a_sentence(slug):
    question, _ = next((q, a) for q, a in questions(slug).items() if "show" in a)
    assert f"Not understood in this link: {question}=nonsense" in words(
        open_app(slug, **{question: "nonsense"})
    )


@each_part
def test_a_mistake_can_be_switched_on_and_is_seen_to_fail(slug):
    mistakes = [question for question, answers in questions(slug).items() if answers == ["on"]]
    shown = {question: "show" for question, answers in questions(slug).items() if "show" in answers}
    assert any(FAILS in words(open_app(slug, **shown, **{mistake: "on"})) for mistake in mistakes)


@each_part
def test_every_cell_that_can_be_selected_explains_itself(slug):
    app = open_app(slug)
    for name, grid in board_of(app)["grids"].items():
        app = send(app, ["select", name, len(grid["cells"]) - 1, len(grid["cells"][0]) - 1])
        assert grid["name"] in words(app), name
        assert not [wrong for wrong in WRONG if wrong in words(app)], name


@each_part
def test_every_given_number_can_be_edited_and_travels_in_the_link(slug):
    app = open_app(slug)
    given = [name for name, grid in board_of(app)["grids"].items() if grid["kind"] == "given"]
    assert given
    for name in given:
        app = send(app, ["edit", name, 0, 0, "0.125"])
        assert board_of(app)["grids"][name]["exact"][0][0] == "0.125", name
    again = open_app(slug, **dict(parse_qsl(board_of(app)["query"])))
    for name in given:
        assert board_of(again)["grids"][name]["exact"][0][0] == "0.125", name


def test_the_parts_stand_in_order():
    parts = [lesson.part for lesson in PARTS]
    assert parts == sorted(set(parts))

"""What follows the board in words and tables: HTML, made of nothing but what the browser takes from it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from streamlit.runtime.scriptrunner import get_script_run_ctx
from test_pages import open_app, passages, send

from attention_core.examples import EXAMPLES
from attention_core.sheet import work
from attention_ui import live, panels, prose, typeset
from attention_ui.lessons import LESSONS

PROGRAM = (Path(__file__).parent.parent / "attention_ui" / "passages.js").read_text(encoding="utf-8")
LETTERS = re.search(r"ELEMENTS = new Set\(\[(.*?)\]\)", PROGRAM, re.DOTALL)
ELEMENTS = set(re.findall(r'"([a-z0-9]+)"', LETTERS[1] if LETTERS else ""))
ATTRIBUTES, DRAWING = re.findall(r"^const [A-Z]+ = /(\^.*\$)/;", PROGRAM, re.MULTILINE)
TWO_EXAMPLES = list(EXAMPLES)[:2]

each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)


class Reader(HTMLParser):
    """Takes note of elements and attributes, and that what is opened is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.found.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@each_lesson
def test_the_browser_takes_everything_that_the_passages_of_a_page_are_made_of(lesson):
    for html in passages(open_app(lesson.slug, cell="x.1.1", **OPEN)).values():
        found = Reader(html)
        assert found.open == []
        assert found.found <= ELEMENTS
        small = DRAWING.replace("preserveAspectRatio", "preserveaspectratio").replace("viewBox", "viewbox")
        assert not [name for name in found.attributes if not re.match(f"{ATTRIBUTES}|{small}", name)]


OPEN = {f"p{part}.guess": "show" for part in range(1, 16)}


def test_the_browser_takes_nothing_that_could_run():
    assert not ELEMENTS & {"script", "style", "iframe", "img", "object", "form", "input", "base", "link"}
    for name in ("onclick", "onerror", "src", "srcdoc", "action", "formaction", "srcset"):
        assert not re.match(f"{ATTRIBUTES}|{DRAWING}", name)


@each_lesson
def test_a_passage_draws_nothing_by_streamlit(lesson, monkeypatch):
    """An edit makes the passages where the board is drawn: an element of Streamlit would end up there."""
    collected = prose.collected

    def alone(draw):
        context = get_script_run_ctx()
        told = context._enqueue

        def refuse(message):
            raise AssertionError(f"a passage draws {message.WhichOneof('type')}")

        context._enqueue = refuse
        try:
            return collected(draw)
        finally:
            context._enqueue = told

    monkeypatch.setattr(live.prose, "collected", alone)
    open_app(lesson.slug, cell="x.1.1", **OPEN)


@each_lesson
@pytest.mark.parametrize("example", TWO_EXAMPLES)
def test_the_arithmetic_of_every_line_can_be_set(lesson, example, monkeypatch):
    """For each line of the page's sheet, its first and its last cell."""
    lines: list[str] = []

    def all_lines(scene):
        for line in scene.sheet:
            rows, columns = scene.values[line.name].shape if scene.values[line.name].ndim == 2 else (1, 1)
            for i, j in {(0, 0), (rows - 1, columns - 1)}:
                done = work(scene.sheet, scene.values, line.name, i, j)
                html = typeset.aligned(done.latex, done.text)
                assert Reader(html).found <= ELEMENTS
                assert not re.search(r"[\\{}&](?![a-z#0-9]+;)", html), html
                lines.append(html)

    monkeypatch.setattr(panels, "arithmetic", all_lines)
    open_app(lesson.slug, example=example)
    assert lines or lesson.slug in ("home", "compare")


def test_a_passage_follows_the_numbers():
    app = open_app("part_01_neighbours", cell="x.1.1")
    before = passages(app)
    after = passages(send(app, ["edit", "x", 0, 0, "0.375"]))
    assert before.keys() == after.keys() >= {"arithmetic", "answer"}
    assert 'aria-label="0.38, given"' not in before["arithmetic"]
    assert 'aria-label="0.38, given"' in after["arithmetic"]


def test_what_is_collected_is_not_shown_and_an_error_leaves_nothing_behind():
    def draw():
        prose.header("a < b")
        prose.paragraph("<b>c</b>")

    html = prose.collected(draw)
    assert html == '<h2>a &lt; b</h2><p class="prose prose-plain">&lt;b&gt;c&lt;/b&gt;</p>'

    def fail():
        prose.paragraph("first")
        raise KeyError

    with pytest.raises(KeyError):
        prose.collected(fail)
    assert prose._collected.get() is None

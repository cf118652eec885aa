"""What follows the board in words: with the same answer, the latest always, and nothing that could run."""

from __future__ import annotations

from typing import Any

import pytest

from attention_core.numbers import show

from .conftest import settled, until
from .test_app import APP, cell, enter, follow, in_the_address, walk  # noqa: F401

PART = "part_02_matching?way=qkv&p2.guess=show&cell=scores.1.1"
TELL = """([session, turn, html]) => {
  const place = document.querySelector(".st-key-passage-answer .passage").parentElement;
  attentionBoard.loaded.place({ data: { name: "answer", html, session, turn }, parentElement: place });
}"""
PARAGRAPH = "<p class='prose'>{}</p>"


@pytest.fixture
def page(walk: Any) -> Any:  # noqa: F811
    return walk(PART)


def answer(page: Any) -> Any:
    return page.locator(".st-key-passage-answer .passage")


def said(page: Any) -> str:
    """The words of the answer; none while another page takes their place."""
    return "".join(answer(page).all_inner_texts())


def test_words_and_arithmetic_follow_an_edit_in_one_answer(page):
    """From one message of the reader: nothing is asked for once the board has been painted."""
    sent: list[bytes] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    page.reload()
    page.get_by_role("grid").first.wait_for()
    settled(page)
    before = answer(page).inner_text()
    cell(page, "Q", 1, 1).click()
    settled(page)
    del sent[:]
    enter(page, "Q", 1, 1, "2.5")
    settled(page)
    assert len(sent) == 1
    assert answer(page).inner_text() != before
    cell(page, "Scores", 1, 1).click()
    settled(page)
    worked = page.locator(".st-key-passage-arithmetic").inner_text()
    assert show(in_the_address(page).values["scores"][0, 0]).replace("−", "") in worked
    assert "2.50" in worked


def test_what_an_earlier_run_says_does_not_replace_what_a_later_one_said(page):
    for turn, html in ((50, "later"), (40, "earlier")):
        page.evaluate(TELL, ["made-up", turn, PARAGRAPH.format(html)])
    assert answer(page).inner_text() == "later"
    page.evaluate(TELL, ["another", 1, PARAGRAPH.format("a server that was started anew")])
    assert answer(page).inner_text() == "a server that was started anew"


def test_after_an_edit_and_undo_the_words_are_those_of_before(page):
    before = answer(page).inner_text()
    enter(page, "Q", 1, 1, "3")
    settled(page)
    assert answer(page).inner_text() != before
    page.keyboard.press("Control+z")
    settled(page)
    assert answer(page).inner_text() == before


def test_words_are_those_of_the_page_that_is_open(page):
    enter(page, "Q", 1, 1, "3")
    settled(page)
    first = answer(page).inner_text()
    follow(page, "Softmax, causal masks")
    page.wait_for_url("**/part_04_softmax**")
    until(page, lambda: said(page) not in ("", first))
    page.go_back()
    page.wait_for_url("**/part_02_matching**")
    until(page, lambda: said(page) == first)


def test_only_what_differs_is_touched(page):
    """An open list stays open, a box keeps where it was scrolled to, and an element stays the same."""
    html = (
        "<p class='prose'>{0}</p><details><summary>more</summary><div class='twin-box' tabindex='0'>"
        "<table class='twin'><tbody><tr>{1}</tr></tbody></table></div></details>"
    )
    cells = "".join(f"<td>number {k} of many</td>" for k in range(60))
    page.evaluate(TELL, ["made-up", 50, html.format("one", cells)])
    box = answer(page).locator(".twin-box")
    answer(page).locator("summary").click()
    box.evaluate("box => { box.scrollLeft = 200; box.focus(); globalThis.kept = box; }")
    page.evaluate(TELL, ["made-up", 51, html.format("two", cells.replace("number 3", "another"))])
    assert answer(page).locator("p").inner_text() == "two"
    assert "another of many" in box.inner_text()
    assert box.evaluate("box => box === kept && box === document.activeElement && box.scrollLeft") == 200
    page.evaluate(TELL, ["made-up", 52, PARAGRAPH.format("three")])
    assert answer(page).evaluate("place => place.children.length") == 1


def test_nothing_is_taken_from_a_text_that_could_run_or_lead_away_unseen(serve, visit):
    opened = visit(f"{serve(APP).url}/{PART}")
    page = opened.page
    answer(page).wait_for()
    settled(page)
    page.evaluate("globalThis.ran = false")
    html = (
        "<p onclick='ran = true' class='prose' id='x'>text<script>ran = true</script>"
        "<img src='x' onerror='ran = true'><a href='javascript:ran = true'>a link</a>"
        "<a href='?n=3' onmouseover='ran = true'>another</a></p>"
        "<svg viewBox='0 0 1 1' onload='ran = true'><path d='M0 0' onfocus='ran = true'/></svg>"
    )
    page.evaluate(TELL, ["made-up", 50, html])
    found = answer(page).evaluate(
        "place => [...place.querySelectorAll('*')].map(e => `${e.localName} ${e.getAttributeNames()}`)"
    )
    assert found == ["p class", "a ", "a href", "svg viewBox", "path d"]
    answer(page).locator("a").first.click()
    assert page.evaluate("ran") is False
    assert all("Content Security Policy" in error for error in opened.errors)  # the second fence tells of it
    opened.errors.clear()


def test_a_figure_follows_an_edit_and_is_as_wide_as_the_window(walk):  # noqa: F811
    page = walk("part_06_normalisation", width=360, height=780)
    panel = page.locator(".st-key-passage-stream .panel").first
    line = panel.locator("path.line.strong")
    before, box = line.get_attribute("d"), panel.locator("svg").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 360
    ends = line.evaluate(
        "e => { const b = e.getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom]; }"
    )
    assert box["x"] <= ends[0] and ends[1] <= box["x"] + box["width"] + 1
    assert box["y"] <= ends[2] and ends[3] <= box["y"] + box["height"] + 1
    enter(page, "X", 1, 1, "9")
    settled(page)
    assert line.get_attribute("d") != before

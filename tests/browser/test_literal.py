"""Case 6 in a real browser: a token is its own characters in a figure, a table, Markdown and a formula."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page

from attention_ui.tokens import literal

HERE = Path(__file__).parent
TOKENS = [literal(token) for token in json.loads((HERE / "tokens.json").read_text(encoding="utf-8"))]
FEW = TOKENS[:16]


@pytest.fixture
def page(visit, serve) -> Page:
    page = visit(serve(HERE / "literal_harness.py").url).page
    page.get_by_text("all shown").wait_for()
    page.locator(".js-plotly-plot .hm image").first.wait_for(state="attached")
    return page


def texts(page: Page, selector: str) -> list[str]:
    found = page.locator(selector).evaluate_all("all => all.map(each => each.textContent)")
    return [text.replace("\u2068", "").replace("\u2069", "") for text in found]


def cut(token: str, longest: int) -> str:
    return token if len(token) <= longest else f"{token[: longest - 1]}…"


def test_a_figure_shows_tokens_literally_and_its_numbers_in_one_size(page):
    labels = texts(page, ".js-plotly-plot .textpoint text")
    columns, rows = labels[1:17], labels[17:33]  # below the title of the first map
    assert rows == [f"{position} {cut(token, 14)}\u2002" for position, token in enumerate(FEW, 1)]
    assert columns == [f"{position}{cut(token, 7)}" for position, token in enumerate(FEW, 1)]
    first = page.locator(".js-plotly-plot .heatmap-label text").first
    first.scroll_into_view_if_needed()
    place = first.bounding_box()
    page.mouse.move(place["x"], place["y"])
    page.mouse.move(place["x"] + 1, place["y"] + 1)
    label = page.locator(".js-plotly-plot .hoverlayer text").first
    label.wait_for()
    assert f"query 1 {TOKENS[0]}, key 1 {TOKENS[0]}" in label.text_content()
    numbers = page.locator(".js-plotly-plot .heatmap-label text")
    sizes = numbers.evaluate_all("all => all.map(each => parseFloat(getComputedStyle(each).fontSize))")
    assert len(set(sizes)) == 1
    assert page.locator(".js-plotly-plot :is(a, b, img)").count() == 0


def test_a_table_markdown_and_a_formula_show_tokens_literally(page):
    assert texts(page, "table.twin tbody th") == [
        f"{position} {token}" for position, token in enumerate(FEW, 1)
    ]
    assert texts(page, "[data-testid=stMarkdown] code") == TOKENS
    formulas = [text.replace("’", "'").replace("‘", "`") for text in texts(page, ".katex-html")]
    assert formulas == TOKENS
    assert page.locator(".katex-error").count() == 0
    assert page.title() != "run"
    assert page.locator("img[src=x]").count() == 0

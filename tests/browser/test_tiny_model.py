"""The tiny model of lesson 11 in a real browser: it learns while the page stays usable, stops and goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .conftest import settled, until

APP = Path(__file__).parents[2] / "app.py"
PAGE = "part_11_learning"


def steps(page: Any) -> int:
    """How many the progress bar tells."""
    told = re.search(r"Step ([\d,]+) of", page.locator("[data-testid=stProgress]").inner_text())
    assert told is not None
    return int(told.group(1).replace(",", ""))


def button(page: Any, name: str) -> Any:
    return page.locator(".stMainBlockContainer").get_by_role("button", name=name, exact=True)


def test_it_learns_by_itself_while_a_cell_is_edited_and_stops_and_goes_on(
    serve: Callable[..., Any], visit: Callable[..., Any]
) -> None:
    page = visit(f"{serve(APP).url}/{PAGE}?p11.steps=1000").page
    button(page, "Train").click()
    until(page, lambda: page.locator("[data-testid=stProgress]").count() == 1 and steps(page) > 0)
    cell = page.get_by_role("grid", name="Logits", exact=True).get_by_role("gridcell").first
    cell.focus()
    page.keyboard.type("0.25")
    page.keyboard.press("Enter")
    until(page, lambda: "m2=" in page.url)
    until(page, lambda: cell.inner_text().startswith("0.25"))
    first = steps(page)
    until(page, lambda: steps(page) > first)
    until(page, lambda: page.locator(".maps table").count() == 4)
    button(page, "Stop").click()
    page.get_by_text("it writes:").wait_for()
    settled(page)
    stopped = steps(page)
    page.wait_for_timeout(1500)
    assert steps(page) == stopped
    button(page, "Go on").click()
    until(page, lambda: steps(page) > stopped)
    button(page, "Start over").click()
    button(page, "Train").wait_for()


def test_a_training_that_comes_to_its_end_ends_by_itself(
    serve: Callable[..., Any], visit: Callable[..., Any]
) -> None:
    page = visit(f"{serve(APP).url}/{PAGE}?p11.steps=100&p11.layers=1&text=abcabcabcabc").page
    button(page, "Train").click()
    page.get_by_text("Step 100 of 100").wait_for(timeout=60_000)
    page.get_by_role("heading", name="Check of the training").wait_for()
    assert page.locator(".checks .fails").count() == 0
    assert button(page, "Stop").is_disabled() and button(page, "Go on").is_disabled()

"""From the key that commits an edit to the last repaint on every part of the series, against the floor app.

Each page is measured in turn with the floor app, in one run: when its board has been repainted last, and
when its words and figures have. The server's last answer stands beside them: what comes after it is the
browser's work, what comes late with it was late on the server. Run: `python benchmarks/lessons.py`.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from functools import partial

from common import APP, FLOOR, ROOT, against, late, median, serve, table
from latency import Tab, move_slider, opened, started
from playwright.sync_api import Page

sys.path.insert(0, str(ROOT))

from attention_ui.lessons import LESSONS

LIMIT = 3
MARKS = {
    "board": ".board",
    "rest": ".passage, .stMainBlockContainer [data-testid=stHtml], "
    ".stMainBlockContainer [data-testid=stMarkdown], [data-testid=stPlotlyChart], .js-plotly-plot",
}


def edit_first(page: Page, number: int, *, name: str) -> None:
    """Type another number into the first cell of a given matrix and press Enter."""
    page.get_by_role("grid", name=name, exact=True).get_by_role("gridcell").first.focus()
    page.keyboard.type(f"{0.1 + number * 0.37 % 0.89:.2f}", delay=20)
    page.wait_for_timeout(60)
    page.keyboard.press("Enter")


def given(page: Page) -> str:
    """The name of the first matrix on the board that can be edited."""
    return page.locator("[data-kind=given] table[role=grid]").first.get_attribute("aria-label") or ""


def main() -> None:
    """Measure every part against the floor and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--edits", type=int, default=9)
    options.add_argument("--only", default="", help="a part of a page's name")
    asked = options.parse_args()
    rows = []
    with ExitStack() as stack:
        browser = stack.enter_context(started())
        app, _ = stack.enter_context(serve(APP))
        bare, _ = stack.enter_context(serve(FLOOR))
        base, _ = opened(browser, f"http://{bare}/", "[data-testid=stText]")
        for lesson in (lesson for lesson in LESSONS if lesson.part and asked.only in lesson.slug):
            page, _ = opened(browser, f"http://{app}/{lesson.slug}", "[role=grid]")
            tab = Tab(page, partial(edit_first, name=given(page)), MARKS)
            floor = Tab(base, move_slider, {"text": "[data-testid=stText]"})
            for number in range(asked.edits + 2):
                if number == 2:  # not counted: the first ones still load and compile things
                    tab.forget(), floor.forget()
                floor.measure(number)
                tab.measure(number)
            page.context.close()
            least = median(floor.times["text"])
            rows.append(
                [
                    lesson.title,
                    f"{least:.0f} ms",
                    *_cells(tab, "board", least),
                    *_cells(tab, "rest", least),
                    f"{median(tab.heard):.0f} ms",
                ]
            )
    table(
        [
            "one edit in",
            "floor",
            "board p50 / p95",
            "against",
            "words and figures p50 / p95",
            "against",
            "last answer",
        ],
        rows,
    )


def _cells(tab: Tab, what: str, least: float) -> list[str]:
    times = tab.times.get(what, [])
    return [f"{median(times):.0f} / {late(times):.0f} ms", against(median(times), least, LIMIT)]


if __name__ == "__main__":
    main()

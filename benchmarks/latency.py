"""From the key that commits an edit to the last repaint, in a real Chromium, against the floor app.

Floor app and walk-through are served alike and changed in turn, in one run. Timed inside the page: from
the key press to the paint after the last change of what is watched. Run: `make bench`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import APP, FLOOR, against, chromium, late, median, serve, table
from playwright.sync_api import Browser, Page, Request, sync_playwright

PAGE = "walkthrough"
LINK = "way=qkv&n=8&dk=8&dv=8&view=all"  # eight tokens, d_k 8, all stages on screen
WITH_FIGURE = LINK + "&panel=heat"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
QUIET = 450  # ms without a change, a message or a paint that end one measurement when nothing is awaited

WATCH = Path(__file__).with_name("watch.js").read_text(encoding="utf-8")
START = "marks => Object.assign(seen, {began: 0, sent: 0, bytes: 0, heard: 0, paints: {}, marks})"
READ = """() => ({
  ...seen,
  now: performance.now(),
  awaited: document.querySelector("[data-testid=stApp]").dataset.testScriptState !== "notRunning",
})"""


@contextmanager
def started() -> Iterator[Browser]:
    """Chromium, for as long as it is measured in."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Tab:
    """One page under test: how it is changed, what is watched, and what was measured."""

    page: Page
    change: Callable[[Page, int], None]
    marks: dict[str, str]
    times: dict[str, list[float]] = field(default_factory=dict)
    sent: list[float] = field(default_factory=list)
    heard: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)

    def measure(self, number: int) -> None:
        """Change the page once and wait until nothing moves any more."""
        self.page.evaluate(START, self.marks)
        self.change(self.page, number)
        for _ in range(300):
            self.page.wait_for_timeout(50)
            now: dict[str, Any] = self.page.evaluate(READ)
            last = max([now["began"], now["heard"], *now["paints"].values()])
            if now["sent"] and now["heard"] and not now["awaited"] and now["now"] - last > QUIET:
                break
        else:
            raise TimeoutError("the page did not come to rest")
        for name, paint in now["paints"].items():
            self.times.setdefault(name, []).append(paint - now["began"])
        self.sent.append(now["sent"] - now["began"])
        self.heard.append(now["heard"] - now["began"])
        self.bytes.append(now["bytes"])

    def forget(self) -> None:
        """Leave out what was measured so far."""
        self.times, self.sent, self.heard, self.bytes = {}, [], [], []


def move_slider(page: Page, _number: int) -> None:
    """Move the floor's slider one step, to and fro."""
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("ArrowRight" if page.get_by_text("n is 1").count() else "ArrowLeft")


def edit_cell(page: Page, number: int) -> None:
    """Type another number into the first cell of Q and press Enter."""
    page.get_by_role("grid", name="Q", exact=True).get_by_role("gridcell").first.focus()
    page.keyboard.type(f"{0.1 + number * 0.37 % 0.89:.2f}", delay=20)
    page.wait_for_timeout(60)
    page.keyboard.press("Enter")


def opened(browser: Browser, address: str, ready: str) -> tuple[Page, list[str]]:
    """A page in a window of its own once `ready` is there, and the addresses that it asked for."""
    page = browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    page.add_init_script(WATCH)
    page.goto(address)
    page.locator(ready).first.wait_for(timeout=60_000)
    page.wait_for_timeout(1500)
    return page, asked


def bundles(asked: list[str]) -> int:
    """How many of these addresses are Plotly's program."""
    return sum("plotly" in address.lower().rsplit("/", 1)[-1] for address in asked)


def main() -> None:
    """Measure the three pages in turn and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--edits", type=int, default=15)
    asked = options.parse_args()
    with ExitStack() as stack:
        browser = stack.enter_context(started())
        app, _ = stack.enter_context(serve(APP))
        bare, _ = stack.enter_context(serve(FLOOR))
        plain, asked_for = opened(browser, f"http://{app}/{PAGE}?{LINK}", "[role=grid]")
        drawn, _ = opened(browser, f"http://{app}/{PAGE}?{WITH_FIGURE}", ".js-plotly-plot .main-svg")
        base, _ = opened(browser, f"http://{bare}/", "[data-testid=stText]")
        board = {"board": ".board"}  # inside its shadow root: what a reader sees of it
        floor = Tab(base, move_slider, {"text": "[data-testid=stText]"})
        tabs = [
            floor,
            Tab(plain, edit_cell, board),
            Tab(drawn, edit_cell, {**board, "figure": ".js-plotly-plot, [data-testid=stPlotlyChart]"}),
        ]
        for number in range(asked.edits + 2):
            if number == 2:  # not counted: the first ones still load and compile things
                for tab in tabs:
                    tab.forget()
            for tab in tabs:
                tab.measure(number)
    least = median(floor.times["text"])
    rows = []
    for name, tab, what, limit, size in (
        ("floor app: its text", floor, "text", None, ""),
        ("walk-through: the board", tabs[1], "board", 2, " (≤ 30)"),
        ("with a figure: the board", tabs[2], "board", 2, ""),
        ("with a figure: the figure", tabs[2], "figure", 10, ""),
    ):
        times = tab.times.get(what, [])
        rows.append(
            [
                name,
                f"{median(times):.0f} / {late(times):.0f} ms",
                "1" if limit is None else against(median(times), least, limit),
                f"{median(tab.sent):.0f} / {median(tab.heard):.0f} ms",
                f"{median(tab.bytes) / 1e3:.1f} kB{size}",
            ]
        )
    table(
        ["one edit in", "last repaint p50 / p95", "against the floor", "sent / last answer", "received"],
        rows,
    )
    print(f"Requests for Plotly's program by the page without a figure: {bundles(asked_for)} (0 expected)")


if __name__ == "__main__":
    main()

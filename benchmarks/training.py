"""An edit in one browser while another reader of the same server trains the tiny model of lesson 11.

Timed inside the page, from the key that commits an edit to the last repaint of the board, while nobody trains
and while another reader does, and in the page that trains itself. Both browsers run on this machine, too, and
take their part of it. Run: `python benchmarks/training.py`.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from common import APP, against, late, median, serve, table
from latency import QUIET, READ, START, edit_cell, opened, started
from playwright.sync_api import Page

LINK = "walkthrough?way=qkv&n=8&dk=8&dv=8&view=all"
TRAINING = "part_11_learning?p11.steps=1000"
LIMIT = 3
ENTER = """() => {
  window.entered = 0;
  addEventListener("keydown", event => {
    if (event.key === "Enter") Object.assign(window, {entered: performance.now()}), seen.paints = {};
  }, {capture: true});
}"""


def edit_logits(page: Page, number: int) -> None:
    """Type another number into the first logit and press Enter."""
    page.get_by_role("grid", name="Logits", exact=True).get_by_role("gridcell").first.focus()
    page.keyboard.type(f"{0.1 + number * 0.37 % 0.89:.2f}", delay=20)
    page.wait_for_timeout(60)
    page.keyboard.press("Enter")


def board_time(page: Page, change: Any, number: int) -> float:
    """Milliseconds from the key to the last repaint of the board; other parts may go on moving."""
    page.evaluate(START, {"board": ".board"})
    page.evaluate(ENTER)
    change(page, number)
    for _ in range(200):
        page.wait_for_timeout(50)
        now: dict[str, Any] = page.evaluate(READ)
        painted, entered = now["paints"].get("board", 0), page.evaluate("entered")
        if painted > entered > 0 and now["now"] - painted > QUIET:
            return float(painted - entered)
    raise TimeoutError("the board was not repainted")


def press(page: Page, label: str) -> None:
    """Press a button of the training, and wait until the page has followed."""
    buttons = page.locator(".stMainBlockContainer")
    buttons.get_by_role("button", name=label, exact=True).click()
    other = "Go on" if label == "Stop" else "Stop"
    buttons.locator("button:enabled", has_text=other).wait_for()
    page.wait_for_timeout(400)


def in_turn(page: Page, change: Any, trainer: Page, edits: int) -> tuple[list[float], list[float]]:
    """Edits while nobody trains and while this page does, in turn; the first of each is not counted."""
    quiet, busy = [], []
    for number in range(edits + 1):
        quiet.append(board_time(page, change, 2 * number))
        press(trainer, "Go on")
        busy.append(board_time(page, change, 2 * number + 1))
        press(trainer, "Stop")
    return quiet[1:], busy[1:]


def main() -> None:
    """Measure and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--edits", type=int, default=12)
    asked = options.parse_args()
    with ExitStack() as stack:
        browser = stack.enter_context(started())
        app, _ = stack.enter_context(serve(APP))
        reader, _ = opened(browser, f"http://{app}/{LINK}", "[role=grid]")
        other, _ = opened(browser, f"http://{app}/{TRAINING}", "[role=grid]")
        press(other, "Train")
        press(other, "Stop")
        rows = [
            _row(name, *in_turn(page, change, other, asked.edits))
            for name, page, change in (
                ("another reader trains", reader, edit_cell),
                ("the same page trains", other, edit_logits),
            )
        ]
        reached = other.locator("[data-testid=stProgress]").inner_text()
    table(["one edit while", "board p50 / p95", "nobody trains", "against that"], rows)
    print(f"The model has come to: {reached}.")


def _row(name: str, quiet: list[float], busy: list[float]) -> list[str]:
    middle = [f"{median(each):.0f} / {late(each):.0f} ms" for each in (busy, quiet)]
    return [name, *middle, against(median(busy), median(quiet), LIMIT)]


if __name__ == "__main__":
    main()

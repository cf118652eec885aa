"""The board in a real browser, on a page that shows nothing else.

`board_harness.py` applies the operations to made-up numbers; what arrived and what the numbers are now
stands below the board, so that each test compares what was done with what became of it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import settled, until

HERE = Path(__file__).parent
HARNESS = HERE / "board_harness.py"
PROGRAM = HERE.parents[1] / "attention_ui" / "board.js"
BOARD = ".st-key-board [data-testid=stBidiComponentIsolated]"
NAMES = [
    "Q",
    "K",
    "V",
    "K transposed",
    "Scores",
    "Scaled scores",
    "Mask",
    "Masked scores",
    "Weights",
    "Output",
]


@pytest.fixture
def harness(serve):
    return serve(HARNESS).url


@pytest.fixture
def page(visit, harness) -> Page:
    return opened(visit(harness).page)


def opened(page: Page) -> Page:
    grid(page, "Output").wait_for()
    return page


def grid(page: Page, name: str) -> Locator:
    return page.get_by_role("grid", name=name, exact=True)


def cell(page: Page, name: str, i: int, j: int) -> Locator:
    """The cell in row i and column j, both from 0."""
    return grid(page, name).locator(f'[aria-rowindex="{i + 1}"] [role=gridcell][aria-colindex="{j + 1}"]')


def block(page: Page, name: str, at: str) -> str:
    return page.locator(f".st-key-{at} code").inner_text()


def numbers(page: Page, name: str) -> np.ndarray:
    return np.array(json.loads(page.locator(".st-key-numbers code").inner_text())[name])


def log(page: Page) -> list[list]:
    return json.loads(page.locator(".st-key-log code").inner_text())


def done(page: Page, kind: str) -> list[list]:
    """The operations of one kind that arrived, without their numbers."""
    return [op[2:] for op in log(page) if op[1] == kind]


def show(value: float) -> str:
    return f"{round(value, 2):g}".replace("-", "−")


def type_into(page: Page, name: str, i: int, j: int, text: str, end: str = "Enter") -> None:
    cell(page, name, i, j).click()
    page.keyboard.type(text)
    if end:
        page.keyboard.press(end)


# ---- editing


def test_typing_replaces_the_number_and_enter_stays_on_the_cell(page):
    type_into(page, "Q", 1, 1, "-3.5")
    expect(cell(page, "Q", 1, 1)).to_have_text("−3.5")
    until(page, lambda: numbers(page, "q")[1, 1] == -3.5)
    expect(cell(page, "Q", 1, 1)).to_be_focused()
    scores = numbers(page, "q") @ numbers(page, "k").T
    for j in range(4):
        expect(cell(page, "Scores", 1, j)).to_have_text(show(scores[1, j]))


def test_an_arrow_takes_the_typed_number_and_moves_on(page):
    type_into(page, "Q", 1, 1, "7", "ArrowDown")
    expect(cell(page, "Q", 2, 1)).to_be_focused()
    until(page, lambda: numbers(page, "q")[1, 1] == 7)


@pytest.mark.parametrize(
    "enter",
    [
        'new KeyboardEvent("keydown", { key: "8", bubbles })',
        'new InputEvent("beforeinput", { data: "8", bubbles })',
    ],
)
def test_what_follows_at_once_meets_the_cell_and_not_the_editor_that_is_closing(page, enter):
    cell(page, "Q", 1, 1).dblclick()
    value = page.locator(BOARD).evaluate(
        """board => {
            const bubbles = true, active = () => board.shadowRoot.activeElement;
            active().value = "7";
            for (const event of [new KeyboardEvent("keydown", { key: "Enter", bubbles }), ENTER])
                active().dispatchEvent(event);
            return active().value;
        }""".replace("ENTER", enter)
    )
    assert value == "8"
    page.keyboard.type("9")
    page.keyboard.press("Enter")
    until(page, lambda: done(page, "edit") == [["q", 1, 1, "7"], ["q", 1, 1, "89"]])


@pytest.mark.parametrize("key", ["F2", "Enter"])
def test_f2_and_enter_open_the_exact_number_and_arrows_move_the_caret(page, key):
    type_into(page, "Q", 1, 1, "1.23456")
    expect(cell(page, "Q", 1, 1)).to_have_text("1.23")
    page.keyboard.press(key)
    field = cell(page, "Q", 1, 1).get_by_role("textbox")
    expect(field).to_have_value("1.23456")
    expect(field).to_have_accessible_name("Q, row 2, column 2")
    for press in ("End", "ArrowLeft", "9", "Enter"):
        page.keyboard.press(press)
    until(page, lambda: numbers(page, "q")[1, 1] == 1.234596)


def test_a_double_click_opens_the_editor(page):
    cell(page, "V", 0, 1).dblclick()
    expect(cell(page, "V", 0, 1).get_by_role("textbox")).to_be_focused()


def test_escape_keeps_the_old_number(page):
    before = cell(page, "Q", 1, 1).inner_text()
    type_into(page, "Q", 1, 1, "99", "Escape")
    expect(cell(page, "Q", 1, 1)).to_have_text(before)
    expect(cell(page, "Q", 1, 1)).to_be_focused()
    page.wait_for_timeout(300)
    assert done(page, "edit") == []


def test_opening_and_leaving_without_a_change_tells_nothing(page):
    cell(page, "Q", 1, 1).dblclick()
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert done(page, "edit") == []


def test_tab_takes_the_number_and_goes_on_to_the_next_matrix(page):
    type_into(page, "Q", 3, 2, "4", "Tab")
    expect(cell(page, "Scores", 0, 2)).to_be_focused()  # the cell that was selected there
    until(page, lambda: numbers(page, "q")[3, 2] == 4)


def test_a_refused_number_is_said_under_its_matrix_and_the_old_one_stays(page):
    before = cell(page, "Q", 1, 1).inner_text()
    type_into(page, "Q", 1, 1, "abc")
    sentence = f"Q, row 2, column 2: “abc” is not a number. {before} stays."
    said = page.get_by_text(sentence)
    expect(said).to_be_visible()
    expect(said).to_have_attribute("aria-live", "polite")
    expect(cell(page, "Q", 1, 1)).to_have_text(before)
    expect(cell(page, "Q", 1, 1)).to_have_attribute("aria-invalid", "true")
    expect(cell(page, "Q", 1, 1)).to_have_accessible_description(sentence)
    type_into(page, "Q", 1, 1, "5")
    expect(said).to_have_count(0)
    expect(cell(page, "Q", 1, 1)).not_to_have_attribute("aria-invalid", "true")


@pytest.mark.parametrize("delay", [0, 0.3])
def test_four_fast_edits_all_stay(visit, harness, delay):
    page = opened(visit(f"{harness}/?delay={delay}").page)
    for (i, j), text in {(0, 0): "11", (0, 1): "12", (0, 2): "13", (1, 0): "21"}.items():
        cell(page, "Q", i, j).click(no_wait_after=True)
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        expect(cell(page, "Q", i, j)).to_have_text(text)
    until(page, lambda: len(done(page, "edit")) == 4)
    until(page, lambda: numbers(page, "q")[[0, 0, 0, 1], [0, 1, 2, 0]].tolist() == [11, 12, 13, 21])
    for i, j, text in ((0, 0, "11"), (0, 1, "12"), (0, 2, "13"), (1, 0, "21")):
        expect(cell(page, "Q", i, j)).to_have_text(text)
    assert [op[0] for op in log(page)] == list(range(1, len(log(page)) + 1))


def test_ten_fast_edits_of_one_cell_show_the_last(visit, harness):
    page = opened(visit(f"{harness}/?delay=0.2").page)
    cell(page, "Q", 0, 0).click()
    for value in range(10, 20):
        page.keyboard.type(str(value))
        page.keyboard.press("Enter")
    expect(cell(page, "Q", 0, 0)).to_have_text("19")
    until(page, lambda: len(done(page, "edit")) == 10)
    expect(cell(page, "Q", 0, 0)).to_have_text("19")
    until(page, lambda: numbers(page, "q")[0, 0] == 19)


def test_an_open_editor_survives_numbers_that_arrive(visit, harness):
    page = opened(visit(f"{harness}/?delay=0.4").page)
    type_into(page, "Q", 0, 0, "8")
    page.keyboard.press("ArrowRight")
    page.keyboard.type("12")
    until(page, lambda: done(page, "edit") == [["q", 0, 0, "8"]])
    page.keyboard.type("34")
    field = cell(page, "Q", 0, 1).get_by_role("textbox")
    expect(field).to_be_focused()
    expect(field).to_have_value("1234")


@pytest.mark.parametrize("button", ["New numbers", "Another button"])
def test_typing_and_then_pressing_a_button_takes_the_edit_first(page, button):
    type_into(page, "Q", 0, 0, "42", end="")
    page.get_by_role("button", name=button).click()
    until(page, lambda: done(page, "edit") == [["q", 0, 0, "42"]])
    settled(page)
    kinds = [op[1] for op in log(page) if op[1] != "select"]
    assert kinds == (["edit", "new"] if button == "New numbers" else ["edit"])


def test_typing_on_a_computed_cell_says_what_it_is_computed_from(page):
    type_into(page, "Scores", 0, 0, "5", end="")
    expect(
        page.get_by_text("Scores is computed from Q and K transposed; change those instead.")
    ).to_be_visible()
    expect(cell(page, "Scores", 0, 0).get_by_role("textbox")).to_have_count(0)
    expect(cell(page, "Scores", 0, 0)).to_have_attribute("aria-readonly", "true")


def test_delete_changes_nothing(page):
    type_into(page, "Q", 0, 0, "", "Delete")
    page.keyboard.press("Backspace")
    page.wait_for_timeout(300)
    assert done(page, "edit") == []


# ---- history, clipboard, switches, steps


def test_undo_and_redo_by_keys_and_by_buttons(page):
    first = numbers(page, "q")[0, 0]
    expect(page.get_by_role("button", name="Undo")).to_be_disabled()
    type_into(page, "Q", 0, 0, "6")
    page.keyboard.press("Control+z")
    until(page, lambda: numbers(page, "q")[0, 0] == first)
    page.keyboard.press("Control+Shift+z")
    until(page, lambda: numbers(page, "q")[0, 0] == 6)
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+y")
    until(page, lambda: len(done(page, "redo")) == 2)
    expect(cell(page, "Q", 0, 0)).to_have_text("6")
    page.get_by_role("button", name="Undo").click()
    expect(cell(page, "Q", 0, 0)).to_have_text(show(first))
    page.get_by_role("button", name="Redo").click()
    expect(cell(page, "Q", 0, 0)).to_have_text("6")


def test_a_pasted_block_arrives_as_it_is(page):
    cell(page, "Q", 1, 1).click()
    page.evaluate("navigator.clipboard.writeText('1\\t2\\n3\\t4')")
    page.keyboard.press("Control+v")
    until(page, lambda: done(page, "paste") == [["q", 1, 1, "1\t2\n3\t4"]])
    expect(cell(page, "Q", 2, 2)).to_have_text("4")


def test_copying_takes_the_exact_number_or_after_control_a_the_whole_matrix(page):
    type_into(page, "Q", 1, 1, "1.23456")
    until(page, lambda: numbers(page, "q")[1, 1] == 1.23456)
    page.keyboard.press("Control+c")
    assert page.evaluate("navigator.clipboard.readText()") == "1.23456"
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+c")
    rows = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert [[float(number) for number in row.split("\t")] for row in rows] == numbers(page, "q").tolist()


def test_what_is_still_on_its_way_is_copied_as_it_was_typed(visit, harness):
    page = opened(visit(f"{harness}/?delay=1").page)
    type_into(page, "Q", 1, 1, "1.23456")
    page.keyboard.press("Control+c")
    assert page.evaluate("navigator.clipboard.readText()") == "1.23456"
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+c")
    assert page.evaluate("navigator.clipboard.readText()").split("\n")[1].split("\t")[1] == "1.23456"
    expect(cell(page, "Q", 1, 1)).to_have_text("1.23")


def test_switches_toggle_by_click_space_and_enter(page):
    expect(cell(page, "Mask", 0, 2)).to_have_accessible_name("−∞, may not look")
    cell(page, "Mask", 0, 2).click()
    expect(cell(page, "Mask", 0, 2)).to_have_accessible_name("0, may look")
    page.keyboard.press("Space")
    expect(cell(page, "Mask", 0, 2)).to_have_text("−∞")
    page.keyboard.press("Enter")
    expect(cell(page, "Mask", 0, 2)).to_have_text("0")
    until(page, lambda: done(page, "toggle") == [["allow", 0, 2]] * 3)


def test_drawing_over_switches_gives_all_what_the_first_one_gets(page):
    cell(page, "Mask", 0, 1).hover()
    page.mouse.down()
    for j in (2, 3):
        cell(page, "Mask", 0, j).hover()
    cell(page, "Mask", 1, 0).hover()  # may look already
    page.mouse.up()
    until(page, lambda: done(page, "toggle") == [["allow", 0, 1], ["allow", 0, 2], ["allow", 0, 3]])
    expect(cell(page, "Mask", 0, 3)).to_have_text("0")


def test_page_keys_and_buttons_go_through_the_steps(page):
    current = page.locator(f"{BOARD} [aria-current=step]")
    expect(current).to_have_accessible_name("4 Scores")
    cell(page, "Q", 0, 0).click()
    page.keyboard.press("PageDown")
    expect(current).to_have_accessible_name("5 Scaling")
    page.keyboard.press("PageUp")
    page.keyboard.press("PageUp")
    expect(current).to_have_accessible_name("3 K transposed")
    page.get_by_role("button", name="8 Output").click()
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_role("button", name="Back").click()
    until(page, lambda: done(page, "step") == [[5], [4], [3], [8], [7]])


def test_a_new_layout_moves_the_matrices_and_keeps_focus(page):
    cell(page, "Q", 2, 1).click()
    grid(page, "Q").evaluate("table => { table.mine = true; }")
    page.keyboard.press("Control+Home")
    for _ in range(3):
        page.keyboard.press("PageUp")
    expect(grid(page, "Scores")).to_have_count(0)
    expect(cell(page, "Q", 0, 0)).to_be_focused()
    assert grid(page, "Q").evaluate("table => table.mine")


# ---- selecting and outlines


def lit(page: Page, name: str) -> list[tuple[int, int]]:
    """The outlined cells of a matrix, from 0."""
    cells = grid(page, name).locator("[data-lit=source]").all()
    place = "cell => [cell.parentNode.ariaRowIndex - 1, cell.ariaColIndex - 1]"
    return [tuple(int(at) for at in found.evaluate(place)) for found in cells]


def test_hovering_outlines_the_query_row_and_the_key_column(page):
    assert not np.array_equal(numbers(page, "q"), numbers(page, "k"))
    cell(page, "Scores", 0, 2).hover()
    assert lit(page, "Q") == [(0, 0), (0, 1), (0, 2)]
    assert lit(page, "K transposed") == [(0, 2), (1, 2), (2, 2)]
    assert lit(page, "K") == []
    cell(page, "K transposed", 0, 2).hover()
    assert lit(page, "K") == [(2, 0)]
    cell(page, "Weights", 1, 3).hover()
    assert lit(page, "Masked scores") == [(1, 0), (1, 1), (1, 2), (1, 3)]
    cell(page, "Output", 3, 1).hover()
    assert lit(page, "Weights") == [(3, j) for j in range(4)]
    assert lit(page, "V") == [(i, 1) for i in range(4)]
    assert page.locator("[data-echo][data-grid=weights] [data-lit=source]").count() == 4
    assert done(page, "select") == []


def test_a_band_lies_around_its_cells(page):
    cell(page, "Scores", 0, 2).hover()
    band = page.locator("[data-grid=k_t] .band").bounding_box()
    first, last = (cell(page, "K transposed", i, 2).bounding_box() for i in (0, 2))
    assert band["x"] == pytest.approx(first["x"] - 2, abs=0.6)
    assert band["width"] == pytest.approx(first["width"] + 4, abs=0.6)
    assert band["y"] == pytest.approx(first["y"] - 2, abs=0.6)
    assert band["y"] + band["height"] == pytest.approx(last["y"] + last["height"] + 2, abs=0.6)


def test_row_and_column_meet_at_the_cell_they_make(page):
    score, query, key = (
        cell(page, n, *at) for n, at in (("Scores", (1, 2)), ("Q", (1, 0)), ("K transposed", (0, 2)))
    )
    at = {name: found.bounding_box() for name, found in (("s", score), ("q", query), ("k", key))}
    assert at["s"]["y"] == pytest.approx(at["q"]["y"], abs=0.6)
    assert at["s"]["x"] == pytest.approx(at["k"]["x"], abs=0.6)
    assert at["s"]["width"] == pytest.approx(at["k"]["width"], abs=0.1)
    scaled = cell(page, "Scaled scores", 1, 2).bounding_box()
    assert scaled["y"] == pytest.approx(at["s"]["y"], abs=0.6)


def test_selecting_is_told_once_after_arrows_that_follow_one_another(page):
    cell(page, "Scores", 0, 0).click()
    until(page, lambda: len(done(page, "select")) == 1)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    until(page, lambda: len(done(page, "select")) > 1)
    page.wait_for_timeout(300)
    assert done(page, "select") == [["scores", 0, 0], ["scores", 1, 3]]
    expect(cell(page, "Scores", 1, 3)).to_have_attribute("aria-selected", "true")
    assert page.locator(f"{BOARD} [aria-selected=true]").count() == 1


def test_each_matrix_is_one_tab_stop_and_home_and_end_move_in_it(page):
    for name in NAMES:
        assert grid(page, name).locator("[tabindex='0']").count() == 1
    cell(page, "Scores", 1, 1).click()
    for key, at in (("End", (1, 3)), ("Home", (1, 0)), ("Control+End", (3, 3)), ("Control+Home", (0, 0))):
        page.keyboard.press(key)
        expect(cell(page, "Scores", *at)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(cell(page, "Scores", 0, 0)).to_be_focused()


def test_everything_can_be_done_by_keyboard(page):
    page.locator("body").focus()
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate(
            """() => { let a = document.activeElement; while (a?.shadowRoot) a = a.shadowRoot.activeElement;
            return a?.closest?.("[role=grid]")?.ariaLabel ?? a?.ariaLabel ?? a?.textContent ?? ""; }"""
        )
        reached.append(name)
        if name == "Q":
            break
    assert {"1 X", "Next", "New numbers", "Q"} <= set(reached)
    page.keyboard.press("ArrowDown")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    until(page, lambda: done(page, "edit") == [["q", 1, 0, "3"]])


# ---- what is touched, what is kept

WATCH = """board => {
  const root = board.shadowRoot, touched = (window.touched = new Set()), remade = (window.remade = []);
  const place = node => (node.nodeType === 1 ? node : node.parentElement)?.closest("td, th, .side li");
  new MutationObserver(changes => {
    for (const change of changes) {
      const cell = place(change.target);
      const name = change.target.getRootNode?.() && cell?.closest(".matrix")?.dataset.grid;
      if (cell?.tagName === "TD" && !cell.closest("[data-echo]"))
        touched.add([name, cell.parentNode.ariaRowIndex - 1, cell.ariaColIndex - 1].join(" "));
      for (const node of [...change.addedNodes, ...change.removedNodes])
        if (/^(TABLE|TR|TD|TH)$/.test(node.tagName) || node.querySelector?.("td")) remade.push(node.tagName);
    }
  }).observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
}"""


def shown(page: Page) -> dict[str, list[list[str]]]:
    read = """tables => {
        const cells = row => [...row.cells].slice(1).map(cell => cell.textContent + cell.dataset.level);
        const rows = table => [...table.tBodies[0].rows].map(cells);
        const name = table => table.closest(".matrix").dataset.grid;
        return Object.fromEntries(tables.map(table => [name(table), rows(table)])); }"""
    return page.locator(f"{BOARD} [role=grid]").evaluate_all(read)


def test_an_edit_touches_only_the_cells_that_change_and_remakes_nothing(page):
    cell(page, "Q", 1, 2).click()
    until(page, lambda: len(done(page, "select")) == 1)
    page.mouse.move(2, 2)
    page.keyboard.press("F2")
    before = shown(page)
    page.locator(BOARD).evaluate(WATCH)
    page.keyboard.press("Control+a")
    page.keyboard.type("0.5")
    page.keyboard.press("Enter")
    until(page, lambda: numbers(page, "q")[1, 2] == 0.5)
    after = shown(page)
    changed = {
        f"{name} {i} {j}"
        for name, rows in after.items()
        for i, row in enumerate(rows)
        for j, text in enumerate(row)
        if text != before[name][i][j]
    }
    assert {name.split()[0] for name in changed} >= {"q", "scores", "scaled", "weights", "output"}
    assert set(page.evaluate("[...window.touched]")) - changed == set()
    assert page.evaluate("window.remade") == []


def test_a_matrix_that_grows_and_shrinks_stays_the_same_element(visit, harness):
    page = opened(visit(harness).page)
    grid(page, "Scores").evaluate("table => { table.mine = true; }")
    cell(page, "Scores", 3, 3).click()
    slider = page.get_by_role("slider")
    slider.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight"):
        slider.press(key)
    until(page, lambda: grid(page, "Scores").get_by_role("gridcell").count() == 9)
    assert grid(page, "Scores").evaluate("table => table.mine")
    expect(grid(page, "Scores")).to_have_attribute("aria-rowcount", "3")
    for _ in range(3):
        slider.press("ArrowRight")
    until(page, lambda: grid(page, "Scores").get_by_role("gridcell").count() == 36)
    assert grid(page, "Scores").locator("[tabindex='0']").count() == 1
    assert grid(page, "Q").get_by_role("rowheader").count() == 6


def test_edits_typed_while_the_server_is_away_arrive_when_it_is_back(serve, visit):
    server = serve(HARNESS, own=True)
    page = visit(server.url)
    tab = opened(page.page)
    type_into(tab, "Q", 0, 0, "1")
    until(tab, lambda: numbers(tab, "q")[0, 0] == 1)
    server.stop()
    type_into(tab, "Q", 0, 1, "2")
    type_into(tab, "Q", 0, 2, "3")
    expect(cell(tab, "Q", 0, 1)).to_have_text("2")
    server.start()
    for _ in range(2):  # the page tries again by itself, more and more seldom
        with suppress(AssertionError):
            until(tab, lambda: len(done(tab, "edit")) == 2)
    assert done(tab, "edit") == [["q", 0, 1, "2"], ["q", 0, 2, "3"]]
    until(tab, lambda: numbers(tab, "q")[0, 1:].tolist() == [2, 3])
    page.errors.clear()  # of a server that was away


def test_two_readers_do_not_see_each_other(visit, harness):
    one, two = (opened(visit(harness).page) for _ in range(2))
    type_into(one, "Q", 0, 0, "5")
    type_into(two, "Q", 0, 0, "6")
    until(two, lambda: numbers(two, "q")[0, 0] == 6)
    until(one, lambda: numbers(one, "q")[0, 0] == 5)


# ---- the look


@pytest.mark.parametrize("touch", [False, True])
def test_a_narrow_page_never_scrolls_sideways(visit, harness, touch):
    for query in ("?n=12", "?case=tokens"):
        page = opened(visit(f"{harness}/{query}", width=360, height=740, touch=touch).page)
        page.wait_for_timeout(200)
        overflow = """() => {
            const page = document.documentElement, main = document.querySelector("[data-testid=stMain]");
            return [page.scrollWidth - innerWidth, main.scrollWidth - main.clientWidth]; }"""
        assert max(page.evaluate(overflow)) <= 0
        board = page.locator(f"{BOARD} .board").bounding_box()
        wide = page.locator(f"{BOARD} .matrix").evaluate_all(
            "all => Math.max(...all.map(one => one.getBoundingClientRect().right))"
        )
        assert wide <= board["x"] + board["width"] + 1


def test_a_second_tap_opens_the_editor_and_cells_are_large_enough_to_touch(visit, harness):
    page = opened(visit(harness, width=360, height=740, touch=True).page)
    assert cell(page, "Q", 0, 0).bounding_box()["height"] >= 40
    cell(page, "Q", 0, 0).tap()
    expect(cell(page, "Q", 0, 0)).to_have_attribute("aria-selected", "true")
    expect(cell(page, "Q", 0, 0).get_by_role("textbox")).to_have_count(0)
    cell(page, "Q", 0, 0).tap()
    field = cell(page, "Q", 0, 0).get_by_role("textbox")
    expect(field).to_be_focused()
    field.fill("-0,5")
    page.get_by_role("button", name="Next").tap()
    until(page, lambda: done(page, "edit") == [["q", 0, 0, "-0,5"]])


def test_the_board_follows_the_theme_without_the_server(visit, harness):
    page = opened(visit(harness).page)
    board = page.locator(f"{BOARD} .board")
    expect(board).to_have_attribute("data-theme", "light")
    light = cell(page, "Scores", 0, 1).evaluate("cell => getComputedStyle(cell).backgroundColor")
    page.emulate_media(color_scheme="dark")
    expect(board).to_have_attribute("data-theme", "dark")
    assert cell(page, "Scores", 0, 1).evaluate("cell => getComputedStyle(cell).backgroundColor") != light
    assert log(page) == []


def test_masked_and_far_cells_are_marked(visit, harness):
    page = opened(visit(f"{harness}/?case=far").page)
    expect(cell(page, "Masked scores", 0, 1)).to_have_text("−∞")
    expect(cell(page, "Masked scores", 0, 1)).to_have_accessible_name("minus infinity, may not look")
    assert "gradient" in cell(page, "Masked scores", 0, 1).evaluate(
        "cell => getComputedStyle(cell).backgroundImage"
    )
    expect(cell(page, "Q", 2, 0)).to_have_attribute("data-clipped", "")
    expect(cell(page, "Q", 2, 0)).to_have_attribute("title", "1e+09: beyond the colour range")
    levels = (
        grid(page, "Q").locator("td[data-level]").evaluate_all("all => all.map(one => +one.dataset.level)")
    )
    assert len({abs(level) for level in levels}) > 3


def test_a_row_that_may_look_nowhere_says_so_beside_its_sum(visit, harness):
    page = opened(visit(f"{harness}/?case=nothing").page)
    sums = page.get_by_role("list", name="Weights: row sum").get_by_role("listitem")
    assert sums.all_inner_texts()[0].strip() == "Σ = 1"
    expect(sums.nth(1)).to_contain_text("Σ = 0")
    expect(sums.nth(1)).to_contain_text("may look nowhere")
    row, beside = cell(page, "Weights", 1, 0).bounding_box(), sums.nth(1).bounding_box()
    assert abs((row["y"] + row["height"] / 2) - (beside["y"] + beside["height"] / 2)) < 3


def test_awkward_tokens_are_shown_literally(visit, harness):
    page = opened(visit(f"{harness}/?case=tokens").page)
    tokens = grid(page, "Scores").get_by_role("rowheader").locator(".token").all_text_contents()
    wanted = ["the", "␣", "⏎", "<img src=x onerror=alert(1)>", "$x$", "**b**", "தமிழ்", "العربية", "🙂", "the"]
    assert tokens == wanted
    assert page.locator(f"{BOARD} img").count() == 0
    places = grid(page, "Scores").get_by_role("rowheader").locator(".nth").all_text_contents()
    assert places == [str(i + 1) for i in range(10)]
    widths = {box["width"] for box in (cell(page, "Scores", 0, j).bounding_box() for j in range(10))}
    assert max(widths) - min(widths) < 0.1


def test_columns_keep_their_width_when_numbers_grow(page):
    before = cell(page, "Q", 0, 0).bounding_box()["width"]
    type_into(page, "Q", 0, 0, "-12345.678901")
    until(page, lambda: len(done(page, "edit")) == 1)
    assert cell(page, "Q", 0, 0).bounding_box()["width"] == before


@pytest.mark.parametrize(
    ("query", "dark"), [("", False), ("", True), ("?case=tokens&n=6", True), ("?case=nothing", False)]
)
def test_axe_finds_no_fault_in_the_board(visit, harness, axe, query, dark):
    opening = visit(f"{harness}/{query}", dark=dark)
    opened(opening.page)
    assert axe(opening, BOARD) == []
    type_into(opening.page, "Q", 0, 0, "abc")
    expect(cell(opening.page, "Q", 0, 0)).to_have_attribute("aria-invalid", "true")
    opening.page.wait_for_timeout(600)  # a number that changed fades in and out once
    assert axe(opening, BOARD) == []


def test_nothing_moves_for_readers_who_asked_for_less_motion(visit, harness):
    for motion, wanted in (("reduce", 0), ("no-preference", 1)):
        page = opened(visit(harness, reduced_motion=motion).page)
        page.evaluate(
            """() => { window.moved = 0;
            Element.prototype.animate = () => { window.moved += 1; }; }"""
        )
        type_into(page, "Q", 0, 0, "9")
        until(page, lambda page=page: len(done(page, "edit")) == 1)
        page.wait_for_timeout(100)
        assert min(page.evaluate("window.moved"), 1) == wanted


RAGGED = {"cells": [["1", "2"], ["3"]], "levels": [[1]], "reads": [["gone", "row"], ["q", "no"]]}
JUNK = [
    None,
    {},
    {"grids": None, "layout": "x", "messages": 3},
    {
        "grids": {"q": {"cells": []}, "k": 3, "v": None},
        "layout": [[{"result": "q"}, None, {}], 7],
        "steps": {},
    },
    {
        "grids": {"q": RAGGED},
        "layout": [[{"result": "q", "left": "gone", "top": "q", "echo": None}]],
        "selected": {"grid": "q", "row": 9, "col": 9},
        "messages": [None, {"grid": "z", "text": "hm"}],
        "toolbar": 1,
    },
]
LOAD = """
  const file = new Blob([program], { type: "text/javascript" });
  const { default: board } = await import(URL.createObjectURL(file));
  const place = () => document.body.appendChild(document.createElement("div"));
"""


def test_data_of_any_shape_never_throws(visit, harness):
    page = visit(harness).page
    errors = page.evaluate(
        """async ([program, junk]) => { LOAD
          const parentElement = place(), thrown = [], setStateValue = () => {};
          addEventListener("error", event => thrown.push(event.message));
          for (const data of junk)
            try { board({ data, parentElement, setStateValue }); } catch (error) { thrown.push(error.stack); }
          for (const cell of parentElement.querySelectorAll("td"))
            for (const name of ["pointerover", "click", "dblclick", "focusin"])
              cell.dispatchEvent(new Event(name, { bubbles: true }));
          return [thrown, parentElement.querySelectorAll("[role=gridcell]").length];
        }""".replace("LOAD", LOAD),
        [PROGRAM.read_text(encoding="utf-8"), JUNK],
    )
    assert errors == [[], 4]


def test_a_remount_and_a_new_session_lose_nothing_and_repeat_nothing(visit, harness):
    """The queue by itself: a component that is made anew, and a server that has forgotten the session."""
    page = visit(harness).page
    told = page.evaluate(
        """async program => { LOAD
          const told = [], setStateValue = (_, value) => told.push(structuredClone(value));
          const grids = { q: { name: "Q", kind: "given", cells: [["1"]] } }, layout = [[{ result: "q" }]];
          const show = (session, ack, parentElement) =>
            board({ data: { key: "one", session, ack, grids, layout }, parentElement, setStateValue });
          const press = (target, key) =>
            target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
          const edit = (parent, text) => {
            const cell = parent.querySelector("td[role=gridcell]");
            press(cell, "F2");
            cell.querySelector("input").value = text;
            press(cell.querySelector("input"), "Enter");
          };
          const first = place();
          show("a", 4, first);
          edit(first, "2");
          edit(first, "3");
          first.remove();
          const second = place();
          show("a", 6, second);
          edit(second, "4");
          show("b", 0, second);
          return told;
        }""".replace("LOAD", LOAD),
        PROGRAM.read_text(encoding="utf-8"),
    )
    last = told[-1]["ops"]
    assert told[-1]["session"] == "b"
    assert [op[0] for op in last] == list(range(1, len(last) + 1))
    assert [op[5] for op in last if op[1] == "edit"] == ["3", "4"]
    assert [told[-2]["session"], told[-2]["ops"][0][0]] == ["a", 7]


def test_printing_leaves_out_the_buttons_and_is_light(visit, harness):
    page = opened(visit(harness, dark=True).page)
    page.emulate_media(media="print", color_scheme="dark")
    expect(page.get_by_role("button", name="New numbers")).to_be_hidden()
    assert cell(page, "Scores", 0, 0).evaluate("cell => getComputedStyle(cell).color") == "rgb(0, 0, 0)"


def test_an_edit_is_told_once_and_then_the_page_rests(visit, harness):
    opening = visit(harness)
    page = opened(opening.page)
    cell(page, "Q", 0, 0).click()
    until(page, lambda: len(done(page, "select")) == 1)
    settled(page)
    before = opening.asked
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    until(page, lambda: numbers(page, "q")[0, 0] == 3)
    page.wait_for_timeout(1000)
    assert opening.asked == before + 1

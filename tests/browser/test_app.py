"""The app in a real browser: what only a browser can tell, on the pages as a reader gets them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from attention_core.masks import MASKS
from attention_core.numbers import show
from attention_ui.bench import numbers
from attention_ui.links import from_query
from attention_ui.scene import Scene, scene

from .conftest import settled, until

APP = Path(__file__).parents[2] / "app.py"
GIVEN = ("X", "W_Q", "W_K", "W_V")
WALK = "walkthrough?view=all"


@pytest.fixture
def walk(serve: Callable[..., Any], visit: Callable[..., Any]) -> Callable[..., Any]:
    """A function that opens a page of the app and waits for its board."""

    def open_page(path: str = WALK, **options: Any) -> Any:
        page = visit(f"{serve(APP).url}/{path}", **options).page
        page.get_by_role("grid").first.wait_for()
        settled(page)
        return page

    return open_page


def cell(page: Any, grid: str, row: int, column: int) -> Any:
    """A cell by the matrix's name and its place, counted from 1 as a reader does."""
    return (
        page.get_by_role("grid", name=grid, exact=True)
        .locator("[role=row]:has([role=gridcell])")
        .nth(row - 1)
        .get_by_role("gridcell")
        .nth(column - 1)
    )


def enter(page: Any, grid: str, row: int, column: int, text: str) -> None:
    cell(page, grid, row, column).click()
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def shown(page: Any, grid: str) -> list[list[str]]:
    """Every cell's text, row by row."""
    rows = page.get_by_role("grid", name=grid, exact=True).locator("[role=row]:has([role=gridcell])")
    return [rows.nth(i).get_by_role("gridcell").all_inner_texts() for i in range(rows.count())]


def in_the_address(page: Any) -> Scene:
    """The scene that the address bar holds at this moment."""
    return in_link(page.url)


def in_link(url: str) -> Scene:
    """The scene that a link opens."""
    bench, said = from_query(dict(parse_qsl(urlsplit(url).query)))
    assert said == ""
    return scene(bench)


def expect_shown(
    page: Any, now: Scene, names: tuple[str, ...] = ("scores", "scaled", "weights", "output")
) -> None:
    """The page shows what attention_core says for the link in its address bar."""
    for name in names:
        values = [[show(v) for v in row] for row in now.values[name].tolist()]
        assert shown(page, now.sheet.titles[name]) == values, name


def follow(page: Any, title: str) -> None:
    """Follow the link with that title, from the page or from one of the menus at its top."""
    link = page.locator("a[href]", has_text=title).first
    for menu in page.get_by_test_id("stTopNavSection").all():
        if link.count():
            break
        opened = page.get_by_test_id("stTopNavPopoverBody")
        if opened.count():
            page.keyboard.press("Escape")
            opened.wait_for(state="detached")
        menu.click()
        opened.locator("a[href]").first.wait_for()
    link.click()


def text_of(page: Any) -> str:
    return str(page.locator(".stMain").inner_text())


# ---------------------------------------------------------------- editing


def test_an_edit_reaches_every_matrix_and_the_address(walk):
    page = walk()
    enter(page, "X", 1, 1, "2.5")
    settled(page)
    now = in_the_address(page)
    assert numbers(now.bench, "x")[0, 0] == 2.5
    expect_shown(page, now)


def test_fast_edits_in_turn_all_stay(walk):
    page = walk(f"{WALK}&way=qkv&dk=3")
    for row, column, text in [(1, 1, "1.5"), (1, 2, "-2"), (1, 3, "0,25"), (2, 1, "1e1")]:
        enter(page, "Q", row, column, text)
    settled(page)
    q = numbers(in_the_address(page).bench, "q")
    assert q[0].tolist() == [1.5, -2, 0.25] and q[1, 0] == 10
    expect_shown(page, in_the_address(page))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".5", 0.5),
        ("0,5", 0.5),
        ("1e3", 1000),
        ("-2.25", -2.25),
        ("1/3", 1 / 3),
        ("−2", -2),
        ("sqrt(2)", 2**0.5),
    ],
)
def test_a_typed_number_means_what_it_says(walk, text, value):
    page = walk()
    cell(page, "X", 2, 2).click()
    page.keyboard.type(text)  # a typographic minus comes as text, without a key
    page.keyboard.press("Enter")
    settled(page)
    assert numbers(in_the_address(page).bench, "x")[1, 1] == value
    assert cell(page, "X", 2, 2).inner_text() == show(value)


@pytest.mark.parametrize("text", ["abc", "1e999", "nan", ""])
def test_a_refused_number_is_named_in_place_and_the_old_one_stays(walk, text):
    page = walk()
    cell(page, "X", 2, 2).click()
    page.keyboard.press("F2")
    page.keyboard.press("Control+A")
    page.keyboard.type(text) if text else page.keyboard.press("Delete")
    page.keyboard.press("Enter")
    page.get_by_text("X, row 2, column 2: ").first.wait_for()
    assert cell(page, "X", 2, 2).inner_text() == "2"
    assert "m=" not in page.url


def test_a_block_from_a_spreadsheet_is_pasted(walk):
    page = walk(f"{WALK}&way=qkv&dk=4")
    page.evaluate("navigator.clipboard.writeText('1\\t2\\t3\\n4\\t5\\t6\\n7\\t8\\t9')")
    cell(page, "Q", 2, 2).click()
    page.keyboard.press("Control+V")
    settled(page)
    assert numbers(in_the_address(page).bench, "q")[1:, 1:].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_undo_and_redo_by_button_and_by_key(walk):
    page = walk()
    enter(page, "X", 1, 1, "9")
    settled(page)
    page.get_by_role("button", name="Undo").click()
    settled(page)
    assert cell(page, "X", 1, 1).inner_text() == "1"
    cell(page, "X", 1, 1).click()
    page.keyboard.press("Control+Y")
    settled(page)
    assert cell(page, "X", 1, 1).inner_text() == "9"


def test_a_number_left_in_its_cell_is_taken_when_a_button_is_pressed(walk):
    page = walk()
    cell(page, "X", 1, 1).click()
    page.keyboard.type("7")
    page.get_by_role("button", name="New numbers").click()
    settled(page)
    page.get_by_role("button", name="Undo").click()
    settled(page)
    assert cell(page, "X", 1, 1).inner_text() == "7"


def test_reset_really_brings_the_example_back(walk):
    page = walk()
    before = shown(page, "Output")
    enter(page, "X", 1, 1, "9")
    enter(page, "W_V", 1, 1, "9")
    settled(page)
    page.get_by_role("button", name="Reset").click()
    settled(page)
    assert shown(page, "Output") == before and "m=" not in page.url


TOUCHED = """() => {
  const all = [...document.querySelectorAll('*')];
  const roots = all.map(e => e.shadowRoot).filter(root => root?.querySelector('[role=grid]'));
  window.touched = new Set();
  window.rebuilt = [];
  const place = cell => [
    cell.closest('[role=grid]').getAttribute('aria-label'),
    cell.closest('[role=row]').getAttribute('aria-rowindex'),
    cell.getAttribute('aria-colindex'),
  ].join(' ');
  const observer = new MutationObserver(changes => changes.forEach(change => {
    const element = change.target.nodeType === 1 ? change.target : change.target.parentElement;
    const cell = element?.closest?.('[role=gridcell]');
    if (cell && change.type !== 'attributes') touched.add(place(cell));
    const made = '[role=grid], [role=row], [role=gridcell]';
    for (const node of change.removedNodes)
      if (node.matches?.(made) || node.querySelector?.(made)) rebuilt.push(node.outerHTML.slice(0, 80));
  }));
  roots.forEach(root => observer.observe(root, {subtree: true, childList: true, characterData: true}));
}"""


def test_only_the_cells_that_change_are_touched_and_none_is_made_anew(walk):
    page = walk()
    before = {name: shown(page, name) for name in ("X", "Q", "K", "V", "Scores", "Weights", "Output")}
    page.evaluate(TOUCHED)
    enter(page, "X", 4, 3, "-3")
    settled(page)
    after = {name: shown(page, name) for name in before}
    changed = {
        name: sum(
            a != b for rows in zip(before[name], after[name], strict=True) for a, b in zip(*rows, strict=True)
        )
        for name in before
    }
    touched = page.evaluate("[...touched]")
    assert page.evaluate("rebuilt") == []
    for name in ("Q", "K", "V", "Scores", "Weights", "Output"):
        assert len([place for place in touched if place.rsplit(" ", 2)[0] == name]) == changed[name], name


# ---------------------------------------------------------------- links and sessions


def test_reloading_and_going_elsewhere_and_back_loses_nothing(walk):
    page = walk()
    enter(page, "X", 3, 2, "1/3")
    settled(page)
    output = shown(page, "Output")
    page.reload()
    page.get_by_role("grid", name="Output", exact=True).wait_for()
    settled(page)
    assert shown(page, "Output") == output
    follow(page, "Compare masks")
    page.get_by_role("grid", name="Output A", exact=True).wait_for()
    settled(page)
    assert shown(page, "Output A") == output
    assert numbers(in_the_address(page).bench, "x")[2, 1] == 1 / 3
    page.go_back()
    page.get_by_role("grid", name="Output", exact=True).wait_for()
    settled(page)
    assert shown(page, "Output") == output


def test_the_back_button_leaves_the_page_however_much_was_changed(walk):
    page = walk("")
    start = page.url
    follow(page, "The eight steps")
    page.get_by_role("button", name="Next").wait_for()
    for _ in range(3):
        page.get_by_role("button", name="Next").click()
        settled(page)
    assert "step=4" in page.url
    page.go_back()
    page.get_by_role("heading", name="Attention, live").wait_for()
    assert urlsplit(page.url).path == urlsplit(start).path


WATCH_WHAT_IS_SENT = """() => {
  window.sent = [];
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    sent.push(window.late ? "late" : "soon");
    return send.call(this, data);
  };
  const began = (event) => event.key === "Enter" && setTimeout(() => { window.late = true; }, 700);
  window.addEventListener("keydown", began, true);
}"""


def test_going_past_a_link_by_keyboard_holds_no_edit_back(walk):
    page = walk(WALK)
    page.evaluate(WATCH_WHAT_IS_SENT)
    page.locator("a[href]").last.focus()
    page.keyboard.press("Tab")
    enter(page, "X", 1, 1, "9")
    settled(page)
    assert page.evaluate("sent[0]") == "soon"
    assert numbers(in_the_address(page).bench, "x")[0, 0] == 9


def test_a_link_opened_on_a_fresh_server_shows_the_same_numbers(serve, visit, walk):
    page = walk(f"{WALK}&n=5")
    enter(page, "X", 5, 1, "sqrt(2)")
    settled(page)
    query = urlsplit(page.url).query
    fresh = serve(APP, own=True)
    other_visit = visit(f"{fresh.url}/walkthrough?{query}")
    other = other_visit.page
    other.get_by_role("grid", name="Output", exact=True).wait_for()
    settled(other)
    assert urlsplit(other.url).query == query
    for name in ("X", "Weights", "Output"):
        assert shown(other, name) == shown(page, name)
    # and after that server has been restarted, the open page goes on with its numbers
    fresh.stop()
    fresh.start()
    before = other.evaluate("location.search")
    enter(other, "X", 1, 1, "4")
    other.wait_for_function("before => location.search !== before", arg=before, timeout=30_000)
    settled(other)
    other_visit.errors.clear()  # the browser says that the server was away
    again = numbers(in_the_address(other).bench, "x")
    assert again[4, 0] == 2**0.5 and again[0, 0] == 4
    expect_shown(other, in_the_address(other))


def test_two_readers_do_not_see_each_others_numbers(walk):
    one, other = walk(), walk()
    enter(one, "X", 1, 1, "8")
    enter(other, "X", 1, 1, "-8")
    settled(one)
    settled(other)
    assert cell(one, "X", 1, 1).inner_text() == "8" and cell(other, "X", 1, 1).inner_text() == "−8"


def test_copy_link_puts_the_address_on_the_clipboard(walk):
    page = walk()
    enter(page, "X", 1, 1, "3")
    settled(page)
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Link copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_a_number_left_in_its_cell_is_in_the_link_that_is_copied(walk):
    page = walk()
    cell(page, "X", 1, 1).click()
    page.keyboard.type("7")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Link copied.").wait_for()
    assert numbers(in_link(page.evaluate("navigator.clipboard.readText()")).bench, "x")[0, 0] == 7


def test_a_link_with_markup_in_it_is_told_and_runs_nothing(walk):
    page = walk("walkthrough?n=999&m=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    assert "Not understood in this link: n=“999”" in text_of(page)
    assert "<img src=x onerror=alert" in text_of(page)


@pytest.mark.parametrize(
    ("start", "link"), [("", "See every step"), (WALK, "Compare masks"), ("compare", "The eight")]
)
def test_a_number_left_in_its_cell_is_taken_when_a_link_is_followed(walk, start, link):
    page = walk(start)
    before = urlsplit(page.url).path
    cell(page, "X", 2, 1).click()
    page.keyboard.type("6")
    follow(page, link)
    page.wait_for_function("before => location.pathname !== before", arg=before)
    page.get_by_role("grid").first.wait_for()
    page.wait_for_function("() => location.search.includes('m=')")
    settled(page)
    assert numbers(in_the_address(page).bench, "x")[1, 0] == 6


# ---------------------------------------------------------------- controls


def test_every_example_comes_whole_whatever_was_chosen_before(walk):
    from attention_core.examples import EXAMPLES
    from attention_ui.bench import opened

    page = walk(WALK)
    for name in [
        "seed",
        "previous",
        "same",
        "induction-1",
        "seed",
        "brackets",
        "tokens",
        "pronoun",
        "seed",
        "average",
    ]:
        chooser = page.get_by_role("combobox", name="Example", exact=True)
        chooser.click()
        page.get_by_role("option", name=EXAMPLES[name].title, exact=True).click()
        until(page, lambda name=name: in_the_address(page).bench.example == name, name)
        settled(page)
        bench, want = in_the_address(page).bench, opened(name)
        sizes = ("example", "way", "n_q", "n_k", "d_model", "d_k", "d_v", "mask")
        assert [getattr(bench, size) for size in sizes] == [getattr(want, size) for size in sizes]


def test_a_slider_a_mask_and_undo_draw_the_board_and_the_controls_beside_it(walk):
    page = walk()
    slider = page.get_by_role("slider", name=re.compile("Sequence length"))
    tokens = page.get_by_role("textbox", name="Tokens")
    before, said = int(slider.input_value()), tokens.input_value()
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.search.includes('n=')")
    settled(page)
    expect_shown(page, in_the_address(page))
    assert len(tokens.input_value().split()) == before + 1
    chooser = page.get_by_role("combobox", name="Mask", exact=True)
    chooser.scroll_into_view_if_needed()
    settled(page)
    chooser.click()
    page.get_by_role("option", name=MASKS["window"].title).click()
    reach = page.get_by_role("slider", name=re.compile(MASKS["window"].parameters[0].title))
    reach.wait_for()
    settled(page)
    expect_shown(page, in_the_address(page))
    for _ in range(2):
        page.get_by_role("button", name="Undo").click()
        settled(page)
    expect_shown(page, in_the_address(page))
    assert (int(slider.input_value()), tokens.input_value()) == (before, said)
    assert not reach.count()


def test_ten_quick_steps_of_a_slider_end_on_the_right_number(walk):
    page = walk(f"{WALK}&panel=none")
    slider = page.get_by_role("slider", name=re.compile("Sequence length"))
    slider.focus()
    blank = page.evaluate_handle(
        """() => { const seen = {blank: 0}; const tick = () => {
          const roots = [...document.querySelectorAll('*')].map(e => e.shadowRoot).filter(Boolean);
          if (!roots.some(r => r.querySelector('[role=grid]'))) seen.blank++; requestAnimationFrame(tick); };
          tick(); return seen; }"""
    )
    for _ in range(10):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(20)
    page.wait_for_function("() => location.search.includes('n=14')")
    settled(page)
    assert len(shown(page, "X")) == 14
    assert page.evaluate("seen => seen.blank", blank) == 0
    expect_shown(page, in_the_address(page))


def test_changing_the_mask_changes_the_weights(walk):
    page = walk()
    chooser = page.get_by_role("combobox", name="Mask", exact=True)
    chooser.scroll_into_view_if_needed()
    settled(page)  # a list that opens while its page scrolls is closed again by Streamlit
    chooser.click()
    page.get_by_role("option", name="None (encoder)").click()
    settled(page)
    assert in_the_address(page).bench.mask.kind == "none"
    expect_shown(page, in_the_address(page))
    assert all("−∞" not in row for row in shown(page, "Mask"))


def test_a_mask_is_drawn_cell_by_cell_and_an_empty_row_says_so(walk):
    page = walk(f"{WALK}&mask=custom-4x4-jO8")
    for column in range(1, 5):
        target = cell(page, "Mask", 1, column)
        if target.inner_text() == "0":
            target.click()
            settled(page)
    now = in_the_address(page)
    assert not now.values["mask"][0].any()
    assert (
        "may look nowhere" in page.locator(".stMain").inner_text()
        or page.get_by_text("may look nowhere").count()
    )
    assert set(shown(page, "Weights")[0]) == {"0"} and set(shown(page, "Output")[0]) == {"0"}


def test_the_arithmetic_of_a_selected_cell_is_that_of_the_core(walk):
    page = walk()
    cell(page, "Scores", 1, 3).click()
    settled(page)
    now = in_the_address(page)
    assert now.selected == ("scores", 0, 2)
    panel = page.locator(".st-key-passage-arithmetic").inner_text()
    assert "Scores, query 1, the · key 3, sat" in panel
    for term in (*now.values["q"][0], *now.values["k_t"][:, 2]):
        assert show(term).replace("−", "") in panel


def test_the_arithmetic_stays_in_view_while_the_board_is_longer_than_the_window(walk):
    page = walk(f"{WALK}&cell=q.1.1")
    page.locator(".st-key-passage-arithmetic .worked").wait_for()
    box = page.locator(".st-key-passage-arithmetic").bounding_box()
    assert page.locator(".stMainBlockContainer").bounding_box()["height"] > 1200
    assert box["y"] > 0 and box["y"] + box["height"] <= 900


# ---------------------------------------------------------------- everybody


TOKENS = [" ", "\n", "<s>", "<img src=x onerror=alert(1)>", "$x$", "**b**", "🙂", "அம்மா", "سلام"]


@pytest.mark.parametrize("path", [WALK + "&panel=heat", "compare?x=1", "walkthrough?view=all&panel=tables"])
def test_tokens_are_shown_literally_everywhere(walk, path):
    from urllib.parse import quote

    from attention_ui.tokens import join_tokens, literal

    page = walk(f"{path}&n=9&tokens={quote(join_tokens(tuple(TOKENS)))}")
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    settled(page)
    name = "Mask A" if path.startswith("compare") else "Scores"
    headers = page.get_by_role("grid", name=name, exact=True).get_by_role("rowheader").all_inner_texts()
    assert len(headers) == 9
    for token, header in zip(TOKENS, headers, strict=True):
        assert literal(token) in header
    assert page.locator("img[src=x], strong:text-is('b')").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_same_token_twice_stays_apart(walk):
    page = walk(f"{WALK}&n=3&tokens=the+cat+the")
    for name in ("Scores", "Mask", "Weights"):
        grid = page.get_by_role("grid", name=name, exact=True)
        rows, columns = (
            grid.get_by_role("rowheader").all_inner_texts(),
            grid.get_by_role("columnheader").all_inner_texts(),
        )
        assert len(rows) == 3 and len(set(rows)) == 3
        assert len([c for c in columns if "the" in c]) == 2 and len(set(columns)) == len(columns)


def test_every_action_of_the_walk_through_can_be_done_by_keyboard(walk):
    page = walk("walkthrough?step=1")
    page.locator("body").press("Tab")
    for _ in range(60):
        if page.evaluate(
            "() => { let e = document.activeElement; while (e?.shadowRoot) e = e.shadowRoot.activeElement;"
            " return e?.getAttribute('role') === 'gridcell'; }"
        ):
            break
        page.keyboard.press("Tab")
    else:
        pytest.fail("the board cannot be reached with Tab")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    settled(page)
    assert numbers(in_the_address(page).bench, "x")[0, 0] == 4
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("F2")
    page.keyboard.press("Control+A")
    page.keyboard.type("0.5")
    page.keyboard.press("Enter")
    settled(page)
    assert numbers(in_the_address(page).bench, "x")[1, 1] == 0.5
    page.keyboard.press("PageDown")
    page.get_by_role("heading", name="Step 2 of 8 · Projections").wait_for()
    page.keyboard.press("Control+Z")
    settled(page)
    assert numbers(in_the_address(page).bench, "x")[1, 1] == 2


def test_a_screen_reader_finds_names_headers_values_and_places(walk):
    page = walk()
    names = ["X", "W_Q", "W_K", "W_V", "Q", "K", "V", "K transposed", "Scores", "Scaled scores", "Mask"]
    names += ["Masked scores", "Weights", "Output"]
    for name in names:
        grid = page.get_by_role("grid", name=name, exact=True)
        assert grid.count() == 1, name
        rows, columns = grid.get_by_role("rowheader").count(), grid.get_by_role("columnheader").count()
        assert rows and columns
        assert grid.get_by_role("gridcell").count() % rows == 0
    now = in_the_address(page)
    first = cell(page, "Weights", 4, 2)
    assert first.get_attribute("aria-colindex") and show(now.values["weights"][3, 1]) in first.inner_text()


def test_there_is_no_accessibility_fault_of_ours(walk, axe, serve, visit):
    for path in ("", WALK + "&cell=weights.2.1", "walkthrough?step=6", "compare", "walkthrough?panel=tables"):
        opened = visit(f"{serve(APP).url}/{path}")
        opened.page.get_by_role("grid").first.wait_for()
        settled(opened.page)
        faults = axe(opened, ".stMain")
        assert faults == [], "\n".join([path, *faults])


@pytest.mark.parametrize(
    "path",
    [
        "",
        "walkthrough",
        WALK + "&n=16&dk=16&dv=16",
        "compare",
        "walkthrough?panel=heat",
        "walkthrough?panel=code",
    ],
)
def test_a_telephone_never_scrolls_sideways_and_takes_numbers(walk, path):
    page = walk(path, width=360, height=740, touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    given = page.get_by_role("grid", name="X", exact=True)
    if given.count():
        target = cell(page, "X", 1, 1)
        target.tap()
        page.wait_for_timeout(300)
        target.tap()
        page.keyboard.press("Control+A")
        page.keyboard.type("5")
        page.keyboard.press("Enter")
        page.wait_for_function("() => location.search.includes('m=')")
        settled(page)
        assert numbers(in_the_address(page).bench, "x")[0, 0] == 5


def test_on_paper_it_is_a_worksheet_without_the_sidebar(walk, tmp_path):
    page = walk(f"{WALK}&cell=weights.2.1")
    page.emulate_media(media="print")
    assert not page.locator("[data-testid=stSidebar]").is_visible()
    assert page.get_by_role("grid", name="Output", exact=True).is_visible()
    page.pdf(path=str(tmp_path / "sheet.pdf"))
    assert (tmp_path / "sheet.pdf").stat().st_size > 10_000


def test_a_page_without_a_figure_does_not_load_plotly(walk, serve, visit):
    opened = visit("about:blank")
    asked: list[str] = []
    opened.host = "localhost"
    opened.page.on("request", lambda request: asked.append(request.url))
    opened.page.goto(f"{serve(APP).url}/{WALK}")
    opened.page.get_by_role("grid", name="Output", exact=True).wait_for()
    settled(opened.page)
    assert not [url for url in asked if "plotly" in url.lower()]
    opened.page.get_by_role("radio", name="Heat maps").or_(
        opened.page.get_by_role("button", name="Heat maps")
    ).first.click()
    opened.page.locator(".js-plotly-plot").wait_for()
    assert [url for url in asked if "plotly" in url.lower()]


def test_the_large_heat_maps_answer(walk):
    page = walk("walkthrough?panel=large&large=128")
    page.locator(".js-plotly-plot").wait_for()
    assert "16,384" in text_of(page)


def test_an_edit_with_the_figure_open_reaches_the_figure(walk):
    page = walk(f"{WALK}&panel=heat")
    page.locator(".js-plotly-plot").wait_for()
    enter(page, "X", 1, 1, "6")
    settled(page)
    now = in_the_address(page)
    want = show(np.max(now.values["scores"]))
    page.wait_for_function(
        "want => document.querySelector('.js-plotly-plot').textContent.includes(want)", arg=want
    )

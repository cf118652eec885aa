"""Part 10 on the page: every tile, every size of tiles, what is kept, and what a missing factor breaks."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest
from test_lessons import FAILS, assert_is_sound, board_of
from test_pages import checked, desk_of, open_app, send, words

from attention_core.attention import attention
from attention_core.examples import EXAMPLES
from attention_core.masks import allowed
from attention_core.numbers import show
from attention_core.tile_steps import flash_steps
from attention_core.tile_traffic import bytes_plain, bytes_tiled
from attention_core.written import visible
from attention_ui import amounts, tiled
from attention_ui.bench import numbers

PAGE = "part_10_flash"
BLOCKS = [("1", "1"), ("2", "1"), ("2", "3"), ("3", "2"), ("8", "8")]
each_example = pytest.mark.parametrize("name", EXAMPLES)
with_blocks = pytest.mark.parametrize(("block_q", "block_k"), BLOCKS)


def opened(**query: object) -> AppTest:
    asked = {name.replace("p10_", "p10."): value for name, value in query.items()}
    return open_app(PAGE, **{"p10.guess": "show", **asked})


def failed(app: AppTest) -> list[str]:
    """The claims that do not hold."""
    return [unescape(claim) for claim in re.findall(r'<li class="fails">.*?</span> (.*?) <span', words(app))]


def matrices(app: AppTest) -> tuple[np.ndarray, ...]:
    bench = desk_of(app).bench
    q, k, v = (numbers(bench, letter) for letter in "qkv")
    return q, k, v, allowed(bench.mask, bench.n_q, bench.n_k)


def shown(matrix: np.ndarray) -> list[list[str]]:
    return [[show(number) for number in row] for row in matrix.tolist()]


@each_example
@pytest.mark.parametrize(("block_q", "block_k"), [("2", "1"), ("3", "2")])
def test_every_claim_holds_for_every_example_at_an_early_tile_and_at_the_last(name, block_q, block_k):
    for step in (2, 256):
        app = opened(example=name, p10_block_q=block_q, p10_block_k=block_k, p10_step=step)
        assert_is_sound(app)
        assert failed(app) == []


@pytest.mark.parametrize("mask", ["none", "causal", "padding-0", "padding-2", "window-0-0"])
@pytest.mark.parametrize("size", [{"n": 1, "dk": 1, "dv": 1}, {"n": 16, "dk": 16, "dv": 16}, {"n": 5}])
def test_it_stands_at_every_size_and_under_every_mask(mask, size):
    for step in (1, 7):
        app = opened(mask=mask, **size, p10_step=step, p10_block_q="3", p10_block_k="3")
        assert_is_sound(app)
        assert failed(app) == []


@pytest.mark.parametrize("mask", ["none", "causal"])
@with_blocks
def test_the_board_shows_what_is_kept_after_each_tile(mask, block_q, block_k):
    app = opened(mask=mask, n=5, p10_block_q=block_q, p10_block_k=block_k)
    q, k, v, allow = matrices(app)
    tiles = flash_steps(q, k, v, mask=allow, block_q=int(block_q), block_k=int(block_k))
    worked = [tile for tile in tiles if not tile.skipped]
    for number in {1, 2, len(worked) // 2 or 1, len(worked)}:
        app = opened(mask=mask, n=5, p10_block_q=block_q, p10_block_k=block_k, p10_step=number)
        tile = worked[min(number, len(worked)) - 1]
        grids = board_of(app)["grids"]
        names = ("maximum_before", "maximum", "total_before", "total", "mixed_before", "mixed", "factor")
        for name in (*names, "masked", "powers", "output"):
            assert grids[name]["cells"] == shown(getattr(tile, name)), name
    table = re.findall(r'<th scope="row">(?:key|keys) [^<]*</th>((?:<td>[^<]*</td>)+)', words(app))
    last = re.findall(r"<td>([^<]*)</td>", table[-1])
    expected = zip(tile.maximum, tile.factor, tile.total, strict=True)
    assert last == [text for m, c, z in expected for text in (show(m[0]), visible(c[0], show), show(z[0]))]


def test_at_the_last_tile_the_output_stands_beside_that_of_plain_attention():
    app = opened(p10_step=6)
    q, k, v, allow = matrices(app)
    grids = board_of(app)["grids"]
    right = attention(q, k, v, mask=allow).output
    assert grids["tiled"]["cells"] == grids["plain"]["cells"] == shown(right)
    assert {text.lstrip("−") for row in grids["difference"]["cells"] for text in row} <= {"0", "0.00"}
    half = board_of(opened(p10_step=4))["grids"]
    assert half["tiled"]["rows"] == half["difference"]["rows"] == ["the", "cat"], "only queries that are done"
    assert "tiled" not in board_of(opened(p10_step=1))["grids"]


def test_tiles_above_the_diagonal_are_skipped_and_the_last_ones_are_smaller():
    app = opened(p10_block_q="2", p10_block_k="2", n=5, p10_step=6)
    text = words(app)
    assert "Tile 6 of 6: query 5, key 5. It is smaller than the others" in text
    assert "3 of 9 tiles are skipped" in text
    assert text.count("<td>skipped</td>") == 3 and text.count("<td>done</td>") == 5
    assert "skipped" not in words(opened(mask="none"))
    assert "smaller than the others" not in words(opened(p10_block_q="8", p10_block_k="8"))
    assert "No query may look anywhere" in words(opened(mask="padding-0"))


@each_example
def test_without_rescaling_the_check_fails_wherever_a_maximum_grows(name):
    app = opened(example=name, mask="none", p10_keep="on", p10_block_k="1")
    bench = desk_of(app).bench
    q, k, v, allow = matrices(app)
    grows = any(
        (np.isfinite(tile.maximum_before) & (tile.maximum > tile.maximum_before)).any()
        for tile in flash_steps(q, k, v, mask=allow, block_q=2, block_k=1)
    )
    assert bool(failed(app)) == grows
    if grows:
        apart = np.abs(tiled.walk_of(bench).output - attention(q, k, v, mask=allow).output).max()
        assert failed(app)[0].endswith(f"the largest difference is {visible(float(apart), show)}.")
        assert "count too much" in words(app)
    else:
        assert "On these numbers no maximum grows" in words(app)


def test_the_factor_waits_for_the_prediction():
    closed = open_app(PAGE)
    answers = {"factor", "kept_total", "kept", "total", "mixed", "output", "difference"}
    assert not answers & set(board_of(closed)["grids"])
    assert "Running maximum m′, factor c" not in words(closed)
    closed.radio(key="choice p10.guess").set_value("again").run()
    assert answers - {"difference"} <= set(board_of(checked(closed))["grids"])
    assert "Not so here: they are multiplied by a number below 1." in words(closed)


def test_the_verdict_takes_its_numbers_from_the_tile_where_the_maximum_grows_most():
    app = opened(p10_guess="factor")
    tile, query, old, new, factor = re.search(
        r"As you said: .*? In tile (\d+) the maximum of query (\d), .*?, rises from (\S+) to (\S+)\. "
        r".* = (\S+) it",
        words(app),
    ).groups()
    step = tiled.walk_of(desk_of(app).bench).steps[int(tile) - 1]
    row = int(query) - 1 - step.rows.start
    found = [show(step.values[name][row, 0]) for name in ("maximum_before", "maximum", "factor")]
    assert found == [old, new, factor]
    assert "On these numbers no later tile brings a larger score" in words(opened(example="average"))


def test_the_slider_ends_with_the_tiles_and_plays_to_the_last():
    app = opened(p10_step=200)
    assert "Not understood" not in words(app)
    assert (app.slider(key="choice p10.step").value, app.slider(key="choice p10.step").max) == (6, 6)
    app.button_group(key="choice p10.block_k").set_value("2").run()
    assert app.slider(key="choice p10.step").max == 3
    bench, steps = desk_of(opened(p10_step=4)).bench, []
    for _ in range(3):
        bench = tiled.PLAYER.moved_on(bench, 6)
        steps.append(tiled.PLAYER.at(bench, 6))
    assert steps == [5, 6, 6]


def test_bytes_are_those_of_the_estimate_for_the_sizes_on_screen_and_for_longer_ones():
    app = opened(n=5, p10_block_q="2", p10_block_k="3", p10_block="128", p10_type="fp32")
    *_, allow = matrices(app)
    rows = dict(re.findall(r'<th scope="row">(On screen|n = [^<]*)</th>(.*?)</tr>', words(app)))
    cells = {title: re.findall(r"<td>(.*?)</td>", row) for title, row in rows.items()}
    here = (
        bytes_plain(5, 5, 2, 3, number_bytes=4),
        bytes_tiled(5, 5, 2, 3, mask=allow, block_q=2, block_k=3, number_bytes=4),
    )
    assert cells["On screen"][:2] == [amounts.size(count) for count in here]
    assert cells["On screen"][3:] == ["100 bytes", "24 bytes"]
    n = 4096
    longer = (
        bytes_plain(n, n, 64, 64, number_bytes=4),
        bytes_tiled(n, n, 64, 64, block_q=128, block_k=128, number_bytes=4),
    )
    assert cells["n = 4,096, d = 64"][:3] == [*map(amounts.size, longer), show(longer[0] / longer[1])]
    assert len(cells) == 4


def test_a_tile_keeps_the_places_of_its_queries_and_keys():
    app = send(opened(n=5, p10_block_q="2", p10_block_k="2", p10_step=5), ["select", "masked", 0, 1])
    grid = board_of(app)["grids"]["masked"]
    assert (grid["first_row"], grid["first_col"], grid["rows"]) == (5, 3, ["on"])
    assert "Masked scores of the tile, query 5, on · key 4, down" in words(app)
    assert board_of(app)["grids"]["q"]["first_row"] == 1


def test_an_edit_of_a_key_reaches_the_tile_and_the_claims_still_hold():
    app = send(opened(p10_step=4), ["edit", "k", 1, 0, "-3"])
    grids = board_of(app)["grids"]
    assert grids["k"]["cells"][1][0] == grids["k_b"]["cells"][0][0] == "−3"
    assert FAILS not in words(app)


def test_every_matrix_explains_itself():
    app = opened(p10_step=6)
    for name, grid in board_of(app)["grids"].items():
        app = send(app, ["select", name, 0, len(grid["cells"][0]) - 1])
        assert f"{grid['name']}, " in words(app), name
    app = send(app, ["select", "masked", 0, 0])
    assert "may not look at key" not in words(app), "the place is the tile's, not the table's"


@pytest.mark.parametrize("also", ["tables", "code"])
def test_tables_and_programs_open(also):
    opened(p10_also=also, p10_step=6)

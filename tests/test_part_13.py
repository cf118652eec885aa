"""Part 13 on the page: the cache fills, heads share it, pages hold it, and each mistake is seen."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest
from test_lessons import FAILS, assert_is_sound, board_of
from test_pages import checked, desk_of, open_app, send, words

from attention_core.accelerators import NUMBERS
from attention_core.attention import attention
from attention_core.examples import EXAMPLES
from attention_core.model_cost import cache_bytes
from attention_core.models import MODELS
from attention_core.numbers import show
from attention_ui import amounts, cache_memory, filling, pooling, sharing
from attention_ui.bench import numbers
from attention_ui.links import to_query

PAGE = "part_13_cache"
SHOWN = {"p13.guess_rows": "show", "p13.guess_heads": "show", "p13.guess_pages": "show"}
each_example = pytest.mark.parametrize("name", EXAMPLES)
SIZES = [
    {"n": 1, "dm": 1, "dk": 1, "dv": 1},
    {"n": 16, "dm": 16, "dk": 16, "dv": 16},
    {"way": "qkv", "nq": 2},
]


def opened(view: str, **query: object) -> AppTest:
    asked = {name.replace("p13_", "p13."): value for name, value in query.items()}
    return open_app(PAGE, **{"p13.show": view, **SHOWN, **asked})


def failed(app: AppTest) -> list[str]:
    """The claims that do not hold."""
    return [unescape(claim) for claim in re.findall(r'<li class="fails">.*?</span> (.*?) <span', words(app))]


# the cache ------------------------------------------------------------------------------------


@each_example
@pytest.mark.parametrize("t", [1, 2, 4])
def test_every_claim_about_the_cache_holds_at_every_step(name, t):
    app = opened("fill", example=name, p13_t=t)
    assert_is_sound(app)
    assert failed(app) == []


@pytest.mark.parametrize("view", ["fill", "heads", "pages"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_view_stands_at_every_size(view, size):
    app = opened(view, **size, p13_t=16, p13_moves="abcb")
    assert_is_sound(app)
    assert FAILS not in words(app)


@pytest.mark.parametrize("t", [1, 2, 3, 4])
def test_the_cache_fills_by_a_row_a_step_and_the_rest_is_empty(t):
    app = opened("fill", p13_t=t)
    bench = desk_of(app).bench
    for name in ("k", "v"):
        grid = board_of(app)["grids"][name]
        right = numbers(bench, "x")[:t] @ numbers(bench, f"w_{name}")
        assert grid["cells"][:t] == [[show(number) for number in row] for row in right.tolist()]
        assert {cell for row in grid["cells"][t:] for cell in row} == ({filling.EMPTY} if t < 4 else set())
        assert [row for row in grid["levels"][t:] if row != [None] * right.shape[1]] == []
        assert grid["rows"] == ["the", "cat", "sat", "down"]
    assert len(board_of(app)["grids"]["k_a"]["cells"]) == 1


def test_the_output_of_a_step_is_a_row_of_causal_attention():
    app = opened("fill", p13_t=3)
    bench = desk_of(app).bench
    q, k, v = (numbers(bench, "x") @ numbers(bench, f"w_{letter}") for letter in "qkv")
    right = attention(q, k, v, mask=np.tri(4, dtype=bool)).output[2]
    assert board_of(app)["grids"]["output"]["cells"] == [[show(number) for number in right.tolist()]]


@each_example
def test_looking_before_the_row_is_written_breaks_the_output(name):
    app = opened("fill", example=name, p13_t=4, p13_late="on")
    assert "The query meets 3 of 4 keys" in words(app)
    if name not in ("brackets", "pronoun", "same", "induction-1", "induction-2"):  # look at others only
        assert [claim[:10] for claim in failed(app)] == ["The output"]


def test_the_first_token_cannot_be_late():
    app = opened("fill", p13_t=1, p13_late="on")
    assert failed(app) == [] and "it cannot be late" in words(app)


def test_a_prediction_about_the_rows_is_judged_and_one_token_has_none_before_it():
    app = open_app(PAGE)
    assert "Make your prediction above" in words(app)
    app.radio(key="choice p13.guess_rows").set_value("change").run()
    assert "Not so here: they stay as they are. Token 4, down, adds row 4." in words(checked(app))
    assert "There is one token only" in words(opened("fill", n=1))


def test_the_bytes_on_screen_are_those_of_the_cache_on_screen():
    text = words(opened("fill", p13_t=3, dk=2, dv=3))
    assert "3 × (d_k 2 + d_v 3) = 15 numbers. In FP16 that is 30 bytes" in text


def test_the_slider_ends_with_the_tokens_and_its_step_is_kept():
    app = opened("fill", p13_t=9)
    assert "Not understood" not in words(app)
    assert filling.tokens_so_far(desk_of(app).bench) == 4
    slider = app.slider(key="choice p13.t")
    assert (slider.value, slider.max) == (4, 4)
    slider.set_value(2).run()
    assert filling.tokens_so_far(desk_of(checked(app)).bench) == 2
    app = opened("fill", p13_t=3, n=8)
    for n in (6, 2, 5):
        app.slider(key="n").set_value(n).run()
        assert filling.tokens_so_far(desk_of(checked(app)).bench) == min(n, 3)
        assert app.slider(key="choice p13.t").value == min(n, 3)
    app = opened("fill", n=1)
    assert "choice p13.t" not in [slider.key for slider in app.slider]


def test_playing_moves_on_one_token_at_a_time_and_ends_with_the_last():
    bench = desk_of(opened("fill", p13_t=2)).bench
    steps = []
    for _ in range(4):
        bench = filling.PLAYER.moved_on(bench, 4)
        steps.append(filling.tokens_so_far(bench))
    assert steps == [3, 4, 4, 4]
    app = opened("fill", p13_t=2)
    app.toggle(key="play p13.t").set_value(True).run()
    assert filling.tokens_so_far(desk_of(checked(app)).bench) == 2, (
        "a run of the page is no tick of the clock"
    )
    app.slider(key="choice p13.t").set_value(4).run()
    assert app.toggle(key="play p13.t").value is False and app.toggle(key="play p13.t").disabled


def test_an_edit_of_an_earlier_token_reaches_the_rows_that_are_kept():
    app = send(opened("fill", p13_t=3), ["edit", "x", 0, 0, "4"])
    assert board_of(app)["grids"]["k"]["cells"][0] == ["1", "5"]
    assert failed(app) == []


# shared heads ---------------------------------------------------------------------------------


@each_example
@pytest.mark.parametrize("few", ["4", "2", "1"])
def test_every_claim_about_shared_heads_holds_for_every_example(name, few):
    app = opened("heads", example=name, p13_few=few, p13_width="2")
    assert_is_sound(app)
    assert failed(app) == []


@each_example
def test_tiling_two_heads_makes_heads_read_those_of_others(name):
    app = opened("heads", example=name, p13_few="2", p13_tile="on")
    assert "Heads 1 and 2 read key head 1, heads 3 and 4 read key head 2." in failed(app)
    assert "np.repeat puts the key heads in the order 1 1 2 2, np.tile in the order 1 2 1 2." in words(app)
    assert "So head 2 reads key head 2 instead of 1" in words(app)
    grid = board_of(app)["grids"]["k_read"]
    assert grid["cols"] == ["H1 K1", "H2 K2", "H3 K1", "H4 K2"]


@pytest.mark.parametrize("few", ["4", "1"])
def test_with_four_heads_or_one_repeat_and_tile_are_the_same(few):
    app = opened("heads", p13_few=few, p13_tile="on")
    assert failed(app) == [] and "np.tile and np.repeat give the same order" in words(app)


def test_what_is_stored_shrinks_and_what_heads_read_does_not():
    for few in (4, 2, 1):
        grids = board_of(opened("heads", p13_few=few))["grids"]
        assert (len(grids["k"]["cells"][0]), len(grids["k_read"]["cells"][0])) == (few, 4)
        assert grids["k"]["cols"] == [f"K{g}" for g in range(1, few + 1)]


def test_mha_gqa_and_mqa_are_compared_on_the_same_numbers():
    app = opened("heads")
    rows = re.findall(r'<tr><th scope="row">(M.A|GQA), (\d) of 4</th>(.*?)</tr>', words(app))
    assert [(kind, few) for kind, few, _ in rows] == [("MHA", "4"), ("GQA", "2"), ("MQA", "1")]
    full = sharing._scene(desk_of(app), 4).values["concatenated"]
    for _, few, cells in rows:
        stored, size, output, apart = re.findall(r"<td>(.*?)</td>", cells)
        now = sharing._scene(desk_of(app), int(few)).values
        assert stored == show(now["k"].size + now["v"].size) and size == f"{2 * int(stored)} bytes"
        assert output.split() == [show(number) for number in now["concatenated"][-1].tolist()]
        assert apart == show(float(np.abs(now["concatenated"] - full).max()))


def test_the_verdict_on_weights_takes_its_numbers_from_them():
    app = opened("heads", p13_guess_heads="other")
    a, b, i, j, one, other = re.search(
        r"As you said: others\. Heads (\d) and (\d) both .*? Query (\d), .*?, gives key (\d), .*?, "
        r"the weight (\S+) in one and (\S+) in the other",
        words(app),
    ).groups()
    values = sharing.scene_of(desk_of(app)).values
    place = int(i) - 1, int(j) - 1
    assert [one, other] == [show(values[f"weights_{head}"][place]) for head in (a, b)]
    assert "Here every head has keys of its own." in words(opened("heads", p13_few="4"))
    assert "weights_1" not in board_of(opened("heads", p13_guess_heads="wait"))["grids"]


# pages ----------------------------------------------------------------------------------------


@each_example
@pytest.mark.parametrize("moves", ["", "b", "bac", "abxcab"])
def test_every_claim_about_pages_holds_for_every_example(name, moves):
    app = opened("pages", example=name, p13_moves=moves)
    assert_is_sound(app)
    assert failed(app) == []


@pytest.mark.parametrize("read", ["A", "B", "C"])
@pytest.mark.parametrize("size", ["2", "3", "4"])
def test_every_sequence_can_be_read_from_pages_of_every_size(read, size):
    app = opened("pages", p13_read=read, p13_size=size, p13_moves="bacb")
    assert failed(app) == [] and board_of(app)["grids"]["k"]["name"] == f"K of {read}"


def test_a_press_adds_a_move_to_the_link_and_can_be_taken_back():
    app = opened("pages")
    app.button(key="press p13.moves b").click().run()
    app.button(key="press p13.moves a").click().run()
    assert pooling.MOVES.of(desk_of(checked(app)).bench) == "ba"
    assert "p13.moves=ba" in to_query(desk_of(app).bench)
    assert "A writes slot 2 of page 2." in words(app)
    app.run()
    assert pooling.MOVES.of(desk_of(checked(app)).bench) == "ba", "a press counts once"
    app.button(key="press p13.moves back").click().run()
    assert pooling.MOVES.of(desk_of(app).bench) == "b"
    app.button(key="press p13.moves clear").click().run()
    assert "p13.moves" not in to_query(desk_of(checked(app)).bench) and "How it began" in words(app)


def test_moves_that_are_not_offered_are_told_in_a_sentence_and_their_number_is_limited():
    text = words(opened("pages", p13_moves="bq<"))
    assert "Not understood in this link: p13.moves=bq&lt;. “Moves” takes b." in text
    app = opened("pages", p13_moves="a" * 30)
    assert len(pooling.MOVES.of(desk_of(app).bench)) == pooling.MOST_MOVES
    assert app.button(key="press p13.moves a").disabled


def test_copy_on_write_is_seen_on_the_board_and_told_in_words():
    before, after = opened("pages"), opened("pages", p13_moves="b")
    names = [grid["name"] for grid in board_of(before)["grids"].values()]
    assert {"K, page 1, A and B", "K, page 2, A and B", "K, page 3, C"} <= set(names)
    grids = board_of(after)["grids"]
    assert (grids["k_2"]["name"], grids["k_4"]["name"]) == ("K, page 2, A", "K, page 4, B")
    assert grids["k_4"]["cells"][0] == grids["k_2"]["cells"][0], "the row that was copied"
    assert "Page 2 is shared: B copies slot 1 to page 4 first." in words(after)
    assert "<td>1 → 2</td>" in words(after) and "<td>1 → 4</td>" in words(after)


@pytest.mark.parametrize(
    ("query", "right"),
    [
        ({}, "the rows of one page"),
        ({"p13_size": "4"}, "no row"),
        ({"p13_moves": "b"}, "no row"),
        ({"p13_moves": "a"}, "no row"),
        ({"n": 7}, "the rows of one page"),
        ({"n": 6}, "no row"),
    ],
)
def test_the_prediction_about_copies_is_judged_by_making_the_move(query, right):
    assert f"{right[:1].upper()}{right[1:]}. " in words(opened("pages", **query))


def test_rows_are_lost_where_two_write_into_one_page_without_a_copy():
    alone, both = (opened("pages", p13_over="on", p13_moves=moves) for moves in ("b", "ba"))
    assert failed(alone) == [] and "Nothing is lost yet" in words(alone)
    assert "Every sequence reads back, row by row, what it has written." in failed(both)
    assert "B wrote “again” as token 5, and reads “on” there" in words(both)


def test_the_room_that_is_left_empty_is_counted():
    app = opened("pages", p13_moves="ba", p13_longest=16)
    rows = dict(re.findall(r'<tr><th scope="row">(In pages|16 rows[^<]*)</th>(.*?)</tr>', words(app)))
    cells = {title: re.findall(r"<td>(.*?)</td>", row) for title, row in rows.items()}
    assert cells["In pages"] == ["9", "12", "3", "25 %"]
    assert cells["16 rows reserved for each"] == ["12", "48", "36", "75 %"]


def test_a_full_pool_makes_a_sequence_wait():
    app = opened("pages", n=8, p13_size="2", p13_moves="bbbbbbbbbbbbbbbb")
    assert "B has to wait: pages needed by B: 1, pages free: 0." in words(app)
    assert failed(app) == []
    assert "B has to wait" not in words(opened("pages", n=8, p13_size="2", p13_moves="bbbbbbxb"))


def test_a_sequence_that_has_finished_cannot_be_read_and_a_is_read_instead():
    app = opened("pages", p13_read="C", p13_moves="x")
    assert board_of(app)["grids"]["k"]["name"] == "K of A"


# a whole model --------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [*MODELS, "own"])
@pytest.mark.parametrize("kind", NUMBERS)
def test_the_bytes_of_every_model_are_those_of_the_estimate(word, kind):
    asked = {"p13_model": word, "p13_type": kind, "p13_tokens": "1024", "p13_batch": "4"}
    app = opened("fill", **asked, p13_layers=7, p13_heads="16", p13_kv_heads="64", p13_d_head="32")
    model = cache_memory.model_of(desk_of(app).bench)
    total = cache_bytes(model, 1024, batch=4, numbers=kind)
    by_hand = 2 * model.n_layers * model.n_kv_heads * model.d_head * 1024 * 4 * NUMBERS[kind].bytes
    assert total == by_hand
    text = words(app)
    assert rf"= {total:,} \text".replace(",", "{,}") in text
    assert f"{model.title}: {amounts.size(total)} of keys and values" in text
    assert len(re.findall(r'<th scope="row">', text)) == len(MODELS) + 1
    if word == "own":
        assert (model.n_layers, model.n_heads, model.n_kv_heads, model.d_head) == (7, 16, 16, 32)


def test_ones_own_sizes_are_asked_for_only_where_they_count():
    keys = [group.key for group in opened("fill").button_group]
    assert "choice p13.d_head" not in keys
    assert "choice p13.d_head" in [group.key for group in opened("fill", p13_model="own").button_group]


@pytest.mark.parametrize("view", ["fill", "heads", "pages"])
@pytest.mark.parametrize("also", ["tables", "code"])
def test_every_view_shows_tables_and_programs(view, also):
    opened(view, p13_also=also, p13_moves="ba")


@pytest.mark.parametrize("view", ["heads", "pages"])
def test_every_matrix_explains_itself_and_every_given_one_can_be_edited(view):
    app = opened(view, p13_moves="bc")
    for name, grid in board_of(app)["grids"].items():
        app = send(app, ["select", name, 0, len(grid["cells"][0]) - 1])
        assert f"{grid['name']}" in words(app), name
        if grid["kind"] == "given":
            app = send(app, ["edit", name, 0, 0, "0.125"])
            assert board_of(app)["grids"][name]["exact"][0][0] == "0.125", name
    assert FAILS not in words(app)

"""Part 5: heads share out one X, and each kind of position does under a move what it is said to do."""

from __future__ import annotations

import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest
from test_lessons import FAILS, assert_is_sound, board_of
from test_pages import checked, desk_of, open_app, send, words

from attention_core.examples import EXAMPLES
from attention_core.multi_head import multi_head_attention
from attention_core.numbers import show
from attention_core.placed_sheets import KINDS
from attention_core.positions import alibi_slopes
from attention_ui import heads, positions
from attention_ui.bench import numbers
from attention_ui.scene import Scene

PAGE = "part_05_heads"
SHOWN = {"p5.guess": "show", "p5.guess_scores": "show", "p5.guess_rows": "show"}
SPLITS = [("1", "each"), ("2", "each"), ("4", "each"), ("2", "1"), ("4", "2"), ("4", "1")]
MOVES = ("on", "swap", "reverse")
each_kind = pytest.mark.parametrize("kind", KINDS)


def about_heads(count: str = "2", shared: str = "each", **query: object) -> AppTest:
    return open_app(PAGE, **{"p5.heads": count, "p5.shared": shared, **SHOWN, **query})


def about_positions(kind: str, change: str = "on", **query: object) -> AppTest:
    asked = {"p5.show": "positions", "p5.kind": kind, "p5.change": change}
    return open_app(PAGE, **{**asked, **SHOWN, **query})


def heads_scene(app: AppTest) -> Scene:
    return heads.scene_of(desk_of(app))


def positions_scene(app: AppTest) -> Scene:
    return positions.scene_of(desk_of(app))


def failed(app: AppTest) -> list[str]:
    """The claims that do not hold."""
    return re.findall(r'<li class="fails">.*?</span> (.*?) <span', words(app))


@pytest.mark.parametrize(("count", "shared"), SPLITS)
def test_the_output_is_multi_head_attention_on_the_numbers_of_the_bench(count, shared):
    app = about_heads(count, shared)
    now, bench = heads_scene(app), desk_of(app).bench
    few = int(count) if shared == "each" else int(shared)
    wide = few * 4 // int(count)
    trace = multi_head_attention(
        numbers(bench, "x"), numbers(bench, "w_q", 3, 4), numbers(bench, "w_k", 3, wide),
        numbers(bench, "w_v", 3, wide), numbers(bench, "w_o", 4, 3),
        n_heads=int(count), n_kv_heads=few, mask=np.tri(4, dtype=bool),
    )  # fmt: skip
    np.testing.assert_allclose(now.values["output"], trace.output, rtol=1e-12, atol=1e-12)
    for head in range(int(count)):
        np.testing.assert_allclose(now.values[f"weights_{head + 1}"], trace.heads.weights[head], atol=1e-12)


@pytest.mark.parametrize(("count", "shared"), SPLITS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_claim_about_heads_holds_for_every_example(name, count, shared):
    app = about_heads(count, shared, example=name)
    assert_is_sound(app)
    assert failed(app) == []


def test_the_weights_of_all_heads_stand_side_by_side_and_one_head_in_detail():
    drawn = set(board_of(about_heads("4", **{"p5.of_four": "3"}))["grids"])
    assert {f"weights_{head}" for head in range(1, 5)} <= drawn
    assert {"q_3", "k_3", "scores_3", "masked_3"} <= drawn and "scores_1" not in drawn
    shared = set(board_of(about_heads("4", "2", **{"p5.of_four": "3"}))["grids"])
    assert {"q_3", "k_2", "k_t_2"} <= shared and "k_3" not in shared


def test_the_columns_say_which_heads_read_them():
    grids = board_of(about_heads("4", "2"))["grids"]
    assert grids["q"]["cols"] == ["H1", "H2", "H3", "H4"]
    assert grids["k"]["cols"] == ["H1–2", "H3–4"]
    assert board_of(about_heads("2"))["grids"]["w_o"]["rows"] == ["H1", "H1", "H2", "H2"]


def test_the_output_waits_for_the_prediction():
    app = open_app(PAGE)
    assert {"w_o", "output_1", "output_2"} <= set(board_of(app)["grids"])
    assert not {"output", "concatenated"} & set(board_of(app)["grids"])
    app.radio(key="choice p5.guess").set_value("same").run()
    assert {"output", "concatenated"} <= set(board_of(checked(app))["grids"])
    assert "Not so here: another." in words(app)


def test_the_verdict_compares_with_one_head_in_numbers():
    app = about_heads("2")
    row, column, here, one = re.search(
        r"In row (\d), .*?, column (\d) of the output is (\S+); with one head it would be (\S+?)\. ",
        words(app),
    ).groups()
    place = int(row) - 1, int(column) - 1
    assert here == show(heads_scene(app).values["output"][place])
    assert one == show(heads_scene(about_heads("1")).values["output"][place])


def test_where_heads_weigh_alike_or_there_is_one_the_output_is_the_same():
    assert "The same. This is one head." in words(about_heads("1"))
    assert "The same. All heads give the same weights here" in words(about_heads("4", example="average"))


@pytest.mark.parametrize(("count", "shared"), SPLITS[1:])
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_split_without_the_transpose_takes_numbers_of_other_tokens(name, count, shared):
    app = about_heads(count, shared, example=name, **{"p5.cut": "on"})
    assert "Row by row, a head holds numbers of its own token only." in failed(app)
    now = heads_scene(app)
    n, h = len(now.values["q"]), int(count)
    np.testing.assert_array_equal(now.values["q_2"], now.values["q"].reshape(h, n, 4 // h)[1])
    number = re.search(r"begins with number (\d+) of Q", words(app)).group(1)
    assert now.values["q"].ravel()[int(number) - 1] == now.values[f"q_{h}"][0, 0]


@pytest.mark.parametrize(("query", "why"), [({"p5.heads": "1"}, "one head"), ({"n": 1}, "one token")])
def test_with_one_head_or_one_token_both_splits_are_the_same(query, why):
    app = open_app(PAGE, **{"p5.cut": "on", **SHOWN, **query})
    assert failed(app) == [] and f"With {why} both cuts are the same" in words(app)


def test_shared_keys_need_fewer_numbers():
    four, one = (heads_scene(about_heads("4", shared)) for shared in ("each", "1"))
    assert four.values["w_k"].shape == (3, 4) and one.values["w_k"].shape == (3, 1)
    assert "The four weight matrices hold 48 numbers; for one head it would be 48." in words(about_heads("4"))
    assert "K and V hold 1 of 4 heads" in words(about_heads("4", "1"))


@each_kind
@pytest.mark.parametrize("change", ["on", "reverse"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_claim_about_positions_holds_for_every_example(name, change, kind):
    app = about_positions(kind, change, example=name)
    assert_is_sound(app)
    assert failed(app) == []


@each_kind
@pytest.mark.parametrize("change", MOVES)
@pytest.mark.parametrize("size", [{"n": 1, "dm": 1}, {"n": 2, "dm": 2, "p5.width": "8"}, {"n": 16, "dm": 16}])
def test_positions_stand_at_every_size(size, change, kind):
    app = about_positions(kind, change, **size, **{"p5.shift": 32, "p5.slopes": 16, "p5.slope": "last"})
    assert_is_sound(app)
    assert failed(app) == []


@each_kind
def test_a_move_leaves_the_scores_of_relative_positions_alone(kind):
    app = about_positions(kind)
    verdict = "They change" if kind in positions.ABSOLUTE else "They stay"
    assert f"{verdict}. " in words(app)
    left = np.abs(positions_scene(app).values["difference"]).max()
    assert left > 1 if verdict == "They change" else left < 1e-14


def test_the_score_that_changed_most_is_told_with_its_numbers():
    app = about_positions("sinusoids", **{"p5.shift": 7})
    values = positions_scene(app).values
    query, key, before, after = re.search(
        r"The score of query (\d), .*?, and key (\d), .*?, goes from (\S+) to (\S+?)\. ", words(app)
    ).groups()
    place = int(query) - 1, int(key) - 1
    assert (before, after) == (show(values["scores"][place]), show(values["scores_b"][place]))
    assert abs(values["difference"][place]) == np.abs(values["difference"]).max()


@pytest.mark.parametrize("kind", ["rope-half", "rope-interleaved"])
def test_queries_and_keys_in_different_pairings_fail(kind):
    app = about_positions(kind, **{"p5.mixed": "on"})
    assert failed(app) == ["Moved on by 3, the scores stay as they were, up to rounding."]
    assert "Q and K are turned in different planes" in words(app)


def test_without_positions_the_rows_of_the_output_change_places_with_their_tokens():
    app = about_positions("none", "reverse")
    assert "They change places, too. Nothing says where a token stands." in words(app)
    values = positions_scene(app).values
    np.testing.assert_allclose(values["output_b"], values["output"][::-1], atol=1e-14)
    for kind in KINDS[1:]:
        assert "Their numbers change. " in words(about_positions(kind, "swap")), kind
    assert "Reversed, every pair keeps its distance" in words(about_positions("alibi", "reverse"))


def test_a_causal_mask_tells_places_apart_without_any_position():
    app = about_positions("none", "swap", **{"p5.masked": "on"})
    assert "Their numbers change. " in words(app) and "the mask says who comes first" in words(app)
    assert failed(app) == []


@pytest.mark.parametrize("count", range(1, 17))
def test_alibi_has_slopes_for_any_number_of_heads(count):
    app = about_positions("alibi", **{"p5.slopes": count, "p5.slope": "last"})
    (row,) = board_of(app)["grids"]["slopes"]["cells"]
    assert row == [show(slope) for slope in alibi_slopes(count)]
    bias = positions_scene(app).values["alibi"]
    np.testing.assert_allclose(bias[0], -alibi_slopes(count)[-1] * np.arange(4), rtol=1e-12)


def test_a_learned_table_ends():
    app = about_positions("learned", n=14, **{"p5.shift": 9})
    assert positions_scene(app).values["places"].shape == (16, 3)
    assert failed(app) == [] and "for the positions 2 to 15" in words(app)
    assert "The table ends: it has 16 rows, and 16 tokens already use them all." in words(
        about_positions("learned", n=16)
    )


def test_the_scores_after_the_move_wait_for_the_prediction():
    for kind in KINDS:
        for change in MOVES:
            drawn = board_of(about_positions(kind, change, **dict.fromkeys(SHOWN, "wait")))["grids"]
            assert not {"difference", "scores_b", "biased_b", "output_b", "back"} & set(drawn), (kind, change)


@each_kind
@pytest.mark.parametrize("change", MOVES)
def test_every_matrix_of_positions_explains_itself_and_every_given_one_can_be_edited(kind, change):
    app = about_positions(kind, change)
    for name, grid in board_of(app)["grids"].items():
        app = send(app, ["select", name, 0, len(grid["cells"][0]) - 1])
        assert f"{grid['name']}, " in words(app), name
        if grid["kind"] == "given":
            app = send(app, ["edit", name, 0, 0, "0.125"])
            assert board_of(app)["grids"][name]["exact"][0][0] == "0.125", name
    assert FAILS not in words(app)


@pytest.mark.parametrize("also", ["tables", "code"])
def test_both_halves_show_tables_and_programs(also):
    about_heads("4", "2", **{"p5.also": also})
    for kind in KINDS:
        about_positions(kind, "swap", **{"p5.also": also})

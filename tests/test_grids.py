"""A grid that a session keeps is the grid that would be made now."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from hypothesis import given
from hypothesis import strategies as st

from attention_core.masks import MaskSpec
from attention_ui.bench import Bench, opened, reseeded, with_edit, with_sizes, with_toggle, with_way
from attention_ui.board import Board
from attention_ui.comparing import grids
from attention_ui.grids import Kept, grid, matrices
from attention_ui.scene import scene

MOVES = {
    "nothing": lambda bench: replace(bench),
    "a number of X or Q": lambda bench: with_edit(bench, "x" if bench.way == "x" else "q", 1, 0, 2.75),
    "V alone": lambda bench: with_edit(bench, "w_v" if bench.way == "x" else "v", 0, 1, -3.0),
    "a huge number": lambda bench: with_edit(bench, "w_k" if bench.way == "x" else "k", 0, 0, 1e6),
    "fewer tokens": lambda bench: with_sizes(bench, n_q=2, n_k=3),
    "as many tokens": lambda bench: with_sizes(bench, n_q=3, n_k=3),
    "more features": lambda bench: with_sizes(bench, d_k=6),
    "causal": lambda bench: replace(bench, mask=MaskSpec("causal")),
    "a mask of one's own": lambda bench: with_toggle(bench, 0, 0),
    "the other mask": lambda bench: replace(bench, against=MaskSpec("window")),
    "no scaling": lambda bench: replace(bench, scaling="none"),
    "a factor": lambda bench: replace(bench, scaling=0.25),
    "another way": lambda bench: with_way(bench, "qkv" if bench.way == "x" else "x")[0],
    "other words": lambda bench: replace(bench, tokens=("un", "deux", "trois")),
    "other numbers": reseeded,
    "another example": lambda bench: opened("seed" if bench.example != "seed" else Bench().example),
}


def boards(bench: Bench, walked: Kept, compared: Kept) -> None:
    """Both boards as they are drawn from what was kept, and as they are made anew."""
    now, other = scene(bench), scene(bench, bench.against)
    assert {name: grid(now, name, kept=walked) for name in matrices(now)} == {
        name: grid(now, name) for name in matrices(now)
    }
    walked.drawn()
    assert grids(now, other, compared) == grids(now, other)
    compared.drawn()


@given(st.lists(st.sampled_from(sorted(MOVES)), max_size=6))
def test_whatever_a_reader_does_a_kept_grid_is_as_one_made_now(moves):
    bench, walked, compared = opened(Bench().example), Kept(), Kept()
    for move in ["nothing", *moves]:
        bench = MOVES[move](bench)
        boards(bench, walked, compared)


def test_what_stays_as_it_was_is_not_made_again():
    bench, kept = opened(Bench().example), Kept()
    names = matrices(scene(bench))
    before = {name: grid(scene(bench), name, kept=kept) for name in names}
    kept.drawn()
    now = scene(with_edit(bench, "w_v", 0, 1, -3.0))
    same = {name for name in names if grid(now, name, kept=kept) is before[name]}
    assert same == set(names) - {"w_v", "v", "output"}


def test_what_a_board_does_not_ask_for_is_given_up():
    now, kept = scene(opened(Bench().example)), Kept()
    before = grid(now, "q", kept=kept)
    kept.drawn()
    assert grid(now, "q", kept=kept) is before
    kept.drawn()
    grid(now, "k", kept=kept)
    kept.drawn()
    assert grid(now, "q", kept=kept) is not before


def test_a_number_beyond_the_colours_is_marked_and_none_that_is_not_finite():
    for huge, marked in ((1e9, [(1, 0)]), (0.5, [])):
        bench = with_edit(replace(opened(Bench().example), way="qkv"), "q", 1, 0, huge)
        assert grid(scene(bench), "q").clipped == marked
    causal = replace(bench, mask=MaskSpec("causal"))
    assert grid(scene(causal), "masked").clipped == []


def test_a_kept_grid_is_told_in_whole_every_time():
    now, kept = scene(opened(Bench().example)), Kept()
    for _ in range(2):  # the second time from what was kept
        drawn = {name: grid(now, name, kept=kept) for name in matrices(now)}
        kept.drawn()
        told = json.loads(
            Board(drawn, [], "session", passages={"words": "<p>a “sentence”</p>"}).message("key")
        )
        fresh = {name: grid(now, name) for name in matrices(now)}
        assert told["grids"] == json.loads(json.dumps({name: asdict(one) for name, one in fresh.items()}))
        assert (told["session"], told["key"]) == ("session", "key")
        assert told["passages"] == {"words": "<p>a “sentence”</p>"}
    assert json.loads(Board({}, [], "session").message("key"))["grids"] == {}

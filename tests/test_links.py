"""Links: the exact state there and back, and one sentence for whatever cannot be understood."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from urllib.parse import parse_qsl

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_core.examples import EXAMPLES
from attention_core.masks import MaskSpec
from attention_ui.bench import FIRST, FROM_X, WORDS, Bench, numbers, opened, shape, with_edit, with_sizes
from attention_ui.links import from_query, to_queries, to_query
from attention_ui.scene import scene


def parsed(query: str) -> dict[str, str]:
    return dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))


@st.composite
def benches(draw: st.DrawFn) -> Bench:
    size = st.integers(1, 16)
    bench = opened(draw(st.sampled_from(list(EXAMPLES))))
    way = draw(st.sampled_from(["x", "qkv"]))
    n = draw(size)
    bench = replace(
        bench,
        way=way,
        n_q=n if way == "x" else draw(size),
        n_k=n,
        d_model=draw(size),
        d_k=draw(size),
        d_v=draw(size),
        seed=draw(st.integers(0, 9_999)),
        tokens=tuple(draw(st.lists(st.text(max_size=5), max_size=6))),
        scaling=draw(st.one_of(st.sampled_from(["sqrt", "none"]), st.floats(-9, 9).map(lambda f: f + 0.0))),
        mask=draw(
            st.sampled_from([MaskSpec("none"), MaskSpec("causal", align="end"), MaskSpec("window", left=3)])
        ),
        against=draw(st.sampled_from([MaskSpec("none"), MaskSpec("padding", length=1, side="left")])),
        view=draw(st.sampled_from(["steps", "all"])),
        step=draw(st.integers(1, 8)),
        panel=draw(st.sampled_from(WORDS["panel"])),
        selected=draw(st.sampled_from([None, ("weights", 0, 3), ("q", 15, 15)])),
    )
    for name in draw(st.lists(st.sampled_from(FROM_X), max_size=4)):
        bench = with_edit(
            bench, name, draw(st.integers(0, 15)), draw(st.integers(0, 15)), draw(st.floats(-1e60, 1e60))
        )
    return bench


@given(benches())
def test_a_link_gives_back_exactly_the_bench_it_was_made_from(bench):
    again, said = from_query(parsed(to_query(bench)))
    assert said == ""
    assert again == bench


def test_the_first_example_needs_no_parameters():
    assert to_query(opened(FIRST)) == ""


@pytest.mark.parametrize("places", [2, 6])
def test_with_every_number_edited_the_link_stays_below_2000_characters(places):
    bench = replace(
        with_sizes(opened("tokens"), n_k=8, d_model=8, d_k=8, d_v=8), mask=MaskSpec("window", left=2)
    )
    rng = np.random.default_rng(0)
    for name in FROM_X:
        for i, j in np.ndindex(shape(bench, name)):
            bench = with_edit(bench, name, i, j, round(rng.uniform(-9, 9), places))
    link = "https://attention.example.org/walkthrough?" + to_query(bench)
    assert len(link) < 2_000
    assert from_query(parsed(to_query(bench))) == (bench, "")


WHOLE = to_query(with_edit(with_edit(opened(FIRST), "x", 0, 0, 0.1), "w_q", 1, 1, 1 / 3)).removeprefix("m=")


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"n": "999"}, "n=“999”"),
        ({"n": "abc"}, "n=“abc”"),
        ({"n": "-1"}, "n=“-1”"),
        ({"n": "4.0"}, "n=“4.0”"),
        ({"n": "٤"}, "n=“٤”"),
        ({"dk": "0"}, "dk=“0”"),
        ({"m": WHOLE[: len(WHOLE) // 2]}, "damaged"),
        ({"m": WHOLE[:9] + ("A" if WHOLE[9] != "A" else "B") + WHOLE[10:]}, "damaged"),
        ({"m": "2" + WHOLE[1:]}, "another version"),
        ({"m": "1" + "A" * 10_000}, "damaged"),
        ({"m": "<script>alert(1)</script>"}, "another version"),
        ({"example": "<script>"}, "example=“<script>”"),
        ({"mask": "causal-sideways"}, "mask=“causal-sideways”"),
        ({"scale": "abc"}, "scale=“abc”"),
        ({"scale": "1e999"}, "scale=“1e999”"),
        ({"view": ""}, "view=“”"),
        ({"step": "9"}, "step=“9”"),
        ({"seed": "1" * 5_000}, "seed=“111111111111111111111111…”"),
        ({"tokens": '"unfinished'}, "tokens="),
        ({"cell": "weights.0.1"}, "cell="),
        ({"cell": "Nothing!.1.1"}, "cell=“Nothing!.1.1”"),
        ({"nq": "3", "nk": "4"}, "nq=3 with nk=4"),
    ],
)
def test_what_is_not_understood_is_named_in_one_sentence_and_the_example_stands(query, named):
    bench, said = from_query(query)
    assert (
        named in said
        and said.startswith("Not understood in this link: ")
        and said.count("Not understood") == 1
    )
    assert bench == opened(FIRST)
    assert len(said) < 400
    scene(bench)


def test_a_link_with_one_bad_parameter_keeps_the_others():
    bench, said = from_query({"n": "999", "dk": "5", "mask": "window-1-0"})
    assert "n=“999”" in said and bench.d_k == 5 and bench.mask == MaskSpec("window", left=1)


def test_parameters_of_others_are_left_alone():
    assert from_query({"embed": "true", "utm_source": "course"}) == (opened(FIRST), "")


def test_a_number_too_large_to_be_shown_is_not_taken_from_a_link():
    query = parsed(to_query(with_edit(opened(FIRST), "x", 0, 0, 1e61)))
    bench, said = from_query(query)
    assert "larger than" in said and bench == opened(FIRST)


@given(
    st.dictionaries(
        st.sampled_from(["n", "m", "mask", "tokens", "scale", "cell", "way", "nq", "example"]),
        st.text(max_size=60),
    )
)
def test_no_link_whatsoever_raises(query):
    bench, _ = from_query(query)
    assert np.isfinite(scene(bench).values["output"]).all()


PROGRAM = """
import sys
from attention_ui.links import from_query
from attention_ui.scene import scene
from urllib.parse import parse_qsl
bench, _ = from_query(dict(parse_qsl(sys.argv[1])))
print([value.tobytes().hex() for value in scene(bench).values.values()])
"""


def test_the_same_link_in_two_processes_gives_identical_numbers():
    bench = with_sizes(replace(opened("brackets"), seed=77), n_k=13, d_k=11)
    query = to_query(with_edit(bench, "w_q", 2, 2, 1 / 7))
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM, query], capture_output=True, text=True, check=True,
                       env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]  # fmt: skip
    assert runs[0].stdout == runs[1].stdout and len(runs[0].stdout) > 100


def test_an_edit_beyond_the_window_travels_with_the_link():
    bench = with_sizes(with_edit(with_sizes(opened("tokens"), d_k=8), "w_q", 0, 7, 2.5), d_k=2)
    again, _ = from_query(parsed(to_query(bench)))
    assert numbers(with_sizes(again, d_k=8), "w_q")[0, 7] == 2.5


def test_links_to_many_cells_are_those_to_each_of_them():
    for bench in (opened(FIRST), replace(opened(FIRST), n_q=3, n_k=3, choices={"p7.chapter": "ffn"})):
        cells = [("x", 0, 0), ("scores", 2, 1)]
        for query, cell in zip(to_queries(bench, cells), cells, strict=True):
            assert from_query(dict(parse_qsl(query))) == (replace(bench, selected=cell), "")

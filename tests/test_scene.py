"""A scene is worked out once in a run, and again for every other bench."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

from attention_core.masks import MaskSpec
from attention_ui.bench import Bench, opened, with_edit
from attention_ui.scene import once, scene


def bench() -> Bench:
    return opened(Bench().example)


def test_the_same_bench_has_one_scene_and_a_mask_another():
    now = bench()
    assert scene(now) is scene(now)
    assert scene(now, MaskSpec("causal")) is scene(now, MaskSpec("causal"))
    assert scene(now, MaskSpec("causal")) is not scene(now)


def test_an_equal_bench_that_came_later_is_worked_out_again_and_alike():
    now = bench()
    first, second = scene(now), scene(replace(now))
    assert first is not second
    assert first.values["output"].tolist() == second.values["output"].tolist()


def test_an_edit_has_a_scene_of_its_own_and_the_one_before_can_be_had_again():
    now = bench()
    before = scene(now).values["x"][0, 0]
    assert scene(with_edit(now, "x", 0, 0, 7.0)).values["x"][0, 0] == 7
    assert scene(now).values["x"][0, 0] == before


def test_two_makers_and_two_runs_do_not_share_what_they_make():
    desk = SimpleNamespace(bench=bench())
    made = []

    def make(found):
        made.append(found)
        return len(made)

    one, other = once(make), once(make)
    assert (one(desk), one(desk), other(desk)) == (1, 1, 2)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(one, desk).result() == 3

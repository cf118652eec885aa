"""The walk from tile to tile, and each tile as a sheet: the numbers of attention and of flash_steps."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.attention import attention
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.masks import causal
from attention_core.numbers import show
from attention_core.sheet import run, work
from attention_core.tile_steps import flash_steps
from attention_core.tile_walk import Step, walk, walk_sheet

RNG = np.random.default_rng(10)
N_Q, N_K, D_K, D_V = 7, 11, 3, 2
Q, K, V = RNG.normal(size=(N_Q, D_K)), RNG.normal(size=(N_K, D_K)), RNG.normal(size=(N_K, D_V))
HOLES = RNG.random((N_Q, N_K)) < 0.5
HOLES[2] = False
HOLES[:, :4] = False
MASKS = {"none": np.ones((N_Q, N_K), dtype=bool), "causal": causal(N_Q, N_K), "holes": HOLES}
MASKS["nowhere"] = np.zeros((N_Q, N_K), dtype=bool)
with_masks = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
with_blocks = pytest.mark.parametrize(
    ("block_q", "block_k"), [(1, 1), (2, 3), (3, 4), (7, 11), (8, 1), (2, 8)]
)


@with_masks
@with_blocks
def test_the_walk_ends_in_the_output_of_plain_attention(mask, block_q, block_k):
    made = walk(Q, K, V, mask, block_q=block_q, block_k=block_k)
    np.testing.assert_allclose(made.output, attention(Q, K, V, mask=mask).output, rtol=1e-12, atol=1e-14)


@with_masks
@with_blocks
def test_its_tiles_are_those_of_flash_steps_without_the_skipped_ones(mask, block_q, block_k):
    made = walk(Q, K, V, mask, block_q=block_q, block_k=block_k)
    tiles = list(flash_steps(Q, K, V, mask=mask, block_q=block_q, block_k=block_k))
    assert len(made.queries) * len(made.keys) == len(tiles)
    skipped = [tile for tile in tiles if tile.skipped]
    if not mask.any():  # one is shown all the same
        assert len(made.steps) == 1 and len(skipped) == len(tiles)
        return
    assert [(rows.start, columns.start) for rows, columns in made.skipped] == [
        (tile.rows.start, tile.columns.start) for tile in skipped
    ]
    for step, tile in zip(made.steps, (tile for tile in tiles if not tile.skipped), strict=True):
        assert (step.rows.start, step.rows.stop) == (tile.rows.start, tile.rows.stop)
        for name in ("maximum", "total", "mixed", "output", "factor", "powers"):
            np.testing.assert_array_equal(step.values[name], getattr(tile, name), err_msg=name)


def test_the_last_tile_of_every_block_of_queries_is_marked():
    made = walk(Q, K, V, MASKS["causal"], block_q=2, block_k=3)
    assert [step.rows.start for step in made.steps if step.last] == [0, 2, 4, 6]
    assert [(len(step.rows), len(step.columns)) for step in made.steps][-1] == (1, 3)


def given_for(step: Step, done: int, output: np.ndarray, mask: np.ndarray) -> dict[str, object]:
    part = mask[step.rows.start : step.rows.stop, step.columns.start : step.columns.stop]
    given = {"q": Q, "k": K, "v": V, "mask": mask, "mask_b": part, "divisor": np.sqrt(D_K), **step.before}
    return given | ({"tiled": output[:done]} if done else {})


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("done", [0, 2, N_Q])
def test_a_tile_among_the_whole_matrices_has_the_same_numbers(done, rescale):
    mask = MASKS["holes"]
    made = walk(Q, K, V, mask, block_q=2, block_k=3, rescale=rescale)
    for step in made.steps:
        sheet = walk_sheet(step.rows, step.columns, done, rescale=rescale)
        values = run(sheet, given_for(step, done, made.output, mask))
        for name, value in step.values.items():
            if name not in ("q", "k", "v", "mask"):
                np.testing.assert_array_equal(values[name], value, err_msg=name)
        plain = attention(Q, K, V, mask=mask).output
        np.testing.assert_array_equal(values["plain_output"], plain)
        if done:
            np.testing.assert_array_equal(values["difference"], made.output[:done] - plain[:done])
        assert ("difference" in sheet) == bool(done)


def test_without_rescaling_the_output_is_wrong_where_a_maximum_grows_and_only_there():
    made = walk(Q, K, V, MASKS["none"], block_q=2, block_k=3, rescale=False)
    right = walk(Q, K, V, MASKS["none"], block_q=2, block_k=3)
    apart = np.abs(made.output - right.output).max(axis=1)
    grows = np.zeros(N_Q, dtype=bool)
    for step in right.steps:
        rises = np.isfinite(step.values["maximum_before"]) & (step.values["factor"] < 1)
        grows[step.rows.start : step.rows.stop] |= rises[:, 0]
    assert grows.any() and (apart[grows] > 1e-6).all() and (apart[~grows] < 1e-14).all()


@pytest.mark.parametrize("rescale", [True, False])
def test_the_program_gives_the_same_numbers_and_every_cell_is_worked_out(rescale):
    mask = MASKS["holes"]
    made = walk(Q, K, V, mask, block_q=2, block_k=3, rescale=rescale)
    for step in made.steps[::3]:
        sheet = walk_sheet(step.rows, step.columns, 2, rescale=rescale)
        values = run(sheet, given_for(step, 2, made.output, mask))
        program: dict[str, object] = {}
        exec(to_numpy(sheet, values), program)
        for name in ("mixed", "output", "difference"):
            np.testing.assert_allclose(program[name], values[name], rtol=0, atol=1e-12)
        compile(to_torch(sheet, values), "torch", "exec")
        assert to_latex(sheet)
        for attribute in ("title", "symbol", "name"):
            named = [getattr(line, attribute) for line in sheet]
            assert len(set(named)) == len(named), attribute
        for stage in sheet.stages:
            for i, j in np.ndindex(values[stage.name].shape):
                assert work(sheet, values, stage.name, i, j).text.endswith(show(values[stage.name][i, j]))


def test_the_rescaling_is_written_out_and_its_absence_too():
    made = walk(Q, K, V, MASKS["none"], block_q=2, block_k=3)
    step = made.steps[1]
    sheet = walk_sheet(step.rows, step.columns, 0)
    values = run(sheet, given_for(step, 0, made.output, MASKS["none"]))
    old, factor = values["total_before"][0, 0], values["factor"][0, 0]
    assert work(sheet, values, "kept_total", 0, 0).text.startswith(f"{show(old)} × {show(factor)} ")
    wrong = walk_sheet(step.rows, step.columns, 0, rescale=False)
    values = run(wrong, given_for(step, 0, made.output, MASKS["none"]))
    assert work(wrong, values, "kept_total", 0, 0).text == f"{show(old)} stays {show(old)}"
    assert wrong["kept_total"].title == "Sum before, not rescaled"


def test_blocks_below_one_are_refused():
    with pytest.raises(ValueError, match="block_q must be at least 1"):
        walk(Q, K, V, MASKS["none"], block_q=0, block_k=1)

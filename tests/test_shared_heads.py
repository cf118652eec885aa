"""Heads of queries that share heads of keys and values: as np.repeat has them, and as np.tile has them."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.attention import attention
from attention_core.export import to_numpy
from attention_core.multi_head import split_heads
from attention_core.numbers import show
from attention_core.shared_heads import read_by, shared_heads_sheet
from attention_core.sheet import run, work

N, D_MODEL, D_K, D_V = 7, 5, 3, 2
RNG = np.random.default_rng(4)
SPLITS = [(4, 4), (4, 2), (4, 1), (6, 2), (6, 3), (1, 1)]
each_split = pytest.mark.parametrize(("heads", "few"), SPLITS)


def worked(heads: int, few: int, *, tile: bool = False):
    sheet = shared_heads_sheet(heads, few, d_head=D_K, d_value=D_V, tile=tile)
    mask = RNG.random((N, N)) < 0.6
    mask[2] = False
    given = {
        "x": RNG.normal(size=(N, D_MODEL)), "w_q": RNG.normal(size=(D_MODEL, heads * D_K)),
        "w_k": RNG.normal(size=(D_MODEL, few * D_K)), "w_v": RNG.normal(size=(D_MODEL, few * D_V)),
        "divisor": np.sqrt(D_K), "mask": mask,
    }  # fmt: skip
    return sheet, run(sheet, given)


@each_split
@pytest.mark.parametrize("tile", [False, True])
def test_the_outputs_are_those_of_heads_repeated_or_tiled_by_numpy(heads, few, tile):
    _, values = worked(heads, few, tile=tile)
    q, k, v = (split_heads(name, values[name], n) for name, n in (("q", heads), ("k", few), ("v", few)))
    if tile:
        k, v = (np.tile(a, (heads // few, 1, 1)) for a in (k, v))
    else:
        k, v = (np.repeat(a, heads // few, axis=0) for a in (k, v))
    right = attention(q, k, v, mask=values["mask"])
    np.testing.assert_allclose(values["concatenated"], np.hstack(list(right.output)), rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(values["k_read"], np.hstack(list(k)))
    np.testing.assert_array_equal(values["v_read"], np.hstack(list(v)))
    for head in range(heads):
        np.testing.assert_allclose(values[f"weights_{head + 1}"], right.weights[head], atol=1e-13)


def test_repeat_keeps_runs_together_and_tile_deals_them_out():
    assert read_by(4, 2) == (1, 1, 2, 2)
    assert read_by(4, 2, tile=True) == (1, 2, 1, 2)
    assert read_by(6, 3) == (1, 1, 2, 2, 3, 3)
    for few in (1, 4):
        assert read_by(4, few) == read_by(4, few, tile=True)


@each_split
@pytest.mark.parametrize("tile", [False, True])
def test_the_program_gives_the_same_numbers_and_every_cell_is_worked_out(heads, few, tile):
    sheet, values = worked(heads, few, tile=tile)
    program: dict[str, object] = {}
    exec(to_numpy(sheet, values), program)
    np.testing.assert_allclose(program["concatenated"], values["concatenated"], rtol=0, atol=1e-12)
    names = [line.name for line in sheet]
    assert len(set(names)) == len(names) and "output" not in names and "w_o" not in names
    for stage in sheet.stages:
        assert all(names.index(source) < names.index(stage.name) for source in stage.inputs)
        i, j = (size - 1 for size in values[stage.name].shape)
        assert work(sheet, values, stage.name, i, j).text.endswith(show(values[stage.name][i, j]))


def test_heads_that_cannot_be_shared_out_are_refused():
    with pytest.raises(ValueError, match="3 key heads cannot be shared out equally among 4 query heads"):
        shared_heads_sheet(4, 3, d_head=1, d_value=1)

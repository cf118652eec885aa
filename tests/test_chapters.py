"""Lesson 7's sheet: a whole block in chapters, and each chapter as lines of the board."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.chapters import (
    CHAPTERS,
    COMPARED,
    D_FF,
    D_HEAD,
    D_MODEL,
    N_HEADS,
    N,
    chapters,
    whole_block,
)
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.head_choices import beside
from attention_core.numbers import show
from attention_core.sheet import Stage, arrow, run, work
from attention_ui.arranging import arranged, givens

BLOCKS = {
    f"{kind}-{norm}-{'skips' if skips else 'none'}": (kind, norm, skips)
    for kind, norm in (("encoder", "post"), ("encoder", "pre"), ("gpt2", "pre"), ("llama", "pre"))
    for skips in (True, False)
}
each_block = pytest.mark.parametrize("name", BLOCKS)


def sheet_of(name):
    kind, norm, skips = BLOCKS[name]
    return whole_block(kind, norm, skips=skips)


def values_of(name):
    sheet = sheet_of(name)
    axes = {"one": 1, "token": N, "d_model": D_MODEL, "d_ff": D_FF}
    axes |= dict.fromkeys(("n_heads·d_k", "n_kv_heads·d_k", "n_heads·d_v", "n_kv_heads·d_v"), D_MODEL)
    rng = np.random.default_rng(7)
    given = {
        line.name: rng.normal(size=[axes[axis] for axis in line.axes])
        for line in sheet.given
        if line.axes and set(line.axes) <= set(axes)
    }
    given |= {"mask": np.tri(N, dtype=bool), "epsilon": 1e-5}
    return run(sheet, given | beside(sheet, N, n_heads=N_HEADS, d_head=D_HEAD))


@each_block
def test_every_matrix_is_in_one_chapter_and_in_the_order_of_the_sheet(name):
    sheet = sheet_of(name)
    listed = [line for chapter in chapters(sheet) for line in chapter.lines]
    matrices = [line.name for line in sheet if len(line.axes) == 2 and line.name not in COMPARED]
    assert sorted(listed) == sorted(matrices) and len(set(listed)) == len(listed)
    for chapter in chapters(sheet):
        places = [matrices.index(line) for line in chapter.lines]
        assert places == sorted(places)


@each_block
def test_the_chapters_have_the_same_words_in_every_block_and_come_in_its_order(name):
    words = [chapter.word for chapter in chapters(sheet_of(name))]
    assert sorted(words) == sorted(CHAPTERS)
    middle = ["qkv", "head_1", "head_2", "joined"]
    if BLOCKS[name][1] == "post":
        assert words == ["given", *middle, "norm_1", "network", "norm_2"]
    else:
        assert words == ["given", "norm_1", *middle, "norm_2", "network"]


def test_the_output_stands_where_it_is_made():
    for name, (_, norm, _) in BLOCKS.items():
        (place,) = (chapter.word for chapter in chapters(sheet_of(name)) if "output" in chapter.lines)
        assert place == ("norm_2" if norm == "post" else "network")


@each_block
def test_a_chapter_draws_each_line_once_and_all_that_it_is_made_from(name):
    sheet = sheet_of(name)
    for chapter in chapters(sheet):
        layout = (givens if chapter.word == "given" else arranged)(sheet, chapter.lines)
        units = [unit for line in layout for unit in line]
        real = [n for u in units for n in (u.top, u.left, u.result) if n and n not in u.echo]
        assert len(set(real)) == len(real), chapter.word
        assert set(chapter.lines) <= set(real), chapter.word
        for line in map(sheet.__getitem__, chapter.lines):
            if isinstance(line, Stage):
                assert {n for n in line.inputs if len(sheet[n].axes) == 2} <= set(real)
        assert all(set(unit.echo) <= {unit.top, unit.left} for unit in units)


@each_block
def test_a_product_is_a_corner_and_everything_else_says_how_it_follows(name):
    sheet = sheet_of(name)
    for chapter in chapters(sheet):
        if chapter.word == "given":
            continue
        for unit in (unit for line in arranged(sheet, chapter.lines) for unit in line):
            stage = sheet[unit.result]
            if unit.left:
                assert stage.operation.name == "product" and stage.inputs == (unit.left, unit.top)
            elif unit.result in chapter.lines:
                assert unit.via and unit.via in {arrow(sheet, source, unit.result) for source in stage.inputs}


@each_block
def test_what_is_left_without_x_is_what_both_parts_wrote_where_the_skips_run_through(name):
    values = values_of(name)
    np.testing.assert_array_equal(values["left"], values["output"] - values["x"])
    same = np.allclose(values["left"], values["written"], rtol=1e-12, atol=1e-12)
    assert same == (BLOCKS[name][1] == "pre" and BLOCKS[name][2])


@each_block
def test_every_cell_is_worked_out_and_every_title_is_its_own(name):
    sheet, values = sheet_of(name), values_of(name)
    assert len(set(sheet.titles.values())) == len(sheet.lines)
    for name_ in COMPARED:
        for (i, j), value in np.ndenumerate(values[name_]):
            assert work(sheet, values, name_, i, j).text.endswith(show(float(value)))


@each_block
def test_the_programs_give_the_same_numbers(name):
    sheet, values = sheet_of(name), values_of(name)
    names: dict[str, np.ndarray] = {}
    exec(to_numpy(sheet, values).replace("print(", "str("), names)
    for line in sheet.stages:
        np.testing.assert_allclose(names[line.name], values[line.name], rtol=1e-12, atol=1e-12)
    compile(to_torch(sheet, values), name, "exec")
    latex = to_latex(sheet, values)
    assert latex.count("{") == latex.count("}")

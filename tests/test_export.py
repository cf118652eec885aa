from __future__ import annotations

import ast
import dataclasses
import re
import warnings
from typing import Any

import numpy as np
import pytest

from attention_core.attention import attention, attention_from_x
from attention_core.examples import EXAMPLES, Example
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.feedforward import KINDS, feed_forward_sheet
from attention_core.masks import allowed
from attention_core.normalisation import layer_norm_sheet, rms_norm_sheet
from attention_core.position_sheets import (
    alibi_lines,
    distance_lines,
    learned_position_sheet,
    rope_sheet,
    sinusoid_sheet,
)
from attention_core.sheet import Sheet, run
from attention_core.sheets import ATTENTION, BIAS, PROJECTED, SCALINGS, attention_sheet

SIZES = {"token": 7, "query": 7, "key": 7, "d_model": 5, "d_k": 3, "d_v": 2}


def any_sheet(seed: int) -> tuple[Sheet, dict[str, np.ndarray]]:
    """A sheet with settings, sizes, a mask and numbers of its own for every seed."""
    rng = np.random.default_rng(seed)
    from_x = bool(rng.integers(2))
    sheet = attention_sheet(
        from_x=from_x,
        scaling=list(SCALINGS)[rng.integers(3)],  # type: ignore[arg-type]
        softcap=bool(rng.integers(2)),
        bias=bool(rng.integers(2)),
        lse=bool(rng.integers(2)),
    )
    sizes = {axis: int(rng.integers(1, 12)) for axis in SIZES}
    if from_x:
        sizes["query"] = sizes["key"] = sizes["token"]
    given: dict[str, Any] = {}
    for line in sheet.given:
        shape = tuple(sizes[axis] for axis in line.axes)
        spread = 10.0 ** rng.integers(-3, 3)
        given[line.name] = (
            rng.random(shape) < rng.random() if line.is_rule else rng.normal(size=shape) * spread
        )
    given |= {"divisor": np.sqrt(sizes["d_k"])} if "divisor" in given else {}
    given |= {"softcap": 1 + rng.random()} if "softcap" in given else {}
    return sheet, run(sheet, given)


def run_program(text: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"print": lambda *_: None}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(text, "<exported>", "exec"), scope)
    return scope


def same(scope: dict[str, Any], sheet: Sheet, values: Any) -> None:
    for line in sheet:
        got = np.asarray(scope[line.name])
        assert got.shape == values[line.name].shape, line.name
        assert got.dtype == values[line.name].dtype, line.name
        np.testing.assert_allclose(got, values[line.name], rtol=1e-12, atol=1e-12, err_msg=line.name)
    for line in sheet.given:
        np.testing.assert_array_equal(scope[line.name], values[line.name], err_msg=line.name)


@pytest.mark.parametrize("seed", range(200))
def test_the_numpy_program_gives_the_same_numbers(seed: int) -> None:
    sheet, values = any_sheet(seed)
    same(run_program(to_numpy(sheet, values)), sheet, values)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_the_numpy_program_of_every_example_gives_the_same_numbers(example: Example) -> None:
    sizes = example.sizes
    scaling = example.scaling if isinstance(example.scaling, str) else "number"
    sheet = attention_sheet(from_x=example.way == "x", scaling=scaling)  # type: ignore[arg-type]
    numbers = {"divisor": np.sqrt(sizes["d_k"]), "scale": example.scaling}
    rule = allowed(example.mask, sizes["n_q"], sizes["n_k"])
    given = {**{n: numbers[n] for n in numbers if n in sheet}, **example.base, "mask": rule}
    values = run(sheet, given)
    same(run_program(to_numpy(sheet, values, tokens=example.tokens)), sheet, values)


def test_the_program_holds_infinity_and_nan_and_treats_them_alike() -> None:
    rng = np.random.default_rng(11)
    q, k, v = rng.normal(size=(4, 3)), rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
    mask = rng.random((4, 7)) < 0.6
    mask[:, 5], mask[1] = False, False
    k[5], v[5], v[2, 0] = np.nan, -np.inf, np.inf
    bias = np.where(rng.random((4, 7)) < 0.2, -np.inf, 0.25)
    trace = attention(q, k, v, mask=mask, bias=bias)
    with np.errstate(invalid="ignore"):
        text = to_numpy(trace.sheet, trace.values)
        assert "-np.inf" in text
        assert "np.nan" in text
        scope: dict[str, Any] = {"print": lambda *_: None}
        exec(text, scope)
    same(scope, trace.sheet, trace.values)


def test_stacked_matrices_are_written_out_too() -> None:
    rng = np.random.default_rng(12)
    trace = attention(
        rng.normal(size=(2, 4, 3, 3)),
        rng.normal(size=(2, 2, 5, 3)),
        rng.normal(size=(2, 2, 5, 2)),
        softcap=2.0,
    )
    same(run_program(to_numpy(trace.sheet, trace.values)), trace.sheet, trace.values)


def test_matrices_without_rows_are_written_out_too() -> None:
    trace = attention(np.ones((2, 3)), np.ones((0, 3)), np.ones((0, 5)))
    same(run_program(to_numpy(trace.sheet, trace.values)), trace.sheet, trace.values)


@pytest.mark.parametrize("write", [to_numpy, to_torch, to_latex])
def test_texts_need_nothing_of_this_project(write: Any) -> None:
    sheet, values = any_sheet(3)
    assert "attention_core" not in write(sheet, values)
    assert "Array" not in write(sheet, values)


def test_a_program_is_short_where_nothing_is_unusual() -> None:
    text = to_numpy(ATTENTION, attention([[1, 0]], [[1, 1]], [[2]]).values)
    assert "def matmul" not in text
    assert "def logsumexp" not in text
    assert "output = weights @ v" in text
    assert "divisor = np.sqrt(2)" in text
    assert "closed" not in to_torch(ATTENTION, attention([[1, 0]], [[1, 1]], [[2]]).values)


def test_no_token_can_get_out_of_its_comment() -> None:
    """Whatever a token holds, it stays text on one line."""
    values = attention([[1, 0]], [[1, 1]], [[2]]).values
    tokens = ["\n", "'", '"', "\r", "\u2028", "\x85", "\x0c", "\\", "import os", "மொழி", "😀", '"""']
    text = to_numpy(ATTENTION, values, tokens=tokens)
    line = next(line for line in text.splitlines() if line.startswith("# Tokens: "))
    assert ast.literal_eval(f"[{line.removeprefix('# Tokens: ')}]") == tokens
    assert text.replace(line + "\n", "") == to_numpy(ATTENTION, values)


@pytest.mark.parametrize("seed", range(60))
def test_the_torch_text_compiles_and_says_what_it_masks(seed: int) -> None:
    sheet, values = any_sheet(seed)
    text = to_torch(sheet, values)
    compile(text, "<exported>", "exec")
    assert ("scaled_dot_product_attention(q, k, v" in text) == ("softcap" not in sheet)
    nowhere = bool((values["masked"] == -np.inf).all(axis=-1).any())
    assert ("masked_fill(closed, 0.0)" in text) == nowhere


def test_the_torch_text_gives_the_same_numbers_where_torch_is_installed() -> None:
    pytest.importorskip("torch")
    for seed in range(60):
        sheet, values = any_sheet(seed)
        same(run_program(to_torch(sheet, values)), sheet, values)


def test_the_torch_text_says_that_nan_gets_through() -> None:
    v = np.array([[1.0], [np.nan]])
    trace = attention([[1.0]], [[1.0], [2.0]], v, mask=[[True, False]])
    text = to_torch(trace.sheet, trace.values)
    assert "0 × NaN is NaN" in text
    assert "equal_nan=True" in text


def test_only_whole_attention_has_a_second_way_to_be_written() -> None:
    values = attention([[1, 0]], [[1, 1]], [[2]]).values
    assert "F.scaled_dot_product_attention(q, k, v" in to_torch(ATTENTION, values)
    short = to_torch(Sheet(ATTENTION.given, ATTENTION.stages[:2]), values)
    assert "scaled_dot_product_attention" not in short
    assert "import torch.nn.functional" not in short
    assert short.endswith("print(scores)\n")


PARTS = {
    **{
        f"layer-norm-{over}-{variance}": layer_norm_sheet(over=over, variance=variance)
        for over in ("row", "column")
        for variance in ("population", "sample")
    },
    "rms-norm": rms_norm_sheet(),
    "rms-norm-columns": rms_norm_sheet(gain=False, over="column"),
    **{kind: feed_forward_sheet(kind) for kind in KINDS},
    "relu-without-biases": feed_forward_sheet("relu", biases=False),
    **{
        f"sinusoids-{dim}-{layout}": sinusoid_sheet(dim, layout=layout, shift=True)
        for dim in (5, 6)
        for layout in ("interleaved", "concatenated")
    },
    "learned-positions": learned_position_sheet(),
    **{
        f"rope-{width}-{pairing}-{rotary}": rope_sheet(width, pairing=pairing, rotary_dim=rotary)
        for pairing in ("interleaved", "half")
        for width, rotary in ((6, 0), (8, 4), (5, 4))
    },
    "alibi": Sheet(
        (BIAS, *distance_lines()[0], *alibi_lines("bias")[0]),
        (*distance_lines()[1], *alibi_lines("bias")[1]),
    ),
}
each_part = pytest.mark.parametrize(("name", "sheet"), PARTS.items(), ids=PARTS)


def part_values(name: str, sheet: Sheet) -> dict[str, Any]:
    rng = np.random.default_rng(20)
    width = int(name.split("-")[1]) if name.startswith(("sinusoids", "rope")) else 5
    turned = int(name.rsplit("-", 1)[1]) if name.startswith("rope") else 0
    sizes = SIZES | {"d_model": width, "d_ff": 11, "pair": ((turned or width) + 1) // 2, "one": 1}
    given: dict[str, Any] = {
        line.name: rng.normal(size=tuple(sizes[axis] for axis in line.axes)) for line in sheet.given
    }
    numbers = {"epsilon": 1e-5, "base": 50.0}
    return run(sheet, given | {key: value for key, value in numbers.items() if key in given})


@each_part
def test_the_programs_of_norms_networks_and_positions_give_the_same_numbers(name: str, sheet: Sheet) -> None:
    values = part_values(name, sheet)
    text = to_numpy(sheet, values)
    assert "attention_core" not in text
    assert "Array" not in text
    assert text.endswith(f"print({sheet.stages[-1].name})\n")
    same(run_program(text), sheet, values)


@each_part
def test_the_torch_text_of_norms_networks_and_positions_compiles(name: str, sheet: Sheet) -> None:
    text = to_torch(sheet, part_values(name, sheet))
    compile(text, "<exported>", "exec")
    assert "np." not in text
    assert "scaled_dot_product_attention" not in text


@each_part
def test_the_torch_text_of_norms_networks_and_positions_gives_the_same_numbers(
    name: str, sheet: Sheet
) -> None:
    pytest.importorskip("torch")
    values = part_values(name, sheet)
    same(run_program(to_torch(sheet, values)), sheet, values)


@each_part
def test_the_latex_of_norms_networks_and_positions_is_balanced(name: str, sheet: Sheet) -> None:
    text = to_latex(sheet, part_values(name, sheet))
    assert text.count("{") == text.count("}")
    assert text.count(r"\left") == text.count(r"\right")
    assert not re.search("[−∞≈×√⊤μσγβεΓδωΘΔρ]", text)


def test_a_program_brings_along_the_functions_it_calls_and_no_others() -> None:
    text = to_numpy(PARTS["gelu"], part_values("gelu", PARTS["gelu"]))
    assert re.findall(r"def (\w+)", text) == ["erf", "gelu"]
    assert "import math" in text
    norm = to_numpy(PARTS["rms-norm"], part_values("rms-norm", PARTS["rms-norm"]))
    assert "def " not in norm
    assert "import math" not in norm


def test_two_softmaxes_in_one_sheet_each_know_where_they_may_look_nowhere() -> None:
    first = ATTENTION.stage("weights")
    again = dataclasses.replace(first, name="again", inputs=("masked",))
    sheet = Sheet(ATTENTION.given, (*ATTENTION.stages, again))
    given = {"q": np.ones((3, 2)), "k": np.ones((4, 2)), "v": np.ones((4, 1)), "divisor": 2.0}
    mask = np.array([[True] * 4, [False] * 4, [True, False, True, False]])
    values = run(sheet, given | {"mask": mask})
    text = to_torch(sheet, values)
    assert "weights = torch.softmax(masked, dim=-1).masked_fill(closed_weights, 0.0)" in text
    assert "again = torch.softmax(masked, dim=-1).masked_fill(closed_again, 0.0)" in text
    assert text.count("Older versions of PyTorch") == 1
    assert text.index("closed_weights = ") < text.index("weights = torch.softmax")


def test_latex_has_one_equation_a_stage() -> None:
    text = to_latex(PROJECTED)
    assert text.startswith("\\begin{aligned}\nQ &= X\\,W_Q \\\\\n")
    assert r"S &= Q\,K^\top \\" in text
    assert r"A &= \operatorname{softmax}\left(S_{\text{masked}}\right) \\" in text
    assert text.endswith("O &= A\\,V\n\\end{aligned}\n")


def test_latex_shows_the_numbers_and_says_where_it_rounded() -> None:
    trace = attention([[1, 0]], [[1, 1], [2, 0]], [[2, 3], [4, 5]], mask=[[True, False]])
    text = to_latex(ATTENTION, trace.values)
    assert r"K &= \begin{bmatrix} 1 & 1 \\ 2 & 0 \end{bmatrix}" in text
    assert r"M &= \begin{bmatrix} 0 & -\infty \end{bmatrix}" in text
    assert r"\sqrt{d_k} &\approx 1.41" in text
    assert r"S_{\text{scaled}} &\approx \begin{bmatrix} 0.71 & 1.41 \end{bmatrix}" in text
    assert r"O &= \begin{bmatrix} 2 & 3 \end{bmatrix}" in text


@pytest.mark.parametrize("seed", range(30))
def test_latex_is_balanced(seed: int) -> None:
    sheet, values = any_sheet(seed)
    text = to_latex(sheet, values)
    assert text.count("{") == text.count("}")
    assert sorted(re.findall(r"\\begin\{(\w+)\}", text)) == sorted(re.findall(r"\\end\{(\w+)\}", text))
    assert text.count(r"\begin{bmatrix}") == sum(bool(line.axes) for line in sheet)
    assert not re.search("[−∞≈×√]", text)
    for row in re.findall(r"\\begin\{bmatrix\} (.*?) \\end", text):
        assert len({line.count("&") for line in row.split(r"\\")}) == 1


def test_latex_names_what_wide_matrices_need() -> None:
    wide = attention(np.ones((1, 11)), np.ones((2, 11)), np.ones((2, 1)))
    assert r"\setcounter{MaxMatrixCols}{11}" in to_latex(ATTENTION, wide.values)
    assert "MaxMatrixCols" not in to_latex(ATTENTION, attention([[1]], [[1]], [[1]]).values)


def test_latex_shows_single_matrices_only() -> None:
    stacked = attention(np.ones((2, 1, 3)), np.ones((2, 4, 3)), np.ones((2, 4, 2)))
    with pytest.raises(ValueError, match=r"q has the shape \(2, 1, 3\)"):
        to_latex(ATTENTION, stacked.values)


def test_the_formatter_can_be_another() -> None:
    values = attention([[1]], [[1]], [[1]]).values
    assert r"Q &\approx \begin{bmatrix} x \end{bmatrix}" in to_latex(ATTENTION, values, show=lambda _: "x")


def test_from_x_is_written_from_x() -> None:
    rng = np.random.default_rng(13)
    trace = attention_from_x(
        rng.normal(size=(7, 5)), rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    )
    scope = run_program(to_numpy(trace.sheet, trace.values, tokens=("the", "cat")))
    np.testing.assert_allclose(scope["q"], trace.q, rtol=1e-14)
    same(scope, trace.sheet, trace.values)

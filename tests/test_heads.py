from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from attention_core.attention import attention_from_x
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.head_choices import Heads, beside
from attention_core.head_sheets import heads_sheet
from attention_core.heads import columns, head_cut, join
from attention_core.multi_head import merge_heads, multi_head_attention, split_heads
from attention_core.numbers import show
from attention_core.sheet import Sheet, cost, reads, run, work
from attention_core.written import read

pytestmark = pytest.mark.filterwarnings("error")

N, D_MODEL, D_K, D_V = 7, 12, 3, 2
SLOPES = {3: [1 / 16, 1 / 256, 1 / 4], 4: [1 / 4, 1 / 16, 1 / 64, 1 / 256]}  # as published
SHARING = [(1, 1), (3, 3), (4, 4), (4, 2), (4, 1), (6, 2)]
SHEETS = {
    f"{heads}-{few}{'-bias' * bias}{'-cross' * cross}{'-wrong' * wrong}{'-qkv' * (not from_x)}": (
        heads,
        few,
        {"bias": bias, "cross": cross, "from_x": from_x}
        | ({"mistake": "no transpose", "n": N} if wrong else {}),
    )
    for (heads, few), bias, cross, wrong, from_x in itertools.product(
        SHARING, (False, True), (False, True), (False, True), (True, False)
    )
    if from_x or not cross
}
SHEETS |= {f"{heads}-{few}-biases": (heads, few, {"biases": True}) for heads, few in SHARING}
SHEETS |= {
    f"{heads}-{few}-{positions}{'-shift' * shift}": (
        heads,
        few,
        {"positions": positions, "d_head": 4, "shift": shift},
    )
    for heads, few in ((3, 3), (4, 2))
    for positions in ("rope-interleaved", "rope-half", "alibi")
    for shift in (False, True)
}
WITH_POSITIONS = [name for name in SHEETS if "rope" in name or "alibi" in name]
RIGHT = {name: SHEETS[name] for name in SHEETS if "wrong" not in name and "qkv" not in name}
each_sheet = pytest.mark.parametrize("choice", SHEETS.values(), ids=SHEETS)
each_from_x = pytest.mark.parametrize("choice", RIGHT.values(), ids=RIGHT)


def sheet_of(choice: tuple[int, int, dict[str, Any]]) -> Sheet:
    heads, few, more = choice
    return heads_sheet(heads, few, **{"d_head": D_K, "d_value": D_V} | more)


def sizes_of(choice: tuple[int, int, dict[str, Any]]) -> dict[str, int]:
    heads, few, more = choice
    d_k = more.get("d_head", D_K)
    sizes = {"one": 1, "token": N, "query": N, "key": N, "d_model": D_MODEL, "d_k": d_k, "d_v": D_V}
    sizes |= {"n_heads·d_k": heads * d_k, "n_kv_heads·d_k": few * d_k, "pair": d_k // 2}
    return sizes | {"n_heads·d_v": heads * D_V, "n_kv_heads·d_v": few * D_V}


def made_up(choice: tuple[int, int, dict[str, Any]], batch: tuple[int, ...] = ()) -> dict[str, Any]:
    """Numbers for every given line; about a third of the mask is closed, and row 3 sees nothing."""
    rng = np.random.default_rng(5)
    sheet, sizes = sheet_of(choice), sizes_of(choice)
    given: dict[str, Any] = {}
    for line in sheet.given:
        shape = tuple(sizes[axis] for axis in line.axes)
        leading = batch if line.name in ("x", "x_k", "x_v", "q", "k", "v") else ()
        given[line.name] = (
            rng.random(shape) < 0.7 if line.is_rule else rng.normal(size=(*leading, *shape)) * 0.8
        )
    given["mask"][2] = False
    return given | beside(sheet, sizes["token"], n_heads=choice[0], d_head=sizes["d_k"], base=30.0)


def projected(given: dict[str, Any], letter: str, source: str, own: slice) -> np.ndarray:
    """The columns of a head: rows times its part of the weights, plus its part of the bias."""
    made = given.get(source, given["x"]) @ given[f"w_{letter}"][:, own]
    return made + given[f"b_{letter}"][:, own] if f"b_{letter}" in given else made


def turned(row: np.ndarray, position: float, positions: str | None) -> np.ndarray:
    """The pairs of a row as complex numbers, times e^(iθ)."""
    if positions not in ("rope-interleaved", "rope-half"):
        return row
    half = len(row) // 2
    pairs = [(2 * k, 2 * k + 1) if positions == "rope-interleaved" else (k, k + half) for k in range(half)]
    result = row.copy()
    for k, (a, b) in enumerate(pairs):
        spun = complex(row[a], row[b]) * np.exp(1j * position * 30.0 ** (-2 * k / len(row)))
        result[a], result[b] = spun.real, spun.imag
    return result


def by_loops(given: dict[str, Any], choice: tuple[int, int, dict[str, Any]]) -> list[np.ndarray]:
    """The output of each head, one query at a time, from the definition."""
    heads, few, more = choice
    d, positions, outputs = more.get("d_head", D_K), more.get("positions"), []
    start = given.get("position_shift", 0.0)
    for h in range(heads):
        g = h // (heads // few)
        q = projected(given, "q", "x", slice(h * d, (h + 1) * d))
        k = projected(given, "k", "x_k", slice(g * d, (g + 1) * d))
        v = projected(given, "v", "x_v", slice(g * D_V, (g + 1) * D_V))
        out = np.zeros((len(q), D_V))
        for i, row in enumerate(q):
            seen, scores = np.flatnonzero(given["mask"][i]), {}
            for j in seen:
                asked, offered = turned(row, start + i, positions), turned(k[j], start + j, positions)
                scores[j] = asked @ offered / np.sqrt(d) + given.get("bias", np.zeros((N, N)))[i, j]
                if positions == "alibi":
                    scores[j] -= SLOPES[heads][h] * abs(i - j)
            total = sum(np.exp(score) for score in scores.values())
            for j, score in scores.items():
                out[i] += np.exp(score) / total * v[j]
        outputs.append(out)
    return outputs


@each_from_x
def test_every_head_is_an_attention_of_its_own(choice: tuple[int, int, dict[str, Any]]) -> None:
    given = made_up(choice)
    values = run(sheet_of(choice), given)
    want = by_loops(given, choice)
    for h, out in enumerate(want):
        np.testing.assert_allclose(values[f"output_{h + 1}"], out, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(values["concatenated"], np.concatenate(want, axis=1), rtol=1e-12, atol=1e-14)
    whole = np.concatenate(want, axis=1) @ given["w_o"] + given.get("b_o", 0.0)
    np.testing.assert_allclose(values["output"], whole, rtol=1e-12, atol=1e-13)


@each_from_x
@pytest.mark.parametrize("batch", [(), (5,)], ids=["one", "five"])
def test_the_sheet_and_the_function_agree(
    choice: tuple[int, int, dict[str, Any]], batch: tuple[int, ...]
) -> None:
    heads, few, more = choice
    given = made_up(choice, batch)
    values = run(sheet_of(choice), given)
    extra = {
        name: given[name] for name in ("x_k", "x_v", "bias", "b_q", "b_k", "b_v", "b_o") if name in given
    }
    trace = multi_head_attention(
        *(given[name] for name in ("x", "w_q", "w_k", "w_v", "w_o")),
        n_heads=heads,
        n_kv_heads=few,
        mask=given["mask"],
        positions=more.get("positions"),
        first=given.get("position_shift", 0.0),
        base=30.0,
        **extra,
    )
    stacked = np.stack([values[f"weights_{h + 1}"] for h in range(heads)], axis=-3)
    np.testing.assert_allclose(stacked, trace.heads.weights, rtol=1e-12, atol=1e-14)
    for name in ("q", "k", "v", "concatenated", "output"):
        np.testing.assert_allclose(values[name], getattr(trace, name), rtol=1e-12, atol=1e-12, err_msg=name)


def test_one_head_is_plain_attention() -> None:
    sheet = heads_sheet(1, d_head=D_K, d_value=D_V)
    given = made_up((1, 1, {}))
    values = run(sheet, given)
    trace = attention_from_x(*(given[name] for name in ("x", "w_q", "w_k", "w_v")), mask=given["mask"])
    for name in ("k_t", "scores", "scaled", "masked", "weights", "output"):
        np.testing.assert_array_equal(values[f"{name}_1"], getattr(trace, name))
    np.testing.assert_array_equal(values["concatenated"], trace.output)
    np.testing.assert_allclose(values["output"], trace.output @ given["w_o"], rtol=1e-14)


def test_shared_heads_are_made_once_and_read_in_runs() -> None:
    sheet = heads_sheet(6, 2, d_head=D_K, d_value=D_V)
    assert [s.name for s in sheet.stages if s.name.startswith("k_t")] == ["k_t_1", "k_t_2"]
    assert [sheet.stage(f"scores_{h}").inputs[1] for h in range(1, 7)] == ["k_t_1"] * 3 + ["k_t_2"] * 3
    assert [sheet.stage(f"output_{h}").inputs[1] for h in range(1, 7)] == ["v_1"] * 3 + ["v_2"] * 3
    assert sheet["k_1"].title == "K, shared head 1"
    assert sheet["q_1"].title == "Q, head 1"
    assert heads_sheet(6, d_head=D_K, d_value=D_V)["k_1"].title == "K, head 1"


def test_sharing_keys_is_the_same_as_repeating_the_weights() -> None:
    few, many = (heads_sheet(4, groups, d_head=D_K, d_value=D_V) for groups in (2, 4))
    given = made_up((4, 2, {}))
    again = given | {
        name: np.repeat(given[name].reshape(D_MODEL, 2, -1), 2, axis=1).reshape(D_MODEL, -1)
        for name in ("w_k", "w_v")
    }
    np.testing.assert_allclose(run(few, given)["output"], run(many, again)["output"], rtol=1e-14)


@each_sheet
def test_titles_and_names_are_unique_and_every_line_is_described(
    choice: tuple[int, int, dict[str, Any]],
) -> None:
    sheet = sheet_of(choice)
    for what in ("name", "title", "symbol", "mark"):
        found = [getattr(line, what) for line in sheet]
        assert len(set(found)) == len(found), what
    for line in sheet:
        assert line.step == 0
        assert line.meaning.endswith(".") and line.look.endswith("."), line.name
        assert "{" not in line.meaning + line.look
        assert line.symbol.count("{") == line.symbol.count("}")
    for stage in sheet.stages:
        formula = sheet.formula(stage.name)
        assert formula.count("{") == formula.count("}")
        assert not re.search(r"\{\{|\}\}\}|None", formula.replace(r"\sqrt{d_k}", ""))


@each_sheet
def test_the_axes_have_the_sizes_of_the_matrices(choice: tuple[int, int, dict[str, Any]]) -> None:
    sheet, sizes = sheet_of(choice), sizes_of(choice)
    values = run(sheet, made_up(choice))
    for line in sheet:
        assert values[line.name].shape == tuple(sizes[axis] for axis in line.axes), line.name
    for line in cost(sheet, sizes):
        assert line.bytes_written == values[line.name].nbytes


def read_cells(pattern: str, i: int, j: int, shape: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The cells that a pattern names, written out from the table in Operation's docstring."""
    if not shape:
        return {()}
    rows, width = shape
    kind, *numbers = pattern.split()
    k = [int(text) for text in numbers]
    if kind == "head":
        h, d, n, m = k
        cut = np.arange(rows * width).reshape(m, n, d)
        return {tuple(int(at) for at in divmod(int(cut[h, i, j]), width))}
    found = {
        "row": lambda: {(i, c) for c in range(width)},
        "column": lambda: {(r, j) for r in range(rows)},
        "cell": lambda: {(i, j)},
        "swapped": lambda: {(j, i)},
        "shift": lambda: {(i, j + k[0])},
        "top": lambda: {(0, j)},
        "first": lambda: {(i, 0)},
        "all": lambda: set(np.ndindex(shape)),
        "half": lambda: {(i, j), (i, (j + k[0] // 2) % k[0])},
        "angle-half": lambda: {(i, j % (k[0] // 2))},
    }[kind]()
    return {(r, c) for r, c in found if 0 <= r < rows and 0 <= c < width}


@pytest.mark.parametrize(
    "name", ["4-2-bias", "3-3-wrong", "3-3-cross", "4-2-biases", "4-2-rope-half-shift", "3-3-alibi"]
)
def test_a_cell_follows_the_cells_it_reads_and_no_others(name: str) -> None:
    """Every entry of every input changed in turn: what does not read it stays, most of what does moves."""
    sheet = sheet_of(SHEETS[name])
    values = run(sheet, made_up(SHEETS[name]))
    for stage in sheet.stages:
        inputs = [np.array(values[n]) for n in stage.inputs]
        before, moved, read_at_all = values[stage.name], 0, 0
        for which, (_, pattern) in enumerate(reads(sheet, stage.name)):
            follows = {
                cell: read_cells(pattern, *cell, inputs[which].shape) for cell in np.ndindex(before.shape)
            }
            for place in np.ndindex(inputs[which].shape):
                changed = [a.copy() for a in inputs]
                changed[which][place] = ~changed[which][place] if changed[which].dtype == bool else 0.4
                with np.errstate(all="ignore"):
                    after = stage.operation.compute(*changed)
                for cell in np.ndindex(before.shape):
                    if place in follows[cell]:
                        read_at_all += 1
                        moved += bool(after[cell] != before[cell])
                    else:
                        assert after[cell] == before[cell], (stage.name, place, cell)
        assert moved > 0.5 * read_at_all, stage.name


@each_sheet
def test_the_work_of_every_cell_ends_in_what_it_shows(choice: tuple[int, int, dict[str, Any]]) -> None:
    sheet = sheet_of(choice)
    values = run(sheet, made_up(choice))
    for stage in sheet.stages:
        for i, j in np.ndindex(values[stage.name].shape):
            done = work(sheet, values, stage.name, i, j)
            assert done.text.endswith(show(values[stage.name][i, j])), done.text
            assert sum(line.count("&") for line in done.latex) == len(done.latex)


def test_a_taken_cell_says_where_it_was() -> None:
    sheet = heads_sheet(3, d_head=D_K, d_value=D_V)
    values = run(sheet, made_up((3, 3, {})))
    done = work(sheet, values, "q_2", 4, 1)
    assert done.text == f"row 5, column 5 of Q: {show(values['q'][4, 4])}"
    assert done.latex[0] == r"\left(Q_{2}\right)_{5,2} &= Q_{5,5}"
    done = work(sheet, values, "concatenated", 4, 5)
    assert done.text == f"row 5, column 2 of Output, head 3: {show(values['output_3'][4, 1])}"
    wrong = heads_sheet(3, d_head=D_K, d_value=D_V, mistake="no transpose", n=N)
    values = run(wrong, made_up((3, 3, {})))
    # head 2, row 5, column 2: number 7·3 + 4·3 + 1 = 34 of 9 columns, so row 4, column 8
    assert work(wrong, values, "q_2", 4, 1).text == f"row 4, column 8 of Q: {show(values['q'][3, 7])}"
    assert read(work(wrong, values, "q_2", 4, 1).text.split(": ")[1]) == read(show(values["q_2"][4, 1]))


def test_the_mistake_mixes_the_rows_of_tokens() -> None:
    """Under a causal mask a change of token 7 may reach row 7 only, and cut by rows it reaches row 5 as well.

    Its numbers are the last 9 of the 63 of Q; a head of width 3 holds 21, so they fill rows 5 to 7 of head 3.
    (Of V they are the last 6 of 42; a head holds 14, and they fill the same rows.)
    """
    for wrong in (False, True):
        more: dict[str, Any] = {"mistake": "no transpose", "n": N} if wrong else {}
        sheet = heads_sheet(3, d_head=D_K, d_value=D_V, **more)
        given = made_up((3, 3, more)) | {"mask": np.tri(N, dtype=bool)}
        before = run(sheet, given)["output"]
        given["x"][-1] += 1.0
        moved = (run(sheet, given)["output"] != before).any(axis=1)
        assert moved.tolist() == ([False] * 4 + [True] * 3 if wrong else [False] * 6 + [True])


def test_the_mistake_is_numpys_reshape_and_nothing_is_wrong_with_one_head() -> None:
    a = np.random.default_rng(8).normal(size=(2, N, 12))
    for h in range(4):
        np.testing.assert_array_equal(head_cut(h, 4, 3, N).compute(a), a.reshape(2, 4, N, 3)[:, h])
        np.testing.assert_array_equal(columns(3 * h, 3).compute(a), split_heads("a", a, 4)[:, h])
    np.testing.assert_array_equal(head_cut(0, 1, 12, N).compute(a), a)


def test_merging_undoes_splitting() -> None:
    a = np.random.default_rng(9).normal(size=(2, N, 12))
    np.testing.assert_array_equal(merge_heads(split_heads("a", a, 4)), a)
    parts = [columns(start, width).compute(a) for start, width in ((0, 5), (5, 1), (6, 6))]
    np.testing.assert_array_equal(join((5, 1, 6)).compute(*parts), a)
    assert join((5, 1, 6)).reads == ("shift 0", "shift -5", "shift -6")


@pytest.mark.parametrize(
    "name", ["1-1", "4-2-bias", "3-3-wrong", "3-3-cross", "6-2-qkv", "6-2-biases", *WITH_POSITIONS]
)
def test_the_exported_program_gives_the_same_numbers(name: str) -> None:
    sheet = sheet_of(SHEETS[name])
    values = run(sheet, made_up(SHEETS[name]))
    scope: dict[str, Any] = {"print": lambda *_: None}
    exec(to_numpy(sheet, values), scope)
    for line in sheet:
        np.testing.assert_allclose(scope[line.name], values[line.name], rtol=1e-12, atol=1e-12)
    latex = to_latex(sheet, values)
    assert latex.count("{") == latex.count("}")
    compile(to_torch(sheet, values), "<torch>", "exec")


@pytest.mark.parametrize("positions", ["rope-interleaved", "rope-half", "alibi"])
def test_moving_all_positions_changes_no_score_and_swapping_two_tokens_does(positions: str) -> None:
    choice = (4, 2, {"positions": positions, "d_head": 4, "shift": True})
    given = made_up(choice) | {"position_shift": 0.0, "mask": np.ones((N, N), dtype=bool)}
    before, moved = (run(sheet_of(choice), given | {"position_shift": by}) for by in (0.0, 11.0))
    np.testing.assert_allclose(moved["masked_3"], before["masked_3"], rtol=1e-11, atol=1e-12)
    assert positions == "alibi" or not np.allclose(moved["turned_q_3"], before["turned_q_3"])
    order = [0, 2, 1, 3, 4, 5, 6]
    swapped = run(sheet_of(choice), given | {"x": given["x"][order]})
    assert not np.allclose(swapped["output"], before["output"][order])
    plain = (4, 2, {"d_head": 4})
    rows = [
        run(sheet_of(plain), {n: given[n] for n in made_up(plain)} | {"x": x})["output"]
        for x in (given["x"], given["x"][order])
    ]
    np.testing.assert_allclose(rows[1], rows[0][order], rtol=1e-12)


def test_the_same_choice_is_the_same_sheet() -> None:
    assert heads_sheet(2, d_head=D_K, d_value=D_V) is heads_sheet(2, d_head=D_K, d_value=D_V)
    assert columns(0, 3) is columns(0, 3)


def test_what_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="3 key heads cannot be shared out equally among 4"):
        heads_sheet(4, 3, d_head=D_K, d_value=D_V)
    with pytest.raises(ValueError, match="mistake is one of None, no transpose, not 'x'"):
        heads_sheet(4, d_head=D_K, d_value=D_V, mistake="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="positions is one of"):
        heads_sheet(4, d_head=D_K, d_value=D_V, positions="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n, the number of rows, is needed"):
        heads_sheet(4, d_head=D_K, d_value=D_V, mistake="no transpose")
    with pytest.raises(ValueError, match="a head needs columns"):
        Heads(2, 2, 0, 1)
    with pytest.raises(ValueError, match="ALiBi adds a bias of its own"):
        heads_sheet(2, d_head=D_K, d_value=D_V, positions="alibi", bias=True)
    with pytest.raises(ValueError, match="3 of 3 columns cannot be turned"):
        heads_sheet(2, d_head=3, d_value=D_V, positions="rope-half")
    with pytest.raises(ValueError, match="positions are those of one text"):
        heads_sheet(2, d_head=4, d_value=D_V, positions="rope-half", cross=True)
    wrong = heads_sheet(3, d_head=D_K, d_value=D_V, mistake="no transpose", n=N)
    given = made_up((3, 3, {}))
    given["x"] = given["x"][:6]
    with pytest.raises(ValueError, match=r"q_1 cannot be made from q \(6, 9\)"):
        run(wrong, given)
    with pytest.raises(ValueError, match=r"10 columns of q \(7, 10\) cannot be shared out among 4 heads"):
        split_heads("q", np.ones((7, 10)), 4)
    with pytest.raises(ValueError, match=r"x \(7, 5\) and w_q \(4, 3\) do not fit: w_q needs 5 rows"):
        multi_head_attention(np.ones((7, 5)), *[np.ones((4, 3))] * 4, n_heads=1)

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from attention_core.attention import attention, attention_from_x
from attention_core.numbers import show
from attention_core.operations import ADD, MATMUL
from attention_core.sheet import Given, Sheet, Stage, arrow, cost, mark, plain, reads, run, work
from attention_core.sheets import ATTENTION, PROJECTED, SCALINGS, attention_sheet
from attention_core.steps import STEPS

pytestmark = pytest.mark.filterwarnings("error")

SIZES = {"token": 7, "query": 7, "key": 7, "d_model": 5, "d_k": 3, "d_v": 2}
SHEETS = {
    f"{'x' if from_x else 'qkv'}-{scaling}{'-cap' * softcap}{'-bias' * bias}{'-lse' * lse}": attention_sheet(
        from_x=from_x, scaling=scaling, softcap=softcap, bias=bias, lse=lse
    )
    for from_x, scaling, softcap, bias, lse in itertools.product(
        (False, True), SCALINGS, (False, True), (False, True), (False, True)
    )
}
each_sheet = pytest.mark.parametrize("sheet", SHEETS.values(), ids=SHEETS)

NAMES = {
    "x": "X",
    "w_q": "W_Q",
    "w_k": "W_K",
    "w_v": "W_V",
    "q": "Q",
    "k": "K",
    "v": "V",
    "k_t": "K transposed",
    "scores": "Scores",
    "scaled": "Scaled scores",
    "mask": "Mask",
    "masked": "Masked scores",
    "weights": "Weights",
    "output": "Output",
}


def made_up(sheet: Sheet, seed: int = 4) -> dict[str, np.ndarray]:
    """Numbers for every given line, of the sizes above; about a third of the mask is closed."""
    rng = np.random.default_rng(seed)
    given = {}
    for line in sheet.given:
        shape = tuple(SIZES[axis] for axis in line.axes)
        given[line.name] = rng.random(shape) < 0.7 if line.is_rule else rng.normal(size=shape)
    if "divisor" in sheet:
        given["divisor"] = np.sqrt(SIZES["d_k"])
    if "softcap" in sheet:
        given["softcap"] = 1.5
    if "mask" in given:
        given["mask"][2] = False
    return given


@each_sheet
def test_every_line_is_made_of_earlier_lines(sheet: Sheet) -> None:
    seen = {line.name for line in sheet.given}
    for stage in sheet.stages:
        assert {*stage.inputs, *([stage.aside] if stage.aside else [])} <= seen
        seen.add(stage.name)
    assert len(seen) == len(sheet.lines)


@each_sheet
def test_every_matrix_has_the_shape_that_its_axes_say(sheet: Sheet) -> None:
    values = run(sheet, made_up(sheet))
    for line in sheet:
        assert values[line.name].shape == tuple(SIZES[axis] for axis in line.axes), line.name


@each_sheet
def test_every_line_says_what_it_is(sheet: Sheet) -> None:
    for line in sheet:
        assert line.meaning.endswith(".")
        assert line.look.endswith(".")
        assert 1 <= line.step <= len(STEPS)
        assert all(style in ("", "sub", "sup") and text for text, style in line.mark)
        assert line.title == NAMES.get(line.name, line.title)
    steps = [stage.step for stage in sheet.stages]
    assert steps == sorted(steps)
    for field in ("name", "symbol", "title"):
        assert len({getattr(line, field) for line in sheet}) == len(sheet.lines), field


@each_sheet
def test_every_cell_of_every_line_can_be_worked_by_hand(sheet: Sheet) -> None:
    values = run(sheet, made_up(sheet))
    for line in sheet:
        value = values[line.name]
        if value.ndim == 0:
            continue
        for i, j in np.ndindex(value.shape if value.ndim == 2 else (len(value), 1)):
            worked = work(sheet, values, line.name, i, j)
            assert worked.latex
            assert sum(rf"_{{{i + 1},{j + 1}}} &" in text for text in worked.latex) == 1, worked
            if isinstance(line, Stage) and not ("nowhere" in worked.text or "largest" in worked.text):
                assert worked.text.endswith(show(value[i, j] if value.ndim == 2 else value[i]))


def test_the_worked_cell_of_a_given_line_says_that_it_is_given() -> None:
    values = run(ATTENTION, made_up(ATTENTION) | {"q": np.full((7, 3), 2.0), "mask": np.eye(7, dtype=bool)})
    assert work(ATTENTION, values, "q", 1, 2).text == "2, given"
    assert work(ATTENTION, values, "mask", 0, 1).text == "−∞, given"
    assert work(ATTENTION, values, "mask", 1, 1).latex == (r"M_{2,2} &= 0 \quad \text{given}",)


def test_the_transposed_cell_names_the_cell_it_was() -> None:
    values = run(ATTENTION, made_up(ATTENTION))
    worked = work(ATTENTION, values, "k_t", 1, 4)
    assert worked.text == f"row 5, column 2 of K: {show(values['k'][4, 1])}"
    assert worked.latex[0] == r"\left(K^\top\right)_{2,5} &= K_{5,2}"


def test_every_matrix_is_read_only_and_what_was_given_is_copied() -> None:
    given = made_up(PROJECTED)
    before = {name: np.array(a) for name, a in given.items()}
    values = run(PROJECTED, given)
    for name, value in values.items():
        assert not value.flags.writeable, name
        with pytest.raises(ValueError, match="read-only"):
            value[...] = 0
    given["x"][0, 0] = 99.0
    assert values["x"][0, 0] == before["x"][0, 0]
    assert all(np.array_equal(values[name], before[name]) for name in before)


def test_matrices_that_do_not_fit_are_refused_with_their_shapes() -> None:
    """Transposition only swaps axes: it cannot make a two-feature query meet three-feature keys."""
    given = made_up(ATTENTION) | {"k": np.ones((7, 4))}
    with pytest.raises(ValueError, match=r"^scores cannot be made from q \(7, 3\) and k_t \(4, 7\)$"):
        run(ATTENTION, given)
    given = made_up(ATTENTION) | {"v": np.ones((6, 2))}
    with pytest.raises(ValueError, match=r"output cannot be made from weights \(7, 7\) and v \(6, 2\)"):
        run(ATTENTION, given)
    given = made_up(ATTENTION) | {"mask": np.ones((5, 5), dtype=bool)}
    with pytest.raises(ValueError, match=r"masked cannot be made from scaled \(7, 7\) and mask \(5, 5\)"):
        run(ATTENTION, given)


def test_a_sheet_without_something_given_names_it() -> None:
    given = made_up(ATTENTION)
    del given["k"], given["mask"]
    with pytest.raises(ValueError, match="needs k, mask"):
        run(ATTENTION, given)


def test_a_rule_written_as_numbers_is_refused() -> None:
    """0 and −∞ as truths would open exactly what they should close."""
    given = made_up(ATTENTION)
    given["mask"] = np.where(given["mask"], 0.0, -np.inf)
    with pytest.raises(ValueError, match="mask holds float64, and True or False is needed"):
        run(ATTENTION, given)


def test_what_a_cell_reads_comes_from_its_operation() -> None:
    assert reads(ATTENTION, "scores") == [("q", "row"), ("k_t", "column")]
    assert reads(ATTENTION, "k_t") == [("k", "swapped")]
    assert reads(ATTENTION, "scaled") == [("scores", "cell"), ("divisor", "all")]
    assert reads(ATTENTION, "masked") == [("scaled", "cell"), ("mask", "cell")]
    assert reads(ATTENTION, "weights") == [("masked", "row")]
    assert reads(ATTENTION, "output") == [("weights", "row"), ("v", "column")]
    assert reads(PROJECTED, "q") == [("x", "row"), ("w_q", "column")]
    assert reads(ATTENTION, "q") == []


def test_cell_0_2_of_the_scores_reads_query_0_and_key_2() -> None:
    """Changing query 0 or key 2 changes the cell, changing any other query or key does not."""
    given = made_up(ATTENTION)
    before = run(ATTENTION, given)["scores"][0, 2]
    for name, row in itertools.product("qk", range(7)):
        changed = {n: np.array(a) for n, a in given.items()}
        changed[name][row] += 1.0
        moved = run(ATTENTION, changed)["scores"][0, 2] != before
        assert moved == ((name, row) in {("q", 0), ("k", 2)})


def test_lines_are_found_by_name() -> None:
    assert ATTENTION["scores"].title == "Scores"
    assert ATTENTION.stage("scores").operation is MATMUL
    assert "scores" in ATTENTION
    assert "nothing" not in ATTENTION
    assert ATTENTION.titles["k_t"] == "K transposed"
    assert ATTENTION.symbols["weights"] == "A"
    with pytest.raises(KeyError):
        ATTENTION["nothing"]
    with pytest.raises(KeyError):
        ATTENTION.stage("q")


def test_formulas_are_made_of_the_symbols_of_the_inputs() -> None:
    assert ATTENTION.formula("scores") == r"Q\,K^\top"
    assert ATTENTION.formula("scaled") == r"\frac{S}{\sqrt{d_k}}"
    assert ATTENTION.formula("masked") == r"S_{\text{scaled}} + M"
    assert PROJECTED.formula("v") == r"X\,W_V"
    assert attention_sheet(scaling="none").formula("scaled") == "S"
    for sheet in SHEETS.values():
        for stage in sheet.stages:
            formula = sheet.formula(stage.name)
            assert formula.count("{") == formula.count("}")
            assert not re.search(r"\{\d\}|None", formula)


def test_an_arrow_says_everything_that_is_done_on_its_way() -> None:
    assert arrow(ATTENTION, "scores", "scaled") == "÷ √d_k"
    assert arrow(ATTENTION, "scores", "masked") == "÷ √d_k, + M"
    assert arrow(ATTENTION, "scores", "weights") == "÷ √d_k, + M, softmax"
    assert arrow(ATTENTION, "weights", "output") == "× V"
    assert arrow(ATTENTION, "weights", "weights") == ""


def test_an_arrow_follows_the_sheet_whatever_is_switched_on() -> None:
    assert (
        arrow(attention_sheet(scaling="number", bias=True), "scores", "weights") == "× c, + B, + M, softmax"
    )
    assert arrow(attention_sheet(scaling="none"), "scores", "scaled") == ""
    assert arrow(attention_sheet(scaling="none", softcap=True), "scores", "masked") == "soft cap, + M"


@each_sheet
def test_an_arrow_of_two_stages_is_that_of_each_one_after_the_other(sheet: Sheet) -> None:
    first, second = arrow(sheet, "scores", "scaled"), arrow(sheet, "scaled", "masked")
    assert arrow(sheet, "scores", "masked") == ", ".join(filter(None, (first, second)))


def test_a_number_can_stand_on_an_arrow_instead_of_its_symbol() -> None:
    assert arrow(ATTENTION, "scores", "masked", divisor="√2") == "÷ √2, + M"


@pytest.mark.parametrize(("since", "name"), [("output", "scores"), ("k", "weights"), ("nothing", "weights")])
def test_an_arrow_between_lines_that_do_not_follow_is_refused(since: str, name: str) -> None:
    with pytest.raises(KeyError):
        arrow(ATTENTION, since, name)


def test_a_symbol_in_plain_text_keeps_what_stands_below_and_above() -> None:
    assert [plain(mark(*pieces)) for pieces in (("Q",), ("W", "Q"), ("√d", "k"), ("σ", "1", "2"))] == [
        "Q", "W_Q", "√d_k", "σ_1²"
    ]  # fmt: skip


def test_the_cost_of_each_stage_counts_operations_and_bytes() -> None:
    """Counted one by one for n = 7, d_k = 3, d_v = 2: the two large products and the table between them."""
    costs = {c.name: c for c in cost(ATTENTION, SIZES)}
    assert list(costs) == [stage.name for stage in ATTENTION.stages]
    assert costs["scores"].operations == 2 * 7 * 7 * 3
    assert costs["scores"].bytes_read == 8 * (7 * 3 + 3 * 7)
    assert costs["scores"].bytes_written == 8 * 7 * 7
    assert costs["scores"].bytes == 8 * (42 + 49)
    assert costs["masked"].bytes_read == 8 * 49 + 49  # a rule takes one byte an entry
    assert costs["output"].operations == 2 * 7 * 7 * 2
    assert costs["k_t"].operations == 0


def test_the_cost_of_the_table_grows_with_the_square_of_the_length() -> None:
    few, many = (
        sum(c.operations for c in cost(ATTENTION, {**SIZES, "query": n, "key": n})) for n in (64, 128)
    )
    assert many == 4 * few


def test_a_size_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="sizes has no d_v, key"):
        cost(ATTENTION, {"query": 7, "d_k": 3})


def test_an_unknown_scaling_is_refused() -> None:
    with pytest.raises(ValueError, match="sqrt, number, none, not 'half'"):
        attention_sheet(scaling="half")  # type: ignore[arg-type]


def test_the_same_choice_is_the_same_sheet() -> None:
    assert attention_sheet() is attention_sheet() is ATTENTION
    assert attention_sheet(from_x=True) is PROJECTED


def test_a_sheet_can_be_written_in_a_few_lines() -> None:
    a = Given("a", "a", (("a", ""),), "A", ("row", "column"), "A number.", "Nothing.", 1)
    b = Stage("b", "b", (("b", ""),), "B", ADD, ("a", "a"), ("row", "column"), "Twice a.", "Nothing.", 1)
    values = run(Sheet((a,), (b,)), {"a": [[1, 2]]})
    assert values["b"].tolist() == [[2, 4]]
    assert work(Sheet((a,), (b,)), values, "b", 0, 1).text == "2 + 2 = 4"


def test_both_ways_in_give_the_same_numbers() -> None:
    given = made_up(PROJECTED)
    traced = attention_from_x(*(given[name] for name in ("x", "w_q", "w_k", "w_v")), mask=given["mask"])
    again = attention(traced.q, traced.k, traced.v, mask=given["mask"])
    for name in ("scores", "weights", "lse", "output"):
        np.testing.assert_array_equal(getattr(traced, name), getattr(again, name))

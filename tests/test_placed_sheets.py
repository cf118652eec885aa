"""The sheet of positions: the same tokens twice, checked against the formulas of each kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.numbers import show
from attention_core.placed_sheets import KINDS, PAIRINGS, Placed, inverse, placed_twice
from attention_core.positions import BASE, alibi_slopes, exponents, position_column, rope, sinusoids
from attention_core.rows import taken_rows
from attention_core.sheet import cost, reads, run, work

RNG = np.random.default_rng(11)
N, D_MODEL, D_K, D_V, MOVED, HEADS = 5, 3, 4, 2, 6, 6
ORDER = (2, 0, 1, 4, 3)
CASES = [(kind, order) for kind in KINDS for order in (None, ORDER)]
each_case = pytest.mark.parametrize(("kind", "order"), CASES)
GIVEN: dict[str, Any] = {
    "x": RNG.normal(size=(N, D_MODEL)), "w_q": RNG.normal(size=(D_MODEL, D_K)),
    "w_k": RNG.normal(size=(D_MODEL, D_K)), "w_v": RNG.normal(size=(D_MODEL, D_V)),
    "mask": np.ones((N, N), dtype=bool), "divisor": np.sqrt(D_K),
    "positions": position_column(N), "base": BASE, "position_shift": float(MOVED),
    "places": RNG.normal(size=(N + MOVED, D_MODEL)),
    "slope_exponents": -np.log2(alibi_slopes(HEADS))[None], "two": 2.0,
}  # fmt: skip


def placed(kind: str, order: tuple[int, ...] | None = None, **more: Any) -> Placed:
    head = {"head": 5} if kind == "alibi" else {}
    moved = MOVED if kind == "learned" and order is None else 0
    return Placed(kind, N, D_MODEL, D_K, order, moved=moved, **head, **more)  # type: ignore[arg-type]


def worked(kind: str, order: tuple[int, ...] | None = None, **more: Any) -> dict[str, np.ndarray]:
    sheet = placed_twice(placed(kind, order, **more))
    width = D_MODEL if kind == "sinusoids" else D_K
    given = {**GIVEN, "exponents": exponents(width), **more.pop("given", {})}
    return run(sheet, {line.name: given[line.name] for line in sheet.given})


def by_hand(kind: str, x: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """What the softmax is made from, and the output, from the formulas of the papers."""
    if kind == "sinusoids":
        x = x + sinusoids(N + shift, D_MODEL)[shift:]
    if kind == "learned":
        x = x + GIVEN["places"][shift : shift + N]
    q, k, v = (x @ GIVEN[name] for name in ("w_q", "w_k", "w_v"))
    if kind in PAIRINGS:
        q, k = (rope(a, np.arange(N) + shift, pairing=PAIRINGS[kind]) for a in (q, k))
    scores = q @ k.T
    logits = scores / np.sqrt(D_K)
    if kind == "alibi":
        apart = np.array([[abs(i - j) for j in range(N)] for i in range(N)])
        logits = scores = logits - alibi_slopes(HEADS)[4] * apart
    powers = np.exp(logits)
    return scores, powers / powers.sum(axis=1, keepdims=True) @ v


@each_case
def test_both_runs_are_what_the_formulas_give(kind, order):
    values = worked(kind, order)
    line = "biased" if kind == "alibi" else "scores"
    scores, output = by_hand(kind, GIVEN["x"], 0)
    np.testing.assert_allclose(values[line], scores, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(values["output"], output, rtol=1e-10, atol=1e-12)
    x = GIVEN["x"] if order is None else GIVEN["x"][list(order)]
    scores, output = by_hand(kind, x, MOVED if order is None else 0)
    np.testing.assert_allclose(values.get(f"{line}_b", values[line]), scores, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(values.get("output_b", values["output"]), output, rtol=1e-10, atol=1e-12)


def test_a_move_changes_the_scores_of_absolute_positions_only():
    left = {kind: np.abs(worked(kind)["difference"]).max() for kind in KINDS}
    assert left["none"] == left["alibi"] == 0
    assert left["rope-interleaved"] < 1e-13 and left["rope-half"] < 1e-13
    assert left["sinusoids"] > 0.1 and left["learned"] > 0.1


@pytest.mark.parametrize("kind", PAIRINGS)
def test_two_pairings_in_one_product_are_no_longer_about_distance(kind):
    assert np.abs(worked(kind, mixed=True)["difference"]).max() > 0.1


def test_tokens_that_change_places_take_their_output_along_unless_something_tells_places_apart():
    left = {kind: np.abs(worked(kind, ORDER)["difference"]).max() for kind in KINDS}
    assert left.pop("none") < 1e-14
    assert min(left.values()) > 1e-3
    sheet = placed_twice(placed("none", ORDER))
    causal = run(
        sheet, {line.name: {**GIVEN, "mask": np.tri(N, dtype=bool)}[line.name] for line in sheet.given}
    )
    assert np.abs(causal["difference"]).max() > 1e-3


def test_reversed_tokens_keep_their_distances_which_is_all_that_alibi_knows():
    assert np.abs(worked("alibi", tuple(range(N))[::-1])["difference"]).max() < 1e-14


def test_what_does_not_follow_from_the_move_is_not_worked_out_again():
    again = {
        kind: [s.name for s in placed_twice(placed(kind)).stages if s.name.endswith("_b")] for kind in KINDS
    }
    assert again["none"] == []
    assert "q_b" not in again["rope-half"] and "turned_q_b" in again["rope-half"]
    assert "scores_b" not in again["alibi"] and "alibi_b" in again["alibi"]
    assert {"table_b", "placed_b", "q_b", "v_b"} <= set(again["learned"])


@each_case
def test_names_titles_and_symbols_differ_and_every_line_is_described(kind, order):
    sheet = placed_twice(placed(kind, order))
    for what in ("name", "title", "symbol", "mark"):
        found = [getattr(line, what) for line in sheet]
        assert len(set(found)) == len(found), (what, found)
    for line in sheet:
        assert line.step == 0 and line.meaning.endswith(".") and line.look.endswith(".")
        assert line.symbol.count("{") == line.symbol.count("}")


@each_case
def test_every_axis_has_one_length(kind, order):
    sheet, values, sizes = placed_twice(placed(kind, order)), worked(kind, order), {}
    for line in sheet:
        for axis, size in zip(line.axes, values[line.name].shape, strict=True):
            assert sizes.setdefault(axis, size) == size, (line.name, axis)
    assert {line.name: line.bytes_written for line in cost(sheet, sizes)} == {
        stage.name: values[stage.name].nbytes for stage in sheet.stages
    }


@each_case
def test_the_work_of_every_cell_ends_in_what_it_shows(kind, order):
    sheet, values = placed_twice(placed(kind, order)), worked(kind, order)
    for stage in sheet.stages:
        for i, j in np.ndindex(values[stage.name].shape):
            assert work(sheet, values, stage.name, i, j).text.endswith(show(float(values[stage.name][i, j])))


@each_case
def test_the_exported_program_gives_the_same_numbers(kind, order):
    sheet, values = placed_twice(placed(kind, order)), worked(kind, order)
    scope: dict[str, Any] = {"print": lambda *_: None}
    exec(to_numpy(sheet, values), scope)
    for line in sheet:
        np.testing.assert_allclose(scope[line.name], values[line.name], rtol=1e-12, atol=1e-12)
    compile(to_torch(sheet, values), "<torch>", "exec")
    latex = to_latex(sheet, values)
    assert latex.count("{") == latex.count("}")


def test_rows_taken_in_an_order_come_from_there_and_go_back():
    a = RNG.normal(size=(N, 2))
    np.testing.assert_array_equal(taken_rows(ORDER).compute(a), a[list(ORDER)])
    np.testing.assert_array_equal(taken_rows(inverse(ORDER)).compute(a[list(ORDER)]), a)
    assert taken_rows(ORDER).reads == ("rows 2 0 1 4 3",)
    sheet, values = placed_twice(placed("none", ORDER)), worked("none", ORDER)
    assert reads(sheet, "x_b") == [("x", "rows 2 0 1 4 3")]
    assert work(sheet, values, "x_b", 0, 1).text == f"row 3, column 2 of X: {show(GIVEN['x'][2, 1])}"
    with pytest.raises(ValueError):
        taken_rows((0, 5)).compute(a)


def test_what_does_not_fit_is_refused_by_name():
    with pytest.raises(ValueError, match="kind is one of none, sinusoids, learned"):
        Placed("rope", N, D_MODEL, D_K)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not name every row of 5 once"):
        Placed("none", N, D_MODEL, D_K, (0, 0, 1, 2, 3))
    with pytest.raises(ValueError, match="whole pairs"):
        placed_twice(Placed("rope-half", N, D_MODEL, 3))

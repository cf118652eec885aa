from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given as over_all
from hypothesis import strategies as st

from attention_core.position_sheets import (
    alibi_lines,
    angle_lines,
    distance_lines,
    learned_position_sheet,
    rope_sheet,
    sinusoid_sheet,
    turned_stage,
)
from attention_core.positions import (
    alibi_slopes,
    exponents,
    learned_rows,
    position_column,
    rope,
    sinusoids,
)
from attention_core.sheet import Given, Sheet, Stage, reads, run, work
from attention_core.sheets import attention_sheet

pytestmark = pytest.mark.filterwarnings("error")

N = 7
RNG = np.random.default_rng(17)
each_pairing = pytest.mark.parametrize("pairing", ["interleaved", "half"])
each_layout = pytest.mark.parametrize("layout", ["interleaved", "concatenated"])


def alibi_sheet(*, shift: bool = False) -> Sheet:
    """Attention with a slope, as a head has it."""
    plain = attention_sheet()
    far, (*before, distance) = distance_lines(shift=shift)
    slope, (penalty, biased) = alibi_lines()
    lines: list[Stage] = []
    for stage in plain.stages:
        lines += [*before, distance, penalty, biased] if stage.name == "masked" else []
        lines.append(
            Stage(**{**vars(stage), "inputs": ("biased", "mask")}) if stage.name == "masked" else stage
        )
    return Sheet((*plain.given, *far, *slope), tuple(lines))


SHEETS = {
    **{
        f"sinusoids-{dim}-{layout}{'-shift' * shift}": (sinusoid_sheet(dim, layout=layout, shift=shift), dim)
        for dim in (5, 6)
        for layout in ("interleaved", "concatenated")
        for shift in (False, True)
    },
    "learned": (learned_position_sheet(), 5),
    **{
        f"rope-{pairing}-{width}-{rotary}{'-shift' * shift}": (
            rope_sheet(width, pairing=pairing, rotary_dim=rotary, shift=shift),
            width,
        )
        for pairing in ("interleaved", "half")
        for width, rotary in ((6, 0), (8, 4), (5, 4))
        for shift in (False, True)
    },
    "alibi": (alibi_sheet(), 4),
    "alibi-shift": (alibi_sheet(shift=True), 4),
}
each_sheet = pytest.mark.parametrize(
    ("name", "sheet", "width"), [(n, *s) for n, s in SHEETS.items()], ids=SHEETS
)


def sizes(name: str, width: int) -> dict[str, int]:
    turned = int(name.split("-")[3]) if name.startswith("rope") else 0
    pairs = ((turned or width) + 1) // 2
    return {
        "token": N,
        "query": N,
        "key": N,
        "d_model": width,
        "d_k": width,
        "d_v": 2,
        "pair": pairs,
        "one": 1,
    }


def made_up(name: str, sheet: Sheet, width: int) -> dict[str, Any]:
    rng = np.random.default_rng(18)
    every = sizes(name, width)
    given: dict[str, Any] = {
        line.name: rng.normal(size=tuple(every[axis] for axis in line.axes)) for line in sheet.given
    }
    numbers = {
        "positions": position_column(N),
        "position_shift": 3.0,
        "base": 100.0,
        "exponents": exponents(2 * every["pair"]),
        "divisor": 2.0,
        "slope": 0.25,
        "mask": np.tril(np.ones((N, N), dtype=bool)),
    }
    return given | {key: value for key, value in numbers.items() if key in given}


def test_sinusoids_are_those_of_the_paper() -> None:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos of the same."""
    table = sinusoids(9, 6)
    for pos, column in np.ndindex(9, 6):
        angle = pos / 10000 ** (2 * (column // 2) / 6)
        want = math.sin(angle) if column % 2 == 0 else math.cos(angle)
        assert table[pos, column] == pytest.approx(want, rel=1e-13, abs=1e-15)
    assert table[0].tolist() == [0, 1, 0, 1, 0, 1]


def test_concatenated_sinusoids_are_the_same_columns_in_another_order() -> None:
    inter, side = sinusoids(9, 6, base=50.0), sinusoids(9, 6, "concatenated", 50.0)
    np.testing.assert_array_equal(side, inter[:, [0, 2, 4, 1, 3, 5]])


@each_layout
def test_an_odd_width_holds_one_sine_more(layout: Any) -> None:
    table = sinusoids(9, 5, layout)
    sines = [0, 2, 4] if layout == "interleaved" else [0, 1, 2]
    cosines = [1, 3] if layout == "interleaved" else [3, 4]
    for pair, column in enumerate(sines):
        np.testing.assert_allclose(table[:, column], np.sin(np.arange(9) / 10000 ** (2 * pair / 5)))
    for pair, column in enumerate(cosines):
        np.testing.assert_allclose(table[:, column], np.cos(np.arange(9) / 10000 ** (2 * pair / 5)))
    assert sinusoids(3, 1, layout)[:, 0] == pytest.approx(np.sin([0, 1, 2]))


@over_all(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_the_dot_product_of_two_sinusoid_rows_depends_on_their_distance_alone(p: int, q: int, c: int) -> None:
    table = sinusoids(81, 8)
    assert table[p] @ table[q] == pytest.approx(table[p + c] @ table[q + c], abs=1e-9)


@pytest.mark.parametrize("rotary", [0, 4])
@each_pairing
def test_rope_turns_every_pair_like_a_complex_number(pairing: Any, rotary: int) -> None:
    """(a + bi) · e^(iθ), Su et al. 2021, with θ = p · base^(−2k / width)."""
    x, positions = RNG.normal(size=(N, 8)), RNG.integers(0, 90, size=N)
    got = rope(x, positions, 50.0, pairing, rotary)
    width = rotary or 8
    for i, p in enumerate(positions.tolist()):
        for k in range(width // 2):
            a, b = (2 * k, 2 * k + 1) if pairing == "interleaved" else (k, k + width // 2)
            turned = complex(x[i, a], x[i, b]) * cmath.exp(1j * p * 50.0 ** (-2 * k / width))
            assert got[i, a] == pytest.approx(turned.real, rel=1e-10, abs=1e-12)
            assert got[i, b] == pytest.approx(turned.imag, rel=1e-10, abs=1e-12)
        np.testing.assert_array_equal(got[i, width:], x[i, width:])


@each_pairing
def test_rope_makes_scores_depend_on_distances_alone(pairing: Any) -> None:
    q, k = RNG.normal(size=(2, N, 6))
    where = np.arange(N)
    scores = rope(q, where, pairing=pairing) @ rope(k, where, pairing=pairing).T
    shifted = rope(q, where + 11, pairing=pairing) @ rope(k, where + 11, pairing=pairing).T
    np.testing.assert_allclose(shifted, scores, rtol=1e-9, atol=1e-11)
    assert np.abs(rope(q, where + 11, pairing=pairing) - rope(q, where, pairing=pairing)).max() > 0.5


def test_the_two_pairings_are_the_same_turn_of_columns_in_another_order() -> None:
    x, where = RNG.normal(size=(N, 6)), np.arange(N)
    order = [0, 2, 4, 1, 3, 5]
    half = rope(x[:, order], where, pairing="half")
    np.testing.assert_allclose(half, rope(x, where)[:, order], rtol=1e-13)


@each_pairing
def test_rope_keeps_lengths_and_position_0(pairing: Any) -> None:
    x = RNG.normal(size=(2, 3, N, 6))
    turned = rope(x, np.arange(N), pairing=pairing)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1))
    np.testing.assert_array_equal(turned[:, :, 0], x[:, :, 0])


def test_positions_may_differ_from_sentence_to_sentence() -> None:
    x, where = RNG.normal(size=(2, 3, N, 6)), RNG.integers(0, 30, size=(2, N))
    together = rope(x, where[:, None], pairing="half", rotary_dim=4)
    for b, h in np.ndindex(2, 3):
        np.testing.assert_allclose(together[b, h], rope(x[b, h], where[b], pairing="half", rotary_dim=4))
    one = rope(x[0, 0], where, rotary_dim=4)  # one matrix, two lists of positions
    assert one.shape == (2, N, 6)


def test_what_cannot_be_turned_is_refused() -> None:
    with pytest.raises(ValueError, match="5 of 5 columns cannot be turned: they have to make whole pairs"):
        rope(np.ones((2, 5)), [0, 1])
    with pytest.raises(ValueError, match="8 of 6 columns cannot be turned"):
        rope(np.ones((2, 6)), [0, 1], rotary_dim=8)
    with pytest.raises(ValueError, match="pairing is interleaved or half, not 'both'"):
        rope(np.ones((2, 6)), [0, 1], pairing="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"positions \(3,\) and x \(2, 6\) differ in the number of tokens"):
        rope(np.ones((2, 6)), [0, 1, 2])
    with pytest.raises(ValueError, match="layout is interleaved or concatenated, not 'both'"):
        sinusoids(3, 4, "both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one head, not 0"):
        alibi_slopes(0)


def test_slopes_of_a_power_of_two_are_the_powers_of_the_first() -> None:
    """Press et al. 2022: for 8 heads 1/2, 1/4, …, 1/256; for 16 the first is 1/√2."""
    np.testing.assert_allclose(alibi_slopes(8), [2.0**-k for k in range(1, 9)])
    np.testing.assert_allclose(alibi_slopes(16), [2 ** (-k / 2) for k in range(1, 17)])
    assert alibi_slopes(1).tolist() == [1 / 256]


@pytest.mark.parametrize("n", [3, 5, 6, 7, 9, 12, 14, 25, 40])
def test_other_slopes_are_those_below_and_every_other_one_above(n: int) -> None:
    below = max(2**k for k in range(7) if 2**k < n)
    fine = alibi_slopes(2 * below).tolist()
    assert alibi_slopes(n).tolist() == [*alibi_slopes(below), *(fine[2 * k] for k in range(n - below))]


def test_alibi_takes_the_slope_times_the_distance_off_the_scores() -> None:
    sheet = alibi_sheet()
    given = made_up("alibi", sheet, 4)
    values = run(sheet, given)
    for i, j in np.ndindex(N, N):
        want = values["scaled"][i, j] - 0.25 * abs(i - j)
        assert values["biased"][i, j] == pytest.approx(want, rel=1e-12)
        if j <= i:  # the figure of the paper: m times −(i − j)
            assert values["alibi"][i, j] == 0.25 * -(i - j)


def test_learned_rows_end_where_the_table_ends() -> None:
    table = RNG.normal(size=(9, 5))
    np.testing.assert_array_equal(learned_rows(table, 7), table[:7])
    np.testing.assert_array_equal(learned_rows(table, 7, 2), table[2:])
    with pytest.raises(ValueError, match="rows for positions 0 to 8, not for 3 to 9"):
        learned_rows(table, 7, 3)
    with pytest.raises(ValueError, match="not for -1 to 5"):
        learned_rows(table, 7, -1)


def test_shifting_all_positions_changes_sinusoids_and_turned_rows_but_no_distance() -> None:
    for name, line, moves in (
        ("sinusoids-6-interleaved-shift", "table", True),
        ("rope-half-6-0-shift", "turned_x", True),
        ("alibi-shift", "distance", False),
        ("alibi-shift", "output", False),
    ):
        sheet, width = SHEETS[name]
        given = made_up(name, sheet, width)
        before, after = (run(sheet, given | {"position_shift": c}) for c in (0.0, 2.0))
        assert bool((np.abs(before[line] - after[line]) > 1e-9).any()) == moves, name


def test_shifting_by_c_is_the_table_c_rows_further_down() -> None:
    sheet, _ = SHEETS["sinusoids-6-interleaved-shift"]
    given = made_up("sinusoids-6-interleaved-shift", sheet, 6)
    values = run(sheet, given | {"position_shift": 4})
    np.testing.assert_allclose(values["table"], sinusoids(N + 4, 6, base=100.0)[4:], atol=1e-14)
    np.testing.assert_allclose(values["placed"], given["x"] + values["table"])
    np.testing.assert_array_equal(position_column(N, 4), position_column(N + 4)[4:])


@each_sheet
def test_every_line_has_the_shape_its_axes_say_and_says_what_it_is(
    name: str, sheet: Sheet, width: int
) -> None:
    values = run(sheet, made_up(name, sheet, width))
    every = sizes(name, width)
    for line in sheet:
        assert values[line.name].shape == tuple(every[axis] for axis in line.axes), line.name
        assert line.meaning.endswith(".") and line.look.endswith(".")
        if isinstance(line, Stage):
            assert len(reads(sheet, line.name)) == len(line.inputs)
            for i, j in np.ndindex(values[line.name].shape):
                assert work(sheet, values, line.name, i, j).latex
    for field in ("name", "symbol", "title", "mark"):
        assert len({getattr(line, field) for line in sheet}) == len(sheet.lines), field


@each_sheet
def test_stacked_matrices_go_through_one_by_one(name: str, sheet: Sheet, width: int) -> None:
    given = made_up(name, sheet, width)
    which, last = ("x" if "x" in given else "q"), sheet.stages[-1].name
    stack = RNG.normal(size=(3, *given[which].shape))
    together = run(sheet, given | {which: stack})[last]
    for b in range(3):
        np.testing.assert_allclose(together[b], run(sheet, given | {which: stack[b]})[last], rtol=1e-12)


def test_queries_and_keys_share_their_angles() -> None:
    givens, stages = angle_lines()
    lines = [Given(n, n, ((n, ""),), n, ("token", "d_k"), "A number.", "Look.", 0) for n in ("q", "k")]
    turned = [turned_stage(line, 6, pairing="half") for line in lines]
    assert [t.name for t in turned] == ["turned_q", "turned_k"]
    assert turned[0].inputs == ("q", "angles")
    sheet = Sheet((*lines, *givens), (*stages, *turned))
    q, k = RNG.normal(size=(2, N, 6))
    values = run(
        sheet,
        {"q": q, "k": k, "positions": position_column(N), "exponents": exponents(6), "base": 10000.0},
    )
    np.testing.assert_allclose(values["turned_k"], rope(k, np.arange(N), pairing="half"), rtol=1e-13)


def test_cells_are_worked_in_steps() -> None:
    sheet = rope_sheet(2)
    given = {"x": [[3, -1], [2, 1]], "positions": [[0], [2]], "exponents": [[0]], "base": 10000}
    values = run(sheet, given)
    assert work(sheet, values, "frequencies", 0, 0).text == "10000^(−0) = 1"
    assert work(sheet, values, "angles", 1, 0).text == "2×1 = 2"
    assert (
        work(sheet, values, "turned_x", 1, 0).text
        == "2 × cos(2) − 1 × sin(2) ≈ 2 × (−0.42) − 1 × 0.91 ≈ −1.74"
    )
    assert work(sheet, values, "turned_x", 0, 1).text == "3 × sin(0) + (−1) × cos(0) = 3 × 0 + (−1) × 1 = −1"
    assert (
        work(
            rope_sheet(3, rotary_dim=2),
            run(rope_sheet(3, rotary_dim=2), given | {"x": [[3, -1, 5]] * 2}),
            "turned_x",
            1,
            2,
        ).text
        == "5 stays 5"
    )

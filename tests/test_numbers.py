from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attention_core.numbers import exact, parse_block, parse_number, show, show_table

finite = st.floats(allow_nan=False, allow_infinity=False)

MEANT = {
    ".5": 0.5,
    "0,5": 0.5,
    ",5": 0.5,
    "5.": 5,
    "-2.25": -2.25,
    "−2": -2,
    "–2": -2,
    "+3": 3,
    " 7 ": 7,
    "\u00a07\ufeff": 7,
    "1e3": 1000,
    "1E+3": 1000,
    "1e-3": 0.001,
    "1e−3": 0.001,
    "1,5e3": 1500,
    "1/3": 1 / 3,
    "1 / 3": 1 / 3,
    "1/-3": -1 / 3,
    "sqrt(2)": math.sqrt(2),
    "SQRT( 2 )": math.sqrt(2),
    "√2": math.sqrt(2),
    "√(1/2)": math.sqrt(0.5),
    "-sqrt(2)/2": -math.sqrt(2) / 2,
    "2*sqrt(3)": 2 * math.sqrt(3),
    "2×√3": 2 * math.sqrt(3),
    "((2))": 2,
    "8/2/2": 2,
    "8/(2/2)": 8,
    "0,125": 0.125,
    "1,0005": 1.0005,
    "1.000": 1,
    "1.125": 1.125,
    "12345": 12345,
    "-0": 0,
    "1e308": 1e308,
    "5e-324": 5e-324,
}

REFUSED = {
    "": "the field is empty",
    " \t ": "the field is empty",
    "abc": "“abc” is not a number",
    "nan": "“nan” is not a number",
    "inf": "“inf” is not a finite number",
    "-Infinity": "“-Infinity” is not a finite number",
    "−∞": "“−∞” is not a finite number",
    "1e999": "1e999 is too large to hold",
    "1e200*1e200": "1e200*1e200 is too large to hold",
    "1e-999": "1e-999 is too close to zero to hold",
    "1e-200/1e200": "1e-200/1e200 is too close to zero to hold",
    "1/0": "1/0 divides by zero",
    "1/-0": "1/-0 divides by zero",
    "sqrt(-2)": "sqrt(-2) takes the root of a negative number",
    "--": "“--” is not a number",
    "--2": "“--2” is not a number",
    "1/": "“1/” is not a number",
    "()": "“()” is not a number",
    "(2": "“(2” is not a number",
    "2)": "“2)” is not a number",
    "sqrt": "“sqrt” is not a number",
    "sqrt 2": "“sqrt 2” is not a number",
    ".": "“.” is not a number",
    "e3": "“e3” is not a number",
    "0x10": "“0x10” is not a number",
    "1_0": "“1_0” is not a number",
    "1.2.3": "“1.2.3” is not a number",
    "0,5,5": "“0,5,5” is not a number",
    "1 2": "“1 2” is not a number",
    "2**3": "“2**3” is not a number",
    "<b>1</b>": "“<b>1</b>” is not a number",
    "a\nb": "“a b” is not a number",
    "\u0661\u0662": "“\u0661\u0662” has digits other than 0 to 9",
    "\uff11\uff12": "“\uff11\uff12” has digits other than 0 to 9",
    "1,000": "“1,000” could mean 1.000 or 1000: write one of these",
    "-1,500": "“1,500” could mean 1.500 or 1500: write one of these",
    "1,000/2": "“1,000” could mean 1.000 or 1000: write one of these",
    "1,234e3": "“1,234” could mean 1.234 or 1234: write one of these",
    "1,000.5": "“1,000.5” has thousands separators: write 1000.5",
    "1.000,5": "“1.000,5” has thousands separators: write 1000.5",
    "1 000": "“1 000” has thousands separators: write 1000",
    "1\u202f000,5": "“1 000,5” has thousands separators: write 1000.5",
    "1'000": "“1'000” has thousands separators: write 1000",
    "12.345.678": "“12.345.678” has thousands separators: write 12345678",
    "1" * 65: "“11111111111111111111111…” is longer than 64 characters",
}


@pytest.mark.parametrize("text", MEANT)
def test_a_number_means_what_a_reader_means_by_it(text: str) -> None:
    assert parse_number(text) == MEANT[text]


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused_with_a_short_sentence(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_number(text)
    assert str(refused.value) == REFUSED[text]


@given(st.text(max_size=80) | st.text("0123456789.,eE+-−*/()√ sqrt'\u00a0", max_size=70))
@example("(" * 64)
@example("√" * 63 + "2")
def test_any_text_is_a_finite_number_or_a_sentence(text: str) -> None:
    value, sentence = 0.0, "read"
    try:
        value = parse_number(text)
    except ValueError as refused:
        sentence = str(refused)
    assert math.isfinite(value)
    assert 0 < len(sentence) < 160
    assert "\n" not in sentence


@given(finite)
@example(5e-324)
@example(1e16)
@example(1e-6)
@example(123456789012345.6)
def test_the_exact_text_reads_back_as_the_same_float(value: float) -> None:
    text = exact(value)
    assert parse_number(text) == value
    assert text.isascii()
    assert len(text) <= 25


@given(st.floats(min_value=1e-6, max_value=1e15, exclude_max=True))
def test_the_exact_text_of_an_ordinary_number_has_no_exponent(value: float) -> None:
    assert "e" not in exact(value)


def test_the_exact_text_is_the_shortest() -> None:
    values = [0.1, -3, 1e300, 1 / 3, -0.0, 100_000, 0.70710678]
    assert [exact(value) for value in values] == [
        "0.1", "-3", "1e300", "0.3333333333333333", "0", "100000", "0.70710678",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_cannot_be_entered_has_no_exact_text(value: float) -> None:
    with pytest.raises(ValueError, match="cannot be written as a number"):
        exact(value)


SHOWN = [
    (0, "0"), (-0.0, "0"), (2, "2"), (-3, "−3"), (99_999, "99999"), (True, "1"),
    (0.5, "0.50"), (1 / 3, "0.33"), (-0.707, "−0.71"), (-2.25, "−2.25"), (0.999, "1.00"),
    (0.004, "0.00"), (-0.004, "0.00"), (5e-324, "0.00"), (-1e-300, "0.00"), (-0.006, "−0.01"),
    (999.994, "999.99"), (999.996, "1000.0"), (1234.56, "1234.6"), (-12345.67, "−12345.7"),
    (99_999.94, "99999.9"), (99_999.96, "1e5"), (100_000, "1e5"), (123_456, "1.2e5"),
    (1e9, "1e9"), (-2.5e7, "−2.5e7"), (9.96e9, "1e10"), (1e300, "1e300"), (-1.7e308, "−1.7e308"),
    (math.inf, "∞"), (-math.inf, "−∞"), (math.nan, "not a number"),
    (0.1 + 0.2 + 0.7, "1"), (1 - 1e-16, "1"), (1 - 1e-9, "1.00"), (1e-13, "0.00"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_a_number_is_shown_shortly_and_with_a_real_minus(value: float, text: str) -> None:
    assert show(value) == text


@given(st.floats())
def test_every_float_is_shown_in_at_most_eight_characters(value: float) -> None:
    text = show(value)
    assert text == "not a number" if math.isnan(value) else 1 <= len(text) <= 8
    assert "-" not in text
    assert "+" not in text
    assert text not in ("−0", "−0.00")


@given(st.floats(-1e300, 1e300))
def test_what_is_shown_is_near_the_number(value: float) -> None:
    shown = parse_number(show(value))
    assert abs(shown - value) <= max(0.05 * abs(value) if abs(value) >= 99_999 else 0.0, 0.0501)
    assert abs(value) >= 999.99 or abs(shown - value) <= 0.00501


@given(st.floats(-1e6, 1e6))
def test_a_number_and_its_opposite_differ_in_the_sign_only(value: float) -> None:
    assert show(value).removeprefix("−") == show(-value).removeprefix("−")


def test_a_table_shows_every_cell_like_one_number() -> None:
    values = np.array([[1.5, -np.inf, 0.0], [np.nan, -0.001, 3.0]])
    assert show_table(values) == [["1.50", "−∞", "0"], ["not a number", "0.00", "3"]]
    assert show_table([[True, False]]) == [["1", "0"]]
    assert show_table(np.zeros((0, 3))) == []
    with pytest.raises(ValueError, match="two axes"):
        show_table(np.zeros(3))


def test_a_table_of_16_by_16_takes_well_under_a_millisecond() -> None:
    values = np.random.default_rng(0).normal(size=(16, 16))
    times = []
    for _ in range(20):
        start = time.perf_counter()
        show_table(values)
        times.append(time.perf_counter() - start)
    assert min(times) < 1e-3


BLOCKS = {
    "1\t2\r\n3\t4\r\n": [["1", "2"], ["3", "4"]],
    "1\t\t3\n\t\t\n": [["1", "", "3"], ["", "", ""]],
    "1 000\t0,5": [["1 000", "0,5"]],
    '"0,5"\t"a\nb"\t"say ""1"""': [["0,5", "a\nb", 'say "1"']],
    "1\n\n2\n": [["1"], [""], ["2"]],
    "5": [["5"]],
    "1;2\n3;4": [["1", "2"], ["3", "4"]],
    "0,5;1,5": [["0,5", "1,5"]],
    "1  2 3\n 4 5": [["1", "2", "3"], ["4", "5"]],
    "0,5": [["0,5"]],
    "1,2": [["1,2"]],
    "0,5 1,5": [["0,5", "1,5"]],
    "0,5, 1,5": [["0,5", "1,5"]],
    "1,2,3": [["1", "2", "3"]],
    "1, 2": [["1", "2"]],
    "0.5,1.5,2\n1,2,3": [["0.5", "1.5", "2"], ["1", "2", "3"]],
    "0.5,1\n1,2": [["0.5", "1"], ["1", "2"]],
    "1/3 sqrt(2) / 2": [["1/3", "sqrt(2)/2"]],
    "1,000.5": [["1,000.5"]],
    "1 000": [["1\u00a0000"]],
    "[[1, 2], [3, 4]]": [["1", "2"], ["3", "4"]],
    "[[ 1.  -2.5]\n [ 3.   4. ]]": [["1.", "-2.5"], ["3.", "4."]],
    "[[0.5, 1],\n [2, 3]]": [["0.5", "1"], ["2", "3"]],
}


@pytest.mark.parametrize("text", BLOCKS)
def test_a_pasted_block_falls_into_its_cells(text: str) -> None:
    assert parse_block(text) == BLOCKS[text]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the block is empty"),
        ("\n\t \n", "the block is empty"),
        ("[]", "the block is empty"),
        ("1\t" * 64 + "1", "the block is 1 × 65, and at most 64 × 64 can be pasted"),
        ("1\n" * 65, "the block is 65 × 1, and at most 64 × 64 can be pasted"),
        ("1" * 100_001, "the block is longer than 100,000 characters"),
    ],
)
def test_a_block_that_cannot_be_pasted_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_block(text)
    assert str(refused.value) == sentence


@given(st.lists(st.lists(finite, min_size=3, max_size=3), min_size=1, max_size=5), st.sampled_from("\t; "))
def test_exact_numbers_come_back_from_a_pasted_block(rows: list[list[float]], separator: str) -> None:
    text = "\n".join(separator.join(exact(value) for value in row) for row in rows)
    assert [[parse_number(cell) for cell in row] for row in parse_block(text)] == rows


@given(st.lists(st.lists(finite, min_size=3, max_size=3), min_size=2, max_size=4))
def test_a_matrix_as_numpy_or_json_prints_it_can_be_pasted(rows: list[list[float]]) -> None:
    for text in (str(rows), np.array2string(np.array(rows), floatmode="unique", max_line_width=1000)):
        assert [[parse_number(cell) for cell in row] for row in parse_block(text)] == rows


@given(st.text(max_size=200) | st.text('0123456789.,; \t\n"[]', max_size=200))
def test_any_text_is_a_block_or_a_sentence(text: str) -> None:
    rows, sentence = [["0"]], "read"
    try:
        rows = parse_block(text)
    except ValueError as refused:
        sentence = str(refused)
    assert 0 < len(sentence) < 160
    assert 1 <= len(rows) <= 64
    assert all(1 <= len(row) <= 64 for row in rows)

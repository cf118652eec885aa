"""Numbers in a link: they come back to the last digit, or not at all."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_ui import bits

NAMES = ("x", "w_q", "w_k", "w_v", "q", "k", "v")

finite = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0)
decimals = st.decimals(-999, 999, places=3).map(lambda value: float(value) + 0.0)
ratios = st.builds(lambda p, q: p / q + 0.0, st.integers(-500, 500), st.integers(1, 255))
cells = st.dictionaries(
    st.tuples(st.integers(0, 15), st.integers(0, 15)),
    st.one_of(finite, decimals, ratios),
    min_size=1,
    max_size=30,
)


@given(st.dictionaries(st.sampled_from(NAMES), cells))
def test_every_number_comes_back_to_the_last_digit(matrices):
    assert bits.unpack(bits.pack(matrices, NAMES), NAMES) == matrices


def test_no_edits_need_no_letters():
    assert bits.pack({}, NAMES) == "" and bits.unpack("", NAMES) == {}


@given(st.dictionaries(st.sampled_from(NAMES), cells, min_size=1), st.data())
def test_a_changed_or_shortened_code_is_refused(matrices, data):
    code = bits.pack(matrices, NAMES)
    at = data.draw(st.integers(1, len(code) - 1))
    other = data.draw(st.sampled_from([c for c in "ABCxyz019-_" if c != code[at]]))
    for damaged in (code[:at], code[:at] + other + code[at + 1 :]):
        try:
            found = bits.unpack(damaged, NAMES)
        except ValueError:
            continue
        # the last letter carries spare bits that say nothing
        assert at == len(code) - 1 and damaged != code[:at] and found == matrices


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_reason(text):
    try:
        found = bits.unpack(text, NAMES)
    except ValueError as reason:
        assert str(reason).startswith("it ")
    else:
        assert all(math.isfinite(value) for matrix in found.values() for value in matrix.values())


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("2abc", "another version"),
        ("1", "damaged"),
        ("1%%%%", "damaged"),
        ("1" + "A" * 30_000, "too long"),
        ("<script>", "another version"),
        ("1é", "damaged"),
    ],
)
def test_a_code_that_is_not_ours_says_why(code, reason):
    with pytest.raises(ValueError, match=reason):
        bits.unpack(code, NAMES)


def test_numbers_that_are_not_finite_are_not_packed():
    with pytest.raises(ValueError, match="cannot be put into a link"):
        bits.pack({"q": {(0, 0): math.inf}}, NAMES)


def test_a_box_beyond_the_board_is_not_packed():
    with pytest.raises(ValueError, match="16 rows and columns, not 17 and 1"):
        bits.pack({"q": {(16, 0): 1.0}}, NAMES)

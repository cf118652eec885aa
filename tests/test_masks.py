from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_core.masks import (
    MASKS,
    MaskSpec,
    allowed,
    as_matrix,
    causal,
    chunked,
    drawn,
    joined,
    padding,
    prefix,
    segments,
    why,
    window,
)

SIZES = [(4, 4), (3, 7), (7, 3), (1, 5), (5, 1), (1, 1)]

aligned = st.sampled_from(["start", "end"])
lengths = st.integers(0, 256)
grids = st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(
    lambda size: st.lists(
        st.lists(st.booleans(), min_size=size[1], max_size=size[1]), min_size=size[0], max_size=size[0]
    )
)
single = st.one_of(
    st.just(MaskSpec("none")),
    st.builds(MaskSpec, st.just("causal"), align=aligned),
    st.builds(MaskSpec, st.just("window"), left=st.integers(0, 16), right=st.integers(0, 16), align=aligned),
    st.builds(MaskSpec, st.just("padding"), length=lengths, side=st.sampled_from(["left", "right"])),
    st.builds(MaskSpec, st.just("prefix"), length=lengths, align=aligned),
    grids.map(lambda rows: drawn(np.array(rows, dtype=bool))),
)
specs = single | st.builds(joined, single, st.sampled_from(["and", "or"]), single)


def table(rule: Callable[[int, int], bool], n_q: int, n_k: int) -> list[list[bool]]:
    """The rule asked for every pair, one at a time."""
    return [[rule(i, j) for j in range(n_k)] for i in range(n_q)]


# the arrays ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_q", "n_k"), SIZES)
@pytest.mark.parametrize("offset", [-3, 0, 2])
def test_causal_means_that_key_j_is_seen_when_j_is_at_most_i_plus_the_offset(n_q, n_k, offset) -> None:
    assert causal(n_q, n_k, offset=offset).tolist() == table(lambda i, j: j <= i + offset, n_q, n_k)


@pytest.mark.parametrize(("n_q", "n_k"), SIZES)
@pytest.mark.parametrize(
    ("left", "right", "offset"), [(2, 0, 0), (0, 0, 1), (1, 3, -2), (None, 1, 2), (2, None, 0)]
)
def test_a_window_counts_keys_beside_the_token_itself(n_q, n_k, left, right, offset) -> None:
    def seen(i: int, j: int) -> bool:
        return (left is None or j >= i + offset - left) and (right is None or j <= i + offset + right)

    allow = window(n_q, n_k, left=left, right=right, offset=offset)
    assert allow.tolist() == table(seen, n_q, n_k)


def test_a_window_without_limits_sees_everything_and_one_to_the_left_only_is_causal() -> None:
    assert window(3, 7).all()
    assert np.array_equal(window(3, 7, right=0, offset=4), causal(3, 7, offset=4))


@pytest.mark.parametrize(("n_q", "n_k"), SIZES)
def test_chunks_keep_to_themselves(n_q, n_k) -> None:
    expected = table(lambda i, j: (i - 1) // 3 == j // 3, n_q, n_k)
    assert chunked(n_q, n_k, size=3, offset=-1).tolist() == expected


def test_a_prefix_is_seen_by_everyone_and_joins_causal_by_or() -> None:
    assert prefix(5, 2).tolist() == [[True, True, False, False, False]]
    assert prefix(3, [0, 3]).tolist() == [[[False] * 3], [[True] * 3]]
    expected = table(lambda i, j: j <= i or j < 2, 5, 5)
    assert (causal(5) | prefix(5, 2)).tolist() == expected


def test_padding_stands_on_one_side_and_has_one_row_a_sequence() -> None:
    assert padding(2, 4).tolist() == [[True, True, False, False]]
    assert padding(2, 4, side="left").tolist() == [[False, False, True, True]]
    both = causal(4) & padding([3, 4], 4)
    assert both.shape == (2, 4, 4)
    assert both[0].tolist() == table(lambda i, j: j <= i and j < 3, 4, 4)
    assert padding(np.array([[1], [2]]), 4).shape == (2, 1, 1, 4)


def test_packed_documents_see_themselves_only() -> None:
    ids, other = [0, 0, 1, 1, 1], [1, 0]
    assert segments(ids).tolist() == table(lambda i, j: ids[i] == ids[j], 5, 5)
    assert segments(ids, other).tolist() == table(lambda i, j: ids[i] == other[j], 5, 2)
    assert segments([ids, ids], [other, other]).shape == (2, 5, 2)


def test_on_paper_a_mask_is_zero_or_minus_infinity() -> None:
    assert as_matrix(causal(2)).tolist() == [[0.0, -np.inf], [0.0, 0.0]]
    with pytest.raises(ValueError, match="boolean"):
        as_matrix(np.zeros((2, 2)))


def test_all_masks_are_boolean_arrays_that_combine() -> None:
    masks = [
        causal(4), window(4, left=1), chunked(4, size=2), prefix(4, 2), padding(2, 4), segments([0, 0, 1, 1]),
    ]  # fmt: skip
    for one, other in itertools.product(masks, masks):
        assert (one & other).dtype == np.bool_
        assert np.broadcast_shapes((one | other).shape, (4, 4)) == (4, 4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: causal(-1), "n_q must be a whole number, 0 or more, not -1"),
        (lambda: causal(2, 1.5), "n_k must be a whole number, 0 or more, not 1.5"),
        (lambda: causal(True), "n_q must be a whole number"),
        (lambda: causal(2, offset=0.5), "offset must be a whole number, not 0.5"),
        (lambda: window(2, left=-1), "left must be a whole number"),
        (lambda: window(2, right=1.0), "right must be a whole number"),
        (lambda: chunked(2, size=0), "size must be at least 1"),
        (lambda: prefix(3, 4), "length must lie between 0 and n_k = 3, not 4"),
        (lambda: padding([1, 5], 4), r"lengths must lie between 0 and n_k = 4, not \[1, 5\]"),
        (lambda: padding(1.0, 4), "lengths must be whole numbers"),
        (lambda: padding(1, 4, side="top"), "side must be left or right, not 'top'"),
        (lambda: segments(1), "one id a position"),
    ],
)
def test_wrong_arguments_are_refused_by_name(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


# what a reader can choose ----------------------------------------------------------------------


def test_the_kinds_stand_in_reading_order() -> None:
    assert list(MASKS) == ["none", "causal", "window", "padding", "prefix", "custom"]
    assert MASKS["none"].title == "None (encoder)"


RULES: dict[str, Callable[[int, int, int, int], bool]] = {
    "none": lambda i, j, n_q, n_k: True,
    "causal": lambda i, j, n_q, n_k: j <= i,
    "causal-end": lambda i, j, n_q, n_k: j <= i + n_k - n_q,
    "window-2-1": lambda i, j, n_q, n_k: i - 2 <= j <= i + 1,
    "window-0-0-end": lambda i, j, n_q, n_k: j == i + n_k - n_q,
    "padding-2": lambda i, j, n_q, n_k: j < 2,
    "padding-2-left": lambda i, j, n_q, n_k: j >= n_k - 2,
    "padding-0": lambda i, j, n_q, n_k: False,
    "prefix-2": lambda i, j, n_q, n_k: j < 2 or j <= i,
    "prefix-2-end": lambda i, j, n_q, n_k: j < 2 or j <= i + n_k - n_q,
    "causal.and.padding-2-left": lambda i, j, n_q, n_k: j <= i and j >= n_k - 2,
    "window-0-0.or.padding-1": lambda i, j, n_q, n_k: j in (i, 0),
}


@pytest.mark.parametrize(("n_q", "n_k"), SIZES)
@pytest.mark.parametrize("text", RULES)
def test_a_chosen_mask_follows_its_rule_at_every_size(text: str, n_q: int, n_k: int) -> None:
    expected = table(lambda i, j: RULES[text](i, j, n_q, n_k), n_q, n_k)
    assert allowed(MaskSpec.from_text(text), n_q, n_k).tolist() == expected


def test_with_the_ends_aligned_a_single_new_query_sees_the_whole_cache() -> None:
    assert allowed(MaskSpec("causal", align="end"), 1, 5).all()
    assert allowed(MaskSpec("causal"), 1, 5).tolist() == [[True, False, False, False, False]]
    # bottom-right with more queries than keys: the first rows see nothing
    assert allowed(MaskSpec("causal", align="end"), 5, 2).sum(axis=1).tolist() == [0, 0, 0, 1, 2]


def test_a_drawing_keeps_its_overlapping_block_and_new_cells_may_look() -> None:
    spec = drawn(np.array([[True, False, False], [False, True, False]]))
    assert allowed(spec, 2, 3).tolist() == [[True, False, False], [False, True, False]]
    assert allowed(spec, 1, 2).tolist() == [[True, False]]
    assert allowed(spec, 3, 4).tolist() == [
        [True, False, False, True], [False, True, False, True], [True, True, True, True],
    ]  # fmt: skip


def test_parameters_that_a_kind_does_not_have_make_no_difference() -> None:
    assert MaskSpec("none", align="end", left=7, side="left") == MaskSpec("none")
    assert hash(MaskSpec("causal", length=9)) == hash(MaskSpec("causal"))
    assert MaskSpec("causal", align="end") != MaskSpec("causal")


@given(specs)
def test_a_mask_comes_back_from_its_text(spec: MaskSpec) -> None:
    text = spec.to_text()
    assert MaskSpec.from_text(text) == spec
    assert hash(MaskSpec.from_text(text)) == hash(spec)
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", text)


def test_two_drawings_of_the_largest_size_fit_in_a_text() -> None:
    rng = np.random.default_rng(0)
    spec = joined(drawn(rng.random((64, 64)) < 0.5), "or", drawn(rng.random((64, 63)) < 0.5))
    assert len(spec.to_text()) <= 2_000
    assert MaskSpec.from_text(spec.to_text()) == spec


@pytest.mark.parametrize(
    "text",
    [
        "", "full", "Causal", "causal-", "causal-start", "causal-middle", "causal-end-end", "causal ",
        "none-1",
        "window", "window-2", "window-2-17", "window--1-0", "window-02-0", "window-2-0-up", "window-²-0",
        "padding", "padding-257", "padding-3-top", "padding-3-right", "prefix-x",
        "custom", "custom-", "custom-2x2", "custom-0x0-AA", "custom-2x2-", "custom-2x2-A", "custom-2x2-AAAA",
        "custom-2x2-_w", "custom-65x1-AAAAAAAAAAAA", "custom-2x2-g=", "custom-2x2-\u0416\u0416",
        "causal.and", "causal.xor.none", "causal.and.none.or.none", ".and.", "causal..none",
        "<script>", "causal\n", "c" * 2_001, "causal%2Dend", "\ud800",
    ],
)  # fmt: skip
def test_any_other_text_is_refused_with_a_plain_sentence(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        MaskSpec.from_text(text)
    sentence = str(refused.value)
    assert sentence.endswith(" is not a mask") or sentence == "the mask is longer than 2,000 characters"
    assert len(sentence) < 80
    assert "\n" not in sentence


@given(specs, st.integers(0, 400), st.characters())
def test_a_damaged_text_is_another_mask_or_a_sentence(spec: MaskSpec, at: int, character: str) -> None:
    text = spec.to_text()
    at %= len(text)
    damaged = text[:at] + character + text[at + 1 :]
    written = damaged
    try:
        written = MaskSpec.from_text(damaged).to_text()
    except ValueError as refused:
        assert str(refused).endswith("is not a mask")
    assert written == damaged


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: MaskSpec("full"), "the mask must be one of none, causal"),
        (lambda: MaskSpec("causal", align="middle"), "align must be start or end, not 'middle'"),
        (lambda: MaskSpec("window", left=17), "left must be a whole number from 0 to 16, not 17"),
        (lambda: MaskSpec("padding", length=True), "length must be a whole number"),
        (lambda: MaskSpec("padding", side="top"), "side must be right or left"),
        (lambda: MaskSpec("custom"), "rows must be a grid"),
        (lambda: MaskSpec("custom", rows=((True,), (True, False))), "rows must be a grid"),
        (lambda: MaskSpec("none", join="and"), "neither join nor second"),
        (lambda: joined(MaskSpec("none"), "xor", MaskSpec("none")), "two masks are joined by"),
        (
            lambda: joined(MaskSpec("none"), "and", joined(MaskSpec("none"), "or", MaskSpec("causal"))),
            "at most two masks",
        ),
        (
            lambda: joined(joined(MaskSpec("none"), "or", MaskSpec("causal")), "and", MaskSpec("none")),
            "at most two masks",
        ),
        (lambda: drawn(np.ones((2, 2))), "booleans"),
        (lambda: drawn(np.ones((65, 2), dtype=bool)), "1 × 1 to 64 × 64"),
        (lambda: why(MaskSpec("none"), 3, 0, 3, 3), "query 3 and key 0 are not within"),
    ],
)
def test_a_wrong_choice_is_refused_by_name(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


# in words ---------------------------------------------------------------------------------------


@given(specs, st.sampled_from(SIZES))
def test_every_mask_has_a_title_a_sentence_and_a_reason_for_every_cell(spec, size) -> None:
    n_q, n_k = size
    assert 3 < len(spec.title(n_q, n_k)) < 100
    assert spec.describe(n_q, n_k).endswith(".")
    assert ".." not in spec.describe(n_q, n_k)
    for i, j in itertools.product(range(n_q), range(n_k)):
        clause = why(spec, i, j, n_q, n_k)
        assert clause
        assert not clause.endswith(".")


def test_the_alignment_is_named_when_there_are_more_of_one() -> None:
    first, last = MaskSpec("causal"), MaskSpec("causal", align="end")
    assert first.title(4, 4) == last.title(4, 4) == "Causal"
    assert first.title(2, 5) == "Causal, starts aligned"
    assert last.title(2, 5) == "Causal, ends aligned"
    assert first.describe(4, 4) == "A query sees the key at its own place and the keys before it."
    assert last.describe(2, 5).endswith(", with the last query beside the last key.")
    assert MaskSpec("padding", length=3).title(2, 5) == "Padding"


REASONS = [
    ("none", 0, 3, "nothing is blocked without a mask"),
    ("causal", 1, 3, "key 4 lies after query 2"),
    ("causal", 3, 0, "key 1 lies before query 4"),
    ("causal", 2, 2, "key 3 stands at the place of query 3 itself"),
    ("padding-4", 0, 4, "key 5 is padding"),
    ("padding-4", 0, 3, "key 4 is a real token"),
    ("window-2-0", 3, 0, "key 1 is more than 2 to the left of query 4"),
    ("window-2-0", 3, 1, "key 2 is at most 2 to the left of query 4"),
    ("window-2-0", 3, 4, "key 5 lies after query 4"),
    ("window-0-1", 3, 2, "key 3 lies before query 4"),
    ("window-0-1", 1, 4, "key 5 is more than 1 to the right of query 2"),
    ("prefix-2", 0, 1, "key 2 is inside the prefix of 2"),
    ("prefix-2", 2, 3, "key 4 lies after query 3 and outside the prefix of 2"),
    ("prefix-2", 4, 3, "key 4 lies before query 5"),
    ("causal.and.padding-4", 1, 4, "key 5 lies after query 2 and key 5 is padding"),
    ("causal.and.padding-4", 4, 4, "key 5 is padding"),
    ("causal.and.padding-4", 4, 0, "key 1 lies before query 5 and key 1 is a real token"),
    ("causal.or.prefix-2", 0, 1, "key 2 is inside the prefix of 2"),
    (
        "causal.or.window-0-1",
        0,
        3,
        "key 4 lies after query 1 and key 4 is more than 1 to the right of query 1",
    ),
]


@pytest.mark.parametrize(("text", "i", "j", "clause"), REASONS)
def test_a_reason_says_what_decides_the_cell(text: str, i: int, j: int, clause: str) -> None:
    assert why(MaskSpec.from_text(text), i, j, 5, 5) == clause


def test_a_reason_says_where_a_query_stands_when_the_ends_are_aligned() -> None:
    last = MaskSpec("causal", align="end")
    assert why(last, 0, 4, 2, 5) == "key 5 lies after query 1, which stands at position 4"
    assert why(last, 0, 0, 5, 2) == "key 1 lies after query 1, which stands before the first key"


def test_a_reason_speaks_of_the_drawing_and_of_what_lies_beyond_it() -> None:
    spec = drawn(np.array([[True, False]]))
    assert why(spec, 0, 0, 2, 3) == "the drawing lets query 1 look at key 1"
    assert why(spec, 0, 1, 2, 3) == "the drawing does not let query 1 look at key 2"
    assert why(spec, 1, 0, 2, 3) == "the cell lies beyond the drawing, where everything may look"

"""What changes from one mask to another is said in words that the numbers bear out."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_core.attention import attention
from attention_core.masks import MASKS, MaskSpec, allowed, drawn, joined
from attention_core.numbers import show
from attention_ui.comparison import difference, row_sentences, summary
from attention_ui.naming import reasons

TOKENS = ("the", "cat", "the", "<s>", "قطة", "␣", "on")
KINDS = tuple(MaskSpec(kind) if kind != "custom" else drawn(np.eye(5, dtype=bool)) for kind in MASKS)


def traces(spec_a, spec_b, n_q=4, n_k=4, d_v=3, seed=0):
    random = np.random.default_rng(seed)
    q, k, v = random.normal(size=(n_q, 2)), random.normal(size=(n_k, 2)), random.normal(size=(n_k, d_v))
    return tuple(attention(q, k, v, mask=allowed(spec, n_q, n_k)) for spec in (spec_a, spec_b))


def sentences(spec_a, spec_b, a, b, tokens=TOKENS):
    n_q, n_k = a.mask.shape
    return row_sentences({"query": tokens[:n_q], "key": tokens[:n_k]}, spec_a, spec_b, a, b)


def drawings(n_q, n_k):
    rows = st.lists(st.lists(st.booleans(), min_size=n_k, max_size=n_k), min_size=n_q, max_size=n_q)
    return rows.map(lambda cells: drawn(np.array(cells)))


def compared(*rows, scores=None, v=None):
    """The only sentence for one query, scores given directly, under the two rows of a drawn mask."""
    specs = [drawn(np.array([row], dtype=bool)) for row in rows]
    n_k = len(rows[0])
    scores = np.zeros(n_k) if scores is None else np.array(scores, dtype=float)
    v = np.eye(n_k) if v is None else np.array(v, dtype=float)
    a, b = (attention(np.ones((1, 1)), scores[:, None], v, mask=allowed(spec, 1, n_k)) for spec in specs)
    return sentences(*specs, a, b)[0]


# one sentence of every kind -------------------------------------------------------------------


def test_keys_gained_are_named_with_the_reason_and_what_they_take():
    a, b = MaskSpec("causal"), MaskSpec("none")
    trace_a, trace_b = traces(a, b)
    second = sentences(a, b, trace_a, trace_b, ("the", "cat", "sat", "down"))[1]
    taken = show(trace_b.weights[1, 2:].sum())
    assert second.startswith(
        "Query 2, cat: may now also look at 3 sat and 4 down. "
        "A blocked them: keys 3 and 4 lie after query 2. "
        f"They take {taken} of its attention, most of it from "
    )


def test_keys_lost_give_their_share_to_the_keys_that_stay():
    sentence = compared([1, 1, 1], [1, 1, 0], scores=[2, 0, 1])
    assert sentence.startswith(
        "Query 1, the: may no longer look at 3 the. "
        "B blocks it: the drawing does not let query 1 look at key 3. "
        "It held 0.24 of its attention, most of which now goes to 1 the (0.67 → 0.88)."
    )


def test_keys_gained_and_lost_together():
    sentence = compared([1, 1, 0], [0, 1, 1])
    assert "may now look at 3 the, and no longer at 1 the." in sentence
    assert (
        "The new key takes 0.50 of its attention and the old one held 0.50; 2 cat: 0.50, as before."
        in sentence
    )


def test_when_no_key_stays_it_says_where_the_attention_goes_now():
    assert "All of its attention now goes to 2 cat." in compared([1, 0, 0], [0, 1, 0])


def test_equal_shares_are_called_equal():
    assert "as much from each of 1 the and 2 cat (0.50 → 0.33 each)." in compared([1, 1, 0], [1, 1, 1])
    assert "which now goes in equal parts to 1 the and 2 cat (0.33 → 0.50 each)." in compared(
        [1, 1, 1], [1, 1, 0]
    )


def test_the_largest_part_is_not_called_most_when_it_is_less_than_half():
    assert "the largest part of it from 1 the" in compared([1, 1, 1, 0], [1, 1, 1, 1], scores=[0.1, 0, 0, 0])


def test_a_query_that_could_look_nowhere_before():
    sentence = compared([0, 0], [1, 1], scores=[2, 0])
    assert "could look nowhere under A, so its weights and its output were 0; now it may look at" in sentence
    assert "Most of its attention now goes to 1 the (0.88)." in sentence


def test_a_query_that_may_look_nowhere_now():
    sentence = compared([1, 1], [0, 0], scores=[2, 0])
    assert "may look nowhere under B, so its weights and its output are 0; it could look at" in sentence
    assert "Most of its attention went to 1 the (0.88)." in sentence
    assert "0.88 → 0." in sentence


def test_a_query_that_may_look_nowhere_under_either_mask():
    assert compared([0, 0], [0, 0]) == (
        "Query 1, the: nothing changes; "
        "it may look nowhere under either mask, so its weights and its output are 0."
    )


def test_a_key_too_far_below_the_others_takes_nothing():
    sentence = compared([1, 0], [1, 1], scores=[0, -2000])
    assert "It takes none of its attention, so the other weights stay as they are." in sentence
    assert "Its output stays the same." in sentence


def test_a_share_too_small_to_show_is_not_called_zero():
    assert "It takes less than 0.01 of its attention" in compared([1, 0], [1, 1], scores=[0, -7])


def test_equal_values_leave_the_output_as_it_is():
    assert compared([1, 0], [1, 1], v=[[3.0, 1.0]] * 2).endswith("Its output stays the same.")


def test_scores_too_large_for_a_weight_are_said_to_be():
    assert compared([1, 0], [1, 1], scores=[0, np.inf]).endswith("too large for the weights to have a value.")


def test_keys_with_different_reasons_are_explained_apart():
    a, b = joined(MaskSpec("causal"), "and", MaskSpec("padding", length=3)), MaskSpec("none")
    first = sentences(a, b, *traces(a, b, 2, 6))[0]
    assert (
        "A blocked them: keys 2 and 3 lie after query 1; keys 4, 5 and 6 lie after query 1 and are padding."
        in first
    )


def test_a_long_run_of_keys_is_named_by_its_ends():
    a, b = MaskSpec("causal"), MaskSpec("none")
    assert (
        "may now also look at 2 cat to 7 on. A blocked them: keys 2 to 7 lie after query 1."
        in sentences(a, b, *traces(a, b, 2, 7))[0]
    )


# what holds for all ---------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 4), (2, 5), (5, 2), (1, 1)])
@pytest.mark.parametrize("spec_a", KINDS, ids=lambda spec: spec.kind)
@pytest.mark.parametrize("spec_b", KINDS, ids=lambda spec: spec.kind)
def test_every_pair_of_masks_has_a_sentence_a_row(spec_a, spec_b, shape):
    a, b = traces(spec_a, spec_b, *shape)
    rows = sentences(spec_a, spec_b, a, b)
    assert len(rows) == shape[0]
    for i, row in enumerate(rows):
        assert row.startswith(f"Query {i + 1}, ")
        assert row.endswith(".")
        assert "nan" not in row.lower()
        assert "key #" not in row
        assert ("nothing changes" in row) == np.array_equal(a.mask[i], b.mask[i])


@settings(max_examples=150)
@given(drawings(3, 5), drawings(3, 5), st.integers(0, 99))
def test_what_is_stated_is_what_the_numbers_say(spec_a, spec_b, seed):
    a, b = traces(spec_a, spec_b, 3, 5, seed=seed)
    for i, row in enumerate(sentences(spec_a, spec_b, a, b, ("t",) * 5)):
        new, lost = b.mask[i] & ~a.mask[i], a.mask[i] & ~b.mask[i]
        assert ("nothing changes" in row) == (not new.any() and not lost.any())
        for verb, share in (("takes?", b.weights[i][new].sum()), ("held", a.weights[i][lost].sum())):
            for stated in re.findall(rf"{verb} ([0-9.]+|none|all|less than 0.01)(?: of|;)", row):
                assert stated.removeprefix("less than ") in (show(share), "0.01", "none", "all")
                assert (stated == "none") == (share == 0)
                assert (stated == "all") == (show(share) == "1")
                assert (stated == "less than 0.01") == (0 < share < 0.005)
        for key, before, after in re.findall(r"(\d) t \(([0-9.]+) → ([0-9.]+)", row):
            assert before == show(a.weights[i, int(key) - 1])
            assert after == show(b.weights[i, int(key) - 1])
        if column := re.search(r"in column (\d): (\S+) → (\S+)\.$", row):
            c = int(column[1]) - 1
            assert column[2] == show(a.output[i, c])
            assert column[3] == show(b.output[i, c])
            assert abs(b.output[i, c] - a.output[i, c]) == np.abs(b.output[i] - a.output[i]).max()


@settings(max_examples=100)
@given(drawings(3, 5), drawings(3, 5), st.integers(0, 99))
def test_most_means_more_than_half(spec_a, spec_b, seed):
    a, b = traces(spec_a, spec_b, 3, 5, seed=seed)
    for i, row in enumerate(sentences(spec_a, spec_b, a, b, ("t",) * 5)):
        kept = a.mask[i] & b.mask[i]
        moved = np.abs(b.weights[i] - a.weights[i]) * kept
        if found := re.search(r"(all|most|the largest part) of (?:it from|which now goes to) (\d) t", row):
            share = moved[int(found[2]) - 1] / moved.sum()
            assert share == moved.max() / moved.sum()
            assert {"all": share == 1, "most": 0.5 < share < 1, "the largest part": share <= 0.5}[found[1]]


def test_keys_that_both_masks_allow_keep_their_proportions():
    spec_a, spec_b = MaskSpec("causal"), MaskSpec("window", left=1, right=2)
    a, b = traces(spec_a, spec_b, 6, 6)
    for i in range(6):
        kept = a.mask[i] & b.mask[i]
        np.testing.assert_allclose(
            a.weights[i][kept] / a.weights[i][kept].sum(),
            b.weights[i][kept] / b.weights[i][kept].sum(),
            rtol=1e-12,
        )


# difference and summary -----------------------------------------------------------------------


def test_the_difference_is_b_minus_a_and_read_only():
    a, b = traces(MaskSpec("causal"), MaskSpec("none"), 4, 5)
    change = difference(a, b)
    assert np.array_equal(change.weights, b.weights - a.weights)
    assert np.array_equal(change.output, b.output - a.output)
    assert not change.weights.flags.writeable
    assert not change.output.flags.writeable


def test_the_weights_of_a_row_change_by_zero_in_all():
    a, b = traces(MaskSpec("causal"), MaskSpec("none"), 4, 5)
    np.testing.assert_allclose(difference(a, b).weights.sum(axis=1), 0, atol=1e-15)


def test_other_numbers_are_refused():
    spec = MaskSpec("causal")
    a, b = traces(spec, spec)[0], traces(spec, spec, seed=1)[0]
    with pytest.raises(ValueError, match=r"only the masks may differ, but scaled \(4, 4\)"):
        difference(a, b)
    with pytest.raises(ValueError, match="only the masks may differ"):
        sentences(spec, spec, a, b)
    with pytest.raises(ValueError, match="only the masks may differ"):
        summary(spec, spec, a, b)


def test_the_summary_names_both_masks_and_counts_the_rows():
    a, b = MaskSpec("causal"), MaskSpec("none")
    text = summary(a, b, *traces(a, b))
    assert text.startswith("A: causal. ")
    assert " B: none (encoder). " in text
    assert "3 of 4 rows change;" in text


def test_the_summary_names_the_alignment_when_there_are_more_keys_than_queries():
    a, b = MaskSpec("causal"), MaskSpec("causal", align="end")
    text = summary(a, b, *traces(a, b, 2, 5))
    assert "A: causal, starts aligned." in text
    assert "B: causal, ends aligned." in text
    assert "2 of 2 rows change;" in text


def test_different_kinds_that_allow_the_same_cells_change_nothing():
    a, b = MaskSpec("none"), MaskSpec("padding", length=4)
    both = traces(a, b)
    assert summary(a, b, *both).endswith("At this size both allow the same cells, so nothing changes.")
    assert all(
        row.endswith("nothing changes; both masks let it look at the same keys.")
        for row in sentences(a, b, *both)
    )


def test_a_key_that_two_masks_block_is_named_once():
    """Joined masks give two reasons for the same keys."""
    drawing = MaskSpec.from_text("custom-2x5-xgA.and.causal")
    said = reasons(drawing, 0, np.array([2, 3, 4]), 2, 5)
    assert said == "the drawing does not let query 1 look at keys 3, 4 and 5, and they lie after query 1"
    assert reasons(drawing, 0, np.array([2]), 2, 5).endswith("look at key 3, and it lies after query 1")

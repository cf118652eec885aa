"""Learned numbers and operations of attention and the feed-forward network, counted from the shapes."""

from __future__ import annotations

import pytest

from attention_core.counted import attention, network, overtakes


def test_attention_has_four_squares_of_the_width():
    assert attention(7, 6).parameters == attention(3, 6, 2).parameters == 4 * 36


def test_a_network_four_times_as_wide_has_twice_as_many():
    assert network("relu", 5, 6, 24).parameters == 2 * attention(5, 6).parameters == 2 * 6 * 24
    assert network("swiglu", 5, 6, 24).parameters == 3 * 6 * 24


def test_gpt_2s_smallest_block_holds_seven_million_learned_numbers():
    """768 wide, 3,072 hidden units: 12 · 768² weights in a block, biases and norms left out."""
    both = attention(1, 768, 12).parameters + network("gelu_tanh", 1, 768, 3072).parameters
    assert both == 12 * 768**2 == 7_077_888


def test_the_operations_are_those_of_the_formulas():
    n, d, wide, heads = 9, 6, 24, 3
    assert network("relu", n, d, wide).operations == 2 * 2 * n * d * wide + n * wide
    products = 4 * 2 * n * d * d + 2 * 2 * n * n * d
    tables = heads * n * n * 7  # divided, masked, and five for softmax
    assert attention(n, d, heads).operations == products + tables


def test_operations_of_the_network_grow_with_the_tokens_and_those_of_attention_with_their_square():
    assert network("gelu", 20, 6, 24).operations == 2 * network("gelu", 10, 6, 24).operations
    one, two, four = (attention(n, 6).operations for n in (10, 20, 40))
    assert four - 2 * two == 4 * (two - 2 * one)


@pytest.mark.parametrize("kind", ["relu", "gelu_tanh", "swiglu"])
def test_attention_takes_more_from_the_number_of_tokens_that_is_said(kind):
    n = overtakes(kind, 768, 3072, 12)
    assert attention(n, 768, 12).operations > network(kind, n, 768, 3072).operations
    assert attention(n - 1, 768, 12).operations <= network(kind, n - 1, 768, 3072).operations


def test_where_one_token_is_enough_the_answer_is_one():
    assert overtakes("relu", 8, 1) == 1


def test_a_width_that_cannot_be_shared_out_is_refused():
    with pytest.raises(ValueError, match="7 columns cannot be shared out among 2 heads"):
        attention(3, 7, 2)

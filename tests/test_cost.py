"""Operations, bytes and least times, counted from shapes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_core.accelerators import ACCELERATORS, NUMBERS, own
from attention_core.cost import (
    TABLE,
    TITLES,
    Layer,
    attention_costs,
    bound,
    decode,
    intensity,
    prefill,
    seconds,
    sheet_costs,
    square_rules,
    table_bytes,
    total,
)
from attention_core.head_sheets import heads_sheet
from attention_core.model_cost import cache_bytes, step_costs, timeline, tokens_that_fit, weight_bytes
from attention_core.models import MODELS, Model
from attention_core.sheet import Cost
from attention_core.sheet import cost as counted
from attention_core.sheets import ATTENTION

LAYER = Layer(d_model=10, n_heads=6, n_kv_heads=2, d_head=3, batch=5)
SIZES = st.integers(1, 9)


def costs(lines: tuple[Cost, ...]) -> dict[str, Cost]:
    return {line.name: line for line in lines}


def test_the_products_are_counted_one_multiply_add_at_a_time():
    n = 7
    lines = costs(prefill(LAYER, n))
    q = sum(2 for _ in range(5 * n) for _ in range(6 * 3) for _ in range(10))
    k = sum(2 for _ in range(5 * n) for _ in range(2 * 3) for _ in range(10))
    scores = sum(2 for _ in range(5) for _ in range(6) for _ in range(n) for _ in range(n) for _ in range(3))
    assert lines["q"].operations == lines["output"].operations == q
    assert lines["k"].operations == lines["v"].operations == k
    assert lines["scores"].operations == lines["heads"].operations == scores


def test_each_line_reads_its_inputs_once_and_writes_its_result_once():
    lines = costs(prefill(LAYER, 7))
    x, w_q, q = 5 * 7 * 10, 10 * 18, 5 * 7 * 18
    k, table = 5 * 7 * 6, 5 * 6 * 7 * 7
    assert (lines["q"].bytes_read, lines["q"].bytes_written) == (2 * (x + w_q), 2 * q)
    assert (lines["scores"].bytes_read, lines["scores"].bytes_written) == (2 * (q + k), 2 * table)
    assert (lines["weights"].bytes_read, lines["weights"].bytes_written) == (2 * table, 2 * table)
    assert (lines["heads"].bytes_read, lines["heads"].bytes_written) == (2 * (table + k), 2 * q)
    assert table_bytes(LAYER, 7) == 2 * table


def test_the_operations_are_those_of_the_sheet_of_the_same_sizes():
    n, heads, d_k, d_model = 7, 3, 2, 10
    sheet = heads_sheet(heads, d_head=d_k, d_value=d_k)
    sizes = {"token": n, "query": n, "key": n, "d_model": d_model, "d_k": d_k, "d_v": d_k}
    wide = ("n_heads·d_k", "n_kv_heads·d_k", "n_heads·d_v", "n_kv_heads·d_v")
    sizes |= dict.fromkeys(wide, heads * d_k)
    layer = Layer(d_model, heads, heads, d_k)
    assert total(prefill(layer, n)).operations == sum(line.operations for line in counted(sheet, sizes))


def test_tiles_take_the_same_operations_and_never_write_the_table():
    plain, tiled = prefill(LAYER, 700), prefill(LAYER, 700, tile=100)
    assert total(plain).operations == total(tiled).operations
    attention = costs(tiled)["attention"]
    q, k = 5 * 700 * 18, 5 * 700 * 6
    assert attention.bytes_written == 2 * q
    assert attention.bytes_read == 2 * (q + 7 * 2 * k)
    assert costs(prefill(LAYER, 700, tile=99))["attention"].bytes_read == 2 * (q + 8 * 2 * k)
    assert not {"scores", "weights", "heads"} & set(costs(tiled))


def test_a_step_with_a_cache_works_on_one_row_and_reads_all_keys_and_values():
    lines = costs(decode(LAYER, 900))
    one = costs(attention_costs(LAYER, 1, 1))
    for name in ("q", "k", "v", "output"):
        assert lines[name] == one[name]
    cache = 2 * 5 * 2 * 900 * 3 * LAYER.number_bytes
    read = lines["scores"].bytes_read + lines["heads"].bytes_read
    q, table = 2 * 5 * 18, 2 * 5 * 6 * 900
    assert read == cache + q + table


@settings(max_examples=60)
@given(st.integers(1, 40), SIZES, SIZES, SIZES, SIZES, SIZES)
def test_all_steps_of_a_text_together_take_its_products_and_the_lower_triangle_of_its_table(
    n, d_model, groups, shared, d_head, batch
):
    layer = Layer(d_model, groups * shared, groups, d_head, batch)
    at_once = costs(prefill(layer, n))
    steps = [costs(decode(layer, done)) for done in range(1, n + 1)]
    for name in ("q", "k", "v", "output"):
        assert sum(step[name].operations for step in steps) == at_once[name].operations
    for name in TABLE:
        assert sum(step[name].operations for step in steps) * 2 * n == at_once[name].operations * (n + 1)


def test_a_step_is_set_by_memory_and_a_long_prompts_projections_by_arithmetic():
    layer, h100 = Layer(4096, 32, 32, 128), ACCELERATORS["h100"]
    assert {bound(line, h100, "fp16") for line in decode(layer, 2048)} == {"memory"}
    lines = costs(prefill(layer, 2048))
    assert bound(lines["q"], h100, "fp16") == "arithmetic"
    assert bound(lines["weights"], h100, "fp16") == "memory"
    assert bound(costs(prefill(layer, 2048, tile=512))["attention"], h100, "fp16") == "arithmetic"


@pytest.mark.parametrize("tile", [64, 128, 512])
def test_a_key_read_from_memory_serves_a_tile_of_queries_and_so_many_operations_a_byte_are_made(tile):
    """4·d operations on a pair of query and key, 4·d bytes for a key and a value in two bytes each."""
    layer = Layer(64, 1, 1, 64)
    attention = costs(prefill(layer, 1 << 16, tile=tile))["attention"]
    assert intensity(attention) == pytest.approx(tile * (1 + 7 / 256), rel=0.02)


def test_a_step_of_one_sequence_makes_one_operation_per_byte_of_a_weight_in_two_bytes():
    """2 operations for each number of W, which takes 2 bytes; a batch shares the reading."""
    layer = Layer(4096, 32, 32, 128)
    assert intensity(costs(decode(layer, 1))["q"]) == pytest.approx(1, rel=1e-3)
    assert intensity(costs(decode(replace(layer, batch=64), 1))["q"]) == pytest.approx(64, rel=0.05)
    assert intensity(costs(decode(replace(layer, numbers="fp32"), 1))["q"]) == pytest.approx(0.5, rel=1e-3)


def test_sharing_keys_raises_the_intensity_of_a_step_by_the_size_of_the_group():
    many, few = (costs(decode(Layer(4096, 32, heads, 128), 10_000))["scores"] for heads in (32, 4))
    assert many.operations == few.operations
    assert intensity(few) == pytest.approx(8 * intensity(many), rel=0.07)


def test_the_time_is_the_longer_of_arithmetic_and_memory_line_by_line():
    slow = own(half=2, single=1, bandwidth=500, memory=10)
    lines = (Cost("a", 4 * 10**12, 10**9, 0), Cost("b", 10**9, 10**12, 10**12))
    assert seconds(lines[0], slow, "fp16") == 2.0
    assert seconds(lines[0], slow, "fp32") == 4.0
    assert seconds(lines[1], slow, "fp16") == 4.0
    assert seconds(lines, slow, "fp16") == 6.0
    assert intensity(Cost("nothing", 0, 0, 0)) == 0
    assert intensity(Cost("no byte", 1, 0, 0)) == float("inf")


@pytest.mark.parametrize("accelerator", ACCELERATORS.values(), ids=ACCELERATORS)
@pytest.mark.parametrize("numbers", NUMBERS)
def test_the_roof_has_its_corner_where_both_times_are_equal(accelerator, numbers):
    ridge = accelerator.ridge(numbers)
    peak = accelerator.peak(numbers)
    assert accelerator.roof(numbers, ridge) == pytest.approx(peak)
    assert accelerator.roof(numbers, ridge / 2) == pytest.approx(peak / 2)
    assert accelerator.roof(numbers, 10 * ridge) == peak
    size = 10**12
    at_ridge = Cost("line", round(ridge * size), size, 0)
    assert seconds(at_ridge, accelerator, numbers) == pytest.approx(size / (1e9 * accelerator.bandwidth))
    assert accelerator.source and accelerator.date
    assert accelerator.half > accelerator.single


def test_data_sheets_say_what_is_written_here():
    """The A100's: 312 TFLOPS BF16, 19.5 TFLOPS FP32, 2,039 GB/s; the H100's 1,979 are with sparsity."""
    a100, h100 = ACCELERATORS["a100"], ACCELERATORS["h100"]
    assert (a100.peak("fp16"), a100.peak("fp32"), a100.bandwidth) == (312e12, 19.5e12, 2039)
    assert 2 * h100.half == 1979
    assert round(a100.ridge("fp16")) == 153
    assert round(h100.ridge("fp16")) == 295


@pytest.mark.parametrize("of", ["operations", "bytes"])
@pytest.mark.parametrize("layer", [LAYER, Layer(768, 12, 12, 64), Layer(1, 1, 1, 1), Layer(8192, 64, 8, 128)])
def test_the_square_rules_from_the_number_of_tokens_that_is_said(layer, of):
    def inside(n: int) -> bool:
        lines = prefill(layer, n)
        table = sum(getattr(line, of) for line in lines if line.name in TABLE)
        return table > sum(getattr(line, of) for line in lines if line.name not in TABLE)

    n = square_rules(layer, of)
    assert inside(n)
    assert n == 1 or not inside(n - 1)


def test_without_softmax_the_products_of_the_table_would_overtake_at_twice_the_width():
    """8·n·d² against 4·n²·d, and softmax takes 7·n²·heads more."""
    d, heads = 4096, 32
    exact = 8 * d * d / (4 * d + 7 * heads)
    assert square_rules(Layer(d, heads, heads, d // heads)) == int(exact) + 1 < 2 * d


def test_the_table_of_scores_takes_half_a_gigabyte_a_head_at_sixteen_thousand_tokens():
    one = Layer(64, 1, 1, 64)
    assert table_bytes(one, 16_384) == 2 * 16_384**2 == 536_870_912
    assert table_bytes(replace(one, numbers="fp32"), 16_384) == 2 * table_bytes(one, 16_384)
    assert table_bytes(replace(one, batch=3), 32_768) == 12 * table_bytes(one, 16_384)


def test_the_lines_of_a_sheet_are_counted_in_any_type_of_number():
    sizes = {"query": 7, "key": 5, "d_k": 3, "d_v": 2}
    eight = {line.name: line for line in counted(ATTENTION, sizes)}
    for line in sheet_costs(ATTENTION, sizes, numbers="fp32"):
        rule = 35 if line.name == "masked" else 0
        assert line.operations == eight[line.name].operations
        assert 2 * (line.bytes_read - rule) == eight[line.name].bytes_read - rule
        assert 2 * line.bytes_written == eight[line.name].bytes_written


def test_a_batch_reads_learned_matrices_once_and_everything_else_as_often_as_there_are_texts():
    sheet = heads_sheet(1, d_head=3, d_value=2)
    sizes = {"token": 7, "query": 7, "key": 7, "d_model": 5, "d_k": 3, "d_v": 2}
    sizes |= {"n_heads·d_k": 3, "n_kv_heads·d_k": 3, "n_heads·d_v": 2, "n_kv_heads·d_v": 2}
    one, four = (costs(sheet_costs(sheet, sizes, batch=batch)) for batch in (1, 4))
    assert four["q"].operations == 4 * one["q"].operations
    assert one["q"].bytes_read == 2 * (7 * 5 + 5 * 3)
    assert four["q"].bytes_read == 2 * (4 * 7 * 5 + 5 * 3)
    assert four["scores_1"].bytes == 4 * one["scores_1"].bytes


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_sizes_of_a_model_give_the_number_of_learned_numbers_that_was_published(model):
    assert model.learned == model.parameters
    assert model.source


def test_the_cache_of_known_models_takes_what_is_said_of_them():
    """Half a mebibyte a token in Llama 2 7B, an eighth of one in Llama 3 8B, which shares keys by four."""
    assert cache_bytes(MODELS["llama2-7b"], 1) == 2**19
    assert cache_bytes(MODELS["llama3-8b"], 1) == 2**17
    assert cache_bytes(MODELS["llama2-70b"], 4096, batch=3, numbers="fp32") == 3 * 4096 * 80 * 8 * 128 * 2 * 4
    assert cache_bytes(MODELS["gpt2"], 0) == 0


def test_as_many_tokens_fit_as_fill_the_memory():
    model, card = MODELS["llama3-8b"], ACCELERATORS["l4"]
    fit = tokens_that_fit(model, card, batch=3)
    assert fit
    used = weight_bytes(model) + cache_bytes(model, fit, batch=3)
    assert used <= 24e9 < used + cache_bytes(model, 1, batch=3)
    assert tokens_that_fit(MODELS["llama2-70b"], ACCELERATORS["h100"]) is None


def test_a_step_of_a_model_takes_about_two_operations_for_each_weight():
    model = MODELS["llama2-7b"]
    step = total(step_costs(model, 1, 1))
    assert step.operations == pytest.approx(2 * model.step_weights, rel=1e-3)
    assert step.bytes == pytest.approx(2 * model.step_weights, rel=1e-3)
    assert {line.name for line in step_costs(model, 1, 1)} <= set(TITLES)


def test_the_logits_are_made_for_the_last_token_of_a_prompt_only():
    model = MODELS["gpt2"]
    long, short = (costs(step_costs(model, n, n)) for n in (100, 10))
    assert long["logits"] == short["logits"]
    assert long["network"].operations == 10 * short["network"].operations


def test_tokens_become_ready_one_after_the_other_and_each_step_takes_its_own_time():
    model, card = MODELS["mistral-7b"], ACCELERATORS["a100"]
    moments = timeline(model, 1000, 5, card)
    assert len(moments) == 5
    first = seconds(step_costs(model, 1000, 1000), card, "fp16")
    last = seconds(step_costs(model, 1, 1004), card, "fp16")
    assert moments[0] == pytest.approx(first)
    assert moments[4] - moments[3] == pytest.approx(last)
    assert all(a < b for a, b in pairwise(moments))


def test_sizes_that_are_none_are_refused_by_name():
    for name in ("d_model", "n_heads", "n_kv_heads", "d_head", "batch"):
        with pytest.raises(ValueError, match=f"{name} has to be a whole number from 1"):
            replace(LAYER, **{name: 0})
    with pytest.raises(
        ValueError, match="4 heads of keys and values cannot be shared out equally among 6 heads of queries"
    ):
        replace(LAYER, n_kv_heads=4)
    with pytest.raises(ValueError, match="numbers are one of fp32, fp16, not 'fp8'"):
        replace(LAYER, numbers="fp8")
    with pytest.raises(ValueError, match="n_q = 3 new tokens cannot be the last of n_k = 2"):
        attention_costs(LAYER, 3, 2)
    with pytest.raises(ValueError, match="tile"):
        prefill(LAYER, 3, tile=0)
    with pytest.raises(ValueError, match="bandwidth has to be a finite number above 0, not 0"):
        own(1, 1, 0, 1)
    with pytest.raises(ValueError, match="half has to be a finite number above 0, not nan"):
        own(float("nan"), 1, 1, 1)
    with pytest.raises(ValueError, match="sizes has no d_v"):
        sheet_costs(ATTENTION, {"query": 7, "key": 5, "d_k": 3})
    with pytest.raises(ValueError, match="3 heads of keys and values"):
        Model("Mine", 2, 8, 4, 3, 2, 16, False, 10, 10)
    with pytest.raises(ValueError, match="n_layers"):
        Model("Mine", 0, 8, 4, 2, 2, 16, False, 10, 10)
    with pytest.raises(ValueError, match="new is at most"):
        timeline(MODELS["gpt2"], 1, 5000, ACCELERATORS["t4"])
    with pytest.raises(ValueError, match="n has to be"):
        cache_bytes(MODELS["gpt2"], -1)
    with pytest.raises(ValueError, match="of is operations or bytes"):
        square_rules(LAYER, "time")

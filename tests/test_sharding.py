"""One calculation on several devices: parts, what completes them, what is sent, and what a lost part does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_core.attention import attention
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.keys_split_sheet import keys_split_sheet, masks_of_devices
from attention_core.merging import LOG_ADD, PART, merge, merge_all
from attention_core.multi_head import multi_head_attention
from attention_core.numbers import show
from attention_core.rings import ring_all_reduce, ring_attention
from attention_core.sent import (
    all_gather_bytes,
    all_reduce_bytes,
    merge_bytes,
    ring_bytes,
    tensor_parallel_bytes,
)
from attention_core.sharding import column_split, heads_split, keys_split, ranges, row_split
from attention_core.sharding_sheets import column_split_sheet, heads_split_sheet, row_split_sheet
from attention_core.sheet import Sheet, run, work

pytestmark = pytest.mark.filterwarnings("error")

RNG = np.random.default_rng(7)
N, D_MODEL, D_K, D_V = 7, 5, 3, 2
Q, K, V = RNG.normal(size=(4, D_K)), RNG.normal(size=(N, D_K)), RNG.normal(size=(N, D_V))
MASK = RNG.random((4, N)) < 0.6
MASK[2] = False
EXACT = {"rtol": 1e-12, "atol": 1e-13}


def test_things_are_dealt_out_in_order_and_the_first_devices_get_what_is_left():
    assert ranges(7, 3) == (range(3), range(3, 5), range(5, 7))
    assert ranges(4, 4) == tuple(range(i, i + 1) for i in range(4))


@pytest.mark.parametrize("devices", [1, 2, 3, 5])
def test_columns_dealt_out_stand_side_by_side_and_rows_dealt_out_are_added(devices):
    x, w = RNG.normal(size=(2, N, D_MODEL)), RNG.normal(size=(D_MODEL, 6))
    want = np.einsum("bij,jk->bik", x, w)
    by_columns, by_rows = column_split(x, w, devices), row_split(x, w, devices)
    np.testing.assert_allclose(by_columns.output, want, **EXACT)
    np.testing.assert_allclose(by_rows.output, want, **EXACT)
    assert sum(part.shape[-1] for part in by_columns.parts) == 6
    assert all(part.shape == want.shape for part in by_rows.parts)
    for part, rows in zip(by_rows.parts, ranges(D_MODEL, devices), strict=True):
        np.testing.assert_allclose(part, sum(x[..., j, None] * w[j] for j in rows), **EXACT)


def test_a_dropped_partial_sum_lacks_exactly_the_terms_of_its_rows():
    x, w = RNG.normal(size=(N, D_MODEL)), RNG.normal(size=(D_MODEL, 6))
    split = row_split(x, w, 2, dropped=0)
    np.testing.assert_allclose(split.output, x[:, 3:] @ w[3:], **EXACT)


@pytest.mark.parametrize(("heads", "few", "devices"), [(4, 4, 2), (4, 4, 4), (6, 2, 2), (6, 3, 3), (3, 3, 1)])
def test_heads_on_several_devices_add_up_to_multi_head_attention(heads, few, devices):
    x = RNG.normal(size=(N, D_MODEL))
    w_q, w_k = RNG.normal(size=(D_MODEL, heads * D_K)), RNG.normal(size=(D_MODEL, few * D_K))
    w_v, w_o = RNG.normal(size=(D_MODEL, few * D_V)), RNG.normal(size=(heads * D_V, D_MODEL))
    mask = np.tri(N, dtype=bool)
    sizes: dict[str, Any] = {"n_heads": heads, "n_kv_heads": few, "mask": mask}
    whole = multi_head_attention(x, w_q, w_k, w_v, w_o, **sizes)
    split = heads_split(x, w_q, w_k, w_v, w_o, devices=devices, **sizes)
    np.testing.assert_allclose(split.output, whole.output, **EXACT)
    assert [head for device in split.heads for head in device] == list(range(heads))
    for part, mine in zip(split.parts, split.heads, strict=True):
        want = sum(whole.heads.output[head] @ w_o[head * D_V : (head + 1) * D_V] for head in mine)
        np.testing.assert_allclose(part, want, **EXACT)
    if devices > 1:
        lost = heads_split(x, w_q, w_k, w_v, w_o, devices=devices, dropped=1, **sizes)
        np.testing.assert_allclose(lost.output, whole.output - split.parts[1], **EXACT)


def test_merging_two_parts_is_attention_to_the_keys_of_both():
    left, right = attention(Q, K[:3], V[:3]), attention(Q, K[3:], V[3:])
    output, lse = merge(left.output, left.lse, right.output, right.lse)
    whole = attention(Q, K, V)
    np.testing.assert_allclose(output, whole.output, **EXACT)
    np.testing.assert_allclose(lse, whole.lse, **EXACT)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 6), st.floats(0.1, 300))
def test_the_order_of_merging_and_the_sizes_of_the_parts_change_nothing(seed, n, parts, spread):
    rng = np.random.default_rng(seed)
    q, k, v = rng.normal(size=(3, 2)) * spread, rng.normal(size=(n, 2)), rng.normal(size=(n, 4))
    mask = rng.random((3, n)) < 0.7
    cuts = sorted(rng.integers(0, n + 1, size=parts - 1))
    pieces = [
        attention(q, k[a:b], v[a:b], mask=mask[:, a:b]) for a, b in zip([0, *cuts], [*cuts, n], strict=True)
    ]
    pairs = [(piece.output, piece.lse) for piece in pieces]
    rng.shuffle(pairs)
    output, lse = merge_all(pairs)
    whole = attention(q, k, v, mask=mask)
    np.testing.assert_allclose(output, whole.output, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(lse, whole.lse, rtol=1e-9, atol=1e-12)


def test_parts_in_which_a_query_may_look_nowhere_take_no_part_and_two_of_them_give_zeros():
    nothing = (np.zeros((1, D_V)), np.array([-np.inf]))
    some = (np.array([[3.0, -1.0]]), np.array([0.5]))
    for pair in (merge(*nothing, *some), merge(*some, *nothing)):
        np.testing.assert_array_equal(pair[0], some[0])
        np.testing.assert_array_equal(pair[1], some[1])
    output, lse = merge(*nothing, *nothing)
    np.testing.assert_array_equal(output, np.zeros((1, D_V)))
    assert lse[0] == -np.inf


def test_equal_sums_average_the_two_outputs_and_very_large_ones_do_not_overflow():
    a, b = np.array([[1.0, 5.0]]), np.array([[3.0, -1.0]])
    output, lse = merge(a, np.array([900.0]), b, np.array([900.0]))
    np.testing.assert_allclose(output, [[2, 2]])
    np.testing.assert_allclose(lse, 900 + math.log(2))


@pytest.mark.parametrize("devices", [1, 2, 3, 7])
@pytest.mark.parametrize("masked", [False, True])
def test_keys_on_several_devices_give_the_attention_to_all(devices, masked):
    settings_: dict[str, Any] = {"mask": MASK if masked else None, "softcap": 2.0, "scale": 0.7}
    settings_["bias"] = RNG.normal(size=(1, N))
    split, whole = keys_split(Q, K, V, devices=devices, **settings_), attention(Q, K, V, **settings_)
    np.testing.assert_allclose(split.output, whole.output, **EXACT)
    np.testing.assert_allclose(split.lse, whole.lse, **EXACT)
    assert [key for part in split.parts for key in part.keys] == list(range(N))


def test_shared_heads_and_batches_are_split_by_keys_too():
    q, k, v = (
        RNG.normal(size=(3, 4, 6, D_K)),
        RNG.normal(size=(3, 2, N, D_K)),
        RNG.normal(size=(3, 2, N, D_V)),
    )
    split, whole = keys_split(q, k, v, devices=3), attention(q, k, v)
    np.testing.assert_allclose(split.output, whole.output, **EXACT)
    ring_q = RNG.normal(size=(3, 4, N, D_K))
    ring = ring_attention(ring_q, k, v, devices=3)
    np.testing.assert_allclose(ring.output, attention(ring_q, k, v).output, **EXACT)


def test_without_one_devices_keys_the_weights_still_add_up_to_1_and_the_output_is_that_of_the_others():
    lost = keys_split(Q, K, V, devices=3, dropped=1)
    left = [0, 1, 2, 5, 6]
    np.testing.assert_allclose(lost.output, attention(Q, K[left], V[left]).output, **EXACT)
    ones = keys_split(Q, K, np.ones((N, 1)), devices=3, dropped=1)
    np.testing.assert_allclose(ones.output, 1, **EXACT)
    assert np.abs(lost.output - attention(Q, K, V).output).max() > 0.01


@pytest.mark.parametrize("devices", [1, 2, 3, 5])
def test_a_ring_adds_up_all_parts_on_every_device_and_sends_what_the_formula_says(devices):
    parts = [RNG.normal(size=(3, 5)) for _ in range(devices)]
    trace = ring_all_reduce(parts)
    for row in trace.states[-1]:
        np.testing.assert_allclose(row, np.sum(parts, axis=0).reshape(-1), **EXACT)
    np.testing.assert_allclose(trace.output, np.sum(parts, axis=0), **EXACT)
    assert sum(message.bytes() for message in trace.messages) == all_reduce_bytes(15, devices, 8)
    assert len(trace.states) == 2 * (devices - 1) + 1
    assert all(message.receiver == (message.sender + 1) % devices for message in trace.messages)
    gathered = [message for message in trace.messages if not message.adds]
    assert sum(message.bytes() for message in gathered) == all_gather_bytes(15, devices, 8)


def test_half_way_every_device_of_a_ring_has_one_finished_chunk():
    parts = [RNG.normal(size=8) for _ in range(4)]
    trace = ring_all_reduce(parts)
    total, middle = np.sum(parts, axis=0), trace.states[3]
    for device in range(4):
        finished = [
            chunk
            for chunk, r in enumerate(trace.chunks)
            if np.allclose(middle[device, r.start : r.stop], total[r.start : r.stop])
        ]
        assert finished == [(device + 1) % 4]


@pytest.mark.parametrize("devices", [1, 2, 3, 7])
def test_ring_attention_is_attention_and_sends_all_keys_and_values_around(devices):
    q = RNG.normal(size=(N, D_K))
    mask = np.tri(N, dtype=bool)
    ring, whole = ring_attention(q, K, V, devices=devices, mask=mask), attention(q, K, V, mask=mask)
    np.testing.assert_allclose(ring.output, whole.output, **EXACT)
    np.testing.assert_allclose(ring.lse, whole.lse, **EXACT)
    sent = sum(message.bytes() for message in ring.messages)
    assert sent == (devices - 1) * N * (D_K + D_V) * 8
    assert len(ring.steps) == devices**2
    idle = [step for step in ring.steps if step.idle]
    assert len(idle) == devices * (devices - 1) // 2  # what lies after a device's queries
    assert all(step.part.keys.start >= step.queries.stop for step in idle)


def test_every_device_of_a_ring_meets_every_share_of_the_keys_once():
    ring = ring_attention(K, K, V, devices=3)
    for device in range(3):
        assert [step.part.device for step in ring.steps if step.device == device] == [
            (device - step) % 3 for step in range(3)
        ]
    lost = ring_attention(K, K, V, devices=3, dropped=2)
    np.testing.assert_allclose(lost.output, attention(K, K[:5], V[:5]).output, **EXACT)


def test_bytes_of_known_sizes():
    """A layer of 4,096 features and 2,048 tokens on 8 devices, 2 bytes a number."""
    assert all_reduce_bytes(2048 * 4096, 8, 2) == 2 * 7 * 2048 * 4096 * 2
    assert tensor_parallel_bytes(2048, 4096, 8, 2, n_layers=32) == 2 * 32 * all_reduce_bytes(
        2048 * 4096, 8, 2
    )
    assert tensor_parallel_bytes(2048, 4096, 1, 2) == 0
    assert ring_bytes(2048, 8, 128, 8, 2) == 7 * 2 * 2048 * 8 * 128 * 2
    assert ring_bytes(N, 1, D_K, 3, 8) == 2 * 2 * N * D_K * 8
    assert merge_bytes(1, 32, 128, 8, 2, batch=3) == 7 * 3 * 32 * 129 * 2


SHEETS: dict[str, tuple[Sheet, dict[str, int]]] = {}
for _devices in (1, 2, 3):
    _sizes = {"row": N, "inner": D_MODEL, "column": 6}
    SHEETS[f"columns-{_devices}"] = column_split_sheet(6, _devices), _sizes
    for _dropped in (None, *((1, _devices) if _devices > 1 else ())):
        SHEETS[f"rows-{_devices}-{_dropped}"] = row_split_sheet(D_MODEL, _devices, _dropped), _sizes
        SHEETS[f"keys-{_devices}-{_dropped}"] = (
            keys_split_sheet(N, _devices, _dropped),
            {"query": 4, "key": N, "d_k": D_K, "d_v": D_V}
            | {f"key_{i}": len(r) for i, r in enumerate(ranges(N, _devices), 1)},
        )
for _heads, _few, _devices in ((4, 4, 2), (6, 3, 3), (4, 2, 1)):
    SHEETS[f"heads-{_heads}-{_few}-{_devices}"] = (
        heads_split_sheet(_heads, _devices, d_head=D_K, d_value=D_V, n_kv_heads=_few),
        {"token": N, "query": N, "key": N, "d_model": D_MODEL, "d_k": D_K, "d_v": D_V}
        | {"n_heads·d_k": _heads * D_K, "n_kv_heads·d_k": _few * D_K}
        | {"n_heads·d_v": _heads * D_V, "n_kv_heads·d_v": _few * D_V},
    )
each_sheet = pytest.mark.parametrize("name", SHEETS)


def made_up(name: str) -> dict[str, Any]:
    sheet, sizes = SHEETS[name]
    rng = np.random.default_rng(3)
    values: dict[str, Any] = {}
    for line in sheet.given:
        shape = tuple(sizes[axis] for axis in line.axes)
        values[line.name] = rng.random(shape) < 0.6 if line.is_rule else rng.normal(size=shape)
        if line.is_rule:
            values[line.name][2] = False
    return values | {"divisor": math.sqrt(D_K)}


@each_sheet
def test_the_sheet_ends_in_the_numbers_of_the_functions(name):
    sheet, _ = SHEETS[name]
    values = run(sheet, made_up(name))
    kind, *choice = name.split("-")
    dropped = None if choice[-1] == "None" else int(choice[-1]) - 1
    if kind == "columns":
        want = column_split(values["x"], values["w"], int(choice[0])).output
    elif kind == "rows":
        want = row_split(values["x"], values["w"], int(choice[0]), dropped=dropped).output
    elif kind == "keys":
        devices = int(choice[0])
        mask = np.concatenate([values[f"mask_{device}"] for device in range(1, devices + 1)], axis=1)
        want = keys_split(
            values["q"], values["k"], values["v"], devices=devices, mask=mask, dropped=dropped
        ).output
        again = masks_of_devices(mask, N, devices)
        assert all((again[line] == values[line]).all() for line in again)
    else:
        weights = (values[f"w_{letter}"] for letter in "qkvo")
        heads, few, devices = map(int, choice)
        want = heads_split(
            values["x"], *weights, n_heads=heads, n_kv_heads=few, devices=devices, mask=values["mask"]
        ).output
    np.testing.assert_allclose(values["output"], want, **EXACT)


@each_sheet
def test_the_program_gives_the_same_numbers_and_every_line_has_a_name_of_its_own(name):
    sheet, _ = SHEETS[name]
    values = run(sheet, made_up(name))
    program: dict[str, Any] = {}
    exec(to_numpy(sheet, values), program)
    np.testing.assert_allclose(program["output"], values["output"], rtol=0, atol=1e-12)
    compile(to_torch(sheet, values), "torch", "exec")
    assert to_latex(sheet, values)
    for attribute in ("title", "symbol", "name"):
        named = [getattr(line, attribute) for line in sheet]
        assert len(set(named)) == len(named), attribute


@each_sheet
def test_every_cell_is_worked_out_to_the_number_that_is_shown(name):
    sheet, _ = SHEETS[name]
    values = run(sheet, made_up(name))
    for line in sheet.stages:
        value = values[line.name]
        for place in {(0, 0), (2, 0), (value.shape[0] - 1, value.shape[1] - 1)}:
            if place[0] < value.shape[0]:
                assert work(sheet, values, line.name, *place).text.endswith(show(value[place])), line.name


def test_the_arithmetic_of_a_merge_is_written_out():
    a, b = np.array([[0.5], [-np.inf]]), np.array([[1.5], [-np.inf]])
    assert LOG_ADD.work((a, b), 0, 0, show).text == "log(e^(0.50) + e^(1.50)) ≈ 1.81"
    assert LOG_ADD.work((a, b), 1, 0, show).text == "neither part has anything to look at: −∞"
    assert PART.work((a, np.array([[1.0], [-np.inf]])), 0, 0, show).text == "e^(0.50 − (1)) ≈ 0.61"
    assert PART.work((a, b), 1, 0, show).text == "there is nothing to share: 0"


def test_what_does_not_fit_is_refused_with_names_and_shapes():
    with pytest.raises(ValueError, match="2 cannot be dealt out among 3 devices"):
        ranges(2, 3)
    with pytest.raises(ValueError, match="devices has to be a whole number from 1 to 64, not 0"):
        ranges(2, 0)
    with pytest.raises(ValueError, match=r"x \(7, 3\) and w \(2, 4\) do not fit: w needs 3 rows"):
        column_split(np.ones((7, 3)), np.ones((2, 4)), 2)
    with pytest.raises(ValueError, match="dropped has to be None or a device from 0 to 1, not 2"):
        row_split(np.ones((7, 3)), np.ones((3, 4)), 2, dropped=2)
    with pytest.raises(ValueError, match="the only device cannot be dropped"):
        keys_split(Q, K, V, devices=1, dropped=0)
    with pytest.raises(ValueError, match=r"output_a \(4, 2\) and lse_a \(3,\) do not fit"):
        merge(np.ones((4, 2)), np.ones(3), np.ones((4, 2)), np.ones(4))
    with pytest.raises(ValueError, match=r"lse_a \(4,\) and lse_b \(3,\) do not broadcast"):
        merge(np.ones((4, 2)), np.ones(4), np.ones((3, 2)), np.ones(3))
    with pytest.raises(ValueError, match="nothing to merge"):
        merge_all([])
    with pytest.raises(ValueError, match=r"4 heads of queries and 4 of keys .* 3 devices"):
        heads_split(K, *(np.ones((3, 8)),) * 3, np.ones((8, 3)), n_heads=4, devices=3)
    with pytest.raises(ValueError, match=r"the parts need one shape, not \(2,\), \(3,\)"):
        ring_all_reduce([np.ones(2), np.ones(3)])
    with pytest.raises(ValueError, match=r"q \(4, 3\) and k \(7, 3\) do not fit: a ring needs"):
        ring_attention(Q, K, V, devices=2)
    with pytest.raises(ValueError, match=r"a mask or bias \(4, 6\) does not fit 7 keys"):
        keys_split(Q, K, V, devices=2, mask=np.ones((4, 6), dtype=bool))
    for sheet in (row_split_sheet, keys_split_sheet):
        with pytest.raises(
            ValueError, match="dropped has to be None or one of several devices, 1 to 2, not 3"
        ):
            sheet(6, 2, 3)
    with pytest.raises(ValueError, match="3 heads of keys cannot be shared out equally among 2 devices"):
        heads_split_sheet(3, 2, d_head=2, d_value=2)

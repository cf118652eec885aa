from __future__ import annotations

import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attention_core.attention import attention
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.masks import causal, window
from attention_core.numbers import show
from attention_core.sheet import run, work
from attention_core.sheets import SCALINGS
from attention_core.tile_sheet import tile_sheet
from attention_core.tile_steps import flash_steps
from attention_core.tile_traffic import bytes_plain, bytes_tiled
from attention_core.tiles import flash_attention

pytestmark = pytest.mark.filterwarnings("error")

RNG = np.random.default_rng(10)
N_Q, N_K, D_K, D_V = 7, 11, 3, 2
Q, K, V = RNG.normal(size=(N_Q, D_K)), RNG.normal(size=(N_K, D_K)), RNG.normal(size=(N_K, D_V))
RULE = RNG.random((N_Q, N_K)) < 0.5
RULE[2] = False
RULE[:, :4] = False
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mask, one row empty, the first keys blocked": {"mask": RULE},
    "causal": {"mask": causal(N_Q, N_K)},
    "one mask for every query": {"mask": RULE[:1]},
    "bias": {"bias": RNG.normal(size=(N_Q, N_K))},
    "a bias per key": {"bias": RNG.normal(size=N_K)},
    "scale": {"scale": -0.7},
    "softcap": {"softcap": 0.8},
    "all together": {
        "mask": RULE,
        "bias": RNG.normal(size=(N_Q, N_K)),
        "scale": 1.3,
        "softcap": 1.5,
    },
}
with_settings = pytest.mark.parametrize("chosen", SETTINGS.values(), ids=SETTINGS)
BLOCKS = [(1, 1), (2, 3), (3, 4), (7, 11), (64, 64), (1, 64), (64, 1)]  # ragged last tiles among them
with_blocks = pytest.mark.parametrize(("block_q", "block_k"), BLOCKS)


def assert_same(got: tuple[np.ndarray, np.ndarray], q: Any, k: Any, v: Any, **settings: Any) -> None:
    """The output and log-sum-exp of plain attention, to rounding."""
    trace = attention(q, k, v, **settings)
    for one, other in zip(got, (trace.output, trace.lse), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@with_settings
@with_blocks
def test_by_tiles_comes_out_what_plain_attention_gives(
    chosen: dict[str, Any], block_q: int, block_k: int
) -> None:
    got = flash_attention(Q, K, V, block_q=block_q, block_k=block_k, **chosen)
    assert_same(got, Q, K, V, **chosen)


@with_blocks
def test_a_rule_asked_tile_by_tile_is_the_mask_that_it_describes(block_q: int, block_k: int) -> None:
    rules: dict[Any, np.ndarray] = {
        lambda query, key: key <= query: causal(N_Q, N_K),
        lambda query, key: key <= query + 4: causal(N_Q, N_K, offset=4),
        lambda query, key: (query - 2 <= key) & (key <= query): window(N_Q, N_K, left=2, right=0),
        lambda query, key: key < 3: np.broadcast_to(np.arange(N_K) < 3, (N_Q, N_K)),
        lambda query, key: key < 0: np.zeros((N_Q, N_K), dtype=bool),
    }
    for rule, mask in rules.items():
        got = flash_attention(Q, K, V, mask=rule, block_q=block_q, block_k=block_k)
        assert_same(got, Q, K, V, mask=mask)


@pytest.mark.parametrize("shared", [1, 2, 3, 6])
def test_leading_axes_and_shared_heads_are_those_of_attention(shared: int) -> None:
    q, k, v = RNG.normal(size=(2, 6, 5, 3)), RNG.normal(size=(2, shared, 7, 3)), None
    v = RNG.normal(size=(2, shared, 7, 4))
    mask = RNG.random((2, 1, 5, 7)) < 0.6
    bias = RNG.normal(size=(6, 5, 7))
    got = flash_attention(q, k, v, mask=mask, bias=bias, block_q=2, block_k=3)
    assert_same(got, q, k, v, mask=mask, bias=bias)


def test_axes_that_only_one_of_them_has_are_broadcast() -> None:
    for q, k, v, mask in (
        (Q, K, V, RNG.random((4, N_Q, N_K)) < 0.7),
        (Q, K, RNG.normal(size=(4, N_K, D_V)), RULE),
        (RNG.normal(size=(4, 1, N_Q, D_K)), RNG.normal(size=(5, N_K, D_K)), V, RULE),
    ):
        assert_same(flash_attention(q, k, v, mask=mask, block_q=2, block_k=3), q, k, v, mask=mask)


def test_a_first_tile_that_is_wholly_masked_leaves_no_nan() -> None:
    """e^(−∞ − (−∞)) would be NaN: pytorch/pytorch#127055."""
    mask = np.array([[False, False, True, True], [False, False, False, True]])
    low = np.where(mask, 0.0, -1e30)
    q, k, v = Q[:2], K[:4], V[:4]
    assert_same(flash_attention(q, k, v, mask=mask, block_q=1, block_k=2), q, k, v, mask=mask)
    assert_same(flash_attention(q, k, v, bias=low, block_q=1, block_k=2), q, k, v, bias=low)


def test_what_is_masked_takes_no_part_not_even_a_nan_and_what_is_open_shows() -> None:
    k, v = K.copy(), V.copy()
    mask = RULE.copy()
    mask[:, 5] = False
    k[5], v[5, 0], v[6, 1] = np.nan, np.inf, np.nan
    got = flash_attention(Q, k, v, mask=mask, block_q=2, block_k=3)
    assert_same(got, Q, k, v, mask=mask)
    assert np.isnan(got[0][mask[:, 6], 1]).all() and np.isfinite(got[0][~mask[:, 6]]).all()


def test_a_score_of_infinity_has_no_share_in_either_way() -> None:
    k = K.copy()
    k[4] = np.inf
    assert_same(flash_attention(np.abs(Q), k, V, block_q=2, block_k=3), np.abs(Q), k, V)


@pytest.mark.parametrize("size", [1e2, 1e4, 1e150])
def test_very_large_scores_stay_in_range(size: float) -> None:
    q, k = size * Q, size * K
    assert_same(flash_attention(q, k, V, block_q=2, block_k=3), q, k, V)


@pytest.mark.parametrize(("n_q", "n_k"), [(1, 1), (1, 9), (9, 1), (0, 3), (3, 0)])
def test_one_token_or_none_is_enough(n_q: int, n_k: int) -> None:
    q, k, v = RNG.normal(size=(n_q, 1)), RNG.normal(size=(n_k, 1)), RNG.normal(size=(n_k, 2))
    assert_same(flash_attention(q, k, v, block_q=2, block_k=2), q, k, v)


numbers = st.floats(-100, 100, allow_subnormal=False)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    n_q, n_k, d = (draw(st.integers(1, 6)) for _ in range(3))

    def matrix(rows: int, columns: int) -> np.ndarray:
        return draw(arrays.arrays(np.float64, (rows, columns), elements=numbers))

    return {
        "q": matrix(n_q, d),
        "k": matrix(n_k, d),
        "v": matrix(n_k, 2),
        "mask": draw(arrays.arrays(np.bool_, (n_q, n_k))),
        "softcap": draw(st.none() | st.floats(0.1, 50)),
    }


@settings(derandomize=True, max_examples=150)
@given(tables(), st.integers(1, 4), st.integers(1, 4))
def test_how_it_is_cut_makes_no_difference(table: dict[str, Any], block_q: int, block_k: int) -> None:
    output, lse = flash_attention(**table, block_q=block_q, block_k=block_k)
    trace = attention(**table)
    np.testing.assert_allclose(output, trace.output, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(lse, trace.lse, rtol=1e-12, atol=1e-11)
    *_, last = flash_steps(**table, block_q=len(table["q"]), block_k=block_k)
    np.testing.assert_allclose(last.output, output, rtol=1e-9, atol=1e-10)


@with_settings
@with_blocks
def test_the_tiles_shown_end_in_the_same_output(chosen: dict[str, Any], block_q: int, block_k: int) -> None:
    output, lse = np.full((N_Q, D_V), np.nan), np.full(N_Q, np.nan)
    for tile in flash_steps(Q, K, V, block_q=block_q, block_k=block_k, **chosen):
        output[tile.rows], lse[tile.rows] = tile.output, tile.lse[:, 0]
    assert_same((output, lse), Q, K, V, **chosen)


def test_after_every_tile_stands_the_attention_to_the_keys_seen_so_far() -> None:
    for tile in flash_steps(Q, K, V, mask=RULE, block_q=3, block_k=2):
        seen = slice(0, tile.columns.stop)
        trace = attention(Q[tile.rows], K[seen], V[seen], mask=RULE[tile.rows, seen])
        np.testing.assert_allclose(tile.output, trace.output, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(tile.lse[:, 0], trace.lse, rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(tile.maximum[:, 0], trace.masked.max(axis=1))
        total = np.where(trace.mask, np.exp(trace.scaled - np.maximum(tile.maximum, -99)), 0).sum(axis=1)
        np.testing.assert_allclose(tile.total[:, 0], total, rtol=1e-12)


def test_each_tile_carries_on_from_the_one_before_by_the_formula() -> None:
    before = None
    for tile in flash_steps(Q, K, V, mask=RULE, block_q=3, block_k=2):
        if before is not None and before.rows == tile.rows:
            for name in ("maximum", "total", "mixed"):
                np.testing.assert_array_equal(getattr(tile, f"{name}_before"), getattr(before, name))
        else:
            assert (tile.maximum_before == -np.inf).all()
            assert not tile.total_before.any() and not tile.mixed_before.any()
        mixed = tile.mixed_before * tile.factor + tile.powers @ V[tile.columns]
        np.testing.assert_allclose(tile.mixed, mixed, rtol=1e-13, atol=1e-16)
        total = tile.total_before * tile.factor + tile.powers.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(tile.total, total, rtol=1e-13)
        moved = np.isfinite(tile.maximum_before)
        want = np.exp(tile.maximum_before[moved] - tile.maximum[moved])
        np.testing.assert_allclose(tile.factor[moved], want, rtol=1e-13)
        before = tile


def test_the_tiles_cover_every_pair_once_in_order_and_the_last_ones_are_smaller() -> None:
    met = np.zeros((N_Q, N_K), dtype=int)
    tiles = list(flash_steps(Q, K, V, block_q=3, block_k=4))
    for number, tile in enumerate(tiles):
        met[tile.rows, tile.columns] += 1
        assert tile.number == number
        assert tile.masked.shape == met[tile.rows, tile.columns].shape
    assert (met == 1).all() and len(tiles) == 9
    assert tiles[-1].powers.shape == (1, 3)


def test_under_a_causal_mask_the_tiles_above_the_diagonal_are_skipped() -> None:
    n, block = 8, 2
    q = RNG.normal(size=(n, 3))
    asked: list[tuple[int, int]] = []

    def rule(query: np.ndarray, key: np.ndarray) -> np.ndarray:
        asked.append((int(query[0, 0]), int(key[0, 0])))
        return key <= query

    tiles = list(flash_steps(q, q, q, mask=rule, block_q=block, block_k=block))
    for tile in tiles:
        assert tile.skipped == (tile.columns.start > tile.rows.stop - 1)
    assert sum(tile.skipped for tile in tiles) == 6 and len(asked) == 16
    skipped = tiles[1]
    assert not skipped.values and (skipped.masked == -np.inf).all() and not skipped.powers.any()
    assert (skipped.factor == 1).all()
    np.testing.assert_array_equal(skipped.mixed, tiles[0].mixed)
    np.testing.assert_array_equal(skipped.output, tiles[0].output)


def test_a_skipped_tile_is_never_computed() -> None:
    """Keys that no query may look at are not touched: with NaN there, every number stays finite."""
    k, v = K.copy(), V.copy()
    k[4:], v[4:] = np.nan, np.nan
    tiles = list(flash_steps(Q, k, v, mask=lambda query, key: key < 4, block_q=3, block_k=4))
    assert [tile.skipped for tile in tiles] == [False, True, True] * 3
    assert all(np.isfinite(tile.output).all() for tile in tiles)


def test_tiles_work_for_stacked_matrices_too() -> None:
    q, k, v = RNG.normal(size=(2, 4, 5, 3)), RNG.normal(size=(2, 2, 6, 3)), RNG.normal(size=(2, 2, 6, 2))
    output, lse = flash_attention(q, k, v, block_q=2, block_k=4)
    for tile in flash_steps(q, k, v, block_q=2, block_k=4):
        if tile.columns.stop == 6:
            np.testing.assert_allclose(tile.output, output[..., tile.rows, :], rtol=1e-12)
            np.testing.assert_allclose(tile.lse[..., 0], lse[..., tile.rows], rtol=1e-12)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("more", [{}, {"softcap": True, "bias": True}], ids=["plain", "cap and bias"])
def test_the_sheet_of_a_tile_can_be_taken_away_as_a_program(scaling: Any, more: dict[str, bool]) -> None:
    sheet = tile_sheet(scaling=scaling, **more)
    given: dict[str, Any] = {
        "q": Q[:3], "k": K[:4], "v": V[:4], "divisor": np.sqrt(D_K), "scale": 0.5, "softcap": 1.5,
        "bias": RNG.normal(size=(3, 4)), "mask": RULE[:3, 4:8],
        "maximum_before": np.array([[-np.inf], [-np.inf], [0.3]]),
        "total_before": np.array([[0.0], [0.0], [1.4]]), "mixed_before": np.array([[0.0, 0], [0, 0], [1, 2]]),
    }  # fmt: skip
    values = run(sheet, {line.name: given[line.name] for line in sheet.given})
    scope: dict[str, Any] = {"print": lambda *_: None}
    with np.errstate(all="ignore"):
        exec(compile(to_numpy(sheet, values), "<exported>", "exec"), scope)
    for line in sheet:
        np.testing.assert_allclose(scope[line.name], values[line.name], rtol=1e-12, atol=1e-12)
    compile(to_torch(sheet, values), "<exported>", "exec")
    latex = to_latex(sheet, values)
    assert latex.count("{") == latex.count("}")
    titles = [line.title for line in sheet]
    assert len(set(titles)) == len(titles)
    for stage in sheet.stages:
        for i, j in np.ndindex(values[stage.name].shape):
            text = work(sheet, values, stage.name, i, j).text
            assert text.endswith(show(values[stage.name][i, j])), (stage.name, text)


def test_the_rescaling_is_written_out() -> None:
    q, k, v = np.array([[1.0]]), np.array([[1.0], [3.0]]), np.array([[10.0], [20.0]])
    first, second = flash_steps(q, k, v, scale=1.0, block_q=1, block_k=1)
    assert work(first.sheet, first.values, "drop", 0, 0).text == "no key seen so far: −∞"
    assert work(first.sheet, first.values, "factor", 0, 0).text == "e^(−∞) = 0"

    def text(name: str) -> str:
        return work(second.sheet, second.values, name, 0, 0).text

    assert text("maximum") == "max(1, 3) = 3"
    assert text("drop") == "1 − 3 = −2"
    assert text("factor") == "e^(−2) ≈ 0.14"
    assert text("kept_total") == "1 × 0.14 = 0.14"
    assert text("kept") == "10 × 0.14 ≈ 1.35"
    assert text("mixed") == "1.35 + 20 = 21.35" or text("mixed") == "1.35 + 20 ≈ 21.35"


def test_nothing_given_is_changed_and_steps_are_read_only() -> None:
    before = [a.copy() for a in (Q, K, V, RULE)]
    flash_attention(Q, K, V, mask=RULE, bias=np.zeros((N_Q, N_K)), softcap=2.0, block_q=2, block_k=3)
    for tile in flash_steps(Q, K, V, mask=RULE, block_q=2, block_k=3):
        for name in ("masked", "powers", "factor", "maximum", "total", "mixed", "output", "lse"):
            assert not getattr(tile, name).flags.writeable, name
    for a, b in zip((Q, K, V, RULE), before, strict=True):
        np.testing.assert_array_equal(a, b)


REFUSED = {
    "no block": ({"block_q": 0}, "block_q must be at least 1, not 0"),
    "half a block": ({"block_k": 1.5}, "block_k must be a whole number, 0 or more, not 1.5"),
    "a rule of numbers": (
        {"mask": lambda query, key: query - key},
        "the rule gave int64 (7, 11) for 7 queries and 11 keys; True or False is needed",
    ),
    "a rule of another size": (
        {"mask": lambda query, key: np.ones((2, 3), dtype=bool)},
        "the rule gave bool (2, 3) for 7 queries and 11 keys",
    ),
    "a mask of numbers": ({"mask": np.ones((N_Q, N_K))}, "mask holds float64, and True or False is needed"),
    "a mask too short": ({"mask": RULE[:, :5]}, "mask (7, 5) does not fit the scores (7, 11)"),
    "other features": ({"k": K[:, :2]}, "q (7, 3) and k (11, 2) cannot be compared"),
    "no cap": ({"softcap": 0.0}, "softcap has to be a finite number above 0"),
}


@pytest.mark.parametrize(("change", "said"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    given = {"q": Q, "k": K, "v": V, **change}
    with pytest.raises(ValueError, match=re.escape(said)):
        flash_attention(**given)
    with pytest.raises(ValueError, match=re.escape(said)):
        next(flash_steps(**given))


def test_the_table_of_scores_is_never_held() -> None:
    """At n = 2048 its 33.6 MB are more than twenty times what is held at once."""
    n = 2048
    q, k, v = RNG.normal(size=(3, n, 64))
    for mask in (None, lambda query, key: key <= query):
        tracemalloc.start()
        flash_attention(q, k, v, mask=mask)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < n * n * 8 / 10
        assert peak < 3 * n * 64 * 8 + 1e6  # the output, the keys as columns and little else


def test_bytes_are_counted_step_by_step() -> None:
    n_q, n_k, d_k, d_v = 5, 7, 3, 2
    reads = n_q * d_k + n_k * d_k + n_q * n_k + n_q * n_k + n_k * d_v
    writes = n_q * n_k + n_q * n_k + n_q * d_v
    assert bytes_plain(n_q, n_k, d_k, d_v) == 8 * (reads + writes)
    assert bytes_plain(n_q, n_k, d_k, d_v, number_bytes=2) == 2 * (reads + writes)
    for mask in (None, np.tri(n_q, n_k, dtype=bool), lambda query, key: key <= query):
        moved = 0
        q, k, v = RNG.normal(size=(n_q, d_k)), RNG.normal(size=(n_k, d_k)), RNG.normal(size=(n_k, d_v))
        for tile in flash_steps(q, k, v, mask=mask, block_q=2, block_k=3):
            rows, columns = tile.powers.shape
            moved += 0 if tile.skipped else columns * (d_k + d_v)
            moved += rows * (d_k + d_v + 1) if tile.columns.start == 0 else 0
        assert bytes_tiled(n_q, n_k, d_k, d_v, mask=mask, block_q=2, block_k=3) == 8 * moved
    with pytest.raises(ValueError, match="d_v must be a whole number, 0 or more, not -1"):
        bytes_plain(1, 1, 1, -1)

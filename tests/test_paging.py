"""A cache in pages: what is read back, who shares what, and what stays empty."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_core.attention import attention
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.numbers import show
from attention_core.page_records import Event, Waste, waste_of
from attention_core.page_sheet import page_sheet, page_values, stacked
from attention_core.paging import PagedCache, paged_attention, paged_cache
from attention_core.sheet import run, work

D_K, D_V = 3, 2


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, n])
    return rng.normal(size=(n, D_K)), rng.normal(size=(n, D_V))


def kinds(cache: PagedCache) -> list[tuple[str, int]]:
    return [(event.kind, event.page) for event in cache.events]


def test_rows_go_to_the_slots_that_the_table_says():
    k, v = rows(7)
    cache = paged_cache(5, 4, D_K, D_V).append("B", *rows(2, seed=1)).append("A", k, v)
    assert cache.tables == {"B": (0,), "A": (1, 2)}
    for token in range(7):
        page = cache.tables["A"][token // 4]
        np.testing.assert_array_equal(cache.k[page, token % 4], k[token])
        np.testing.assert_array_equal(cache.v[page, token % 4], v[token])
    assert cache.filled == (2, 4, 3, 0, 0)
    assert cache.free_pages == (3, 4)
    assert kinds(cache) == [("take", 1), ("write", 1), ("take", 2), ("write", 2)]


def test_appending_token_by_token_gives_the_same_pages_as_all_at_once():
    k, v = rows(11)
    one = paged_cache(4, 3, D_K, D_V)
    for token in range(11):
        one = one.append("A", k[token : token + 1], v[token : token + 1])
    at_once = paged_cache(4, 3, D_K, D_V).append("A", k, v)
    np.testing.assert_array_equal(one.k, at_once.k)
    np.testing.assert_array_equal(one.v, at_once.v)
    assert one.tables == at_once.tables and one.lengths == at_once.lengths


def test_a_shared_page_is_copied_before_one_of_its_readers_writes_into_it():
    k, v = rows(6)
    cache = paged_cache(6, 4, D_K, D_V).append("A", k, v).share("A", "B")
    assert cache.tables["A"] == cache.tables["B"] == (0, 1)
    assert kinds(cache) == [("share", 0), ("share", 1)]
    new_k, new_v = rows(1, seed=2)
    after = cache.append("B", new_k, new_v)
    assert after.tables == {"A": (0, 1), "B": (0, 2)}
    assert kinds(after) == [("copy", 2), ("write", 2)]
    np.testing.assert_array_equal(after.read("A")[0], k)
    np.testing.assert_array_equal(after.read("B")[0], np.concatenate([k, new_k]))
    np.testing.assert_array_equal(after.read("B")[1], np.concatenate([v, new_v]))
    assert kinds(after.append("A", new_k, new_v)) == [("write", 1)]  # nobody else reads page 2 any more


def test_a_full_page_stays_shared_for_good():
    cache = paged_cache(6, 4, D_K, D_V).append("A", *rows(8)).share("A", "B").append("B", *rows(5, seed=1))
    assert cache.tables["B"] == (0, 1, 2, 3)
    assert "copy" not in {event.kind for event in cache.events}
    assert cache.holders == (("A", "B"), ("A", "B"), ("B",), ("B",), (), ())


def test_the_first_rows_of_a_sequence_can_be_shared_and_go_on_differently():
    k, v = rows(7)
    cache = paged_cache(8, 4, D_K, D_V).append("A", k, v).share("A", "B", 5)
    other = rows(2, seed=3)
    cache = cache.append("B", *other)
    np.testing.assert_array_equal(cache.read("B")[0], np.concatenate([k[:5], other[0]]))
    np.testing.assert_array_equal(cache.read("A")[0], k)
    assert cache.lengths == {"A": 7, "B": 7}


def test_the_last_reader_may_write_where_a_sequence_that_has_gone_had_rows():
    k, v = rows(7)
    cache = paged_cache(2, 4, D_K, D_V).append("A", k, v).share("A", "B", 5).free("A")
    other = rows(3, seed=3)
    after = cache.append("B", *other)
    assert kinds(after) == [("write", 1)]
    np.testing.assert_array_equal(after.read("B")[0], np.concatenate([k[:5], other[0]]))


def test_freed_pages_are_taken_again():
    cache = paged_cache(3, 4, D_K, D_V).append("A", *rows(8)).append("B", *rows(1, seed=1)).free("A")
    assert kinds(cache) == [("release", 0), ("release", 1)]
    assert cache.free_pages == (0, 1)
    assert cache.append("C", *rows(5, seed=4)).tables == {"B": (2,), "C": (0, 1)}


def test_nothing_is_changed_where_pages_are_lacking():
    cache = paged_cache(3, 4, D_K, D_V).append("A", *rows(6))
    with pytest.raises(ValueError, match="pages needed by B: 2, pages free: 1"):
        cache.append("B", *rows(5))
    with pytest.raises(ValueError, match="pages needed by B: 1, pages free: 0"):
        cache.append("C", *rows(1)).share("A", "B").append("B", *rows(1))
    assert cache.tables == {"A": (0, 1)}


def test_waste_of_the_published_kind_is_counted_exactly():
    """Lengths 5, 3 and 9 in pages of 4, with 16 rows reserved for each where memory is contiguous."""
    cache = paged_cache(8, 4, D_K, D_V)
    for name, length in (("A", 5), ("B", 3), ("C", 9)):
        cache = cache.append(name, *rows(length))
    waste = cache.waste(16)
    assert waste == waste_of((5, 3, 9), 4, 16) == Waste(held=17, stored=17, paged=24, contiguous=48)
    assert (waste.empty_paged, waste.empty_contiguous, waste.shared) == (7, 31, 0)
    shared = (
        cache.share("C", "D").append("D", *rows(1)).waste(16)
    )  # pages 1 and 2 of C shared, the third copied
    assert shared == Waste(held=27, stored=17 + 2, paged=28, contiguous=64)
    assert shared.shared == 8


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["append", "share", "free"]),
        st.sampled_from("ABCD"),
        st.sampled_from("ABCD"),
        st.integers(0, 9),
    ),
    max_size=25,
)


@settings(max_examples=150)
@given(ACTIONS, st.integers(1, 5), st.integers(1, 12))
def test_what_is_read_back_is_always_what_plain_lists_would_hold(actions, page_size, n_pages):
    cache = paged_cache(n_pages, page_size, D_K, D_V)
    plain: dict[str, list[float]] = {}
    count = 0.0
    for action, one, other, many in actions:
        before = cache
        try:
            if action == "append":
                new = [count + step for step in range(many)]
                k = np.array(new).reshape(-1, 1)
                cache = cache.append(one, np.repeat(k, D_K, axis=1), np.repeat(-k, D_V, axis=1))
                plain[one] = plain.get(one, []) + new
                count += many
            elif action == "share":
                cache = cache.share(one, other, many)
                plain[other] = plain[one][:many]
            else:
                cache = cache.free(one)
                del plain[one]
        except ValueError:
            assert cache is before
        assert set(cache.tables) == set(plain)
        for name, held in plain.items():
            k, v = cache.read(name)
            np.testing.assert_array_equal(k, np.repeat(np.reshape(held, (-1, 1)), D_K, axis=1))
            np.testing.assert_array_equal(v, -np.repeat(np.reshape(held, (-1, 1)), D_V, axis=1))
        assert len(cache.free_pages) + sum(1 for names in cache.holders if names) == n_pages
        waste = cache.waste(250)
        slots = {
            (cache.tables[name][token // page_size], token % page_size)
            for name, held in plain.items()
            for token in range(len(held))
        }
        assert waste.stored == len(slots) >= len({row for held in plain.values() for row in held})
        assert waste.paged == page_size * len({page for page, _ in slots})
        assert waste.held == sum(map(len, plain.values()))


@pytest.mark.parametrize("length", [1, 4, 5, 8, 11])
def test_attention_to_pages_is_attention_to_the_rows_in_order(length):
    k, v = rows(length)
    q = rows(2, seed=5)[0]
    cache = paged_cache(9, 4, D_K, D_V).append("B", *rows(3, seed=1)).append("A", k[:3], v[:3])
    cache = cache.append("B", *rows(4, seed=2)).append("A", k[3:], v[3:])
    sheet = page_sheet(cache, "A")
    given_ = page_values(cache, "A") | {
        "q": q, "divisor": np.sqrt(D_K), "mask": np.ones((2, min(length, len(k))), dtype=bool)
    }  # fmt: skip
    values = run(sheet, given_)
    np.testing.assert_array_equal(values["k"], k)
    np.testing.assert_array_equal(values["output"], attention(q, k, v).output)
    program: dict[str, object] = {}
    exec(to_numpy(sheet, values), program)
    np.testing.assert_allclose(program["output"], values["output"], rtol=0, atol=1e-12)
    compile(to_torch(sheet, values), "torch", "exec")
    assert to_latex(sheet)
    titles = [line.title for line in sheet]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("length", [1, 4, 5, 11])
def test_page_by_page_the_attention_is_that_to_all_rows_and_empty_slots_take_no_part(length):
    k, v = rows(length)
    q = rows(2, seed=5)[0]
    cache = paged_cache(9, 4, D_K, D_V).append("B", *rows(9, seed=8)).free("B").append("A", k, v)
    output, lse = paged_attention(cache, "A", q)
    whole = attention(q, k, v)
    np.testing.assert_allclose(output, whole.output, rtol=1e-12)
    np.testing.assert_allclose(lse, whole.lse, rtol=1e-12)


def test_a_row_of_k_says_the_page_and_the_row_that_it_came_from():
    k, v = rows(6)
    cache = paged_cache(9, 4, D_K, D_V).append("B", *rows(3)).append("A", k, v)
    sheet = page_sheet(cache, "A")
    values = run(
        sheet, page_values(cache, "A") | {"q": k[:1], "divisor": 1.0, "mask": np.ones((1, 6), dtype=bool)}
    )
    assert work(sheet, values, "k", 5, 1).text == f"row 2, column 2 of Page 3 of K: {show(k[5, 1])}"
    assert sheet.stage("k").inputs == ("k_page_2", "k_page_3")
    assert stacked(6, 4, 2).reads == ("rows 0 1 2 3 -1 -1", "rows -1 -1 -1 -1 0 1")


def test_events_say_in_words_what_was_done_counting_from_1():
    cache = paged_cache(6, 4, D_K, D_V).append("A", *rows(6)).share("A", "B").append("B", *rows(3, seed=1))
    assert [str(event) for event in cache.events] == [
        "page 2 is shared: B copies slots 1 to 2 to page 3 first",
        "B writes slots 3 to 4 of page 3",
        "B takes page 4, which was free",
        "B writes slot 1 of page 4",
    ]
    assert str(Event("release", "A", 0)) == "A gives up page 1"
    assert str(Event("share", "B", 1)) == "B shares page 2"


def test_arrays_cannot_be_changed_and_what_is_given_is_not():
    k, v = rows(3)
    kept = k.copy()
    cache = paged_cache(2, 4, D_K, D_V).append("A", k, v)
    with pytest.raises(ValueError, match="read-only"):
        cache.k[0, 0, 0] = 5
    k[0] = 9
    np.testing.assert_array_equal(cache.read("A")[0], kept)


def test_what_does_not_fit_is_refused_with_names_and_shapes():
    cache = paged_cache(2, 4, D_K, D_V).append("A", *rows(3))
    with pytest.raises(ValueError, match=r"k \(2, 2\) and v \(2, 2\) do not fit the pages: .* 3 and 2 wide"):
        cache.append("A", np.zeros((2, 2)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"k \(2, 3\) and v \(1, 2\)"):
        cache.append("A", np.zeros((2, 3)), np.zeros((1, 2)))
    with pytest.raises(ValueError, match="there is no sequence C, only A"):
        cache.read("C")
    with pytest.raises(ValueError, match="there is a sequence A already"):
        cache.share("A", "A")
    with pytest.raises(ValueError, match="A has 3 rows to share, and 4 were asked for"):
        cache.share("A", "B", 4)
    with pytest.raises(ValueError, match="page_size has to be a whole number from 1"):
        paged_cache(2, 0, D_K, D_V)
    with pytest.raises(ValueError, match=r"lengths have to be from 0 to the longest, 4, .* \(5,\)"):
        waste_of((5,), 4, 4)
    with pytest.raises(ValueError, match="there is no sequence C"):
        page_values(cache, "C")
    with pytest.raises(ValueError, match="there is nothing to merge"):
        paged_attention(cache.append("D", *rows(0)), "D", np.ones((1, D_K)))

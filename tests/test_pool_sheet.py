"""Three sequences in one pool of pages: what lies where, who reads what, and what a missing copy destroys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_operations import reads_place

from attention_core.attention import attention
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.numbers import show
from attention_core.page_moves import Pool, pool_after
from attention_core.pool_sheet import gathered, pool_sheet
from attention_core.sheet import run, work

D_MODEL, D_K, D_V = 5, 3, 2
RNG = np.random.default_rng(7)


def pool(moves: str = "", *, prompt: int = 4, page_size: int = 3, n_pages: int = 10, copying: bool = True):
    return pool_after(moves, prompt=prompt, page_size=page_size, n_pages=n_pages, copying=copying)


def kinds(made: Pool) -> list[str]:
    return [event.kind for event in made.events]


def test_a_begins_b_shares_all_of_it_and_c_has_rows_of_its_own():
    begun = pool()
    assert begun.pages.tables == {"A": (0, 1), "B": (0, 1), "C": (2,)}
    assert begun.rows("A") == begun.rows("B") == ((0, 0), (0, 1), (0, 2), (0, 3))
    assert begun.rows("C") == ((1, 0), (1, 1))
    assert begun.used == (0, 1, 2) and begun.slots(1) == ((0, 3),)


def test_who_goes_on_first_copies_the_shared_page_and_who_follows_need_not():
    assert kinds(pool("b")) == ["copy", "write"] and kinds(pool("ba")) == ["write"]
    assert kinds(pool("a")) == ["copy", "write"] and kinds(pool("ab")) == ["write"]
    assert pool("ba").pages.tables == {"A": (0, 1), "B": (0, 3), "C": (2,)}


def test_a_full_page_is_never_copied():
    assert kinds(pool("b", prompt=3)) == ["take", "write"]
    assert pool("ba", prompt=3).pages.tables == {"A": (0, 3), "B": (0, 2), "C": (1,)}


def test_a_sequence_that_has_finished_gives_up_its_pages_and_goes_no_further():
    done = pool("cx")
    assert set(done.pages.tables) == {"A", "B"} and kinds(done) == ["release"]
    assert pool("cxc").refused == "C has finished already." and pool("cxc").pages is not None
    assert pool("cxb").pages.tables["B"] == (0, 2), "the page that C gave up is taken again"


def test_a_move_for_which_no_page_is_free_changes_nothing_and_says_so():
    full = pool("b", n_pages=3)
    assert full.refused == "B has to wait: pages needed by B: 1, pages free: 0."
    assert full.rows("B") == pool(n_pages=3).rows("B") and full.events == ()
    assert pool("xb", n_pages=3).refused == ""


def test_unknown_moves_and_a_pool_that_is_too_small_are_refused():
    with pytest.raises(ValueError, match="moves are made of a, b, c, x, not z"):
        pool("az")
    with pytest.raises(ValueError, match="pages needed by A: 2, pages free: 1"):
        pool(n_pages=1)


@settings(max_examples=150)
@given(st.text("abcx", max_size=16), st.integers(1, 8), st.integers(1, 5), st.integers(10, 24))
def test_every_sequence_reads_back_what_it_has_written(moves, prompt, page_size, n_pages):
    made = pool(moves, prompt=prompt, page_size=page_size, n_pages=n_pages)
    for name in made.pages.tables:
        assert made.rows(name) == made.written[name]
    together = [row for rows in made.written.values() for row in rows]
    assert len(set(together)) <= made.pages.waste(64).stored


def test_without_copies_two_that_share_a_page_write_over_each_other():
    assert pool("b", copying=False).rows("B") == pool("b").rows("B"), "one alone loses nothing"
    both = pool("ba", copying=False)
    assert both.pages.tables["A"] == both.pages.tables["B"]
    assert both.written["B"][-1] == (1, 2) and both.rows("B")[-1] == both.rows("A")[-1] == (0, 4)
    later = pool("bab", prompt=2, page_size=3, copying=False)
    assert later.rows("B") != later.written["B"]


MANY = ["", "b", "ba", "abcabc", "bbbbcx", "xaab"]
each_story = pytest.mark.parametrize(
    ("moves", "sequence"), [(m, s) for m in MANY for s in "ABC" if not ("x" in m and s == "C")]
)


def numbers_for(made: Pool) -> dict[str, object]:
    own = sum(which == 0 for which, _ in made.written["A"])
    given_ = {"x": RNG.normal(size=(own, D_MODEL)), "others": RNG.normal(size=(made.others, D_MODEL))}
    given_ |= {f"w_{a}": RNG.normal(size=(D_MODEL, d)) for a, d in (("q", D_K), ("k", D_K), ("v", D_V))}
    return given_ | {"divisor": np.sqrt(D_K)}


@each_story
def test_attention_through_the_pages_is_attention_to_the_rows_in_order(moves, sequence):
    made = pool(moves)
    values = run(pool_sheet(made, sequence), numbers_for(made))
    x = np.array([values["x" if which == 0 else "others"][row] for which, row in made.written[sequence]])
    k, v = x @ values["w_k"], x @ values["w_v"]
    np.testing.assert_allclose(values["k"], k, rtol=1e-12, atol=1e-13)
    right = attention(x[-1:] @ values["w_q"], k, v).output
    np.testing.assert_allclose(values["output"], right, rtol=1e-12, atol=1e-13)


@each_story
def test_the_program_gives_the_same_numbers_and_every_cell_is_worked_out(moves, sequence):
    made = pool(moves)
    sheet = pool_sheet(made, sequence)
    values = run(sheet, numbers_for(made))
    program: dict[str, object] = {}
    exec(to_numpy(sheet, values), program)
    np.testing.assert_allclose(program["output"], values["output"], rtol=0, atol=1e-12)
    compile(to_torch(sheet, values), "torch", "exec")
    assert to_latex(sheet)
    for attribute in ("title", "name"):
        named = [getattr(line, attribute) for line in sheet]
        assert len(set(named)) == len(named), attribute
    for stage in sheet.stages:
        for i, j in np.ndindex(values[stage.name].shape):
            assert work(sheet, values, stage.name, i, j).text.endswith(show(values[stage.name][i, j]))


def test_a_page_says_which_token_each_of_its_rows_comes_from():
    made = pool("ba")
    sheet = pool_sheet(made, "B")
    values = run(sheet, numbers_for(made))
    assert sheet["k_4"].title == "K, page 4, B" and sheet["k_1"].title == "K, page 1, A and B"
    assert sheet.stage("k").inputs == ("k_1", "k_4")
    assert "row 4, column 1 of K of A’s tokens" in work(sheet, values, "k_4", 0, 0).text, "copied"
    assert "row 3, column 1 of K of the other tokens" in work(sheet, values, "k_4", 1, 0).text


def test_gathered_rows_are_made_of_the_cells_that_they_say():
    operation = gathered(((0, 2), (1, 0), (0, 0)))
    parts = (RNG.normal(size=(3, 4)), RNG.normal(size=(2, 4)))
    result = operation.compute(*parts)
    np.testing.assert_array_equal(result, [parts[0][2], parts[1][0], parts[0][0]])
    for which, part in enumerate(parts):
        for place in np.ndindex(part.shape):
            for i, j in np.ndindex(result.shape):
                assert reads_place(operation.reads[which], place, i, j) == (result[i, j] == part[place])
    with pytest.raises(ValueError, match="not so many rows"):
        operation.compute(parts[0][:2], parts[1])

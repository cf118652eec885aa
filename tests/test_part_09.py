"""Part 9 on the page: what is counted, what the mistakes break, the roofline, and numbers in sentences."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_lessons import assert_is_sound, board_of
from test_pages import desk_of, open_app, send, words

from attention_core.accelerators import ACCELERATORS, own
from attention_core.cost import Layer, decode, intensity, prefill, seconds, square_rules, table_bytes, total
from attention_core.examples import EXAMPLES
from attention_core.numbers import show
from attention_core.sheet import cost
from attention_ui import amounts, costing, roofline
from attention_ui.bench import opened
from attention_ui.choices import with_choice

PAGE = "part_09_cost"
FAILS, HOLDS = "does not hold for these numbers", ">holds for these numbers"
LLAMA = Layer(4096, 32, 32, 128)
A100 = ACCELERATORS["a100"]


def page(**query):
    return open_app(PAGE, **{name.replace("p9_", "p9."): value for name, value in query.items()})


def cells(app) -> list[str]:
    return words(app).replace("<td>", "\n").replace("</td>", "\n").replace("</th>", "\n").split("\n")


@pytest.mark.parametrize("work", ["all", "one"])
@pytest.mark.parametrize("here", ["1", "2"])
@pytest.mark.parametrize("query", [{}, {"n": 1, "dk": 1, "dm": 1}, {"n": 16, "dk": 16, "dm": 16}], ids=str)
def test_every_claim_holds_at_every_size(work, here, query):
    app = page(p9_work=work, p9_here=here, p9_guess="show", **query)
    assert_is_sound(app)
    assert words(app).count(HOLDS) == 4 and FAILS not in words(app)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("work", ["all", "one"])
def test_every_claim_holds_on_every_example(name, work):
    assert FAILS not in words(page(example=name, p9_work=work, p9_guess="show"))


@pytest.mark.parametrize(
    "layer",
    [
        {"p9.n": "131072", "p9.d": "8192", "p9.heads": "64", "p9.kv": "1", "p9.batch": "512"},
        {"p9.n": "128", "p9.d": "512", "p9.heads": "1", "p9.kv": "8", "p9.numbers": "fp32"},
        {"p9.chip": "own", "p9.peak": "1", "p9.bandwidth": "8000"},
        {"p9.chip": "own", "p9.peak": "2000", "p9.bandwidth": "10"},
    ],
)
def test_every_claim_holds_for_every_layer_and_accelerator(layer):
    app = open_app(PAGE, **layer, **{"p9.guess": "show"})
    assert_is_sound(app)
    assert FAILS not in words(app)


@pytest.mark.parametrize("work", ["all", "one"])
def test_the_table_counts_the_sheet_on_the_board_and_nothing_else(work):
    app = page(p9_work=work, p9_here="2", p9_numbers="fp32", p9_batch="8", n=5)
    bench = desk_of(app).bench
    now, sizes = costing.scene_of(bench), costing.sizes_here(bench)
    for line in now.sheet:
        assert now.values[line.name].shape == tuple(sizes[axis] for axis in line.axes), line.name
    text = words(app)
    for each in cost(now.sheet, sizes):
        if each.operations:
            assert now.sheet.titles[each.name] in text
            assert amounts.whole(8 * each.operations) in cells(app), each.name
    assert {line.name for line in now.sheet} >= set(board_of(app)["grids"])


def test_every_line_that_is_counted_is_on_the_board():
    for work in ("all", "one"):
        app = page(p9_work=work, p9_here="2")
        now = costing.scene_of(desk_of(app).bench)
        counted = {each.name for each in cost(now.sheet, costing.sizes_here(now.bench)) if each.operations}
        assert counted <= set(board_of(app)["grids"])


def test_the_product_written_beside_a_line_gives_its_operations():
    for word in ("all", "one"):
        bench = with_choice(with_choice(opened("tokens"), "p9.batch", "8"), "p9.work", word)
        now = costing.scene_of(bench)
        for each in costing.counted_here(bench, now):
            if each.operations:
                text = costing.as_product(now, now.sheet.stage(each.name), 8, each.operations)
                assert eval(text.replace("×", "*").replace("batch", "")) == each.operations


def test_a_multiply_add_counted_as_one_is_found_out():
    text = words(page(p9_singly="on", p9_guess="show"))
    assert text.count(FAILS) == 2 and "Data sheets count both" in text
    assert "4 × 3 × 2" in text and "64 operations. The line of the scores says 32." in text


def test_a_token_that_reads_no_weights_is_found_out():
    text = words(page(p9_weightless="on", p9_guess="show", p9_work="one"))
    assert text.count(FAILS) == 1
    weights = 4 * 4096 * 4096 * 2
    read = total(decode(LLAMA, 2048)).bytes_read
    rows = sum(each.bytes_read for each in decode(LLAMA, 2048) if each.name in costing.PROJECTIONS) - weights
    assert f"W_O, {amounts.size(weights)}: its projections read {amounts.size(rows)}." in text
    bench = desk_of(page(p9_weightless="on")).bench
    assert total(costing.full(bench, "one")).bytes_read == read - weights
    assert total(costing.full(bench, "all")) == total(prefill(LLAMA, 2048))
    assert costing.counted_here(bench, costing.scene_of(bench)) == costing.counted_here(
        opened("tokens"), costing.scene_of(opened("tokens"))
    )


def test_the_step_on_the_board_loses_its_weights_with_the_mistake():
    right = with_choice(opened("tokens"), "p9.work", "one")
    wrong = with_choice(right, "p9.weightless", "on")
    before, after = (
        {each.name: each.bytes_read for each in costing.counted_here(bench, costing.scene_of(bench))}
        for bench in (right, wrong)
    )
    lost = {name: before[name] - after[name] for name in before if before[name] != after[name]}
    assert lost == {"q": 12, "k_n": 12, "v_n": 12, "output": 12}  # 3 × 2 and 2 × 3 numbers of two bytes


def test_the_prediction_is_answered_from_the_estimates():
    text = words(page(p9_guess="more"))
    whole, one = prefill(LLAMA, 2048), decode(LLAMA, 2048)
    times = [seconds(costs, A100, "fp16") for costs in (whole, one)]
    shares = [total(one).operations / total(whole).operations, times[1] / times[0]]
    assert "As you said: a far larger one." in text
    assert (
        f"takes {show(100 * shares[0])} % of the operations and {show(100 * shares[1])} % of the time" in text
    )
    assert f"{amounts.duration(times[1])} against {amounts.duration(times[0])}" in text
    assert f"makes {show(intensity(total(one)))} operations per byte" in text
    assert "Not so here: a far larger one" in words(page(p9_guess="same"))


def test_where_arithmetic_sets_both_times_the_shares_are_about_the_same():
    slow = {"p9_chip": "own", "p9_peak": "1", "p9_bandwidth": "8000"}
    assert "As you said: about the same share." in words(page(p9_guess="same", **slow))


def test_the_new_token_is_drawn_only_after_the_prediction():
    assert "One new token, after" not in words(page())
    assert "One new token, after 2,047 that are in the cache" in words(page(p9_guess="more"))


def test_where_the_square_rules_is_said_with_numbers():
    text = words(page())
    for of in ("operations", "bytes"):
        assert f"{square_rules(LLAMA, of):,} ({of} pass here)" in text
    assert f"× 2,048 × 2 = {amounts.size(table_bytes(LLAMA, 2048))}" in text


def test_the_table_fits_just_to_the_number_of_tokens_that_is_said():
    n = costing.most_tokens(LLAMA, A100)
    assert table_bytes(LLAMA, n) <= 80e9 < table_bytes(LLAMA, n + 1)
    assert f"would fill it from n = {n + 1:,} on" in words(page())


def phases(step: bool = True) -> list[roofline.Phase]:
    found = [roofline.Phase("All tokens", "all", prefill(LLAMA, 2048), "circle")]
    return found + [roofline.Phase("One new token", "one new", decode(LLAMA, 2048), "diamond")] * step


@pytest.mark.parametrize("chip", ["a100", "own"])
@pytest.mark.parametrize("numbers", ["fp16", "fp32"])
def test_no_point_lies_above_the_roof_and_every_line_lies_on_it(chip, numbers):
    accelerator = ACCELERATORS.get(chip) or own(50, 50, 40, 80)
    drawn = {trace.name: trace for trace in roofline.figure(accelerator, numbers, phases()).data}
    assert list(drawn) == ["others", "chosen", "all, lines", "all, total", "one new, lines", "one new, total"]
    for name, trace in drawn.items():
        for x, y in zip(trace.x, trace.y, strict=True):
            roof = accelerator.roof(numbers, x) / 1e12
            if "lines" in name or name == roofline.CHOSEN:
                assert y == pytest.approx(roof)
            elif "total" in name:
                assert y <= roof * (1 + 1e-9)


def test_the_roofline_says_in_words_and_as_a_table_what_it_shows():
    alt = roofline.alt_text(A100, "fp16", phases())
    assert "rises with the operations per byte up to 153.02" in alt and "312 × 10¹² operations" in alt
    heads, rows = roofline.table(A100, "fp16", phases())
    assert len(rows) == 16 and all(len(row) == len(heads) for row in rows)
    assert rows[0] == ["All tokens: Q = X W_Q", "1024", "312 × 10¹²", "arithmetic"]
    assert rows[-1][1] == show(intensity(total(decode(LLAMA, 2048))))


def test_an_edit_changes_the_board_and_no_count():
    app = page(p9_work="one")
    tables = re.compile("<table.*?</table>", re.DOTALL)
    before = tables.findall(words(app))
    app = send(app, ["edit", "x", 3, 0, "7"])
    assert board_of(app)["grids"]["x_n"]["cells"][0][0] == "7"
    assert len(before) == 5 and tables.findall(words(app)) == before


def test_the_new_token_on_the_board_gets_its_row_among_all():
    for name in EXAMPLES:
        bench = opened(name)
        whole = costing.scene_of(bench).values["output"]
        one = costing.scene_of(with_choice(bench, "p9.work", "one")).values["output"]
        if bench.n_k > 1:
            np.testing.assert_allclose(one, whole[-1:], rtol=1e-12, atol=1e-12)


def test_a_single_token_gets_one_before_it():
    assert board_of(page(p9_work="one", n=1))["grids"]["k_c"]["size"] == "1 × 2"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (amounts.size(96), "96 bytes"),
        (amounts.size(1), "1 byte"),
        (amounts.size(268_435_456), "268.44 MB"),
        (amounts.size(2.5e18), "2500 PB"),
        (amounts.duration(13.42e-6), "13.42 µs"),
        (amounts.duration(3e-12), "3e−3 ns"),
        (amounts.duration(90), "90 s"),
        (amounts.whole(1536), "1,536"),
        (amounts.whole(34_359_738_368), "34.36 × 10⁹"),
        (amounts.share(0.5), "50 %"),
        (amounts.share(1e-7), "less than 0.01 %"),
        (amounts.share(0), "0 %"),
    ],
)
def test_amounts_are_written_with_their_units(found, said):
    assert found == said


def test_ones_own_accelerator_is_called_so():
    text = words(page(p9_chip="own", p9_guess="show"))
    assert "Your accelerator needs 200 to be busy." in text and "would fill it" not in text

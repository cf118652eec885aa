"""The figures show every number where it belongs, in colours that are stated and readable."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter

import numpy as np
import plotly.graph_objects as go
import pytest

from attention_core.attention import attention, attention_from_x
from attention_core.numbers import show
from attention_core.sheet import work
from attention_ui.canvas import hatch
from attention_ui.figures import CLEAR, heat_maps, large_map
from attention_ui.large import block_of, pooled
from attention_ui.theme import SIGNED, STEPS, SURFACES, WEIGHT, contrast, level
from attention_ui.words import alt_text, cost_sentences, large_alt_text

NAMES = ("scores", "scaled", "mask", "weights")
HOSTILE = ("<img src=x onerror=alert(1)>", "$x$", "<b>b</b>", "&lt;", "قطة", "%{z}", "x" * 40)
THEMES = ("light", "dark")


def scene(n_q=3, n_k=3, d_k=2, seed=0, mask=None, q=None, k=None, queries=None, keys=None):
    random = np.random.default_rng(seed)
    q = random.normal(size=(n_q, d_k)) if q is None else np.array(q, dtype=float)
    k = random.normal(size=(n_k, d_k)) if k is None else np.array(k, dtype=float)
    n_q, n_k = len(q), len(k)
    mask = np.tri(n_q, n_k, dtype=bool) if mask is None else np.array(mask, dtype=bool)
    trace = attention(q, k, random.normal(size=(n_k, 2)), mask=mask)
    queries = queries or tuple(f"q{i}" for i in range(n_q))
    return trace.sheet, trace.values, {"query": queries, "key": keys or tuple(f"k{j}" for j in range(n_k))}


def points(figure):
    """Every label as (column, row, text), in the order of the maps."""
    trace = next(trace for trace in figure.data if getattr(trace, "mode", "") == "text")
    return list(zip(trace.x, trace.y, trace.text, strict=True))


def corner(figure, number):
    """Row and column of the first cell of map `number`: below its title, below the head of column 1."""
    left, top, _ = [point for point in points(figure) if "<b>" in point[2]][number - 1]
    heads = [y for x, y, text in points(figure) if x == left + 0.5 and y > top and text.startswith("1")]
    return math.ceil(min(heads)), int(left + 0.5)


def cells(figure, number, field, size):
    """One field of every cell of map `number`; of the text, what the traces write there together."""
    row, column = corner(figure, number)
    traces = [trace for trace in figure.data if trace.type == "heatmap"]
    grids = [getattr(trace, field) for trace in (traces if field == "text" else traces[:1])]
    found = {}
    for i, j in itertools.product(*map(range, size)):
        written = [grid[row + i][column + j] for grid in grids]
        if field == "text":
            written = [text.rstrip("\u200b") for text in written if text.rstrip("\u200b")]
        assert len(written) == 1
        found[i, j] = written[0]
    return found


def titles(figure):
    """The text of every title, in the order of the maps."""
    if figure.layout.annotations:
        return [words.text for words in figure.layout.annotations]
    return [text for _, _, text in points(figure) if "<b>" in text]


def notes(figure, number):
    """Title and lines below it, as text."""
    text = re.sub(r"<br>", "\n", titles(figure)[number - 1])
    return re.sub(r"<[^>]*>", "", text).split("\n")


def colour(trace, step):
    return {round(at * trace.zmax): colour for at, colour in trace.colorscale}[round(step)]


def names_and_heads(figure):
    """The labels beside the rows and above the columns of the first map."""
    row, column = corner(figure, 1)
    labels = [point for point in points(figure) if "<b>" not in point[2]]
    names = [text.rstrip("\u2002") for x, _, text in labels if x == column - 0.5]
    return names, [text for _, y, text in labels if y < row - 0.5]


def strokes_in(path):
    """The cells that the strokes of a hatch run through, found by walking along them."""
    cells = set()
    for line in re.findall(r"M([-.\d]+),([-.\d]+)L([-.\d]+),([-.\d]+)", path):
        x1, y1, x2, y2 = map(float, line)
        for share in np.linspace(0, 1, 402)[1:-1]:
            x, y = x1 + share * (x2 - x1), y1 + share * (y2 - y1)
            if abs(x % 1 - 0.5) > 1e-6 and abs(y % 1 - 0.5) > 1e-6:  # not on the edge of a cell
                cells.add((round(y), round(x)))
    return cells


# the four heat maps ---------------------------------------------------------------------------


def test_the_four_maps_stand_in_reading_order_under_the_titles_of_the_sheet():
    figure = heat_maps(*scene())
    assert [notes(figure, number)[0] for number in (1, 2, 3, 4)] == [
        "Scores",
        "Scaled scores",
        "Mask",
        "Weights",
    ]


@pytest.mark.parametrize("size", [(3, 3), (2, 5), (5, 2), (1, 1), (1, 4), (16, 16)])
def test_every_cell_has_its_number_and_its_hover_text(size):
    sheet, values, labels = scene(*size)
    figure = heat_maps(sheet, values, labels)
    for number, name in enumerate(NAMES, 1):
        texts, hover = (cells(figure, number, field, size) for field in ("text", "hovertext"))
        for (i, j), text in texts.items():
            value = values[name][i, j]
            assert text == (show(value) if name != "mask" else "0" if value else "−∞")
            assert f"query {i + 1} q{i}, key {j + 1} k{j}" in hover[i, j]


def test_the_hover_text_holds_the_arithmetic_and_every_digit():
    sheet, values, labels = scene()
    hover = cells(heat_maps(sheet, values, labels), 4, "hovertext", (3, 3))[2, 1]
    flat = hover.replace("<br>", " ")
    assert work(sheet, values, "weights", 2, 1).text.replace("<", "&lt;") in flat
    assert flat.endswith(f"in full {float(values['weights'][2, 1])!r}")


def test_a_number_that_is_shown_whole_is_not_written_twice():
    figure = heat_maps(*scene(q=[[1, 2]], k=[[3, 1], [0.5, 1 / 3]], mask=[[1, 1]]))
    hover = cells(figure, 1, "hovertext", (1, 2))
    assert hover[0, 0] == "query 1 q0, key 1 k0<br>1×3 + 2×1 = 5"
    assert hover[0, 1].endswith(f"<br>in full {1 * 0.5 + 2 * (1 / 3)!r}")


def test_a_long_sum_is_abridged_with_its_result():
    sheet, values, labels = scene(8, 8, d_k=16)
    hover = cells(heat_maps(sheet, values, labels), 1, "hovertext", (8, 8))[3, 4].replace("<br>", " ")
    terms = work(sheet, values, "scores", 3, 4).text.split(" + ")
    assert " + ".join([*terms[:2], "…", terms[-1]]) in hover


def test_a_dot_product_of_eight_terms_is_whole():
    sheet, values, labels = scene(8, 8, d_k=8)
    hover = cells(heat_maps(sheet, values, labels), 1, "hovertext", (8, 8))[3, 4].replace("<br>", " ")
    assert work(sheet, values, "scores", 3, 4).text in hover


def test_case_1_equal_tokens_keep_their_own_rows_and_columns():
    tokens = ("the", "cat", "the")
    names, heads = names_and_heads(heat_maps(*scene(queries=tokens, keys=tokens)))
    assert names[:3] == ["1 the", "2 cat", "3 the"]
    assert heads[:3] == ["1<br>the", "2<br>cat", "3<br>the"]


def test_case_2_blocked_cells_are_hatched_and_say_so():
    figure = heat_maps(*scene())
    assert cells(figure, 3, "text", (3, 3))[0, 1] == "−∞"
    assert "may not look" in cells(figure, 3, "hovertext", (3, 3))[0, 1]
    (shape,) = figure.layout.shapes
    assert shape.layer == "below"
    crossed = strokes_in(shape.path)
    for number in (1, 2, 3, 4):
        row, column = corner(figure, number)
        for (i, j), step in cells(figure, number, "z", (3, 3)).items():
            blocked = number > 2 and j > i
            assert ((row + i, column + j) in crossed) == blocked
            assert (colour(figure.data[0], step) == CLEAR) == blocked  # the strokes lie behind the cells


def test_the_strokes_of_a_hatch_stay_in_its_cells():
    hatched = np.random.default_rng(3).random((5, 7)) < 0.4
    assert strokes_in(hatch(hatched, "light")["path"]) == set(map(tuple, np.argwhere(hatched).tolist()))


def test_a_figure_without_a_blocked_cell_has_no_strokes():
    assert not heat_maps(*scene(mask=np.ones((3, 3)))).layout.shapes


def test_case_3_one_huge_number_leaves_the_others_readable():
    sheet, values, labels = scene(q=[[1, 2], [2, -1], [1e9, 1]], k=[[1, 0], [0, 1], [1, 1]])
    figure = heat_maps(sheet, values, labels)
    assert notes(figure, 1)[1:] == ["colour −3 to 3", "one range for both", "2 numbers lie beyond"]
    steps = cells(figure, 1, "z", (3, 3))
    assert len({steps[i, j] for i in (0, 1) for j in range(3)}) >= 4


def test_cells_beyond_the_colour_range_have_a_folded_corner():
    figure = heat_maps(*scene(q=[[1, 2], [2, -1], [1e9, 1]], k=[[1, 0], [0, 1], [1, 1]]))
    (folds,) = (trace for trace in figure.data if trace.type == "scatter" and trace.fill)
    x, y = (
        np.reshape([math.nan if at is None else at for at in axis], (-1, 5)) for axis in (folds.x, folds.y)
    )
    inside = {(round(i), round(j)) for i, j in zip(np.nanmean(y, 1) + 0.1, np.nanmean(x, 1), strict=True)}
    row, column = corner(figure, 2)
    assert inside == {(2, 0), (2, 2), (row + 2, column), (row + 2, column + 2)}
    assert not [trace for trace in heat_maps(*scene()).data if trace.type == "scatter" and trace.fill]


def test_case_4_scores_before_and_after_scaling_share_one_stated_range():
    sheet, values, labels = scene(q=[[20, 1], [0, 0], [1, 1]], k=[[1, 0], [-1, 0], [0, 1]])
    figure = heat_maps(sheet, values, labels)
    assert notes(figure, 1)[1:] == notes(figure, 2)[1:] == ["colour −20 to 20", "one range for both"]
    apart = heat_maps(sheet, values, labels, shared=False)
    assert notes(apart, 1)[1:] == ["colour −20 to 20", "its own range"]
    assert notes(apart, 2)[1:] == ["colour −15 to 15", "its own range"]
    for number, name, limit in ((1, "scores", 20), (2, "scaled", 20)):
        for (i, j), step in cells(figure, number, "z", (3, 3)).items():
            assert colour(figure.data[0], step) == SIGNED["light"][STEPS + level(values[name][i, j], limit)]


@pytest.mark.parametrize("theme", THEMES)
def test_weights_have_the_colours_of_the_board(theme):
    sheet, values, labels = scene(mask=np.ones((3, 3)))
    figure = heat_maps(sheet, values, labels, theme=theme)
    for (i, j), step in cells(figure, 4, "z", (3, 3)).items():
        assert colour(figure.data[0], step) == WEIGHT[theme][round(values["weights"][i, j] * 10)]


@pytest.mark.parametrize("theme", THEMES)
def test_case_5_numbers_keep_their_contrast_on_every_colour(theme):
    q, k = np.linspace(-1, 1, 16)[:, None], np.linspace(-1, 1, 16)[:, None]
    figure = heat_maps(*scene(q=q, k=k, mask=np.eye(16)), theme=theme)
    surface, seen = SURFACES[theme], set()
    heatmaps = [trace for trace in figure.data if trace.type == "heatmap"]
    for trace in heatmaps:
        texts = itertools.chain(*trace.text)
        for step, text in zip(np.ravel(heatmaps[0].z), texts, strict=True):
            if text.strip("\u200b"):
                behind = colour(heatmaps[0], step)
                for each in [surface["paper"], surface["line"]] if behind == CLEAR else [behind]:
                    seen.add(each)
                    assert contrast(each, trace.textfont.color) >= 4.5
    assert {SIGNED[theme][0], SIGNED[theme][-1], WEIGHT[theme][-1], surface["line"]} <= seen
    assert contrast(figure.layout.font.color, surface["paper"]) >= 4.5
    assert contrast(figure.layout.hoverlabel.font.color, figure.layout.hoverlabel.bgcolor) >= 4.5
    labels = next(trace for trace in figure.data if getattr(trace, "mode", "") == "text")
    assert contrast(labels.textfont.color, surface["paper"]) >= 4.5
    for words in titles(figure):
        found = re.findall(r"color:(#\w{6})", words)
        assert len(found) == 3
        assert all(contrast(each, surface["paper"]) >= 4.5 for each in found)


def test_case_6_a_token_is_never_read_as_markup():
    figure = heat_maps(*scene(7, 7, queries=HOSTILE, keys=HOSTILE))
    names, heads = names_and_heads(figure)
    hover = [text for number in (1, 4) for text in cells(figure, number, "hovertext", (7, 7)).values()]
    for text in [*names, *heads, *hover]:
        assert not set(re.findall(r"<[^>]*>", text)) - {"<br>"}
        assert "$" not in text
    assert "1 &lt;img src=x on…" in names
    assert "1<br>&lt;img s…" in heads
    assert "&lt;img src=x onerror=alert(1)&gt;" in hover[0]


def test_case_7_cell_0_2_belongs_to_query_1_and_key_3():
    sheet, values, labels = scene(q=[[1, 2], [3, 4], [5, 6]], k=[[7, 1], [0, 2], [9, -1]])
    figure = heat_maps(sheet, values, labels)
    assert cells(figure, 1, "text", (3, 3))[0, 2] == "7"  # 1 × 9 + 2 × (−1)
    assert cells(figure, 1, "hovertext", (3, 3))[0, 2] == "query 1 q0, key 3 k2<br>1×9 + 2×(−1) = 7"
    below, above = figure.layout.yaxis.range
    assert above < 0 < below  # row 0 is on top


def test_a_query_that_may_look_nowhere_is_named():
    figure = heat_maps(*scene(mask=[[1, 1, 1], [0, 0, 0], [1, 1, 1]]))
    assert notes(figure, 4)[1:] == ["colour 0 to 1", "row 2: nowhere"]
    assert notes(heat_maps(*scene()), 4)[1:] == ["colour 0 to 1", "each row adds up to 1"]


def test_numbers_without_a_value_are_written_and_do_not_break_the_figure():
    with np.errstate(all="ignore"):
        figure = heat_maps(*scene(q=[[1e200, 1], [1, 1]], k=[[1e200, 1], [-1e200, 1]]))
    texts = cells(figure, 1, "text", (2, 2))
    assert (texts[0, 0], texts[0, 1]) == ("∞", "−∞")
    assert (0, 1) in strokes_in(figure.layout.shapes[0].path)
    assert cells(figure, 4, "text", (2, 2))[0, 0] == "not a number"
    assert notes(figure, 4)[2] == "some have no value"


def test_the_figure_stays_light():
    figure = heat_maps(*scene(16, 16))
    assert len(figure.data) <= 4
    assert len(figure.layout.shapes) == 1
    assert not figure.layout.annotations
    assert len([*figure.select_xaxes(), *figure.select_yaxes()]) == 2
    assert figure.to_dict()["layout"]["template"] is None
    assert len(heat_maps(*scene(8, 8, d_k=8)).to_json()) < 70_000


def test_plotly_is_told_that_a_figure_drawn_twice_has_not_changed():
    sheet, values, labels = scene()
    for figure in (heat_maps(sheet, values, labels), large_map(sheet, values)):
        assert figure.layout.datarevision is not None
        assert figure.to_dict()["layout"]["template"] is None  # in one Plotly always finds a change


@pytest.mark.parametrize("theme", THEMES)
def test_plotly_takes_every_entry_of_the_figures(theme):
    sheet, values, labels = scene(q=[[1, 2], [2, -1], [1e9, 1]], k=[[1, 0], [0, 1], [1, 1]])
    for figure in (heat_maps(sheet, values, labels, theme=theme), large_map(sheet, values, theme=theme)):
        go.Figure(figure.to_dict())  # checks what canvas.figure leaves unchecked


@pytest.mark.parametrize(("n", "across", "lines"), [(4, 1, 4), (4, 2, 2), (4, 4, 1), (8, 4, 2), (16, 2, 4)])
def test_maps_stand_side_by_side_only_where_numbers_stay_readable(n, across, lines):
    figure = heat_maps(*scene(n, n), across=across)
    assert len({corner(figure, number)[0] for number in (1, 2, 3, 4)}) == lines


@pytest.mark.parametrize("size", [(1, 1), (4, 4), (9, 9), (16, 16), (2, 5)])
@pytest.mark.parametrize("across", [1, 2, 4])
def test_maps_do_not_overlap(size, across):
    figure = heat_maps(*scene(*size), across=across)
    z = np.array(figure.data[0].z)
    taken = np.zeros(z.shape, int)
    for number in (1, 2, 3, 4):
        row, column = corner(figure, number)
        taken[row : row + size[0], column : column + size[1]] += 1
    assert np.array_equal(taken, ~np.isnan(z))
    for x, y, _ in points(figure):
        assert -0.5 <= x < z.shape[1] - 0.5
        assert figure.layout.yaxis.range[1] < y < z.shape[0] - 0.5


def test_a_narrow_screen_gets_short_labels_and_letters_that_fit():
    tokens = tuple(f"understanding{i}" for i in range(8))
    figure = heat_maps(*scene(8, 8, queries=tokens, keys=tokens), across=1)
    names, heads = names_and_heads(figure)
    assert (names[0], heads[0]) == ("1 underst…", "1<br>und…")
    assert {trace.textfont.size for trace in figure.data if trace.type == "heatmap"} <= {9, 10, 11, 12}


def test_a_narrow_screen_gets_no_numbers_where_they_could_not_be_read():
    image = heat_maps(*scene(16, 16), across=1).data[0]
    assert image.text is None
    assert image.hovertext[0][0].startswith("query 1 q0, key 1 k0")
    assert heat_maps(*scene(16, 16)).data[0].text is not None


def test_more_cells_than_can_be_read_are_refused():
    with pytest.raises(ValueError, match="17 × 17 cells leave no room for numbers"):
        heat_maps(*scene(17, 17))


def test_figures_do_not_change_what_they_show():
    sheet, values, labels = scene()
    before = {name: array.copy() for name, array in values.items()}
    heat_maps(sheet, values, labels)
    large_map(sheet, values)
    assert all(np.array_equal(before[name], values[name], equal_nan=True) for name in before)


# large maps -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "block", "side"), [(17, 1, 17), (64, 1, 64), (128, 1, 128), (129, 2, 65), (256, 2, 128)]
)
def test_case_8_large_maps_are_coarser_above_128_cells_a_side(n, block, side):
    sheet, values, _ = scene(n, n)
    figure = large_map(sheet, values)
    assert block_of((n, n)) == block
    maps = [trace for trace in figure.data if trace.type == "heatmap"]
    assert [np.shape(trace.z) for trace in maps] == [(side, side)] * 3
    expected = f"{n} × {n} cells" + (f", drawn as means of {block} × {block}" if block > 1 else "")
    assert all(notes(figure, number)[1] == expected for number in (1, 2, 3))
    assert len(figure.to_json()) < 350_000


def test_pooled_cells_are_means_of_their_blocks():
    array = np.random.default_rng(0).normal(size=(7, 5))
    means = pooled(array, 3)
    assert means.shape == (3, 2)
    for i, j in itertools.product(range(3), range(2)):
        assert means[i, j] == pytest.approx(array[3 * i : 3 * i + 3, 3 * j : 3 * j + 3].mean(), rel=1e-14)


def test_positions_of_a_large_map_count_from_1_and_row_1_is_on_top():
    sheet, values, _ = scene(130, 130)
    figure = large_map(sheet, values)
    trace = figure.data[0]
    assert (trace.x0, trace.dx, trace.y0, trace.dy) == (1, 2, 1, 2)
    assert list(figure.layout.yaxis.range) == [130, 0]
    assert "2 × 2 cells from query %{y}, key %{x}" in trace.hovertemplate
    assert figure.layout.yaxis.ticktext[0] == "1"


def test_strokes_of_a_large_map_cross_blocked_cells_only():
    sheet, values, _ = scene(40, 40)
    strokes = next(trace for trace in large_map(sheet, values).data if trace.type == "scatter")
    xs, ys = ([v for v in axis if v is not None] for axis in (strokes.x, strokes.y))
    for x1, x2, y1, y2 in zip(xs[::2], xs[1::2], ys[::2], ys[1::2], strict=True):
        for share in (0.01, 0.5, 0.99):
            i, j = round(y1 + share * (y2 - y1)), round(x1 + share * (x2 - x1))
            assert not values["mask"][i - 1, j - 1]


def test_the_range_of_large_weights_is_stated_with_what_lies_beyond():
    sheet, values, _ = scene(64, 64)
    title = notes(large_map(sheet, values), 3)
    limit = float(title[2].removeprefix("colour 0 to "))
    beyond = int(np.sum(values["weights"] > limit))
    assert beyond <= 64 * 64 / 200
    assert title[3].startswith(f"{beyond} number")


def test_an_all_zero_and_a_single_row_large_map_can_be_drawn():
    sheet, values, _ = scene(20, 20, mask=np.zeros((20, 20)))
    assert notes(large_map(sheet, values), 3)[2] == "colour 0 to 1"
    large_map(*scene(1, 200)[:2])


# words ----------------------------------------------------------------------------------------


def test_the_alternative_text_says_what_is_shown():
    text = alt_text(
        *scene(q=[[1, 0], [0, 1]], k=[[2, 0], [0, 1]], queries=("the", "cat"), keys=("the", "cat"))
    )
    assert text == (
        "Four heat maps, 2 queries down and 2 keys across. Scores: from 0 to 2, coloured from −2 to 2. "
        "Scaled scores: from 0 to 1.41, coloured from −2 to 2. Mask: 1 of 4 cells is blocked. "
        "Weights: query 1 the looks most at 1 the, 1; query 2 cat looks most at 2 cat, 0.67."
    )


def test_the_alternative_text_names_ties_and_empty_rows():
    text = alt_text(*scene(q=[[0, 0], [0, 0]], k=[[1, 1], [1, 1]], mask=[[1, 1], [0, 0]]))
    assert "query 1 q0 looks most at 1 k0 and 2 k1, 0.50; query 2 q1 may look nowhere, its row is 0." in text
    assert "Scores: all 0" in text


def test_the_alternative_text_of_many_rows_stays_short():
    assert len(alt_text(*scene(16, 16))) < 400
    assert "the largest is 1, of query 1 q0 for key 1 k0" in alt_text(*scene(16, 16))
    assert large_alt_text(*scene(64, 64)[:2]).startswith(
        "Three heat maps without numbers, 64 queries down and 64 keys"
    )


def test_costs_are_counted_as_a_loop_would_count_them():
    random = np.random.default_rng(0)
    x, w_q, w_k, w_v = (random.normal(size=shape) for shape in ((7, 5), (5, 3), (5, 3), (5, 2)))
    sheet = attention_from_x(x, w_q, w_k, w_v).sheet
    counted = Counter()
    for _i, _j in itertools.product(range(7), range(7)):
        counted["entries"] += 1
        counted["multiply-adds"] += 3 + 2  # a score has d_k terms; a weight meets d_v values
    sentences = cost_sentences(sheet, {"query": 7, "key": 7, "token": 7, "d_model": 5, "d_k": 3, "d_v": 2})
    assert f"7 queries × 7 keys = {counted['entries']} entries in every table." == sentences[0]
    assert sentences[1].endswith(f"= {counted['multiply-adds']} multiply-adds.")
    assert (
        f"{counted['entries'] * 8} bytes in float64, {counted['entries'] * 2} bytes in float16"
        in sentences[2]
    )
    assert "there are 4: Scores, Scaled scores, Masked scores, Weights." in sentences[2]


def test_costs_need_the_length_of_every_axis():
    with pytest.raises(ValueError, match="d_v"):
        cost_sentences(scene()[0], {"query": 2, "key": 2, "d_k": 1})

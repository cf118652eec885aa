"""The figure of the activation curves: every point on its curve, in words and as a table, too."""

from __future__ import annotations

import numpy as np
import pytest

from attention_core.numbers import show
from attention_ui.curves import CURVES, alt_text, panel, reach_of, twin

HIDDEN = np.array([-2.5, -0.75, 0.0, 1.5, 3.25])
each_kind = pytest.mark.parametrize("kind", CURVES)


@each_kind
def test_the_points_lie_on_the_curve_that_is_drawn_strongest(kind):
    name, function, _ = CURVES[kind]
    lines = panel(HIDDEN, kind).lines
    (points,) = (line for line in lines if line.points)
    np.testing.assert_array_equal(points.x, HIDDEN)
    np.testing.assert_array_equal(points.y, function(HIDDEN))
    strong = {line.name: line.strong for line in lines if not line.points}
    assert set(strong) == {title for title, *_ in CURVES.values()}
    assert [title for title, is_strong in strong.items() if is_strong] == [name]


def test_every_curve_has_a_line_of_its_own_kind():
    dashes = [line.dash for line in panel(HIDDEN, "relu").lines if not line.points]
    assert len(set(dashes)) == len(dashes) == len(CURVES)


@each_kind
def test_the_table_says_what_each_function_makes_of_each_number(kind):
    table = twin(HIDDEN, kind)
    assert list(table.columns) == ["hidden", *(title for title, *_ in CURVES.values())]
    for title, function, _ in CURVES.values():
        assert list(table[title]) == [show(value) for value in function(HIDDEN).tolist()]


@each_kind
def test_the_words_say_how_many_points_there_are_and_how_many_come_out_at_0_or_below(kind):
    text = alt_text(HIDDEN, kind)
    assert "from −4 to 4" in text and "5 points" in text
    assert "3 of them come out at 0 or below" in text and "beyond" not in text


def test_the_figure_reaches_as_far_as_the_points_and_not_further_than_it_can_be_read():
    assert reach_of(np.array([0.5])) == 4 and reach_of(np.array([-6.2])) == 7
    far = np.array([1.0, 1e60, -40.0])
    assert reach_of(far) == 12 and "2 lie beyond the edge" in alt_text(far, "gelu_tanh")
    (points,) = (line for line in panel(far, "gelu_tanh").lines if line.points)
    assert list(points.x) == [1.0]

"""Figures that follow an edit: where every point lies, what it says, and what can be told apart."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from attention_core.numbers import show
from attention_ui.graphs import Line, Panel
from attention_ui.svg import DASHES, stacked

EVEN = Panel(
    "heights",
    [
        Line("first", [0, 5, 10], [0.0, 2.0, 4.0], strong=True),
        Line("second", [0, 10], [4.0, 1.0], dash="dot"),
        Line("points", [5], [3.0], points=True, hover=("<said>",)),
    ],
    x_title="number",
)
POWERS = Panel("powers", [Line("first", [1, 2, 3, 4], [1.0, 100.0, 0.0, float("nan")])], y_log=True)


def paths(html: str, kind: str) -> list[list[tuple[float, float]]]:
    """The points of the drawn lines of a kind, in thousandths from the left and from the top."""
    found = re.findall(rf'<path class="{kind}" d="M([^"]*)"', html)
    return [
        [tuple(map(float, point.split())) for point in re.split("[LM]", path.replace("h0", ""))]
        for path in found
    ]


def test_a_line_rises_with_its_numbers_and_keeps_their_distances():
    name, drawn = paths(stacked([EVEN], ""), "line strong")
    assert len(name) == 2  # the piece beside its name
    (x0, y0), (x1, y1), (x2, y2) = drawn
    assert 0 < x0 < x1 < x2 < 1000 and 1000 > y0 > y1 > y2 > 0
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.01) and y0 - y1 == pytest.approx(y1 - y2, abs=0.01)


def test_the_numbers_beside_an_axis_stand_where_the_line_has_them():
    html = stacked([EVEN], "")
    beside = {text: float(at) for at, text in re.findall(r'style="top: ([\d.]+)%">([^<]*)<', html)}
    drawn = paths(html, "line strong")[1]
    assert beside[show(0.0)] == pytest.approx(drawn[0][1] / 10, abs=0.01)
    assert beside[show(4.0)] == pytest.approx(drawn[2][1] / 10, abs=0.01)
    below = {text: float(at) for at, text in re.findall(r'style="left: ([\d.]+)%">([^<]*)<', html)}
    assert below[show(10.0)] == pytest.approx(drawn[2][0] / 10, abs=0.01)


def test_powers_stand_at_even_distances_and_what_has_none_is_left_out():
    html = stacked([POWERS], "")
    (drawn,) = paths(html, "line")
    assert len(drawn) == 2
    tens = [float(at) for at in re.findall(r'style="top: ([\d.]+)%"', html)]
    steps = [a - b for a, b in pairwise(tens)]
    assert steps == pytest.approx([steps[0]] * len(steps), abs=0.02)


def test_every_point_says_its_numbers_and_no_text_is_read_as_html():
    html = stacked([EVEN, POWERS], 'a "figure" of <b>')
    assert html.startswith('<div class="chart" role="img" aria-label="a &quot;figure&quot; of &lt;b&gt;">')
    said = re.findall(r"<title>(.*?)</title>", html, re.DOTALL)
    assert len(said) == 3 + 2
    assert f"first, {show(5.0)}: {show(2.0)}\n&lt;said&gt;" in said


def test_lines_are_told_apart_by_more_than_their_colour():
    assert len(set(DASHES.values())) == len(DASHES)
    html = stacked([EVEN], "")
    assert html.count(f'stroke-dasharray="{DASHES["dot"]}"') == 2
    assert html.count("<li>") == 3 and "<li>" not in stacked([POWERS], "")


def test_what_is_said_of_a_point_stays_with_it_where_another_one_has_no_place():
    line = Line("l", [1, 2, 3], [0.0, 10.0, 100.0], hover=("lost", "ten", "hundred"))
    html = stacked([Panel("p", [line], y_log=True)], "")
    assert re.findall(r"<title>(.*?)</title>", html) == ["ten", "hundred"]

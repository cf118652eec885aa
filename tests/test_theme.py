"""Colours: readable in both themes, even, and the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attention_ui import theme

SCALES = {"signed": theme.SIGNED, "weight": theme.WEIGHT}


def luminance(colour: str) -> float:
    """WCAG 2.2's relative luminance, written down a second time."""
    total = 0.0
    for channel, share in zip(bytes.fromhex(colour[1:]), (0.2126, 0.7152, 0.0722), strict=True):
        c = channel / 255
        total += share * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
    return total


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", theme.THEMES)
@pytest.mark.parametrize("scale", SCALES)
def test_text_on_every_colour_step_keeps_four_and_a_half_to_one(scale, name):
    for colour in SCALES[scale][name]:
        assert contrast(colour, theme.ink(colour, name)) >= 4.5


@pytest.mark.parametrize("name", theme.THEMES)
@pytest.mark.parametrize("surface", ["paper", "raised"])
def test_titles_and_text_read_on_every_surface(surface, name):
    surfaces = theme.SURFACES[name]
    texts = [
        *theme.ROLES[name].values(),
        *(surfaces[text] for text in ("text", "quiet", "refused", "accent")),
    ]
    assert min(contrast(text, surfaces[surface]) for text in texts) >= 4.5


@pytest.mark.parametrize("name", theme.THEMES)
def test_both_sides_of_zero_are_equally_strong_at_every_step(name):
    for step in range(1, theme.STEPS + 1):
        below, above = theme.SIGNED[name][10 - step], theme.SIGNED[name][10 + step]
        assert contrast(below, above) < 1.25


@pytest.mark.parametrize("name", theme.THEMES)
@pytest.mark.parametrize("scale", SCALES)
def test_a_larger_number_has_a_stronger_colour(scale, name):
    steps = SCALES[scale][name][10 if scale == "signed" else 0 :]
    strength = [contrast(colour, steps[0]) for colour in steps]
    assert strength == sorted(strength)
    assert len(set(steps)) == len(steps) == 11


@pytest.mark.parametrize("name", theme.THEMES)
def test_the_two_sides_differ_for_readers_who_see_no_red_and_green(name):
    for step in range(3, theme.STEPS + 1):
        (_, _, below), (_, _, above) = (
            bytes.fromhex(theme.SIGNED[name][10 + sign * step][1:]) for sign in (-1, 1)
        )
        assert above - below > 60  # blue against orange lies on the axis that all but very few people see


def test_levels_go_from_minus_ten_to_ten_and_keep_the_shape():
    values = np.array([[-4.0, -2.0, 0.0], [0.19, 4.0, 1e9]])
    assert theme.level(values, 4.0).tolist() == [[-10, -5, 0], [0, 10, 10]]


def test_no_number_has_no_level():
    assert theme.levels([[-np.inf, np.nan, 0.5, np.inf]], 1.0) == [[None, None, 5, 10]]


def test_one_huge_number_leaves_the_others_readable_and_is_marked():
    values = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75], [1e9, 1.0, -2.0], [0.0, 1.0, 0.5]])
    limit = theme.colour_limit(values)
    assert limit == 2.0
    assert np.argwhere(theme.lie_beyond(values, limit)).tolist() == [[2, 0]]


def test_a_range_is_a_round_number_that_takes_in_all_ordinary_numbers():
    rng = np.random.default_rng(7)
    values = rng.normal(size=(7, 5)) * 3.3
    limit = theme.colour_limit(values)
    assert np.abs(values).max() <= limit <= 1.5 * np.abs(values).max()
    assert not theme.lie_beyond(values, limit).any()


@pytest.mark.parametrize("values", [np.zeros((2, 3)), np.full((2, 2), -np.inf), np.zeros((0, 3)), [[np.nan]]])
def test_a_matrix_without_a_number_other_than_zero_has_the_range_one(values):
    limit = theme.colour_limit(values)
    assert limit == 1.0
    assert not theme.lie_beyond(np.asarray(values), limit).any()


def test_minus_infinity_is_not_clipped_but_infinity_is():
    values = np.array([[-np.inf, np.inf, 1.0]])
    assert theme.lie_beyond(values, theme.colour_limit(values)).tolist() == [[False, True, False]]


@given(arrays(np.float64, (7, 5), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_any_numbers_have_a_finite_range_and_levels_within_it(values):
    limit = theme.colour_limit(values)
    assert 0 < limit < np.inf
    assert theme.lie_beyond(values, limit).shape == values.shape
    steps = [step for row in theme.levels(values, limit) for step in row if step is not None]
    assert all(-10 <= step <= 10 for step in steps)


@pytest.mark.parametrize("name", theme.THEMES)
def test_plotly_scales_are_the_same_steps(name):
    signed, weight = theme.plotly_scale("signed", name), theme.plotly_scale("weight", name)
    assert [colour for _, colour in signed] == theme.SIGNED[name]
    assert signed[10] == [0.5, theme.ZERO[name]]
    assert weight[0][0] == 0.0
    assert weight[-1] == [1.0, theme.WEIGHT[name][10]]


def test_the_style_sheet_has_every_step_for_both_themes_and_light_paper():
    css = theme.css(".board")
    assert css.count('[data-scale=signed] [data-level="') == 21
    assert css.count('[data-scale=weight] [data-level="') == 11
    assert css.count(theme.SIGNED["dark"][0]) == 1
    assert css.count(theme.SIGNED["light"][0]) == 2  # on the screen and on paper

"""Every part of the series in a real browser: on a telephone, and for readers who cannot see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from attention_ui.lessons import LESSONS

from .conftest import settled
from .test_app import APP

PARTS = [lesson.slug for lesson in LESSONS if lesson.part]
each_part = pytest.mark.parametrize("slug", PARTS)


@pytest.fixture
def part(serve: Callable[..., Any], visit: Callable[..., Any]) -> Callable[..., Any]:
    """A function that opens a part by its link and waits for its board."""

    def open_page(slug: str, *, own: bool = False, **options: Any) -> Any:
        opened = visit(f"{serve(APP, own=own).url}/{slug}", **options)
        opened.page.get_by_role("grid").first.wait_for()
        settled(opened.page)
        return opened

    return open_page


@each_part
def test_a_part_never_scrolls_sideways_on_a_telephone(part, slug):
    page = part(slug, width=360, height=780, touch=True).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    wide = page.evaluate(
        """() => [...document.querySelectorAll('.stMain *')].filter(e => {
          const box = e.getBoundingClientRect();
          if (box.right <= 361 || box.width === 0) return false;
          for (let at = e; at; at = at.parentElement)
            if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(at).overflowX)) return false;
          return true;
        }).map(e => `${e.tagName} ${e.className}`)"""
    )
    assert wide == []


@each_part
def test_axe_finds_no_fault_in_a_part(part, axe, slug):
    """In dark and light by turns: the colours are the same on every page, what stands on it is not."""
    opened = part(slug, dark=PARTS.index(slug) % 2 == 0)
    assert axe(opened) == []

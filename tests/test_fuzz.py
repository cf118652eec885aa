"""A few thousand made-up inputs for every door of the app; benchmarks/fuzz.py gives in a hundred thousand."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import fuzz

INPUTS = int(os.environ.get("ATTENTION_FUZZ", "3000"))


def test_the_doors_share_all_inputs() -> None:
    assert sum(target.share for target in fuzz.TARGETS) == pytest.approx(1)


@pytest.mark.parametrize("target", fuzz.TARGETS, ids=lambda target: target.name)
def test_nothing_but_plain_sentences_comes_out(target: fuzz.Target) -> None:
    count, error = fuzz.run(target, round(INPUTS * target.share), start=7)
    assert not error, error
    assert count >= INPUTS * target.share * 0.9


def test_a_door_that_is_broken_is_found() -> None:
    def broken(text: str) -> None:
        assert "7" not in text

    target = fuzz.Target("broken", fuzz.numerals, broken, 1)
    assert "AssertionError" in fuzz.run(target, 300, start=7)[1]

"""What is installed is pinned down to the last byte: requirements*.lock, by version and hash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PINNED = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)


@pytest.mark.parametrize("name", ["requirements", "requirements-dev"])
def test_a_lock_holds_what_the_requirements_ask_for(name: str) -> None:
    wanted = set(PINNED.findall((ROOT / f"{name}.txt").read_text()))
    locked = set(PINNED.findall((ROOT / f"{name}.lock").read_text()))
    assert wanted
    assert wanted <= locked, "run `make lock`"


@pytest.mark.parametrize("name", ["requirements", "requirements-dev"])
def test_every_package_of_a_lock_has_hashes_and_comes_from_no_named_place(name: str) -> None:
    text = (ROOT / f"{name}.lock").read_text()
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 30
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text


def test_what_runs_and_what_is_tested_are_the_same_packages() -> None:
    run = set(PINNED.findall((ROOT / "requirements.lock").read_text()))
    assert run <= set(PINNED.findall((ROOT / "requirements-dev.lock").read_text()))


def test_make_and_the_image_install_by_hash_only() -> None:
    for name in ("Makefile", "Dockerfile"):
        text = (ROOT / name).read_text()
        installs = re.findall(r"^.*pip.* install .*-r .*$", text, re.MULTILINE)
        assert installs
        assert all("--require-hashes" in line and ".lock" in line for line in installs)

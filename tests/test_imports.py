"""Imports point one way: pages → attention_ui → attention_core → numpy."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted(
    path for folder in ("attention_core", "attention_ui", "pages") for path in ROOT.glob(f"{folder}/**/*.py")
)
MAY_IMPORT = {
    "attention_core": {"attention_core", "numpy"},
    "attention_ui": {"attention_core", "attention_ui", "numpy", "pandas", "plotly", "starlette", "streamlit"},
    "pages": {"attention_core", "attention_ui", "numpy", "pandas", "plotly", "streamlit"},
}
WITHOUT_STREAMLIT = ("attention_ui/figures.py", "attention_ui/theme.py")


def imported(path: Path) -> Iterator[str]:
    """The full name of every module that a file imports, wherever in the file it does."""
    folders = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = folders[: len(folders) - node.level + 1] if node.level else ()
            yield ".".join([*above, *([node.module] if node.module else [])])


def packages(path: Path) -> set[str]:
    """The packages outside the standard library that a file imports."""
    return {name.split(".")[0] for name in imported(path)} - sys.stdlib_module_names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    assert packages(path) <= MAY_IMPORT[path.relative_to(ROOT).parts[0]]


@pytest.mark.parametrize("name", WITHOUT_STREAMLIT)
def test_figures_and_colours_know_no_streamlit(name: str) -> None:
    seen: set[Path] = set()
    waiting = [ROOT / name]
    while waiting:
        path = waiting.pop()
        seen.add(path)
        assert "streamlit" not in packages(path), f"{path.name}, which {name} needs, imports Streamlit"
        needed = {ROOT.joinpath(*module.split(".")).with_suffix(".py") for module in imported(path)}
        waiting += [path for path in needed - seen if path.exists()]


def test_only_serving_and_what_it_puts_in_front_know_the_server() -> None:
    knowing = {path.name for path in MODULES if "starlette" in packages(path)}
    assert knowing == {"serving.py", "headers.py", "observing.py", "gate.py", "wire.py"}


def test_every_module_begins_with_what_it_is_about() -> None:
    undescribed = [path.name for path in MODULES if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]
    assert not undescribed

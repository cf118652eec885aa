"""What stands below the board: the selected cell's arithmetic, heat maps, tables, programs, large sizes.

Only the panel that is open is worked out and sent. The board is always drawn first.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.masks import why
from attention_core.sheet import ONE, work
from attention_ui import figures, listing, prose, tables, typeset, words
from attention_ui.bench import Bench
from attention_ui.grids import matrices
from attention_ui.links import LARGE
from attention_ui.scene import Attention, Scene, is_token, large_values
from attention_ui.tokens import isolated

PANELS = {
    "none": "Board only",
    "heat": "Heat maps",
    "tables": "Tables",
    "code": "As a program",
    "large": "Longer sequences",
}
RANGES = {"shared": "one range for the scores", "each": "a range for each matrix"}


def arithmetic(scene: Scene) -> None:
    """The selected cell, written out with the numbers that made it; it stays in view at the foot."""
    if scene.selected is None:
        prose.paragraph("Select a cell to see its arithmetic here.", kind="quiet")
        return
    name, row, column = scene.selected
    line = scene.sheet[name]
    worked = work(scene.sheet, scene.values, name, row, column)
    places = [_place(scene, axis, at) for axis, at in zip(line.axes, (row, column), strict=True)]
    place = " · ".join(filter(None, places))
    prose.paragraph(f"{line.title}, {place}" if place else line.title, kind="strong")
    prose.html(typeset.aligned(worked.latex, worked.text))
    prose.paragraph(line.meaning, kind="quiet")
    if name in ("mask", "masked") and scene.mask is not None:
        verdict = "may" if scene.values["mask"][row, column] else "may not"
        reason = why(scene.mask, row, column, *scene.values["mask"].shape)
        prose.paragraph(f"Query {row + 1} {verdict} look at key {column + 1}: {reason}.", kind="quiet")


def _place(scene: Scene, axis: str, at: int) -> str:
    """Where a cell stands, in words: "query 2, cat" or "d_k 1"; nothing where there is one only."""
    if axis == ONE:
        return ""
    if not is_token(axis):
        return f"{axis} {at + 1}"
    position = at + scene.starts.get(axis, 0) + 1
    return f"{axis.partition('_')[0]} {position}, {isolated(scene.labels[axis][at])}"


def choose(bench: Bench) -> None:
    """The choice of panel, and the controls of the one that is open."""
    st.segmented_control("Show also", list(PANELS), key="panel", format_func=PANELS.__getitem__)
    if bench.panel == "heat":
        st.segmented_control("Colours", list(RANGES), key="ranges", format_func=RANGES.__getitem__)
    if bench.panel == "large":
        st.slider("Tokens n", *LARGE, key="large", help="The example grown by its own rule, without numbers.")


def draw(scene: Attention) -> None:
    """The panel that is open."""
    _DRAW[scene.bench.panel](scene)


def _heat(scene: Attention) -> None:
    shared = scene.bench.ranges == "shared"
    figure = figures.heat_maps(
        scene.sheet, scene.values, scene.labels, theme=_theme(), shared=shared, across=_across()
    )
    _chart(figure, words.alt_text(scene.sheet, scene.values, scene.labels, shared=shared), "heat-maps")


def _large(scene: Attention) -> None:
    bench = scene.bench
    values = large_values(bench, bench.large)
    sizes = {"token": bench.large, "query": bench.large, "key": bench.large}
    sizes |= {axis: getattr(bench, axis) for axis in ("d_model", "d_k", "d_v")}
    for sentence in words.cost_sentences(scene.sheet, sizes):
        prose.paragraph(sentence)
    figure = figures.large_map(scene.sheet, values, theme=_theme(), across=3 if _across() > 1 else 1)
    _chart(figure, words.large_alt_text(scene.sheet, values), "large-map")


def as_tables(scene: Scene) -> None:
    """Every matrix as a table for reading, and as a file with the exact numbers."""
    for name in matrices(scene):
        title = scene.sheet.titles[name]
        table = tables.to_html(scene.sheet, scene.values, scene.labels, name)
        listing.draw(f"{title}, table", table)
        csv = tables.to_csv(scene.sheet, scene.values, scene.labels, name)
        st.download_button(
            f"{title} as CSV", csv, f"{name}.csv", "text/csv", key=f"csv-{name}", on_click="ignore",
            help="Every number to its last digit.",
        )  # fmt: skip


def as_code(scene: Scene) -> None:
    """The sheet as a program, with its numbers: NumPy, PyTorch and LaTeX."""
    numpy, torch, latex = st.tabs(["NumPy", "PyTorch", "LaTeX"])
    tokens = scene.labels.get("key") or scene.labels.get("token") or ()
    numpy.code(to_numpy(scene.sheet, scene.values, tokens=tokens), language="python")
    torch.code(to_torch(scene.sheet, scene.values), language="python")
    latex.code(to_latex(scene.sheet, scene.values), language="latex")


def _chart(figure: object, alt: str, key: str) -> None:
    buttons = {"displayModeBar": "hover"} if _across() > 1 else {}  # a telephone shows them all the time
    st.plotly_chart(figure, key=key, alt=alt, theme=None, config=figures.CONFIG | buttons)


def _across() -> int:
    """Heat maps side by side: one on a telephone, which says so itself."""
    return 1 if "Mobi" in str(st.context.headers.get("User-Agent", "")) else 2


def _theme() -> str:
    return "dark" if st.context.theme.type == "dark" else "light"


_DRAW: dict[str, Callable[[Attention], None]] = {
    "heat": _heat,
    "tables": as_tables,
    "code": as_code,
    "large": _large,
}

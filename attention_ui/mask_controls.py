"""The controls of a mask: its kind, the kind's own parameters, and a second mask to combine it with.

They are read off MASKS, so a new kind of mask needs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from attention_core.limits import LARGEST_SIDE
from attention_core.masks import MASKS, MaskSpec, Parameter, allowed, drawn, joined
from attention_ui import prose
from attention_ui.bench import Bench

WHICH = ("mask", "against")  # the two masks of the bench
ALONE = "alone"
JOINS = {ALONE: "alone", "and": "and (both must allow)", "or": "or (one is enough)"}
SIDES = {"start": "first with first", "end": "last with last", "right": "right", "left": "left"}
NUMBERS = ("left", "right", "length")

Read = Callable[[Bench], Any]
Write = Callable[[Bench, Any], Bench]
Moved = Callable[[], None] | None


def _parts(spec: MaskSpec) -> tuple[MaskSpec, MaskSpec]:
    """The mask itself, and the one it is joined with (causal stands ready where there is none)."""
    return spec.first, spec.second or MaskSpec("causal")


def _together(first: MaskSpec, join: str | None, second: MaskSpec) -> MaskSpec:
    return first if join is None else joined(first, join, second)


def _change(spec: MaskSpec, place: int, make: Callable[[MaskSpec], MaskSpec]) -> MaskSpec:
    """The mask with its first (0) or second (1) part made anew."""
    parts = list(_parts(spec))
    parts[place] = make(parts[place])
    return _together(parts[0], spec.join, parts[1])


def _choose(bench: Bench, part: MaskSpec, kind: str) -> MaskSpec:
    """A part of another kind. Drawing by hand starts from what the mask allows now."""
    if kind == part.kind:
        return part
    return drawn(allowed(part, bench.n_q, bench.n_k)) if kind == "custom" else MaskSpec(kind)


def _controls(which: str) -> dict[str, tuple[Read, Write]]:
    def spec(bench: Bench) -> MaskSpec:
        mask: MaskSpec = getattr(bench, which)
        return mask

    def put(bench: Bench, mask: MaskSpec) -> Bench:
        changed: dict[str, Any] = {which: mask}
        return replace(bench, **changed)

    def kind(place: int) -> tuple[Read, Write]:
        return (
            lambda bench: _parts(spec(bench))[place].kind,
            lambda bench, value: put(
                bench, _change(spec(bench), place, lambda part: _choose(bench, part, value))
            ),
        )

    def parameter(place: int, name: str) -> tuple[Read, Write]:
        def write(bench: Bench, value: Any) -> Bench:
            if value is None:
                return bench
            value = int(value) if name in NUMBERS else value
            return put(bench, _change(spec(bench), place, lambda part: replace(part, **{name: value})))

        def read(bench: Bench) -> Any:
            value = getattr(_parts(spec(bench))[place], name)
            return min(value, LARGEST_SIDE) if name in NUMBERS else value

        return read, write

    def write_join(bench: Bench, value: str) -> Bench:
        first, second = _parts(spec(bench))
        return put(bench, _together(first, None if value == ALONE else value, second))

    found: dict[str, tuple[Read, Write]] = {
        f"{which}_join": (lambda bench: spec(bench).join or ALONE, write_join)
    }
    for place in (0, 1):
        found[f"{which}_{place}_kind"] = kind(place)
        for name in (*NUMBERS, "align", "side"):
            found[f"{which}_{place}_{name}"] = parameter(place, name)
    return found


MASK_CONTROLS = {key: control for which in WHICH for key, control in _controls(which).items()}


def is_mask_drawn(bench: Bench, key: str) -> bool:
    """Whether a control of a mask is drawn; True for controls that are not of a mask."""
    which, _, rest = key.partition("_")
    if which not in WHICH or rest in ("", "join"):
        return True
    place, _, name = rest.partition("_")
    spec: MaskSpec = getattr(bench, which)
    if place == "1" and spec.second is None:
        return False
    kind = _parts(spec)[int(place)].kind
    return name == "kind" or any(parameter.name == name for parameter in MASKS[kind].parameters)


def draw_mask(bench: Bench, which: str, label: str, moved: Moved = None) -> None:
    """Draw the controls of one of the bench's masks; `moved` is called when one of them is moved."""
    spec: MaskSpec = getattr(bench, which)
    _draw_part(bench, which, 0, spec.first, label, moved)
    st.selectbox(
        f"{label} combined with another", list(JOINS), key=f"{which}_join", format_func=JOINS.__getitem__,
        on_change=moved,
    )  # fmt: skip
    if spec.second is not None:
        _draw_part(bench, which, 1, spec.second, f"Second part of {label[:1].lower()}{label[1:]}", moved)


def _draw_part(bench: Bench, which: str, place: int, part: MaskSpec, label: str, moved: Moved) -> None:
    key = f"{which}_{place}"
    st.selectbox(
        label, list(MASKS), key=f"{key}_kind", format_func=lambda kind: MASKS[kind].title, on_change=moved
    )
    prose.paragraph(part.describe(bench.n_q, bench.n_k), kind="quiet")
    if part.kind == "custom":
        prose.paragraph("Switch cells of the Mask grid by a click, or with Space.", kind="quiet")
    for parameter in MASKS[part.kind].parameters:
        if parameter.name == "align" and bench.n_q == bench.n_k:
            continue  # both alignments are the same
        _draw_parameter(parameter, f"{key}_{parameter.name}", moved)


def _draw_parameter(parameter: Parameter, key: str, moved: Moved) -> None:
    if parameter.options:
        st.radio(
            parameter.title, parameter.options, key=key, format_func=SIDES.__getitem__, horizontal=True,
            help=parameter.meaning, on_change=moved,
        )  # fmt: skip
    else:
        st.slider(
            parameter.title, parameter.low, min(parameter.high, LARGEST_SIDE), key=key,
            help=parameter.meaning, on_change=moved,
        )  # fmt: skip

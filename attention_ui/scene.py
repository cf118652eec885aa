"""What is on the screen: the bench, its sheet and every number on the way to the output."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.attention import AttentionTrace, attention, attention_from_x, attention_sheet
from attention_core.examples import MATRICES
from attention_core.masks import MaskSpec, allowed
from attention_core.sheet import Sheet, run
from attention_core.sheets import Scaling
from attention_ui.bench import Bench, Cell, givens, numbers, scaling_word, token_at
from attention_ui.tokens import literal

Make = TypeVar("Make", bound=Callable[..., Any])
_run = threading.local()

# matrices that are to be compared share one colour range
COMPARED = (("scores", "scaled", "masked"), ("k", "k_t"), ("v", "output"))


def is_token(axis: str) -> bool:
    """Whether an axis counts tokens: "query", "key", "token", or one of these with a suffix."""
    return axis.partition("_")[0] in ("query", "key", "token")


@dataclass(frozen=True, eq=False, kw_only=True)
class Scene:
    """A sheet worked out on the bench's numbers. `values` holds every line of the sheet by its name."""

    bench: Bench
    sheet: Sheet
    values: Mapping[str, NDArray[Any]]
    mask: MaskSpec | None = None  # the mask that the line `mask` comes from, if it does
    editable: tuple[str, ...] = ()  # the given matrices that a reader may change
    compared: tuple[tuple[str, ...], ...] = COMPARED  # matrices with one colour range
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # labels for axes of a lesson's own
    starts: Mapping[str, int] = field(
        default_factory=dict
    )  # where an axis begins that is a part of a longer one
    limits: dict[tuple[str, ...], float] = field(default_factory=dict)  # colour ranges found so far

    @cached_property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """What stands at the edge of a matrix, for each axis of the sheet."""
        sizes = {
            axis: size
            for line in self.sheet
            for axis, size in zip(line.axes, self.values[line.name].shape, strict=True)
        }
        return {axis: self.named.get(axis) or self._label(axis, size) for axis, size in sizes.items()}

    def _label(self, axis: str, size: int) -> tuple[str, ...]:
        if not is_token(axis):
            return tuple(str(c + 1) for c in range(size))
        return tuple(literal(token_at(self.bench, i, query=axis == "query")) for i in range(size))

    @cached_property
    def selected(self) -> Cell | None:
        """The selected cell, moved into range; None where its matrix is not on this sheet."""
        if self.bench.selected is None or self.bench.selected[0] not in self.values:
            return None
        name, row, column = self.bench.selected
        shape = self.values[name].shape
        return (name, min(row, shape[0] - 1), min(column, shape[1] - 1)) if len(shape) == 2 else None


@dataclass(frozen=True, eq=False, kw_only=True)
class Attention(Scene):
    """The scene of the walk-through: one mask on the bench's numbers."""

    mask: MaskSpec
    trace: AttentionTrace


def once(make: Make) -> Make:
    """Work a scene out once for a bench in a run: the board, the arithmetic and the words all ask for it.

    `make` takes a bench, or what has one, and makes the scene of nothing else. A run has a thread of its own.
    """

    @wraps(make)
    def made(source: Any, *more: Any) -> Any:
        bench = getattr(source, "bench", source)
        if getattr(_run, "bench", None) is not bench:
            _run.bench, _run.scenes = bench, {}
        if (made, more) not in _run.scenes:
            _run.scenes[made, more] = make(source, *more)
        return _run.scenes[made, more]

    return cast(Make, made)


@once
def scene(bench: Bench, mask: MaskSpec | None = None) -> Attention:
    """Work the bench's numbers through, under its own mask or another one."""
    mask = bench.mask if mask is None else mask
    allow = allowed(mask, bench.n_q, bench.n_k)
    factor = _factor(bench)
    work = attention_from_x if bench.way == "x" else attention
    given: dict[str, Any] = dict(givens(bench))
    with np.errstate(over="ignore", invalid="ignore"):  # huge numbers may run over; the cell then shows ∞
        trace = work(**given, mask=allow, scale=factor)
    sheet = attention_sheet(from_x=bench.way == "x", scaling=cast(Scaling, scaling_word(bench)))
    return Attention(
        bench=bench, sheet=sheet, values=trace.values, mask=mask, editable=MATRICES[bench.way], trace=trace
    )


def worked(
    bench: Bench,
    sheet: Sheet,
    given: Mapping[str, ArrayLike] | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    **more: Any,
) -> Scene:
    """A lesson's own sheet, worked out on the bench's numbers.

    What `given` does not hold comes from the bench, and its matrices can be edited: those of EDITABLE and
    of FURTHER, at the sizes of their axes; the rule `mask`, where the sheet has one, is the bench's mask.
    `sizes` adds axes to those of the bench, or overrides them; `more` are further fields of the scene.
    """
    given = given or {}
    here = sizes_of(bench) | dict(sizes or {})
    missing = [line for line in sheet.given if line.name not in given]
    found: dict[str, Any] = {
        line.name: allowed(bench.mask, *(here[axis] for axis in line.axes))
        if line.is_rule
        else numbers(bench, line.name, *(here[axis] for axis in line.axes))
        for line in missing
    }
    more = {"editable": tuple(line.name for line in missing if not line.is_rule)} | more
    if "mask" in found:
        more = {"mask": bench.mask} | more
    with np.errstate(over="ignore", invalid="ignore"):
        values = run(sheet, {**found, **given})
    return Scene(bench=bench, sheet=sheet, values=values, **more)


def sizes_of(bench: Bench) -> dict[str, int]:
    """How long each axis is on this bench, by the names of the sheet."""
    sizes = {"token": bench.n_k, "query": bench.n_q, "key": bench.n_k, "one": 1}
    return sizes | {axis: getattr(bench, axis) for axis in ("d_model", "d_k", "d_v")}


def _factor(bench: Bench) -> float | None:
    """What the scores are multiplied by; None for 1/√d_k."""
    if bench.scaling == "sqrt":
        return None
    return 1.0 if bench.scaling == "none" else float(bench.scaling)


def large_values(bench: Bench, n: int) -> Mapping[str, NDArray[Any]]:
    """The stages on n tokens, for the heat maps without numbers: the same example, grown by its own rule."""
    if bench.way == "x":
        x = numbers(bench, "x", n, bench.d_model)
        q, k, v = (x @ numbers(bench, name) for name in ("w_q", "w_k", "w_v"))
    else:
        q, k, v = (
            numbers(bench, name, n, bench.d_v if name == "v" else bench.d_k) for name in ("q", "k", "v")
        )
    with np.errstate(over="ignore", invalid="ignore"):
        return attention(q, k, v, mask=allowed(bench.mask, n, n), scale=_factor(bench)).values

"""What is on the screen: the bench, its sheet and every number on the way to the output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from attention_core.attention import AttentionTrace, attention, attention_from_x, attention_sheet
from attention_core.masks import MaskSpec, allowed
from attention_core.sheet import Sheet
from attention_core.sheets import Scaling
from attention_ui.bench import Bench, Cell, givens, numbers, scaling_word, token_at
from attention_ui.tokens import literal


@dataclass(frozen=True, eq=False)
class Scene:
    """One mask on the bench's numbers. `values` holds every line of the sheet by its name."""

    bench: Bench
    mask: MaskSpec
    sheet: Sheet
    trace: AttentionTrace
    values: Mapping[str, NDArray[Any]]
    limits: dict[tuple[str, ...], float] = field(default_factory=dict)  # colour ranges found so far

    @cached_property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """What stands at the edge of a matrix, for each axis of the sheet."""
        bench = self.bench
        keys = tuple(literal(token_at(bench, j)) for j in range(bench.n_k))
        queries = tuple(literal(token_at(bench, i, query=True)) for i in range(bench.n_q))
        features = {
            axis: tuple(str(c + 1) for c in range(getattr(bench, axis))) for axis in ("d_model", "d_k", "d_v")
        }
        return {"token": keys, "key": keys, "query": queries, **features}

    @cached_property
    def selected(self) -> Cell | None:
        """The selected cell, moved into range; None where its matrix is not on this sheet."""
        if self.bench.selected is None or self.bench.selected[0] not in self.values:
            return None
        name, row, column = self.bench.selected
        shape = self.values[name].shape
        return (name, min(row, shape[0] - 1), min(column, shape[1] - 1)) if len(shape) == 2 else None


def scene(bench: Bench, mask: MaskSpec | None = None) -> Scene:
    """Work the bench's numbers through, under its own mask or another one."""
    mask = bench.mask if mask is None else mask
    allow = allowed(mask, bench.n_q, bench.n_k)
    factor = _factor(bench)
    work = attention_from_x if bench.way == "x" else attention
    given: dict[str, Any] = dict(givens(bench))
    with np.errstate(over="ignore", invalid="ignore"):  # huge numbers may run over; the cell then shows ∞
        trace = work(**given, mask=allow, scale=factor)
    sheet = attention_sheet(from_x=bench.way == "x", scaling=cast(Scaling, scaling_word(bench)))
    return Scene(bench, mask, sheet, trace, trace.values)


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

"""Attention in plain NumPy, with every intermediate matrix kept."""

from __future__ import annotations

from attention_core.attention import AttentionTrace, ProjectedTrace, attention, attention_from_x
from attention_core.cache import tensor_scatter
from attention_core.examples import EXAMPLES, Example
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.masks import (
    MASKS,
    MaskSpec,
    allowed,
    as_matrix,
    causal,
    padding,
    prefix,
    segments,
    window,
)
from attention_core.numbers import exact, parse_block, parse_number, show
from attention_core.operations import OPERATIONS, Operation
from attention_core.sheet import Cost, Given, Sheet, Stage, cost, reads, run, work
from attention_core.sheets import ATTENTION, PROJECTED, attention_sheet
from attention_core.softmax import log_softmax, logsumexp, softmax
from attention_core.worked import Work

# fmt: off
__all__ = [  # in reading order  # noqa: RUF022
    "parse_number", "parse_block", "show", "exact",
    "softmax", "log_softmax", "logsumexp",
    "Operation", "OPERATIONS", "Work",
    "Given", "Stage", "Sheet", "run", "reads", "work", "Cost", "cost",
    "attention_sheet", "ATTENTION", "PROJECTED",
    "attention", "AttentionTrace", "attention_from_x", "ProjectedTrace",
    "causal", "window", "prefix", "padding", "segments", "as_matrix",
    "MaskSpec", "MASKS", "allowed",
    "Example", "EXAMPLES",
    "to_numpy", "to_torch", "to_latex",
    "tensor_scatter",
]
# fmt: on

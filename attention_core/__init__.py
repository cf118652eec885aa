"""Attention in plain NumPy, with every intermediate matrix kept."""

from __future__ import annotations

from attention_core.attention import AttentionTrace, ProjectedTrace, attention, attention_from_x
from attention_core.cache import tensor_scatter
from attention_core.masks import causal, padding, prefix, segments, window
from attention_core.operations import Operation
from attention_core.sheet import Cost, Given, Sheet, Stage, cost, reads, run, work
from attention_core.sheets import ATTENTION, PROJECTED, attention_sheet
from attention_core.softmax import log_softmax, logsumexp, softmax
from attention_core.worked import Work

# In reading order.
__all__ = [  # noqa: RUF022
    "softmax", "log_softmax", "logsumexp",
    "Operation", "Work",
    "Given", "Stage", "Sheet", "run", "reads", "work", "Cost", "cost",
    "attention_sheet", "ATTENTION", "PROJECTED",
    "attention", "AttentionTrace", "attention_from_x", "ProjectedTrace",
    "causal", "window", "prefix", "padding", "segments",
    "tensor_scatter",
]  # fmt: skip

"""Attention in plain NumPy, with every intermediate matrix kept."""

from __future__ import annotations

from attention_core.activations import erf, gelu, gelu_tanh, relu, swish
from attention_core.attention import AttentionTrace, ProjectedTrace, attention, attention_from_x
from attention_core.block import block_sheet
from attention_core.cache import tensor_scatter
from attention_core.cross_entropy import cross_entropy, cross_entropy_grad, nll_loss, one_hot
from attention_core.decoding import Cache, Step, decode_step, prefill
from attention_core.examples import EXAMPLES, Example
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.feedforward import feed_forward, feed_forward_sheet, gated_feed_forward
from attention_core.gradients import AttentionGradients, attention_grad, finite_difference
from attention_core.head_choices import beside
from attention_core.head_sheets import heads_sheet
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
from attention_core.multi_head import HeadsTrace, multi_head_attention
from attention_core.normalisation import layer_norm, layer_norm_sheet, rms_norm, rms_norm_sheet
from attention_core.numbers import exact, parse_block, parse_number, show
from attention_core.operations import OPERATIONS, Operation
from attention_core.position_sheets import learned_position_sheet, rope_sheet, sinusoid_sheet
from attention_core.positions import (
    alibi_slopes,
    exponents,
    learned_rows,
    position_column,
    rope,
    sinusoids,
)
from attention_core.sampling import Distribution, Draw, distribution, draw, sample
from attention_core.sheet import Cost, Given, Sheet, Stage, cost, parameters, reads, run, work
from attention_core.sheets import ATTENTION, PROJECTED, attention_sheet
from attention_core.softmax import log_softmax, logsumexp, softmax
from attention_core.stream import Stream, stream
from attention_core.tile_steps import Tile, flash_steps
from attention_core.tile_traffic import bytes_plain, bytes_tiled
from attention_core.tiles import flash_attention
from attention_core.waves import turn_halves, turn_pairs
from attention_core.worked import Work

# fmt: off
__all__ = [  # in reading order  # noqa: RUF022
    "parse_number", "parse_block", "show", "exact",
    "softmax", "log_softmax", "logsumexp",
    "Operation", "OPERATIONS", "Work",
    "Given", "Stage", "Sheet", "run", "reads", "work", "Cost", "cost", "parameters",
    "attention_sheet", "ATTENTION", "PROJECTED",
    "attention", "AttentionTrace", "attention_from_x", "ProjectedTrace",
    "causal", "window", "prefix", "padding", "segments", "as_matrix",
    "MaskSpec", "MASKS", "allowed",
    "position_column", "exponents", "sinusoids", "learned_rows",
    "rope", "turn_pairs", "turn_halves", "alibi_slopes",
    "sinusoid_sheet", "learned_position_sheet", "rope_sheet",
    "layer_norm", "rms_norm", "layer_norm_sheet", "rms_norm_sheet",
    "relu", "erf", "gelu", "gelu_tanh", "swish",
    "feed_forward", "gated_feed_forward", "feed_forward_sheet",
    "multi_head_attention", "HeadsTrace", "heads_sheet", "beside",
    "block_sheet", "stream", "Stream",
    "Example", "EXAMPLES",
    "to_numpy", "to_torch", "to_latex",
    "tensor_scatter",
    "flash_attention", "flash_steps", "Tile", "bytes_plain", "bytes_tiled",
    "attention_grad", "AttentionGradients", "finite_difference",
    "cross_entropy", "nll_loss", "cross_entropy_grad", "one_hot",
    "prefill", "decode_step", "Step", "Cache",
    "distribution", "Distribution", "draw", "Draw", "sample",
]
# fmt: on

r"""The sheet of a language model's last steps: logits, probabilities, loss, gradient, and a step down it.

    P = softmax(Z)        loss_i = −Σ_j y_ij log p_ij        dZ = (P − Y) / n

Y has a row per token with 1 at the token that really came next. From the last rows H further: Z = H W_out,
dW_out = Hᵀ dZ, and dH goes back into the layers below. A step takes η times the gradient off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from attention_core.elementwise import MINUS_FIRST, minus, over
from attention_core.merging import LOG_SUM
from attention_core.operations import (
    MATMUL,
    SCALE,
    SOFTMAX,
    TRANSPOSE,
    Array,
    operation,
    per_cell,
    same_matrix,
)
from attention_core.row_statistics import COLUMN_MEAN
from attention_core.sheet import ONE, Given, Mark, Sheet, Stage, given, mark, stage
from attention_core.worked import Cell, Work
from attention_core.written import equals, factor, plain_sign, read, tex, wrapped


def _difference(a: Array, b: Array) -> Array:
    if a.shape[-2:] != b.shape[-2:]:
        raise ValueError("the last two axes differ")
    return same_matrix(a, a - b)


def _row_loss(wanted: Array, logs: Array) -> Array:
    if wanted.shape[-2:] != logs.shape[-2:]:
        raise ValueError("the last two axes differ")
    result: Array = -np.where(wanted == 0.0, 0.0, wanted * logs).sum(axis=-1, keepdims=True)
    return result


def _over_rows(a: Array) -> Array:
    result: Array = a / a.shape[-2]
    return result


def row_loss(here: Cell) -> Work:
    """−Σ y log p over row i, term by term."""
    i, show, inputs = here.i, here.show, here.inputs
    shares, logs = here.row, inputs[1][i].tolist()
    pairs = [(show(y), show(log)) for y, log in zip(shares, logs, strict=True)]
    out = [y == 0 and log == -np.inf for y, log in zip(shares, logs, strict=True)]
    terms = [
        f"{factor(y)}×{factor(log)}{' (takes no part)' if none else ''}"
        for (y, log), none in zip(pairs, out, strict=True)
    ]
    again = [0.0 if none else read(y) * read(log) for (y, log), none in zip(pairs, out, strict=True)]
    value = here.value(lambda: float(_row_loss(inputs[0][i : i + 1], inputs[1][i : i + 1])[0, 0]))
    sign = equals([-sum(again)], [value])
    lines = wrapped(f"{here.name} &= -(", [tex(term) for term in terms])
    return Work(
        f"−({' + '.join(terms)}) {plain_sign(sign)} {value}",
        (*lines[:-1], f"{lines[-1]})", f"&{sign} {tex(value)}"),
    )


def over_rows(here: Cell) -> Work:
    """One number over the number of rows."""
    return over(replace(here, inputs=[here.inputs[0], np.array(float(here.inputs[0].shape[0]))]))


# fmt: off
DIFFERENCE = operation("difference", _difference, "cell cell", minus, per_cell(1),
                       latex="{0} - {1}", code="{0} - {1}", arrow="− {1}")
ROW_LOSS = operation("cross-entropy of a row", _row_loss, "row row", row_loss, per_cell(2),
                     latex=r"-\textstyle\sum_j \left({0}\right)_{{ij}} \left({1}\right)_{{ij}}",
                     code="-({0} * {1}).sum(axis=-1, keepdims=True)",
                     torch="-({0} * {1}).sum(dim=-1, keepdim=True)",
                     arrow="− where {other} is 1")
OVER_ROWS = operation("over the number of rows", _over_rows, "cell", over_rows, per_cell(1),
                      latex=r"\frac{{1}}{{n}}\,{0}", code="{0} / {0}.shape[-2]", arrow="÷ n")

OPERATIONS = (DIFFERENCE, ROW_LOSS, OVER_ROWS)

_TABLE, _COLUMN, _WEIGHT = "token vocabulary", f"token {ONE}", "d_model vocabulary"
_LOGITS = (("logits", "Z", mark("Z"), "Logits", _TABLE, 0), (
    "How strongly token j of the vocabulary is put forward as the next one after token i.",
    "Any number; only differences within a row will matter."))
TARGETS = given("targets", "Y", mark("Y"), "Targets", _TABLE, 0, (
    "1 at the token that really came next, 0 elsewhere.",
    "Every row adds up to 1."))
ROWS = given("h", "H", mark("H"), "H", "token d_model", 0, (
    "One number of the row of a token after the last layer.",
    "One row per token; each foretells the token after it."))
W_OUT = given("w_out", r"W_{\text{out}}", mark("W", "out"), "W_out", _WEIGHT, 0, (
    "How much one feature of H counts towards one token of the vocabulary.",
    "One column for every token of the vocabulary."), is_learned=True)
RATE = given("rate", r"\eta", mark("η"), "Learning rate", "", 0, (
    "How much of the gradient one step takes off.",
    "Too large, and the loss may rise; too small, and hardly anything changes."))

_LOSS: tuple[Stage, ...] = (
    stage(("log_sum", "L", mark("L"), "Log-sum-exp", _COLUMN, 0), LOG_SUM, "logits", (
        "The logarithm of the sum of e to the power of each logit of row i.",
        "One number per token. It turns logits into logarithms of probabilities.")),
    stage(("logs", r"\log P", mark("log P"), "Log-probabilities", _TABLE, 0), MINUS_FIRST, "logits log_sum", (
        "The logarithm of the probability of token j after token i.",
        "Never above 0. Close to 0 means almost certain.")),
    stage(("losses", r"\ell", mark("ℓ"), "Loss of each token", _COLUMN, 0), ROW_LOSS, "targets logs", (
        "Minus the logarithm of the probability that the right token got.",
        "0 would be certainty; equal shares for all give the logarithm of the size of the vocabulary.")),
    stage(("loss", r"\bar{\ell}", mark("loss"), "Loss", f"{ONE} {ONE}", 0), COLUMN_MEAN, "losses", (
        "The average of the losses of all tokens.",
        "This one number is what training makes smaller.")),
)
_PROBABILITIES = stage(("probabilities", "P", mark("P"), "Probabilities", _TABLE, 0), SOFTMAX, "logits", (
    "The share that token j of the vocabulary gets as the next one after token i.",
    "Every row adds up to 1."))
_GRADIENT: tuple[Stage, ...] = (
    stage(("error", "E", mark("E"), "Probabilities minus targets", _TABLE, 0), DIFFERENCE,
          "probabilities targets", (
        "How far the probability lies above what came: p − y.",
        "Negative only where the right token is, and every row adds up to 0.")),
    stage(("d_logits", r"\mathrm{d}Z", mark("dZ"), "Gradient of the logits", _TABLE, 0), OVER_ROWS, "error", (
        "How much the loss moves with this logit.",
        "p − y, over the number of tokens, because the loss is their average.")),
)
_D_W = stage(("d_w_out", r"\mathrm{d}W_{\text{out}}", mark("dW", "out"), "Gradient of W_out", _WEIGHT, 0),
             MATMUL, "h_t d_logits", (
    "How much the loss moves with this number of W_out.",
    "Every token adds its part."))
_D_H = stage(("d_h", r"\mathrm{d}H", mark("dH"), "Gradient of H", "token d_model", 0),
             MATMUL, "d_logits w_out_t", (
    "How much the loss moves with this number of H.",
    "From here the gradient goes back into the layers below."))
_TURNED = ("The number of the other matrix with row and column exchanged.",
           "Turned over, so that the product adds up over what it has to.")
_STEP_SAYS = ("The gradient times the learning rate.",
              "What the step takes off.")
_NEW_SAYS = ("The number less what the step takes off.",
             "Every number has moved against its gradient.")
# fmt: on


@cache
def cross_entropy_sheet(*, from_rows: bool = False, step: bool = False) -> Sheet:
    """From logits, or from h and w_out, to the loss and its gradient; targets are a table, as in one_hot.

    step: one step of gradient descent at the learning rate `rate`, of w_out where there is one, else of the
    logits, and the loss after it, in lines named …_new.
    """
    starts: tuple[Given, ...] = (ROWS, W_OUT) if from_rows else (given(*_LOGITS[0], _LOGITS[1]),)
    first = (stage(_LOGITS[0], MATMUL, "h w_out", _LOGITS[1]),) if from_rows else ()
    back = [*_rows_back()] if from_rows else []
    after = [*_step(starts[-1], (*first, *_LOSS))] if step else []
    return Sheet(
        (*starts, TARGETS, *(RATE,) * step), (*first, _PROBABILITIES, *_LOSS, *_GRADIENT, *back, *after)
    )


def _rows_back() -> Iterator[Stage]:
    """The gradients of both factors of the product that made the logits."""
    yield _turned("h", r"H^\top", mark("H", sup="⊤"), "H transposed", "d_model token")
    yield _D_W
    symbol, pieces = r"W_{\text{out}}^\top", mark("W", "out", "⊤")
    yield _turned("w_out", symbol, pieces, "W_out transposed", "vocabulary d_model")
    yield _D_H


def _step(moved: Given, again: Sequence[Stage]) -> Iterator[Stage]:
    """What is taken off the line that moves, the line without it, and the way to the loss once more."""
    axes = " ".join(moved.axes)
    symbol, pieces = rf"\eta\,\mathrm{{d}}{moved.symbol}", (("η d", ""), *moved.mark)
    line = ("taken_off", symbol, pieces, "Taken off by the step", axes, 0)
    yield stage(line, SCALE, f"d_{moved.name} rate", _STEP_SAYS)
    line = (moved.name, moved.symbol, moved.mark, moved.title, axes, 0)
    yield _after(stage(line, DIFFERENCE, f"{moved.name} taken_off", _NEW_SAYS), ())
    names = {moved.name, *(each.name for each in again)}
    for each in again:
        yield _after(each, names)


def _after(line: Stage, changed: Collection[str]) -> Stage:
    """The line after the step, made from changed lines: logits_new, Z′."""
    return replace(
        line,
        name=f"{line.name}_new",
        symbol=f"{{{line.symbol}}}'",
        mark=(*line.mark, ("′", "sup")),
        title=f"{line.title} after the step",
        inputs=tuple(f"{name}_new" if name in changed else name for name in line.inputs),
    )


def _turned(of: str, symbol: str, pieces: Mark, title: str, axes: str) -> Stage:
    """A matrix with rows and columns exchanged."""
    return stage((f"{of}_t", symbol, pieces, title, axes, 0), TRANSPOSE, of, _TURNED)

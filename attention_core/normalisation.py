r"""Layer normalisation and its shorter relative, as functions and as lines of a sheet.

    LayerNorm(x) = (x − μ) / √(σ² + ε) ⊙ γ + β     μ the mean of a token's row, σ² the mean of (x − μ)²
    RMSNorm(x)   = x / √(m + ε) ⊙ γ                m the mean of x²

Ba, Kiros and Hinton 2016, "Layer Normalization"; Zhang and Sennrich 2019, "Root Mean Square Layer
Normalization". The variance is that of a population, divided by d and not d − 1, and ε stands inside the
root, as in PyTorch and ONNX. Two common mistakes are here under their names: statistics over the columns
(of one feature, over all tokens), and the variance of a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from attention_core.elementwise import MINUS_FIRST, MINUS_TOP, OVER_FIRST, OVER_TOP, PLUS_TOP, TIMES_TOP
from attention_core.fitting import numbers
from attention_core.naming import Naming, Symbol
from attention_core.operations import Array, Operation
from attention_core.row_statistics import MEAN_SQUARES, MEANS, ROOT, VARIANCES, Over
from attention_core.sheet import ONE, Given, Lines, Sheet, Stage, run
from attention_core.sheets import X

Variance = Literal["population", "sample"]

EPSILON = 1e-5
_LINE = {"row": "row i", "column": "column j"}
_ALONE = {
    "row": "One number per token, made from its own row alone.",
    "column": "One number per feature, made from all tokens: no token is on its own any more.",
}
_COUNT = {"population": "divided by how many they are", "sample": "divided by one less than they are"}
_EVEN = {
    "population": "Every {over} has mean 0 and, but for ε, variance 1; a {over} of equal numbers becomes 0.",
    "sample": "Every {over} has mean 0, but its variance stays below 1.",
}
_MINUS = {"row": MINUS_FIRST, "column": MINUS_TOP}
_OVER = {"row": OVER_FIRST, "column": OVER_TOP}


# fmt: off
def layer_norm_lines(
    source: str = "x",
    *,
    prefix: str = "",
    index: str = "",
    where: str = "",
    epsilon: str = "",
    axes: tuple[str, str] = ("token", "d_model"),
    gain: bool = True,
    shift: bool = True,
    over: Over = "row",
    variance: Variance = "population",
) -> Lines:
    """LayerNorm of the line `source`, whose axes are `axes`. The last stage is the result.

    prefix, index and where tell its lines from others (see Naming). epsilon: the name of a given ε to share;
    otherwise one is given here. over and variance: the two mistakes; ValueError for another word.
    """
    if (over, variance) not in VARIANCES:
        raise ValueError(
            f"over is row or column, not {over!r}, and variance is population or sample, not {variance!r}")
    part = _Part(Naming(prefix, index, where), axes, over)
    mean = part.statistic("mean", Symbol(r"\mu", "μ"), "Mean", MEANS[over], (source,), (
        "The average of the numbers of {line}.", _ALONE[over]))
    centred = part.matrix("centred", Symbol("C"), "Centred", _MINUS[over], (source, mean.name), (
        "The number less the mean of its {over}.",
        "Every {over} adds up to 0."))
    squared = Symbol(r"\sigma", "σ", sup="2")
    spread = part.statistic("variance", squared, "Variance", VARIANCES[over, variance], (centred.name,), (
        f"The squares of the centred numbers of {{line}}, added up and {_COUNT[variance]}.",
        "The further apart the numbers of a {over} lie, the larger it is."))
    small = part.epsilon(epsilon)
    deviation = part.statistic("deviation", Symbol(r"\sigma", "σ"), "Deviation", ROOT,
                               (spread.name, epsilon or small[0].name), (
        "The root of the variance of {line} plus ε.",
        "Every centred number of the {over} is divided by it."))
    even = part.matrix("normalised", Symbol("Z"), "Normalised", _OVER[over], (centred.name, deviation.name), (
        "The centred number over the deviation of its {over}.", _EVEN[variance]))
    learned, last = part.learned(even.name, gain, shift)
    return (*small, *learned), (mean, centred, spread, deviation, even, *last)


def rms_norm_lines(
    source: str = "x",
    *,
    prefix: str = "",
    index: str = "",
    where: str = "",
    epsilon: str = "",
    axes: tuple[str, str] = ("token", "d_model"),
    gain: bool = True,
    over: Over = "row",
) -> Lines:
    """RMSNorm of the line `source`: no mean is taken off and no shift added. See layer_norm_lines."""
    if over not in MEAN_SQUARES:
        raise ValueError(f"over is row or column, not {over!r}")
    part = _Part(Naming(prefix, index, where), axes, over)
    squared = Symbol(r"\rho", "ρ", sup="2")
    square = part.statistic("mean_square", squared, "Mean square", MEAN_SQUARES[over], (source,), (
        "The average of the squares of {line}.", _ALONE[over]))
    small = part.epsilon(epsilon)
    root = part.statistic("root", Symbol(r"\rho", "ρ"), "Root mean square", ROOT,
                          (square.name, epsilon or small[0].name), (
        "The root of the mean square of {line} plus ε.",
        "Every number of the {over} is divided by it."))
    even = part.matrix("normalised", Symbol("Z"), "Normalised", _OVER[over], (source, root.name), (
        "The number over the root mean square of its {over}.",
        "The mean square of every {over} is 1, but for ε. No mean was taken off."))
    learned, last = part.learned(even.name, gain, shift=False)
    return (*small, *learned), (square, root, even, *last)


@dataclass(frozen=True)
class _Part:
    """The lines of one normalisation: what they are called, their axes, and what is evened out."""

    naming: Naming
    axes: tuple[str, str]
    over: Over

    def statistic(self, name: str, symbol: Symbol, title: str, operation: Operation, inputs: tuple[str, ...],
                  says: tuple[str, str]) -> Stage:
        """One number per row, or per column."""
        axes = (self.axes[0], ONE) if self.over == "row" else (ONE, self.axes[1])
        return self.naming.stage(name, symbol, title, axes, operation, inputs, self._said(says))

    def matrix(self, name: str, symbol: Symbol, title: str, operation: Operation, inputs: tuple[str, ...],
               says: tuple[str, str]) -> Stage:
        return self.naming.stage(name, symbol, title, self.axes, operation, inputs, self._said(says))

    def epsilon(self, shared: str) -> tuple[Given, ...]:
        return () if shared else (self.naming.given("epsilon", Symbol(r"\varepsilon", "ε"), "Epsilon", (), (
            "A small number added to every variance or mean square.",
            "It keeps what is divided by above 0, even for a row of equal numbers.")),)

    def learned(self, source: str, gain: bool, shift: bool) -> Lines:
        """The gain and the shift of every feature."""
        row, givens, stages = (ONE, self.axes[1]), [], []
        if gain:
            givens.append(self.naming.given("gain", Symbol(r"\gamma", "γ"), "Gain", row, (
                "The number that feature j of every token is multiplied by.",
                "One number per feature, learned in a model. Training starts from 1."), is_learned=True))
            inputs = (source, givens[-1].name)
            stages.append(self.matrix("gained", Symbol(r"\Gamma", "Γ"), "Times gain", TIMES_TOP, inputs, (
                "The normalised number times the gain of its feature.",
                "A gain of 1 changes nothing, a gain of 0 switches the feature off.")))
        if shift:
            givens.append(self.naming.given("shift", Symbol(r"\beta", "β"), "Shift", row, (
                "The number added to feature j of every token.",
                "One number per feature, learned in a model. Training starts from 0."), is_learned=True))
            inputs = (stages[-1].name if stages else source, givens[-1].name)
            stages.append(self.matrix("shifted", Symbol("Y"), "Plus shift", PLUS_TOP, inputs, (
                "The number so far plus the shift of its feature.",
                "The same row of shifts is added to every token.")))
        return tuple(givens), tuple(stages)

    def _said(self, says: tuple[str, str]) -> tuple[str, str]:
        words = {"over": self.over, "line": _LINE[self.over]}
        return says[0].format(**words), says[1].format(**words)
# fmt: on


@cache
def layer_norm_sheet(
    *, gain: bool = True, shift: bool = True, over: Over = "row", variance: Variance = "population"
) -> Sheet:
    """LayerNorm of X as a sheet of its own."""
    givens, stages = layer_norm_lines(gain=gain, shift=shift, over=over, variance=variance)
    return Sheet((X, *givens), stages)


@cache
def rms_norm_sheet(*, gain: bool = True, over: Over = "row") -> Sheet:
    """RMSNorm of X as a sheet of its own."""
    givens, stages = rms_norm_lines(gain=gain, over=over)
    return Sheet((X, *givens), stages)


def layer_norm(
    x: ArrayLike, gain: ArrayLike | None = None, shift: ArrayLike | None = None, eps: float = EPSILON
) -> Array:
    """Every row of x (…, n, d) less its mean, over its deviation, times gain (d,), plus shift (d,).

    Without a gain or a shift that step is left out. Raises ValueError naming arguments and shapes.
    """
    sheet = layer_norm_sheet(gain=gain is not None, shift=shift is not None)
    return _last(sheet, x, eps, gain=gain, shift=shift)


def rms_norm(x: ArrayLike, gain: ArrayLike | None = None, eps: float = EPSILON) -> Array:
    """Every row of x (…, n, d) over the root of its mean square, times gain (d,).

    Without a gain that step is left out. Raises ValueError naming arguments and shapes.
    """
    return _last(rms_norm_sheet(gain=gain is not None), x, eps, gain=gain)


def _last(sheet: Sheet, x: ArrayLike, eps: float, **learned: ArrayLike | None) -> Array:
    rows = numbers("x", x)
    given: dict[str, Any] = {"x": rows, "epsilon": eps}
    for name, value in learned.items():
        if value is not None:
            given[name] = per_feature(name, value, rows)
    result: Array = run(sheet, given)[sheet.stages[-1].name]
    return result


def per_feature(name: str, value: ArrayLike, rows: Array) -> Array:
    """(1, d): one number for each of the d features of rows (…, n, d), from (d,) or (1, d)."""
    row = np.asarray(value, dtype=np.float64)
    if row.shape not in ((rows.shape[-1],), (1, rows.shape[-1])):
        raise ValueError(
            f"x {rows.shape} and {name} {row.shape} do not fit: "
            f"{name} needs one number for each of the {rows.shape[-1]} features of x"
        )
    return row.reshape(1, -1)

r"""The mean, the variance and the root mean square of every row of a matrix, as operations.

    μ_i = Σ_j x_ij / d        σ²_i = Σ_j (x_ij − μ_i)² / d        m_i = Σ_j x_ij² / d

A result is one number per row, (n, 1). The same over the columns, (1, d), and the variance of a sample, which
divides by d − 1, are here too: normalisation shows them as mistakes.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from attention_core import worked_statistics as by_hand
from attention_core.operations import Array, Operation, operation, per_cell

Over = Literal["row", "column"]


def _statistic(name: str, over: Over, *, squares: bool = False, one_less: bool = False) -> Operation:
    """The mean of each row or column, or of its squares, as an operation; one_less divides by d − 1."""
    axis, letter, index = {"row": (-1, "d", "j"), "column": (-2, "n", "i")}[over]

    def compute(a: Array) -> Array:
        total = np.sum(a**2 if squares else a, axis=axis, keepdims=True)
        result: Array = np.divide(total, a.shape[axis] - one_less)
        return result

    added = "({0} ** 2)" if squares else "{0}"
    count = f"({{0}}.shape[{axis}] - 1)" if one_less else f"{{0}}.shape[{axis}]"
    below = f"{letter} - 1" if one_less else letter
    divisor = f"({letter} − 1)" if one_less else letter
    term = rf"\left({{0}}\right)_{{{{ij}}}}{'^2' * squares}"
    return operation(
        name if over == "row" else f"{name} of a column",
        compute,
        over,
        by_hand.mean(over, squares=squares, one_less=one_less, kind=name if "variance" in name else ""),
        per_cell(2 if squares else 1),
        latex=rf"\frac{{{{1}}}}{{{{{below}}}}} \textstyle\sum_{index} {term}",
        code=f"{added}.sum(axis={axis}, keepdims=True) / {count}",
        torch=f"{added}.sum(dim={axis}, keepdim=True) / {count}",
        arrow=f"squares ÷ {divisor}" if squares else f"mean of a {over}",
    )


MEAN = _statistic("mean", "row")
VARIANCE = _statistic("population variance", "row", squares=True)
SAMPLE_VARIANCE = _statistic("sample variance", "row", squares=True, one_less=True)
MEAN_SQUARE = _statistic("mean of squares", "row", squares=True)
COLUMN_MEAN = _statistic("mean", "column")
COLUMN_VARIANCE = _statistic("population variance", "column", squares=True)
COLUMN_SAMPLE_VARIANCE = _statistic("sample variance", "column", squares=True, one_less=True)
COLUMN_MEAN_SQUARE = _statistic("mean of squares", "column", squares=True)


def _root(a: Array, epsilon: Array) -> Array:
    result: Array = np.sqrt(a + epsilon)
    return result


ROOT = operation(
    "root",
    _root,
    "cell all",
    by_hand.root,
    per_cell(2),
    latex=r"\sqrt{{{0} + {1}}}",
    code="np.sqrt({0} + {1})",
    torch="torch.sqrt({0} + {1})",
    arrow="√({0} + {1})",
)

OPERATIONS = (
    MEAN,
    VARIANCE,
    SAMPLE_VARIANCE,
    MEAN_SQUARE,
    COLUMN_MEAN,
    COLUMN_VARIANCE,
    COLUMN_SAMPLE_VARIANCE,
    COLUMN_MEAN_SQUARE,
    ROOT,
)

MEANS = {"row": MEAN, "column": COLUMN_MEAN}
MEAN_SQUARES = {"row": MEAN_SQUARE, "column": COLUMN_MEAN_SQUARE}
VARIANCES = {
    ("row", "population"): VARIANCE,
    ("row", "sample"): SAMPLE_VARIANCE,
    ("column", "population"): COLUMN_VARIANCE,
    ("column", "sample"): COLUMN_SAMPLE_VARIANCE,
}

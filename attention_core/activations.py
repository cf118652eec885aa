r"""The functions between the two layers of a feed-forward network, cell by cell.

    ReLU(x)    = max(0, x)
    GELU(x)    = x · (1 + erf(x / √2)) / 2                            Hendrycks and Gimpel 2016
    GELU(x)    ≈ x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2       the same paper, for speed
    Swish_α(x) = x / (1 + e^(−αx)), also called SiLU where α is 1     Ramachandran, Zoph and Le 2017

Both forms of GELU are in use and differ by up to 0.0005, so each has a name of its own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from attention_core import worked_activations as by_hand
from attention_core.operations import Array, operation, per_cell


def relu(x: ArrayLike) -> Array:
    """The larger one of 0 and each number. The shape of x."""
    result: Array = np.maximum(0.0, np.asarray(x, dtype=np.float64))
    return result


def erf(x: ArrayLike) -> Array:
    """The error function of each number, as the standard library has it. The shape of x."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(np.asarray(x, dtype=np.float64)), dtype=np.float64)


def gelu(x: ArrayLike) -> Array:
    """Each number times the share of the standard normal distribution below it. The shape of x."""
    x = np.asarray(x, dtype=np.float64)
    result: Array = x * (1 + erf(x / math.sqrt(2))) / 2
    return result


def gelu_tanh(x: ArrayLike) -> Array:
    """GELU with a tanh that comes close to erf. The shape of x."""
    x = np.asarray(x, dtype=np.float64)
    result: Array = x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    return result


def swish(x: ArrayLike, alpha: float = 1.0) -> Array:
    """Each number times the logistic function of alpha times it. The shape of x."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(over="ignore"):
        result: Array = x / (1 + np.exp(-alpha * x))
    return result


# fmt: off
RELU = operation("ReLU", relu, "cell", by_hand.relu, per_cell(1),
                 latex=r"\max\left(0, {0}\right)", code="np.maximum(0.0, {0})", torch="torch.relu({0})")
GELU = operation("GELU", gelu, "cell", by_hand.gelu, per_cell(5),
                 latex=r"\tfrac{{1}}{{2}} {0} \odot "
                       r"\left(1 + \operatorname{{erf}}\left({0} / \sqrt{{2}}\right)\right)",
                 code="gelu({0})", torch="F.gelu({0})", helpers=(erf, gelu), arrow="GELU (erf)")
GELU_TANH = operation("GELU with tanh", gelu_tanh, "cell", by_hand.gelu_tanh, per_cell(9),
                      latex=r"\tfrac{{1}}{{2}} {0} \odot \left(1 + \tanh\left(\sqrt{{2 / \pi}} "
                            r"\left({0} + 0.044715 \left({0}\right)^3\right)\right)\right)",
                      code="gelu_tanh({0})", torch='F.gelu({0}, approximate="tanh")', helpers=(gelu_tanh,),
                      arrow="GELU (tanh)")
SILU = operation("SiLU", swish, "cell", by_hand.swish, per_cell(4),
                 latex=r"{0} \oslash \left(1 + e^{{-{0}}}\right)",
                 code="swish({0})", torch="F.silu({0})", helpers=(swish,))
SWISH = operation("Swish", swish, "cell all", by_hand.swish, per_cell(5),
                  latex=r"{0} \oslash \left(1 + e^{{-{1} {0}}}\right)",
                  code="swish({0}, {1})", torch="{0} * torch.sigmoid({1} * {0})", helpers=(swish,))
# fmt: on

OPERATIONS = (RELU, GELU, GELU_TANH, SILU, SWISH)

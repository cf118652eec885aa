r"""Cross-entropy: how badly probabilities foretell what came.

    loss_i = −log softmax(z_i)[t_i]        ∂loss_i / ∂z_i = softmax(z_i) − y_i        y_i: 1 at t_i, else 0

The logarithm is taken of the sum of exponentials, not of a share that may have rounded to 0. Weights of
classes, ignored targets and label smoothing are those of PyTorch and ONNX (SoftmaxCrossEntropyLoss): with
reduction "mean" the sum is divided by the weights of the targets that count. Where none counts there is
nothing to average; PyTorch then gives NaN, and here it is refused.

Label smoothing ε gives every class ε / C of the target's 1: Szegedy et al. 2016, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_core.softmax import log_softmax, softmax

Array = NDArray[np.float64]
Reduction = Literal["none", "sum", "mean"]


def one_hot(targets: ArrayLike, classes: int, *, label_smoothing: float = 0.0) -> Array:
    """(…, classes): 1 at the target and 0 elsewhere, or with label smoothing 1 − ε + ε/C and ε/C.

    Raises ValueError for targets that are not whole numbers from 0 to classes − 1, and for a smoothing
    outside 0 to 1.
    """
    labels = _whole("targets", targets)
    return _wanted(labels, classes, None, None, label_smoothing).table


def cross_entropy(
    logits: ArrayLike,
    targets: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Array:
    """The loss of logits (…, C) for targets (…), whole numbers from 0 to C − 1.

    axis says where the C classes are. reduction "none" gives a loss per target, "sum" and "mean" a single
    number. weight (C,) counts a class more or less; targets equal to ignore_index count nothing.

    Raises ValueError, naming arguments and shapes, where they do not fit, where a target is no class, and for
    "mean" where no target counts.
    """
    scores = np.moveaxis(_numbers("logits", logits, axis), axis, -1)
    wanted = _fitted("logits", scores, targets, weight, ignore_index, label_smoothing)
    return _reduced(wanted.against(log_softmax(scores)), wanted, reduction)


def nll_loss(
    log_probabilities: ArrayLike,
    targets: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
    axis: int = -1,
) -> Array:
    """The same from logarithms of probabilities: the negative log-likelihood of the targets."""
    logs = np.moveaxis(_numbers("log_probabilities", log_probabilities, axis), axis, -1)
    wanted = _fitted("log_probabilities", logs, targets, weight, ignore_index, 0.0)
    return _reduced(wanted.against(logs), wanted, reduction)


def cross_entropy_grad(
    logits: ArrayLike,
    targets: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Array:
    """The gradient of `cross_entropy`, in the shape of logits: p − y, weighted; over the count for "mean".

    With reduction "none" it is that of the sum, so that every target has the gradient of its own loss.
    Raises ValueError as cross_entropy does.
    """
    scores = np.moveaxis(_numbers("logits", logits, axis), axis, -1)
    wanted = _fitted("logits", scores, targets, weight, ignore_index, label_smoothing)
    gradient = softmax(scores) * wanted.table.sum(axis=-1, keepdims=True) - wanted.table
    gradient[~wanted.counts] = 0.0
    if _known(reduction) == "mean":
        gradient /= wanted.total
    return np.moveaxis(gradient, -1, axis)


@dataclass(frozen=True, eq=False)
class _Wanted:
    """The share of every class that is wanted, weighted, and which targets count."""

    table: Array  # (…, C)
    counts: NDArray[np.bool_]  # (…)
    weights: Array  # (…), of the targets, 0 where they do not count

    def against(self, logs: Array) -> Array:
        """−Σ y · log p per target; what is not wanted takes no part, not even as 0 × ∞."""
        with np.errstate(invalid="ignore"):
            terms = np.where(self.table == 0.0, 0.0, self.table * logs)
        return np.where(self.counts, -terms.sum(axis=-1), 0.0)

    @property
    def total(self) -> float:
        """What a mean is divided by. Raises ValueError where that is nothing."""
        total = float(self.weights.sum())
        if total == 0.0:
            ignored = f"{self.counts.size - int(self.counts.sum())} of {self.counts.size} targets are ignored"
            raise ValueError(
                f"there is nothing to average: {ignored}, and the weights of the others add up to 0"
                if self.counts.any()
                else f"there is nothing to average: {ignored}"
            )
        return total


def _wanted(
    labels: NDArray[np.int64],
    classes: int,
    weight: Array | None,
    ignore_index: int | None,
    label_smoothing: float,
) -> _Wanted:
    counts = np.ones(labels.shape, dtype=bool) if ignore_index is None else labels != ignore_index
    strange = labels[counts & ((labels < 0) | (labels >= classes))]
    if strange.size:
        raise ValueError(f"targets hold {strange[0]}, and the {classes} classes are 0 to {classes - 1}")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing lies between 0 and 1, not {label_smoothing}")
    each = np.ones(classes) if weight is None else weight
    places = np.where(counts, labels, 0)
    table = np.where(counts[..., None], label_smoothing / max(classes, 1) * each, 0.0)
    table[(*np.indices(labels.shape, sparse=True), places)] += (1.0 - label_smoothing) * np.where(
        counts, each[places], 0.0
    )
    return _Wanted(table, counts, np.where(counts, each[places], 0.0))


def _fitted(
    name: str,
    scores: Array,
    targets: ArrayLike,
    weight: ArrayLike | None,
    ignore_index: int | None,
    label_smoothing: float,
) -> _Wanted:
    """What is wanted of scores (…, C), with targets and weight checked against them."""
    labels, classes = _whole("targets", targets), scores.shape[-1]
    if labels.shape != scores.shape[:-1]:
        raise ValueError(
            f"targets {labels.shape} do not fit {name} with {classes} classes for {scores.shape[:-1]}: "
            "one target is needed for each"
        )
    each = None if weight is None else np.asarray(weight, dtype=np.float64)
    if each is not None and each.shape != (classes,):
        raise ValueError(f"weight {each.shape} has to hold one number for each of the {classes} classes")
    return _wanted(labels, classes, each, ignore_index, label_smoothing)


def _reduced(losses: Array, wanted: _Wanted, reduction: Reduction) -> Array:
    if _known(reduction) == "none":
        return losses
    return np.asarray(losses.sum() / (wanted.total if reduction == "mean" else 1.0))


def _known(reduction: str) -> str:
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"reduction is none, sum or mean, not {reduction!r}")
    return reduction


def _numbers(name: str, a: ArrayLike, axis: int) -> Array:
    array = np.asarray(a)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} holds {array.dtype}, and numbers are needed")
    if not -array.ndim <= axis < array.ndim or not array.shape[axis]:
        raise ValueError(f"{name} {array.shape} has no classes along axis {axis}")
    return array.astype(np.float64, copy=False)


def _whole(name: str, targets: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(targets)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} hold {array.dtype}, and whole numbers are needed")
    return array.astype(np.int64)

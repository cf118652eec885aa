"""Lesson 14, gradients: one of them beside what trying finds, and what holds of all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attention_core.gradients import STEP
from attention_core.numbers import show
from attention_core.operations import Array
from attention_core.sheet import run
from attention_core.tried import TRIED, backward, losses_around, tried_sheet
from attention_core.written import visible
from attention_ui import teaching
from attention_ui.board import Unit
from attention_ui.choices import Choice, Switch
from attention_ui.desk import Desk
from attention_ui.grids import unit_after
from attention_ui.scene import Scene, worked
from attention_ui.theme import colour_limit

OF = Choice(
    "p14.of", "Gradient on the board",
    {"v": "dV", "weights": "dA", "scores": "dS", "q": "dQ", "k": "dK"}, "v",
    help="The gradients of the values, the weights, the scores, the queries and the keys.",
)  # fmt: skip
ALONE = Switch("p14.alone", "Mistake: leave out the average of the row")
GUESS = teaching.prediction(
    "p14.guess",
    "Every number of dO is doubled. What becomes of dQ, which comes back through softmax?",
    {"same": "it stays", "twice": "it doubles", "more": "it becomes four times as large"},
)
SAYS = (
    "Move a number a little, and the loss moves: the gradient says how much. dO, the gradient of the "
    "output, is given by whatever follows. From it the chain rule makes the gradient of every matrix "
    "before, back to Q, K and V. Beside it stands what trying finds: each number moved up and down by "
    f"h = {visible(STEP, show)}, and the whole calculation done again. The loss here is the sum of dO ∘ O."
)
CLOSE = 1e-6  # of a gradient and what trying finds


def scene_of(desk: Desk) -> Scene:
    bench, name = desk.bench, OF.of(desk.bench)
    divisor = np.sqrt(bench.d_k)
    first = worked(bench, backward(), {"divisor": divisor})
    above, below = losses_around(first.sheet, first.values, name)
    now = worked(
        bench, tried_sheet(name, alone=ALONE.of(bench)),
        {"divisor": divisor, "loss_above": above, "loss_below": below, "step": STEP},
        compared=(
            ("scores", "scaled", "masked"), ("k", "k_t"), ("v", "v_t", "output"), ("d_weights", "centred"),
            ("d_masked", "d_scores", "d_scores_t"), (f"d_{name}", "tried"), ("loss_above", "loss_below"),
        ),
    )  # fmt: skip
    now.limits[("apart",)] = colour_limit(now.values["tried"])  # rounding is not to look like a difference
    return now


def layout_of(desk: Desk, now: Scene) -> list[list[Unit]]:
    """The calculation, then how the chosen gradient is made, and what trying finds."""
    forward = [
        Unit("scores", left="q", top="k_t", corner="k"),
        unit_after(now, "scores", "weights"),
    ]
    output = [Unit("output", left="weights", top="v", echo=["weights"]), Unit("d_output")]
    name = OF.of(desk.bench)
    beside = [Unit("tried"), Unit("apart")]
    if name != "scores":
        return [forward, output, [_MADE[name], *beside]]
    scores = [unit_after(now, "d_masked", "d_scores"), *beside]
    if ALONE.of(desk.bench):
        return [forward, output, [_MADE["weights"], unit_after(now, "centred", "d_masked")], scores]
    average = [unit_after(now, "weighted", "row_sum"), Unit("d_masked", via="A ∘ (dA − r)")]
    return [forward, output, [_MADE["weights"], unit_after(now, "d_weights", "weighted")], average, scores]


_MADE = {
    "v": Unit("d_v", left="weights_t", top="d_output", echo=["d_output"]),
    "weights": Unit("d_weights", left="d_output", top="v_t", echo=["d_output"]),
    "q": Unit("d_q", left="d_scores", top="k", echo=["k"]),
    "k": Unit("d_k", left="d_scores_t", top="q", echo=["q"]),
}


def verdict(desk: Desk, now: Scene) -> None:
    """What doubling dO does to dQ, worked out."""
    d_q, doubled = now.values["d_q"], _with_d_output(now, 2.0 * now.values["d_output"])["d_q"]
    before, after = (show(float(np.abs(a).max())) for a in (d_q, doubled))
    right = "twice" if np.allclose(doubled, 2 * d_q, rtol=1e-9, atol=1e-12) else "more"
    teaching.verdict(
        desk, GUESS, right,
        f"The largest number of dQ goes from {before} to {after}. Softmax bends the way forward; on the way "
        "back its weights stand still, and every stage is a sum of products with dO in it once.",
    )  # fmt: skip


def _with_d_output(now: Scene, d_output: Array) -> dict[str, NDArray[np.float64]]:
    sheet = backward(alone=ALONE.of(now.bench))
    given = {line.name: now.values[line.name] for line in sheet.given}
    return run(sheet, given | {"d_output": d_output})


def claims(now: Scene) -> list[tuple[str, bool]]:
    """Every gradient against what trying finds, then what softmax makes certain."""
    return [*(_tried(now, name) for name in TRIED), *_softmax(now)]


def _tried(now: Scene, name: str) -> tuple[str, bool]:
    """Whether a gradient is what trying finds, but for rounding and the curve within a step."""
    above, below = losses_around(backward(), now.values, name)
    found, gradient = (above - below) / (2 * STEP), now.values[f"d_{name}"]
    apart = float(np.abs(gradient - found).max())
    loss = float(np.abs(now.values["d_output"] * now.values["output"]).sum())
    rounding = 4 * np.finfo(float).eps * loss / STEP
    title = f"d{TRIED[name].letter}"
    return (
        f"{title} is what trying finds: the largest difference is {visible(apart, show)}.",
        bool(apart <= CLOSE * max(1.0, float(np.abs(gradient).max())) + rounding),
    )


def _softmax(now: Scene) -> list[tuple[str, bool]]:
    values = now.values
    back, blocked = values["d_masked"], ~values["mask"]
    size = 1e-12 * (1 + float(np.abs(values["d_weights"]).max()))
    sums = np.abs(back.sum(axis=1))
    found = [
        (
            "Every row of dS adds up to 0: the same number added to all scores of a row changes no weight. "
            f"The sums are off by {visible(float(sums.max()), show)} at most.",
            bool((sums <= size).all()),
        )
    ]
    if blocked.any():
        count = show(int(blocked.sum()))
        found.append(
            (
                f"Nothing comes back through the {count} scores that are blocked: their gradient is 0.",
                not back[blocked].any(),
            )
        )
    return found


def why_wrong(now: Scene) -> str:
    """What leaving the average out means."""
    largest = show(float(np.abs(now.values["row_sum"]).max()))
    return (
        "The weights of a row share out 1: more for one key is less for all others. Each score therefore "
        "moves every weight of its row, and what that does on average has to be taken off: "
        f"up to {largest} in these rows. Without it dS, dQ and dK are wrong; dV and dA, which lie after "
        "softmax, are not."
    )

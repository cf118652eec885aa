"""The eight steps of the walk-through, in the order in which one would work by hand.

Every line of the sheet names the step it belongs to; what a line says about itself stands there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One step: its title, what happens in it, and what happens where Q, K and V are given instead of X."""

    title: str
    text: str
    without_x: str = ""


STEPS = (
    Step(
        "Input X",
        "The calculation starts from one row of numbers per token. Together the rows make the matrix X.",
        "This way in starts from Q, K and V, so there is no X. Start from X to see where they come from.",
    ),
    Step(
        "Projections",
        "X is multiplied by three weight matrices. The products Q, K and V are three views of the same "
        "tokens: Q and K will be compared, V will be averaged.",
        "Q, K and V are given. Q and K will be compared, V will be averaged; a model gets all three from its "
        "tokens by multiplying with learned weights.",
    ),
    Step(
        "K transposed",
        "Rows and columns of K change places, so that each key becomes a column. Numbers move; none changes.",
    ),
    Step(
        "Scores",
        "Every query meets every key in a dot product: multiply feature by feature, then add up. "
        "The result is one number for each pair.",
    ),
    Step(
        "Scaling",
        "Every score is multiplied by the same number, as a rule by 1/√d_k. A dot product over more features "
        "adds up more products and tends to be larger; scaling brings the scores back to one range.",
    ),
    Step(
        "Mask",
        "Where a query may not look, its score becomes −∞. All other scores stay as they are.",
    ),
    Step(
        "Softmax",
        "Each row of scores becomes a row of weights from 0 to 1. A larger score gets a larger weight, "
        "and −∞ gets exactly 0.",
    ),
    Step(
        "Times V",
        "Each row of the output is an average of the rows of V, taken with that query’s weights.",
    ),
)

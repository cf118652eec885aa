"""The timeline of lesson 12: when each token of an answer is ready, at the rates of a data sheet.

A step with a cache takes operations and bytes that grow evenly with the tokens so far, line by line. So the
times of many steps are worked out from two of them. Everything here is an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from attention_core.accelerators import GIGA, Accelerator
from attention_core.cost import seconds
from attention_core.model_cost import step_costs
from attention_core.models import Model
from attention_ui import amounts
from attention_ui.graphs import Line, Panel, stacked

Table = tuple[list[str], list[list[str]]]  # headings and rows
Array = NDArray[np.float64]

AT_ONCE, ONE_BY_ONE = "prompt at once", "prompt token by token"
ROWS = 8  # tokens in the table twin


@dataclass(frozen=True)
class Answer:
    """A model answers a prompt: the prompt at once, then one step for each further token."""

    model: Model
    accelerator: Accelerator
    prompt: int
    new: int
    batch: int = 1
    numbers: str = "fp16"

    @property
    def first(self) -> float:
        """The time to the first token, in seconds."""
        costs = step_costs(self.model, self.prompt, self.prompt, batch=self.batch, numbers=self.numbers)
        return seconds(costs, self.accelerator, self.numbers)

    def steps(self, first: int, last: int) -> Array:
        """The times of the steps whose token is number `first` to number `last`, in seconds."""
        ends = [
            step_costs(self.model, 1, n, batch=self.batch, numbers=self.numbers) for n in (1, 2)
        ]  # every line grows by the same amount with each token
        n = np.arange(first, last + 1, dtype=np.float64)
        peak, bandwidth = self.accelerator.peak(self.numbers), GIGA * self.accelerator.bandwidth
        times = np.zeros_like(n)
        for one, two in zip(*ends, strict=True):
            operations = one.operations + (n - 1) * (two.operations - one.operations)
            moved = one.bytes + (n - 1) * (two.bytes - one.bytes)
            times += np.maximum(operations / peak, moved / bandwidth)
        return times

    @property
    def ready(self) -> Array:
        """(new,), when each token is ready, in seconds from the start."""
        later = self.steps(self.prompt + 1, self.prompt + self.new - 1) if self.new > 1 else np.zeros(0)
        return self.first + np.concatenate([[0.0], np.cumsum(later)])

    @property
    def token_by_token(self) -> float:
        """The time to the first token where the prompt is worked through one token at a time."""
        return float(self.steps(1, self.prompt).sum())


def figure(answer: Answer, *, theme: str = "light") -> go.Figure:
    """Tokens ready against time, the time to the first token marked, and the time that each token took."""
    ready = answer.ready
    unit, word = (1.0, "seconds") if ready[-1] >= 1 else (1e3, "milliseconds")
    counts = list(range(1, answer.new + 1))
    x = (unit * ready).tolist()
    said = [
        f"token {count} of the answer<br>after {amounts.duration(at)}"
        for count, at in zip(counts, ready, strict=True)
    ]
    took = [answer.first, *np.diff(ready).tolist()]
    each = [
        f"token {count} of the answer<br>took {amounts.duration(time)}"
        for count, time in zip(counts, took, strict=True)
    ]
    stairs_x = [0.0, *(at for at in x for _ in (0, 1))]
    stairs_y = [0.0, *(float(level) for count in counts for level in (count - 1, count))]
    panels = [
        Panel(
            "Tokens of the answer that are ready",
            [
                Line("ready", stairs_x, stairs_y, hover=["", *(text for text in said for _ in (0, 1))]),
                Line("a token", x, list(map(float, counts)), strong=True, points=True, size=6, hover=said),
            ],
            x_title=f"{word} from the start; dotted: the first token", marks=(x[0],), body=220,
        ),
        Panel(
            f"Time for a token, {word}",
            [
                Line(
                    "a token", counts, [unit * time for time in took], strong=True, points=True, size=6,
                    hover=each,
                )
            ],
            x_title="token of the answer; the first waits for the prompt", y_log=True,
        ),
    ]  # fmt: skip
    return stacked(panels, theme=theme)


def alt_text(answer: Answer) -> str:
    """What the figure shows, in its own numbers."""
    ready = answer.ready
    later = (
        f" Each further token takes {amounts.duration(ready[1] - ready[0])} to "
        f"{amounts.duration(ready[-1] - ready[-2])}, and token {answer.new} is ready after "
        f"{amounts.duration(ready[-1])}."
        if answer.new > 1
        else ""
    )
    return (
        f"Timeline of {answer.model.title} on {answer.accelerator.title}, an estimate: the first token of "
        f"the answer to a prompt of {answer.prompt:,} tokens is ready after "
        f"{amounts.duration(ready[0])}.{later}"
    )


def table(answer: Answer) -> Table:
    """A few tokens as a table: when each is ready and how long it took."""
    ready = answer.ready
    took = np.concatenate([ready[:1], np.diff(ready)])
    chosen = np.unique(np.linspace(0, answer.new - 1, ROWS).round().astype(int)).tolist()
    rows = [
        [str(at + 1), f"{answer.prompt + at:,}", amounts.duration(took[at]), amounts.duration(ready[at])]
        for at in chosen
    ]
    return ["token of the answer", "tokens in the cache then", "time for it", "ready after"], rows

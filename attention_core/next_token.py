r"""From the output of a step to the next token: tokens worked through with a cache, then logits and a choice.

    z = o_t W_out        and from there the sheet of sampling_sheet.py

A model has more layers between the output of one attention and its logits; here there is one product.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from attention_core.operations import MATMUL
from attention_core.sampling_sheet import sampling_sheet
from attention_core.sheet import Sheet, Stage, given, mark, stage
from attention_core.token_by_token import Mistake, token_by_token

# fmt: off
W_OUT = given("w_out", r"W_{\text{out}}", mark("W", "out"), "W_out", "d_v vocabulary", 0, (
    "How much one feature of the output counts for one word of the vocabulary.",
    "One column for each word that can come next."), is_learned=True)
_LOGITS_SAYS = ("How strongly a word of the vocabulary is put forward as the next one.",
                "Any number; only differences within the row will matter.")
# fmt: on


@cache
def next_token(
    n: int,
    steps: int,
    *,
    mistake: Mistake | None = None,
    greedy: bool = False,
    top_k: int | None = None,
    top_p: bool = False,
) -> Sheet:
    """token_by_token, and after its last step the logits and the probabilities of the token that comes next.

    The last line of the sheet is what a token is drawn from. Raises ValueError as token_by_token and
    sampling_sheet do.
    """
    first = token_by_token(n, steps, mistake=mistake)
    chosen = sampling_sheet(greedy=greedy, top_k=top_k, top_p=top_p)
    line = ("logits", "Z", mark("Z"), "Logits", f"query_{steps} vocabulary", 0)
    logits = stage(line, MATMUL, f"output_{steps} w_out", _LOGITS_SAYS)
    beside = tuple(replace(each, step=0) for each in chosen.given if each.name != "logits")
    after = tuple(_of_step(each, steps) for each in chosen.stages)
    return Sheet((*first.given, W_OUT, *beside), (*first.stages, logits, *after))


def choosing(sheet: Sheet) -> tuple[Stage, ...]:
    """The lines after the last step: logits, and what is made of them."""
    places = [line.name for line in sheet.stages]
    return sheet.stages[places.index("logits") :]


def _of_step(line: Stage, step: int) -> Stage:
    """A line about one row of logits, whose only row is the token of that step."""
    axes = tuple(f"query_{step}" if axis == "token" else axis for axis in line.axes)
    return replace(line, axes=axes, step=0)

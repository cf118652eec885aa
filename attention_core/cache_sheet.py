r"""The sheet of one step with a cache: the newest token's row, the rows that are kept, and its output.

    k_t = x_t W_K,  v_t = x_t W_V        K_t = [K_{t−1}; k_t],  V_t = [V_{t−1}; v_t]
    o_t = softmax(q_t K_tᵀ / √d_k) V_t

The rows before are given: they were worked out in earlier steps and are not made again (Shazeer 2019
counts what it takes to read them back).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from attention_core.appending import appended
from attention_core.operations import KEEP, MATMUL
from attention_core.rows import taken_rows
from attention_core.sheet import Given, Sheet, Stage, given, mark, stage
from attention_core.sheets import ATTENTION, W_K, W_Q, W_V, X

# fmt: off
_KEPT_SAYS = (
    "One number of the {0} of an earlier token, worked out when that token was the newest.",
    "It depends on its own token only, so later tokens leave it as it is.")
_NEW_ROW_SAYS = (
    "One number of the newest token.",
    "The only row of X that this step works with.")
_QUERY_SAYS = (
    "One of the numbers that the newest token compares keys by.",
    "No later step asks for it, so it is not kept.")
_ADDED_SAYS = (
    "One number of the newest token's {0}.",
    "Worked out once, now; from here on it is kept.")
_CACHE_SAYS = (
    "One number of the {0} of a token so far.",
    "The rows that were kept, and under them the new one.")
_TRANSPOSED, _SCALED = (ATTENTION.stage(name) for name in ("k_t", "scaled"))
LOOKS = {
    "k_t": (_TRANSPOSED.meaning, _TRANSPOSED.look),
    "scores": (
        "The dot product of the newest token's query and key j.",
        "One row only: the other queries were answered in their own steps."),
    "scaled": (_SCALED.meaning, _SCALED.look),
    "weights": (
        "The share of its attention that the newest token gives to key j.",
        "No mask is needed: what would be blocked has not been written yet."),
    "output": (
        "One feature of the newest token's output.",
        "The same numbers stand in its row when all tokens are worked through at once."),
}
WORDS = {"k": "key", "v": "value"}
# fmt: on


@cache
def step_sheet(t: int, *, late: bool = False) -> Sheet:
    """The step of token t, counted from 1: from x, the weights and k_b and v_b, the rows of t − 1 tokens.

    late: the mistake of looking at the cache before the new row has been written. With the first token
    there is nothing kept, and nothing to be late for. Raises ValueError for t below 1.
    """
    if t < 1:
        raise ValueError(f"tokens are counted from 1, so there is no step {t}")
    divisor = next(line for line in ATTENTION.given if line.name == "divisor")
    kept = [_kept(letter, t) for letter in "kv" if t > 1]
    newest = (
        stage(("x_a", f"x_{{{t}}}", mark("x", str(t)), "Newest token", "query d_model", 0),
              taken_rows((t - 1,)), "x", _NEW_ROW_SAYS),
        stage(("q", "q", mark("q"), "Query", "query d_k", 0), MATMUL, "x_a w_q", _QUERY_SAYS),
    )  # fmt: skip
    given_ = (X, W_Q, W_K, W_V, divisor, *kept)
    stages = (*newest, *_cached("k", t), *_cached("v", t), *_attention(late and t > 1))
    return Sheet(tuple(replace(line, step=0) for line in given_), stages)


def _kept(letter: str, t: int) -> Given:
    symbol = letter.upper()
    line = (f"{letter}_b", f"{symbol}_{{{t - 1}}}", mark(symbol, str(t - 1)), f"{symbol} kept")
    return given(*line, f"key_b d_{letter}", 0, (_KEPT_SAYS[0].format(WORDS[letter]), _KEPT_SAYS[1]))


def _cached(letter: str, t: int) -> tuple[Stage, Stage]:
    """The newest token's row, and the cache with it."""
    symbol, word = letter.upper(), WORDS[letter]
    new = (f"{letter}_a", f"{letter}_{{{t}}}", mark(letter, str(t)), f"New {word}", f"query d_{letter}", 0)
    whole = (
        letter,
        f"{symbol}_{{{t}}}",
        mark(symbol, str(t)),
        f"{symbol} in the cache",
        f"key d_{letter}",
        0,
    )
    operation, inputs = (appended(t - 1), f"{letter}_b {letter}_a") if t > 1 else (KEEP, f"{letter}_a")
    return (
        stage(new, MATMUL, f"x_a w_{letter}", (_ADDED_SAYS[0].format(word), _ADDED_SAYS[1])),
        stage(whole, operation, inputs, (_CACHE_SAYS[0].format(word), _CACHE_SAYS[1])),
    )


def _attention(late: bool) -> tuple[Stage, ...]:
    """One query against the cache; against the rows that were kept, where it is late."""
    axis = "key_b" if late else "key"
    names = {"k": "k_b", "v": "v_b"} if late else {}
    stages = []
    for name, says in LOOKS.items():
        line = ATTENTION.stage(name)
        inputs = tuple(
            names.get(source, "scaled" if source == "masked" else source) for source in line.inputs
        )
        axes = tuple(axis if each == "key" else each for each in line.axes)
        stages.append(
            replace(line, inputs=inputs, axes=axes, meaning=says[0], look=says[1], step=0, aside="")
        )
    return tuple(stages)

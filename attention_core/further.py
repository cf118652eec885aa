"""What lessons start from beside X and its weights: W_O, gains, biases, a second sentence, …

A matrix that only a lesson needs has a rule of its own here. Like the numbers of an example, an entry
depends on its place alone, so a wider or longer matrix begins with the same numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attention_core.examples import Example, seeded
from attention_core.limits import LARGEST_MAP

Array = NDArray[np.float64]

# "weights": multiples of 0.5 from −1 to 1; "numbers": from −2 to 2; "ones" and "zeros" at first.
# A name's place tells a link which matrix is meant: new names go to the end.
FURTHER: dict[str, str] = {
    "w_o": "weights",
    "gain": "ones",
    "shift": "zeros",
    "gain_1": "ones",
    "shift_1": "zeros",
    "gain_2": "ones",
    "shift_2": "zeros",
    "w_1": "weights",
    "b_1": "zeros",
    "w_2": "weights",
    "b_2": "zeros",
    "w_gate": "weights",
    "places": "numbers",
    "others": "numbers",
    "logits": "numbers",
    "b_q": "zeros",
    "b_k": "zeros",
    "b_v": "zeros",
    "b_o": "zeros",
    "w_up": "weights",
    "w_down": "weights",
    "change": "numbers",
    "d_output": "numbers",
    "h": "numbers",
    "w_out": "weights",
}
_REACH = {"weights": 2, "numbers": 4}  # in halves
_FIRST_STREAM = 16  # those before belong to the examples' own matrices


def further(example: Example, name: str, rows: int, columns: int, seed: int | None = None) -> Array:
    """(rows, columns), read-only: the matrix of that name by its rule, from the example's seed or another.

    Raises ValueError for a name that has no rule and for sizes outside 0 to 256.
    """
    if name not in FURTHER:
        raise ValueError(f"there is no rule for a matrix {name}")
    if not (0 <= rows <= LARGEST_MAP and 0 <= columns <= LARGEST_MAP):
        raise ValueError(f"{name} can be 0 × 0 to {LARGEST_MAP} × {LARGEST_MAP}, not {rows} × {columns}")
    rule = FURTHER[name]
    if rule in _REACH:
        stream = _FIRST_STREAM + list(FURTHER).index(name)
        result = seeded(example.seed if seed is None else seed, stream, rows, columns, _REACH[rule])
    else:
        result = np.full((rows, columns), 1.0 if rule == "ones" else 0.0)
    result.flags.writeable = False
    return result

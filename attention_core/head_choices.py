"""What makes one multi-head attention differ from another, and the numbers that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

from numpy.typing import ArrayLike

from attention_core.heads import columns, head_cut
from attention_core.multi_head import Positions
from attention_core.operations import Operation
from attention_core.positions import BASE, alibi_slopes, exponents, position_column
from attention_core.sheet import Sheet
from attention_core.sheets import Scaling
from attention_core.waves import Pairing

Mistake = Literal["no transpose"]

POSITIONS = (None, "rope-interleaved", "rope-half", "alibi")
PAIRING_OF: dict[str, Pairing] = {"rope-interleaved": "interleaved", "rope-half": "half"}
MISTAKES = (None, "no transpose")


@dataclass(frozen=True)
class Heads:
    """What makes one multi-head attention differ from another; the words are those of heads_sheet."""

    n_heads: int
    n_kv_heads: int
    d_head: int
    d_value: int
    scaling: Scaling = "sqrt"
    bias: bool = False
    biases: bool = False
    positions: Positions | None = None
    shift: bool = False
    mistake: Mistake | None = None
    n: int | None = None

    def __post_init__(self) -> None:
        few, many = self.n_kv_heads, self.n_heads
        if few < 1 or many < 1 or many % few:
            raise ValueError(f"{few} key heads cannot be shared out equally among {many} query heads")
        if self.d_head < 1 or self.d_value < 1:
            raise ValueError(f"a head needs columns, not d_head {self.d_head} and d_value {self.d_value}")
        if self.positions not in POSITIONS:
            raise ValueError(f"positions is one of {', '.join(map(str, POSITIONS))}, not {self.positions!r}")
        if self.positions == "alibi" and self.bias:
            raise ValueError("ALiBi adds a bias of its own, so that there cannot be another one")
        if self.mistake not in MISTAKES:
            raise ValueError(f"mistake is one of {', '.join(map(str, MISTAKES))}, not {self.mistake!r}")
        if self.mistake is not None and self.n is None:
            raise ValueError("n, the number of rows, is needed to cut heads without the transpose")

    def key_head(self, head: int) -> int:
        """The head of keys and values that a query head reads, both counted from 1."""
        return (head - 1) // (self.n_heads // self.n_kv_heads) + 1

    @property
    def shared(self) -> bool:
        return self.n_kv_heads < self.n_heads

    @property
    def pairing(self) -> Pairing | None:
        """Which columns RoPE turns together, where there is RoPE."""
        return PAIRING_OF.get(self.positions or "")

    def cut(self, letter: str, head: int) -> Operation:
        """The operation that takes a head, counted from 1, out of q, k or v."""
        width = self.d_value if letter == "v" else self.d_head
        if self.mistake is None or self.n is None:
            return columns((head - 1) * width, width)
        return head_cut(head - 1, self.n_heads if letter == "q" else self.n_kv_heads, width, self.n)


def beside(sheet: Sheet, n: int, *, n_heads: int, d_head: int, base: float = BASE) -> dict[str, ArrayLike]:
    """What a sheet with heads is given beside matrices and mask, for n tokens: √d_k, positions, slopes, …

    Only what the sheet has; scale, bias and position_shift are free to choose and not among them.
    """
    known: dict[str, ArrayLike] = {"divisor": sqrt(d_head), "positions": position_column(n)}
    known |= {"exponents": exponents(d_head), "base": base}
    known |= {f"slope_{head + 1}": slope for head, slope in enumerate(alibi_slopes(n_heads))}
    return {name: value for name, value in known.items() if name in sheet}

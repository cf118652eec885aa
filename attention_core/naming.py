"""Names, symbols and titles of the lines of a part that may stand in a larger calculation more than once.

Two normalisations in one block are told apart by a number (mean_1, mean_2 and μ₁, μ₂) and by where they
stand (Mean before attention, Mean before the feed-forward network).
"""

from __future__ import annotations

from dataclasses import dataclass

from attention_core.operations import Operation
from attention_core.sheet import Given, Mark, Stage, mark


@dataclass(frozen=True)
class Naming:
    """prefix goes before names, index after names and below symbols, where after titles."""

    prefix: str = ""
    index: str = ""
    where: str = ""

    def name(self, name: str) -> str:
        """The line's name here: norm_mean, mean_1."""
        return f"{self.prefix}{name}{self.index and '_'}{self.index}"

    def given(
        self,
        name: str,
        symbol: Symbol,
        title: str,
        axes: tuple[str, ...],
        says: tuple[str, str],
        *,
        is_learned: bool = False,
    ) -> Given:
        """A given line of the part."""
        return Given(
            self.name(name),
            self._latex(symbol),
            self._mark(symbol),
            self._title(title),
            axes,
            *says,
            step=0,
            is_learned=is_learned,
        )

    def stage(
        self,
        name: str,
        symbol: Symbol,
        title: str,
        axes: tuple[str, ...],
        operation: Operation,
        inputs: tuple[str, ...],
        says: tuple[str, str],
    ) -> Stage:
        """A stage of the part; inputs are names as they stand in the whole sheet."""
        return Stage(
            self.name(name),
            self._latex(symbol),
            self._mark(symbol),
            self._title(title),
            operation,
            inputs,
            axes,
            *says,
            step=0,
        )

    def _title(self, title: str) -> str:
        return f"{title} {self.where}".rstrip()

    def _latex(self, symbol: Symbol) -> str:
        word = rf"\text{{{symbol.sub}}}" if len(symbol.sub) > 1 else symbol.sub
        below = ",".join(piece for piece in (word, self.index) if piece)
        below = f"_{{{below}}}" if "," in below or len(below) > 1 else below and f"_{below}"
        above = symbol.sup.replace("⊤", r"\top")
        return f"{symbol.latex}{below}{above and '^'}{above}"

    def _mark(self, symbol: Symbol) -> Mark:
        below = ",".join(piece for piece in (symbol.sub, self.index) if piece)
        pieces = ((symbol.plain or symbol.latex, ""), (below, "sub"), (symbol.sup, "sup"))
        return tuple(piece for piece in pieces if piece[0])


@dataclass(frozen=True)
class Symbol:
    """A letter in LaTeX and, where that is a command, in plain text; what stands below and above it."""

    latex: str
    plain: str = ""
    sub: str = ""
    sup: str = ""


def numbered_symbol(symbol: str, number: int) -> str:
    r"""S becomes S_{1}, S_{\text{scaled}} S_{\text{scaled},1} and K^\top K_{1}^\top."""
    base, hat, power = symbol.partition("^")
    numbered = f"{base[:-1]},{number}}}" if base.endswith("}") else f"{base}_{{{number}}}"
    return numbered + hat + power


def numbered_mark(pieces: Mark, number: int) -> Mark:
    """The same for the plain pieces of a symbol."""
    sub = next((text for text, place in pieces if place == "sub"), "")
    sup = next((text for text, place in pieces if place == "sup"), "")
    return mark(pieces[0][0], f"{sub}, {number}" if sub else str(number), sup)

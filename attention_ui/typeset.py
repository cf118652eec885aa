r"""The arithmetic of a cell as HTML: the LaTeX that the core writes, set without a program in the browser.

Only what the core writes is known: letters, numbers, \frac, \sqrt, \sum, functions, \left and \right,
\text, what stands below and above. KaTeX in the browser takes longer than everything else that an edit
does there. The letters are KaTeX's, which Streamlit brings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape

FUNCTIONS = frozenset(("arg", "cos", "exp", "log", "max", "sin", "tanh"))
RELATIONS = {"=": "=", "<": "<", ">": ">", r"\approx": "≈", r"\ge": "≥", r"\le": "≤", r"\neq": "≠"}
SUMS = {"+": "+", "-": "−"}
PRODUCTS = {"/": "/", r"\times": "×", r"\cdot": "·", r"\odot": "⊙", r"\oslash": "⊘"}
SIGNS = {r"\infty": "∞", r"\top": "⊤", r"\ldots": "…", r"\Delta": "Δ", r"\Theta": "Θ", r"\Gamma": "Γ"}
LETTERS = {
    r"\alpha": "α", r"\beta": "β", r"\gamma": "γ", r"\delta": "δ", r"\varepsilon": "ε", r"\ell": "ℓ",
    r"\eta": "η", r"\lambda": "λ", r"\mu": "μ", r"\omega": "ω", r"\pi": "π", r"\rho": "ρ",
    r"\sigma": "σ", r"\tau": "τ", r"\theta": "θ",
}  # fmt: skip
ACCENTS = {r"\widetilde": "\u0303", r"\widehat": "\u0302", r"\bar": "\u0304"}
SPACES = {r"\,": "\u2009", r"\;": "\u2005", r"\quad": "\u2003", r"\qquad": "\u2003\u2003"}
THIN, WIDE, KEEP = "\u2009", "\u2005", "\u00a0"  # KEEP: no new line begins there
KEPT = 1 << 12  # short lines that come again in cell after cell

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|, |\s+|.", re.DOTALL)


@dataclass
class _Atom:
    """What is set as one. kind: "operand", "open", "function", "sign" or "space"."""

    html: str
    kind: str
    below: str = ""
    above: str = ""

    def written(self) -> str:
        if self.below and self.above:
            return f'{self.html}<span class="both"><sup>{self.above}</sup><sub>{self.below}</sub></span>'
        below, above = self.below and f"<sub>{self.below}</sub>", self.above and f"<sup>{self.above}</sup>"
        return f"{self.html}{below}{above}"


def aligned(lines: Sequence[str], said: str) -> str:
    """Lines of an aligned block, one below the other at their first sign; `said` is for screen readers."""
    rows = "".join(_row(*line.split("&", 1)) for line in lines)
    return f'<div class="worked" role="math" aria-label="{escape(said)}">{rows}</div>'


def _row(left: str, right: str = "") -> str:
    return f"<div><span>{inline(left)}</span><span>{inline(right)}</span></div>"


@lru_cache(maxsize=KEPT)
def inline(latex: str) -> str:
    """LaTeX on one line as HTML. Raises ValueError for a command that the core does not write."""
    return _Reader(_TOKEN.findall(latex.strip())).until("")


class _Reader:
    """Takes piece after piece off the front of a line."""

    def __init__(self, pieces: list[str]) -> None:
        self.pieces = pieces[::-1]

    def until(self, end: str) -> str:
        """The pieces up to a closing piece, which is taken off, too; "" stands for the end of the line."""
        atoms: list[_Atom] = []
        while self.pieces:
            piece = self.pieces.pop()
            if piece == end:
                return "".join(atom.written() for atom in atoms)
            if piece in "^_":
                base = atoms[-1] if atoms else _Atom("", "operand")
                base.below, base.above = (
                    (self.argument(), base.above) if piece == "_" else (base.below, self.argument())
                )
            elif not piece.isspace() and piece != r"\textstyle":
                self._space_after_function(atoms, piece)
                atoms.append(self._atom(piece, bool(atoms) and atoms[-1].kind == "operand"))
        if end:
            raise ValueError(f"{end} is missing")
        return "".join(atom.written() for atom in atoms)

    def argument(self) -> str:
        """What a command or a script applies to: a group in braces or the next piece."""
        while self.pieces and self.pieces[-1].isspace():
            self.pieces.pop()
        if not self.pieces:
            raise ValueError("something is missing at the end")
        piece = self.pieces.pop()
        if piece == "{":
            return self.until("}")
        if len(piece) > 1 and piece[0].isdigit():  # x^12 is x to the 1, and then a 2
            self.pieces.append(piece[1:])
            piece = piece[0]
        return self._atom(piece, False).written()

    def _text(self) -> str:
        """Words in braces, as they are."""
        words = ""
        if not self.pieces or self.pieces.pop() != "{":
            raise ValueError("words stand in braces")
        while self.pieces and (piece := self.pieces.pop()) != "}":
            words += piece
        return escape(words.replace(r"\_", "_").replace(r"\%", "%"))

    def _space_after_function(self, atoms: list[_Atom], piece: str) -> None:
        if atoms and atoms[-1].kind == "function" and piece not in ("(", r"\left"):
            atoms.append(_Atom(THIN, "space"))

    def _atom(self, piece: str, after_operand: bool) -> _Atom:
        """The atom that begins with this piece."""
        name = piece[1:]
        if piece == "{":
            return _Atom(self.until("}"), "operand")
        if piece in RELATIONS:
            return _Atom(f"{WIDE}{escape(RELATIONS[piece])}{KEEP}", "sign")
        if piece in SUMS:
            return _Atom(f"{WIDE}{SUMS[piece]}{KEEP}" if after_operand else SUMS[piece], "sign")
        if piece in PRODUCTS:
            return _Atom(f"{KEEP}{PRODUCTS[piece]}{KEEP}", "sign")
        if piece in SPACES:
            return _Atom(SPACES[piece], "operand" if after_operand else "space")
        if piece in LETTERS or (len(piece) == 1 and piece.isalpha()):
            return _Atom(f"<i>{LETTERS.get(piece, piece)}</i>", "operand")
        if piece in SIGNS:
            return _Atom(SIGNS[piece], "operand")
        if piece == r"\sum":
            return _Atom("∑", "function")
        if piece[0] == "\\" and name in FUNCTIONS:
            return _Atom(name, "function")
        if piece == r"\operatorname":
            return _Atom(self._text(), "function")
        if piece in (r"\text", r"\mathrm"):
            return _Atom(self._text(), "operand")
        if piece in ACCENTS:
            return _Atom(self.argument().replace("</i>", f"{ACCENTS[piece]}</i>", 1), "operand")
        if piece in (r"\frac", r"\tfrac"):
            kind = "frac" if piece == r"\frac" else "frac small"
            return _Atom(
                f'<span class="{kind}"><span>{self.argument()}</span><span>{self.argument()}</span></span>',
                "operand",
            )
        if piece == r"\sqrt":
            return _Atom(f'<span class="root"><span>√</span><span>{self.argument()}</span></span>', "operand")
        if piece == r"\left":
            return self._fenced()
        if piece[0] == "\\" or piece == "}":
            raise ValueError(f"{piece} has no meaning here")
        kind = "open" if piece in "([" else "sign" if piece in (",", ", ", ":") else "operand"
        return _Atom(escape(piece), kind)

    def _fenced(self) -> _Atom:
        r"""\left( … \right): as high as what stands inside."""
        first, inside = self.pieces.pop(), self.until(r"\right")
        last = self.pieces.pop()
        if 'class="frac"' in inside:
            first, last = (f'<span class="tall">{fence}</span>' for fence in (first, last))
        return _Atom(f"{first}{inside}{last}", "operand")

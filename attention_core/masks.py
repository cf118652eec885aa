"""Masks: who may look at whom.

A mask is a rule about a query position and a key position; True means "may look". On paper the rule
becomes the matrix M, 0 where it holds and −∞ where it does not, which is added to the scores.

`MASKS` has one entry for every kind that a reader can choose; `MaskSpec` is one choice with its
parameters, short enough for a link. The arrays behind them are in `mask_arrays`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attention_core.limits import LARGEST_DRAWING, LONGEST_MASK
from attention_core.mask_arrays import (
    Bools,
    as_matrix,
    causal,
    chunked,
    count,
    padding,
    prefix,
    segments,
    whole,
    window,
)

# In reading order: the arrays, then what a reader can choose.
__all__ = [  # noqa: RUF022
    "causal", "window", "chunked", "prefix", "padding", "segments", "as_matrix",
    "MASKS", "MaskKind", "MaskSpec", "Parameter", "allowed", "drawn", "joined", "why",
]  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One thing to set about a mask: a whole number from low to high, or one of `options` (short words)."""

    name: str
    title: str
    meaning: str
    default: int | str
    low: int = 0
    high: int = 0
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class MaskKind:
    """A kind of mask: its words, its formula (i and j count from 1), its rule and its reasons.

    rule(spec, n_q, n_k) -> (n_q, n_k) booleans; sentence(spec, n_q, n_k) says it in words;
    reason(spec, i, j, n_q, n_k, allowed) is a clause about one query and one key, counted from 0.
    """

    title: str
    meaning: str
    formula: str
    parameters: tuple[Parameter, ...]
    rule: Callable[[MaskSpec, int, int], Bools]
    sentence: Callable[[MaskSpec, int, int], str]
    reason: Callable[[MaskSpec, int, int, int, int, bool], str]


@dataclass(frozen=True)
class MaskSpec:
    """One choice: a kind of MASKS with its parameters, perhaps joined with a second one.

    Parameters that the kind does not have go back to their defaults, so that equal masks are equal.
    Raises ValueError, with the names, for an unknown kind or a parameter out of range.
    """

    kind: str = "none"
    align: str = "start"
    left: int = 2
    right: int = 0
    length: int = 2
    side: str = "right"
    rows: tuple[tuple[bool, ...], ...] = ()
    join: str | None = None
    second: MaskSpec | None = None

    def __post_init__(self) -> None:
        if self.kind not in MASKS:
            raise ValueError(f"the mask must be one of {', '.join(MASKS)}, not {self.kind!r}")
        used = {parameter.name: parameter for parameter in MASKS[self.kind].parameters}
        for name in ("align", "left", "right", "length", "side"):
            if name in used:
                _check_parameter(used[name], getattr(self, name))
            else:
                object.__setattr__(self, name, type(self).__dataclass_fields__[name].default)
        object.__setattr__(self, "rows", _checked_rows(self.rows) if self.kind == "custom" else ())
        if (self.join is None) != (self.second is None) or self.join not in (None, "and", "or"):
            raise ValueError('two masks are joined by "and" or "or"; one mask has neither join nor second')
        if self.second is not None and self.second.join is not None:
            raise ValueError("at most two masks can be joined")

    def to_text(self) -> str:
        """The mask in letters, digits, "-", "_" and ".": causal, window-2-0, causal.and.padding-3-left."""
        if self.second is not None:
            return f"{self.first.to_text()}.{self.join}.{self.second.to_text()}"
        if self.kind == "custom":
            return f"custom-{len(self.rows)}x{len(self.rows[0])}-{_packed(self.rows)}"
        words = [self.kind]
        for parameter in MASKS[self.kind].parameters:
            value = getattr(self, parameter.name)
            if not parameter.options or value != parameter.default:
                words.append(str(value))
        return "-".join(words)

    @classmethod
    def from_text(cls, text: str) -> MaskSpec:
        """The mask that `to_text` wrote. Raises ValueError with a plain sentence for any other text."""
        if len(text) > LONGEST_MASK:
            raise ValueError(f"the mask is longer than {LONGEST_MASK:,} characters")
        parts = text.split(".")
        try:
            if len(parts) == 1:
                spec = _single(text)
            elif len(parts) == 3:
                spec = joined(_single(parts[0]), parts[1], _single(parts[2]))
            else:
                raise ValueError(text)
            if spec.to_text() != text:
                raise ValueError(text)
        except ValueError:
            shown = "".join(c if c.isprintable() else " " for c in text[:40])
            raise ValueError(f"“{shown}{'…' if len(text) > 40 else ''}” is not a mask") from None
        return spec

    @property
    def first(self) -> MaskSpec:
        """The mask without the one it is joined with."""
        if self.second is None:
            return self
        return MaskSpec(self.kind, self.align, self.left, self.right, self.length, self.side, self.rows)

    def title(self, n_q: int, n_k: int) -> str:
        """A few words for a heading: "Causal", "Causal, ends aligned and padding"."""
        if self.second is not None:
            return f"{self.first.title(n_q, n_k)} {self.join} {_small(self.second.title(n_q, n_k))}"
        title = MASKS[self.kind].title
        if n_q == n_k or not _has(self, "align"):
            return title
        return f"{title}, {'starts' if self.align == 'start' else 'ends'} aligned"

    def describe(self, n_q: int, n_k: int) -> str:
        """One sentence in plain words, naming the alignment when n_q ≠ n_k."""
        if self.second is None:
            return f"{self._clause(n_q, n_k)}."
        clauses = f"{_small(self.first._clause(n_q, n_k))}; {_small(self.second._clause(n_q, n_k))}"
        return f"{'Both rules must hold' if self.join == 'and' else 'One of two rules is enough'}: {clauses}."

    def _clause(self, n_q: int, n_k: int) -> str:
        clause = MASKS[self.kind].sentence(self, n_q, n_k)
        if n_q == n_k or not _has(self, "align"):
            return clause
        end = "first" if self.align == "start" else "last"
        return f"{clause}, with the {end} query beside the {end} key"


def joined(first: MaskSpec, join: str, second: MaskSpec) -> MaskSpec:
    """Both masks as one: join "and" lets a query look where both do, "or" where one does.

    Raises ValueError when a mask is joined already or `join` is another word.
    """
    if first.join is not None:
        raise ValueError("at most two masks can be joined")
    return MaskSpec(
        first.kind, first.align, first.left, first.right, first.length, first.side, first.rows, join, second
    )


def drawn(allow: ArrayLike) -> MaskSpec:
    """The custom mask with these cells: (n_q, n_k) booleans, 1 × 1 to 64 × 64; else ValueError."""
    array = np.asarray(allow)
    if array.dtype != np.bool_ or array.ndim != 2:
        raise ValueError(f"a drawn mask is (n_q, n_k) booleans, not {array.shape} {array.dtype}")
    return MaskSpec("custom", rows=tuple(tuple(row) for row in array.tolist()))


def allowed(spec: MaskSpec, n_q: int, n_k: int) -> Bools:
    """(n_q, n_k), True where query i may look at key j under this mask.

    A length beyond n_k means all n_k keys. Of a drawing of another size the overlapping block is kept, and
    cells beyond it may look. Raises ValueError for sizes that are not whole numbers ≥ 0.
    """
    allow = MASKS[spec.kind].rule(spec, count("n_q", n_q), count("n_k", n_k))
    if spec.second is None:
        return allow
    other = allowed(spec.second, n_q, n_k)
    return allow & other if spec.join == "and" else allow | other


def why(spec: MaskSpec, i: int, j: int, n_q: int, n_k: int) -> str:
    """A clause that says why query i may or may not look at key j (counted from 0; from 1 in the clause).

    Raises ValueError when i or j is out of range.
    """
    if not (0 <= i < n_q and 0 <= j < n_k):
        raise ValueError(f"query {i} and key {j} are not within n_q = {n_q} and n_k = {n_k}")
    parts = [spec.first] if spec.second is None else [spec.first, spec.second]
    verdicts = [bool(allowed(part, n_q, n_k)[i, j]) for part in parts]
    verdict = all(verdicts) if spec.join != "or" else any(verdicts)
    clauses = [
        MASKS[part.kind].reason(part, i, j, n_q, n_k, ok)
        for part, ok in zip(parts, verdicts, strict=True)
        if ok == verdict
    ]
    return " and ".join(dict.fromkeys(clauses))


def _has(spec: MaskSpec, name: str) -> bool:
    return any(parameter.name == name for parameter in MASKS[spec.kind].parameters)


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]


def _offset(spec: MaskSpec, n_q: int, n_k: int) -> int:
    return 0 if spec.align == "start" else n_k - n_q


def _check_parameter(parameter: Parameter, value: int | str) -> None:
    if parameter.options:
        if value not in parameter.options:
            raise ValueError(f"{parameter.name} must be {' or '.join(parameter.options)}, not {value!r}")
    elif not whole(value) or not parameter.low <= int(value) <= parameter.high:
        raise ValueError(
            f"{parameter.name} must be a whole number from {parameter.low} to {parameter.high}, not {value!r}"
        )


def _checked_rows(rows: Sequence[Sequence[bool]]) -> tuple[tuple[bool, ...], ...]:
    sizes = {len(row) for row in rows}
    if not 1 <= len(rows) <= LARGEST_DRAWING or len(sizes) != 1 or not 1 <= max(sizes) <= LARGEST_DRAWING:
        raise ValueError(f"rows must be a grid of 1 × 1 to {LARGEST_DRAWING} × {LARGEST_DRAWING} cells")
    return tuple(tuple(bool(cell) for cell in row) for row in rows)


def _packed(rows: tuple[tuple[bool, ...], ...]) -> str:
    """The cells row by row, eight to a byte, as base64url without padding."""
    return base64.urlsafe_b64encode(np.packbits(np.array(rows)).tobytes()).decode().rstrip("=")


def _single(text: str) -> MaskSpec:
    """One mask without a join; `from_text` has the last word on whether the text is exactly right."""
    kind, *words = text.split("-", 2 if text.startswith("custom-") else -1)
    if kind == "custom":
        return _custom(*words)
    if kind not in MASKS:
        raise ValueError(text)
    values: dict[str, int | str] = {}
    for parameter in MASKS[kind].parameters:
        if not parameter.options:
            if not words or not re.fullmatch("[0-9]{1,3}", words[0]):
                raise ValueError(text)
            values[parameter.name] = int(words.pop(0))
        elif words and words[0] in parameter.options:
            values[parameter.name] = words.pop(0)
    if words:
        raise ValueError(text)
    return MaskSpec(kind, **values)  # type: ignore[arg-type]  # MaskSpec checks every value


def _custom(size: str = "", bits: str = "") -> MaskSpec:
    match = re.fullmatch("([0-9]{1,2})x([0-9]{1,2})", size)
    if match is None or not re.fullmatch("[A-Za-z0-9_-]+", bits):
        raise ValueError(size)
    height, width = int(match[1]), int(match[2])
    data = np.frombuffer(base64.urlsafe_b64decode(bits + "=" * (-len(bits) % 4)), dtype=np.uint8)
    cells = np.unpackbits(data)
    if cells.size < height * width:
        raise ValueError(size)
    return drawn(cells[: height * width].reshape(height, width).astype(bool))


def _place(i: int, offset: int) -> str:
    """The query's number, and where it stands among the keys when the alignment moves it."""
    if offset == 0:
        return f"query {i + 1}"
    if i + offset < 0:
        return f"query {i + 1}, which stands before the first key"
    return f"query {i + 1}, which stands at position {i + offset + 1}"


def _order(spec: MaskSpec, i: int, j: int, n_q: int, n_k: int) -> str:
    """Where key j lies as seen from query i."""
    offset = _offset(spec, n_q, n_k)
    if j == i + offset:
        return f"key {j + 1} stands at the place of query {i + 1} itself"
    return f"key {j + 1} lies {'after' if j > i + offset else 'before'} {_place(i, offset)}"


def _window_sentence(spec: MaskSpec, n_q: int, n_k: int) -> str:
    left, right = (str(count) if count else "none" for count in (spec.left, spec.right))
    return f"A query sees the key at its own place, {left} to the left and {right} to the right"


def _window_reason(spec: MaskSpec, i: int, j: int, n_q: int, n_k: int, ok: bool) -> str:
    offset = _offset(spec, n_q, n_k)
    side, reach = ("left", spec.left) if j < i + offset else ("right", spec.right)
    if (ok and j == i + offset) or (not ok and reach == 0):
        return _order(spec, i, j, n_q, n_k)
    how = "at most" if ok else "more than"
    return f"key {j + 1} is {how} {reach} to the {side} of {_place(i, offset)}"


def _padding_rule(spec: MaskSpec, n_q: int, n_k: int) -> Bools:
    return np.repeat(padding(min(spec.length, n_k), n_k, side=spec.side), n_q, axis=0)


def _padding_sentence(spec: MaskSpec, n_q: int, n_k: int) -> str:
    real = min(spec.length, n_k)
    if real == n_k:
        return "Every key is a real token, so that nothing is padding"
    which = "last" if spec.side == "right" else "first"
    return f"The {which} {n_k - real} of {n_k} keys are padding, and no query sees them"


def _prefix_rule(spec: MaskSpec, n_q: int, n_k: int) -> Bools:
    return causal(n_q, n_k, offset=_offset(spec, n_q, n_k)) | prefix(n_k, min(spec.length, n_k))


def _prefix_reason(spec: MaskSpec, i: int, j: int, n_q: int, n_k: int, ok: bool) -> str:
    if j < spec.length:
        return f"key {j + 1} is inside the prefix of {spec.length}"
    return _order(spec, i, j, n_q, n_k) + ("" if ok else f" and outside the prefix of {spec.length}")


def _custom_rule(spec: MaskSpec, n_q: int, n_k: int) -> Bools:
    allow = np.ones((n_q, n_k), dtype=bool)
    block = np.array(spec.rows)[:n_q, :n_k]
    allow[: block.shape[0], : block.shape[1]] = block
    return allow


def _custom_reason(spec: MaskSpec, i: int, j: int, n_q: int, n_k: int, ok: bool) -> str:
    if i >= len(spec.rows) or j >= len(spec.rows[0]):
        return "the cell lies beyond the drawing, where everything may look"
    return f"the drawing {'lets' if ok else 'does not let'} query {i + 1} look at key {j + 1}"


_ALIGN = Parameter(
    "align",
    "Alignment",
    "which stand side by side when there are more of one: the first query and key, or the last",
    "start",
    options=("start", "end"),
)

MASKS: dict[str, MaskKind] = {
    "none": MaskKind(
        "None (encoder)",
        "every token sees the whole sequence",
        r"\text{every } j",
        (),
        lambda spec, n_q, n_k: np.ones((n_q, n_k), dtype=bool),
        lambda spec, n_q, n_k: "Every query sees every key",
        lambda spec, i, j, n_q, n_k, ok: "nothing is blocked without a mask",
    ),
    "causal": MaskKind(
        "Causal",
        "a token sees itself and what came before",
        r"j \le i",
        (_ALIGN,),
        lambda spec, n_q, n_k: causal(n_q, n_k, offset=_offset(spec, n_q, n_k)),
        lambda spec, n_q, n_k: "A query sees the key at its own place and the keys before it",
        lambda spec, i, j, n_q, n_k, ok: _order(spec, i, j, n_q, n_k),
    ),
    "window": MaskKind(
        "Sliding window",
        "a token sees itself and a few neighbours",
        r"i - l \le j \le i + r",
        (
            Parameter("left", "To the left", "keys before it, the token itself not counted", 2, 0, 16),
            Parameter("right", "To the right", "keys after it, the token itself not counted", 0, 0, 16),
            _ALIGN,
        ),
        lambda spec, n_q, n_k: window(
            n_q, n_k, left=spec.left, right=spec.right, offset=_offset(spec, n_q, n_k)
        ),
        _window_sentence,
        _window_reason,
    ),
    "padding": MaskKind(
        "Padding",
        "nobody sees the tokens that only fill the row",
        r"j \text{ is a real token}",
        (
            Parameter("length", "Real tokens", "how many keys are real; the others are padding", 2, 0, 256),
            Parameter(
                "side", "Padding stands", "on which side of the tokens", "right", options=("right", "left")
            ),
        ),
        _padding_rule,
        _padding_sentence,
        lambda spec, i, j, n_q, n_k, ok: f"key {j + 1} is {'a real token' if ok else 'padding'}",
    ),
    "prefix": MaskKind(
        "Prefix",
        "everyone sees the prefix; after it a token sees what came before",
        r"j \le p \;\text{ or }\; j \le i",
        (Parameter("length", "Prefix", "how many keys at the start everyone sees", 2, 0, 256), _ALIGN),
        _prefix_rule,
        lambda spec, n_q, n_k: (
            f"A query sees the first {min(spec.length, n_k)} keys, its own place and what is before it"
        ),
        _prefix_reason,
    ),
    "custom": MaskKind(
        "Drawn by hand",
        "every cell is switched by hand",
        r"(i, j) \text{ is switched on}",
        (),
        _custom_rule,
        lambda spec, n_q, n_k: "A query sees the keys that are switched on in the drawing",
        _custom_reason,
    ),
}

"""Two masks on the same numbers: what changes from mask A to mask B in every row, and why, in words.

Every figure in a sentence is read from the two traces. A mask changes a row of weights in one way only: keys
that both masks allow share out what is left to them in the same proportions as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attention_core.attention import AttentionTrace
from attention_core.masks import MaskSpec
from attention_core.numbers import show
from attention_ui.naming import Places, alike, named, reasons
from attention_ui.tokens import isolated

Array = NDArray[np.float64]
Labels = Mapping[str, Sequence[str]]

NOISE = 1e-12  # relative; a change that only rounding makes


@dataclass(frozen=True, eq=False)
class Difference:
    """B − A, read-only."""

    weights: Array  # (n_q, n_k)
    output: Array  # (n_q, d_v)


def difference(trace_a: AttentionTrace, trace_b: AttentionTrace) -> Difference:
    """Weights and output under mask B minus those under mask A.

    Raises ValueError when the two traces differ in more than their masks.
    """
    _refuse_other_numbers(trace_a, trace_b)
    with np.errstate(invalid="ignore"):
        weights, output = trace_b.weights - trace_a.weights, trace_b.output - trace_a.output
    for array in (weights, output):
        array.flags.writeable = False
    return Difference(weights, output)


def summary(spec_a: MaskSpec, spec_b: MaskSpec, trace_a: AttentionTrace, trace_b: AttentionTrace) -> str:
    """What each mask allows, how they are aligned, and how many rows differ.

    Raises ValueError when the two traces differ in more than their masks.
    """
    _refuse_other_numbers(trace_a, trace_b)
    n_q, n_k = trace_a.mask.shape
    masks = " ".join(
        f"{name}: {_small(spec.title(n_q, n_k))}. {spec.describe(n_q, n_k)}"
        for name, spec in (("A", spec_a), ("B", spec_b))
    )
    changed = int(np.sum(np.any(trace_a.mask != trace_b.mask, axis=1)))
    if not changed:
        return f"{masks} At this size both allow the same cells, so nothing changes."
    rows = f"{changed} of {n_q} {'row' if n_q == 1 else 'rows'} {'changes' if changed == 1 else 'change'}"
    return f"{masks} {rows}; keys that both allow keep their proportions to one another."


def row_sentences(
    labels: Labels, spec_a: MaskSpec, spec_b: MaskSpec, trace_a: AttentionTrace, trace_b: AttentionTrace
) -> tuple[str, ...]:
    """For every query, what changes from mask A to mask B and why, with the numbers of that row.

    Raises ValueError when the two traces differ in more than their masks.
    """
    _refuse_other_numbers(trace_a, trace_b)
    return tuple(
        f"Query {i + 1}, {isolated(query)}: {_row(labels['key'], i, (spec_a, spec_b), trace_a, trace_b)}"
        for i, query in enumerate(labels["query"])
    )


def _refuse_other_numbers(trace_a: AttentionTrace, trace_b: AttentionTrace) -> None:
    for name in ("scaled", "v"):
        a, b = getattr(trace_a, name), getattr(trace_b, name)
        if not np.array_equal(a, b, equal_nan=True):
            raise ValueError(
                f"only the masks may differ, but {name} {a.shape} and {name} {b.shape} are not equal"
            )


def _row(
    keys: Sequence[str],
    i: int,
    specs: tuple[MaskSpec, MaskSpec],
    trace_a: AttentionTrace,
    trace_b: AttentionTrace,
) -> str:
    a, b = trace_a.mask[i], trace_b.mask[i]
    before, after = trace_a.weights[i], trace_b.weights[i]
    new, lost, kept = (np.flatnonzero(which) for which in (b & ~a, a & ~b, a & b))
    if not new.size and not lost.size:
        return _nothing_changes(bool(kept.size))
    parts = [_allowed(keys, new, lost, kept)]
    parts += [f"A blocked {_them(new)}: {reasons(specs[0], i, new, *trace_a.mask.shape)}."] * bool(new.size)
    parts += [f"B blocks {_them(lost)}: {reasons(specs[1], i, lost, *trace_a.mask.shape)}."] * bool(lost.size)
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        return " ".join([*parts, "Its scores are too large for the weights to have a value."])
    if not a.any():
        parts.append(_strongest(keys, after, "now goes"))
    elif not b.any():
        parts.append(_strongest(keys, before, "went"))
    else:
        parts.append(_moved(keys, before, after, new, lost, kept))
    return " ".join([*parts, _output(trace_a.output[i], trace_b.output[i])])


# which keys, and why --------------------------------------------------------------------------


def _nothing_changes(looks: bool) -> str:
    if looks:
        return "nothing changes; both masks let it look at the same keys."
    return "nothing changes; it may look nowhere under either mask, so its weights and its output are 0."


def _allowed(keys: Sequence[str], new: Places, lost: Places, kept: Places) -> str:
    if not lost.size and not kept.size:
        empty = "could look nowhere under A, so its weights and its output were 0"
        return f"{empty}; now it may look at {named(keys, new)}."
    if not new.size and not kept.size:
        empty = "may look nowhere under B, so its weights and its output are 0"
        return f"{empty}; it could look at {named(keys, lost)}."
    if not lost.size:
        return f"may now also look at {named(keys, new)}."
    if not new.size:
        return f"may no longer look at {named(keys, lost)}."
    return f"may now look at {named(keys, new)}, and no longer at {named(keys, lost)}."


# what becomes of the weights and the output ---------------------------------------------------


def _moved(keys: Sequence[str], before: Array, after: Array, new: Places, lost: Places, kept: Places) -> str:
    """How much attention the new keys take and the lost ones held, and what that does to the others."""
    taken, held = float(after[new].sum()), float(before[lost].sum())
    if not kept.size:
        return _strongest(keys, after, "now goes")
    if not lost.size:
        they = "It takes" if new.size == 1 else "They take"
        return f"{they} {_part(taken)} of its attention{_given(keys, before, after, kept, taken)}."
    if not new.size:
        they = "It" if lost.size == 1 else "They"
        return f"{they} held {_part(held)} of its attention{_received(keys, before, after, kept, held)}."
    the_new = "The new key takes" if new.size == 1 else "The new keys take"
    the_old = "the old one held" if lost.size == 1 else "the old ones held"
    both = f"{the_new} {_part(taken)} of its attention and {the_old} {_part(held)}"
    rest = named(keys, kept) if kept.size == 1 else f"the {kept.size} keys that both allow"
    return f"{both}; {rest}: {_change(float(before[kept].sum()), float(after[kept].sum()))}."


def _given(keys: Sequence[str], before: Array, after: Array, kept: Places, amount: float) -> str:
    """Which kept key most of the amount comes from."""
    if amount < NOISE:
        return ", so the other weights stay as they are"
    share, top, change = _largest_share(before, after, kept)
    if share == "equal":
        return f", as much from each of {named(keys, top)} ({change})"
    return f", {share} of it from {named(keys, top)} ({change})"


def _received(keys: Sequence[str], before: Array, after: Array, kept: Places, amount: float) -> str:
    """Which kept key most of the amount goes to."""
    if amount < NOISE:
        return ", so the other weights stay as they are"
    share, top, change = _largest_share(before, after, kept)
    if share == "equal":
        return f", which now goes in equal parts to {named(keys, top)} ({change})"
    return f", {share} of which now goes to {named(keys, top)} ({change})"


def _largest_share(before: Array, after: Array, kept: Places) -> tuple[str, Places, str]:
    """In words how large the largest share is; the keys that have it; the weight of one before and after."""
    parts = np.abs(after - before)[kept]
    top = kept[alike(parts, parts.max())]
    change = _change(float(before[top[0]]), float(after[top[0]]))
    if kept.size == 1:
        return "all", top, change
    if top.size == kept.size:
        return "equal", top, f"{change} each"
    if top.size > 1:
        return "the largest parts", top, f"{change} each"
    return ("most" if parts.max() > 0.5 * parts.sum() else "the largest part"), top, change


def _strongest(keys: Sequence[str], weights: Array, goes: str) -> str:
    """Where the attention of a row goes, for a row that is compared with nothing."""
    top = np.flatnonzero(alike(weights, weights.max()))
    weight = show(float(weights.max()))
    if top.size > 1:
        whose = f"{named(keys, top)}, {weight} each"
        return f"The largest weights {'were' if goes == 'went' else 'are'} those of {whose}."
    if weight == "1":
        return f"All of its attention {goes} to {named(keys, top)}."
    share = "Most" if weights.max() > 0.5 else "The largest part"
    return f"{share} of its attention {goes} to {named(keys, top)} ({weight})."


def _output(before: Array, after: Array) -> str:
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        return "Its output holds numbers too large to compare."
    moved = np.abs(after - before)
    if moved.max() <= NOISE * max(1.0, float(np.abs(before).max()), float(np.abs(after).max())):
        return "Its output stays the same."
    c = int(moved.argmax())
    if show(before[c]) == show(after[c]):
        return "Its output changes by less than the screen shows."
    change = f"{show(before[c])} → {show(after[c])}"
    if moved.size == 1:
        return f"Its output: {change}."
    alone = alike(moved, moved[c]).sum() == 1
    return f"Its output changes {'most' if alone else 'as much as anywhere'} in column {c + 1}: {change}."


def _part(share: float) -> str:
    """A share of the attention in words that hold for shares too small to show as well."""
    if share == 0:
        return "none"
    text = show(share)
    return {"0.00": "less than 0.01", "1": "all"}.get(text, text)


def _change(before: float, after: float) -> str:
    a, b = show(before), show(after)
    return (
        f"{a} → {b}"
        if a != b
        else f"{a} before and after, to two decimals"
        if before != after
        else f"{a}, as before"
    )


def _them(places: Places) -> str:
    return "it" if places.size == 1 else "them"


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]

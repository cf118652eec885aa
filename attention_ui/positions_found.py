"""Lesson 5, second half: what a move did, and what holds of positions, tried on the numbers on screen."""

from __future__ import annotations

import numpy as np

from attention_core.limits import LARGEST_SIDE
from attention_core.numbers import show
from attention_core.operations import Array
from attention_core.placed_sheets import PAIRINGS
from attention_core.written import visible
from attention_ui import teaching
from attention_ui.desk import Desk
from attention_ui.positions import (
    ABSOLUTE,
    CHANGE,
    SLOPES,
    guess_of,
    head_of,
    is_move,
    kind_of,
    moved_by,
    order_of,
    placed_of,
)
from attention_ui.scene import Scene
from attention_ui.tokens import isolated


def largest(now: Scene) -> float:
    return float(np.abs(now.values["difference"]).max())


def is_same(now: Scene) -> bool:
    """Whether nothing but rounding is left of the difference."""
    line = now.values[placed_of(now.bench).compared]
    return largest(now) <= 1e-9 * max(1.0, float(np.abs(line).max()))


def verdict(desk: Desk, now: Scene) -> None:
    because = _about_scores(now) if is_move(desk.bench) else _about_rows(now)
    teaching.verdict(desk, guess_of(desk.bench), "same" if is_same(now) else "other", because)


def _about_scores(now: Scene) -> str:
    """Why the scores have stayed or changed, with the pair that changed most."""
    bench, kind, same = now.bench, kind_of(now.bench), is_same(now)
    if kind == "none":
        return "No line of this calculation reads a position."
    if not same:
        why = (
            "Other rows are added to X, and the score depends on each of them, not on their distance."
            if kind in ABSOLUTE
            else "Q and K are turned in different planes, and the two turns no longer make up one distance."
        )
        return f"{_most(now)} {why}"
    if kind == "alibi":
        slope = visible(float(now.values["slope"][0, 0]), show)
        head = f"Head {head_of(bench)} of {int(SLOPES.of(bench))}"
        return (
            f"{head} takes {slope} off for every step between two tokens, and moved on together they are as "
            "many steps apart as before."
        )
    if kind in PAIRINGS:
        return (
            "A pair of columns of Q and the same pair of K are turned by angles that have grown alike, and "
            f"their product depends on the difference of the two.{_rounding(now)}"
        )
    if kind == "learned" and not moved_by(bench):
        return f"The table ends: it has {LARGEST_SIDE} rows, and {bench.n_k} tokens already use them all."
    return "These numbers of W_Q and W_K make the same scores whatever is added to X."


def _most(now: Scene) -> str:
    """The score that has changed most."""
    line = placed_of(now.bench).compared
    i, j = np.unravel_index(int(np.abs(now.values["difference"]).argmax()), now.values[line].shape)
    query, key = (isolated(now.labels[axis][int(at)]) for axis, at in (("query", i), ("key", j)))
    before, after = (show(now.values[name][i, j]) for name in (line, f"{line}_b"))
    pair = f"query {int(i) + 1}, {query}, and key {int(j) + 1}, {key},"
    return f"The score of {pair} goes from {before} to {after}."


def _about_rows(now: Scene) -> str:
    """Why the rows of the output only changed places, or did not."""
    bench, kind = now.bench, kind_of(now.bench)
    if len(now.values["x"]) == 1:
        return "There is one token only."
    if is_same(now):
        if kind == "none":
            return f"Nothing says where a token stands.{_rounding(now)}"
        if kind == "alibi" and CHANGE.of(bench) == "reverse":
            return "Reversed, every pair keeps its distance, and distances are all that ALiBi knows."
        return f"These numbers make no use of the positions.{_rounding(now)}"
    i, j = np.unravel_index(int(np.abs(now.values["difference"]).argmax()), now.values["output"].shape)
    row = (
        f"In the row of {isolated(now.labels['query'][int(i)])}, column {int(j) + 1} of the output goes from "
    )
    row += f"{show(now.values['output'][i, j])} to {show(now.values['back'][i, j])}: "
    if kind == "none":
        return row + "the mask says who comes first. It is the only thing here that tells places apart."
    return row + "it stands at another position now."


def _rounding(now: Scene) -> str:
    """What is left of the difference, where anything is."""
    return f" The largest difference is {visible(largest(now), show)}: rounding." if largest(now) else ""


def claims(now: Scene) -> list[tuple[str, bool]]:
    """What holds of these positions, tried on the numbers on screen."""
    return _claims_of_move(now) if is_move(now.bench) else _claims_of_order(now)


def _claims_of_move(now: Scene) -> list[tuple[str, bool]]:
    v, kind, amount = now.values, kind_of(now.bench), show(moved_by(now.bench))
    stay = (f"Moved on by {amount}, the scores stay as they were, up to rounding.", is_same(now))
    if kind == "none":
        return [("Nothing reads a position: the scores are the same numbers.", largest(now) == 0)]
    if kind == "alibi":
        return [
            stay,
            (
                "A token loses nothing for itself: the bias is 0 along the diagonal.",
                not v["alibi"].diagonal().any(),
            ),
            ("The bias of a pair depends on its distance alone.", _by_distance(v["alibi"])),
        ]
    if kind in PAIRINGS:
        return [stay, ("Turned, every row of Q and K keeps its length.", _keeps_length(now))]
    found = [_about_waves(now)] if kind == "sinusoids" else [_about_table(now)]
    if moved_by(now.bench) and v["w_q"].any() and v["w_k"].any():
        found.append((f"Moved on by {amount}, the scores change.", not is_same(now)))
    return found


def _about_waves(now: Scene) -> tuple[str, bool]:
    """sin a sin b + cos a cos b = cos(a − b), so whole pairs of columns know the distance alone."""
    pairs = now.values["table"].shape[1] // 2 * 2
    before, after = (now.values[name][:, :pairs] for name in ("table", "table_b"))
    but = "" if pairs == now.values["table"].shape[1] else " (but for the last sine, which has no cosine)"
    return (
        f"The table alone knows distances: the product of two of its rows stays{but}.",
        _close(after @ after.T, before @ before.T),
    )


def _about_table(now: Scene) -> tuple[str, bool]:
    by, n = moved_by(now.bench), len(now.values["table"])
    return (
        f"What is added now are the rows of the table for the positions {by} to {by + n - 1}.",
        np.array_equal(now.values["table_b"], now.values["places"][by:]),
    )


def _claims_of_order(now: Scene) -> list[tuple[str, bool]]:
    v, kind, order = now.values, kind_of(now.bench), list(order_of(now.bench))
    found = [
        (
            "Before positions come in, the rows of X have changed places.",
            np.array_equal(v["x_b"], v["x"][order]),
        )
    ]
    if kind == "none":
        moved = v["scores"][np.ix_(order, order)]
        found = [("Every score goes along with its two tokens.", _close(v["scores_b"], moved))]
        if np.array_equal(v["mask"][np.ix_(order, order)], v["mask"]):
            found.append(("Every row of the output goes along with its token.", is_same(now)))
    elif kind in ABSOLUTE:
        found.append(
            (
                "The positions stay: row i has row i of the table added.",
                _close(v["placed_b"] - v["x_b"], v["table"]),
            )
        )
    elif kind == "alibi":
        found.append(
            ("The positions stay: the bias is the same.", _close(v["biased_b"] - v["scaled_b"], v["alibi"]))
        )
    else:
        found.append(("Turned, every row of Q and K keeps its length.", _keeps_length(now)))
    return found


def _keeps_length(now: Scene) -> bool:
    names = [(name, f"turned_{name}") for name in ("q", "k", "q_b", "k_b")]
    return all(
        _close(np.linalg.norm(now.values[after], axis=1), np.linalg.norm(now.values[before], axis=1))
        for before, after in names
        if before in now.values and after in now.values
    )


def _by_distance(bias: Array) -> bool:
    return all(np.unique(np.diagonal(bias, by)).size == 1 for by in range(1 - len(bias), len(bias)))


def _close(a: Array, b: Array) -> bool:
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(b).max(initial=0.0)))))

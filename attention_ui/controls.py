"""The controls: what the reader moves, and how each changes the bench.

`take_up` runs first in every run of a page. It takes what the reader did since the last one (controls moved,
operations from the board) and makes the new bench of it; `hand_out` gives every control its value. After
that nothing is written any more: pages read the desk and draw. `follow` does both where only parts run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state.session_state import WStates

from attention_core.examples import EXAMPLES
from attention_core.limits import LARGEST_SIDE
from attention_core.numbers import exact
from attention_ui import board, choices, prose
from attention_ui.bench import (
    SCALINGS,
    Bench,
    looking,
    opened,
    scaling_word,
    token_at,
    with_sizes,
    with_way,
)
from attention_ui.desk import Desk, read_number
from attention_ui.links import from_query
from attention_ui.mask_controls import MASK_CONTROLS, Moved, draw_mask, is_mask_drawn
from attention_ui.texts import SAMPLE, read_text
from attention_ui.tokens import join_tokens, split_tokens

BOARD = "board"  # the key of the board's component
TEXTS = ("tokens", "factor", "text")  # controls in which anything can be typed
BODY = ("way", "view", "panel", "ranges", "large", "text")  # what controls within a page set
LONGEST_REASON = 250  # letters
OWN_SCALE = 0.5  # what "a number" starts from
ON_THE_WAY = 1.0  # seconds that an answer may take to the browser, and a message from there
_NOTHING = object()
SIZES = {
    "n": "Sequence length n",
    "d_model": "Width of X, d_model",
    "n_q": "Queries n_q",
    "n_k": "Keys n_k",
    "d_k": "Width of queries and keys, d_k",
    "d_v": "Width of values, d_v",
}

Write = Callable[[Bench, Any], Bench | tuple[Bench, str]]


@dataclass(frozen=True)
class Control:
    """How a control shows the bench and how it changes it.

    `write` may return a sentence for the reader beside the bench, and may raise ValueError with a
    sentence about what was typed; the field then keeps it and the bench stays.
    """

    read: Callable[[Bench], Any]
    write: Write


def _field(name: str) -> Control:
    return Control(lambda bench: getattr(bench, name), lambda bench, value: replace(bench, **{name: value}))


def _size(*names: str) -> Control:
    return Control(
        lambda bench: getattr(bench, names[-1]),
        lambda bench, value: with_sizes(bench, **dict.fromkeys(names, int(value))),
    )


def _choose_example(bench: Bench, name: str) -> Bench:
    return replace(looking(opened(name), bench), large=opened(name).large)


def _read_tokens(bench: Bench) -> str:
    return join_tokens(tuple(token_at(bench, j) for j in range(bench.n_k)))


def _write_tokens(bench: Bench, text: str) -> Bench:
    """The tokens of the line, and as many positions. An empty line brings the example's own back."""
    if not text.strip():
        return replace(bench, tokens=())
    tokens = split_tokens(text)
    together = bench.n_q == bench.n_k
    changed = with_sizes(
        replace(bench, tokens=()), n_k=len(tokens), n_q=len(tokens) if together else bench.n_q
    )
    own = tuple(token_at(changed, j) for j in range(changed.n_k))
    return changed if own == tokens else replace(changed, tokens=tokens)


def _choose_scaling(bench: Bench, word: str | None) -> Bench:
    if word is None or word == scaling_word(bench):  # a second click on the chosen one changes nothing
        return bench
    return replace(bench, scaling=OWN_SCALE if word == "number" else word)


def _read_factor(bench: Bench) -> str:
    return exact(OWN_SCALE if isinstance(bench.scaling, str) else bench.scaling)


def _write_factor(bench: Bench, text: str) -> Bench:
    return bench if isinstance(bench.scaling, str) else replace(bench, scaling=read_number(text))


def _write_text(bench: Bench, text: str) -> Bench:
    """The text that a model learns from. An empty one brings the lesson's own back."""
    read = read_text(text)
    return replace(bench, text="" if not read.strip() or read == SAMPLE else read)


def _choice(name: str) -> Control:
    """A segmented control: a second click on the chosen option leaves it chosen."""
    return Control(
        lambda bench: getattr(bench, name),
        lambda bench, value: bench if value is None else replace(bench, **{name: value}),
    )


CONTROLS: dict[str, Control] = {
    "example": Control(lambda bench: bench.example, _choose_example),
    "way": Control(
        lambda bench: bench.way, lambda bench, way: bench if way is None else with_way(bench, way)
    ),
    "tokens": Control(_read_tokens, _write_tokens),
    "n": _size("n_q", "n_k"),
    "n_q": _size("n_q"),
    "n_k": _size("n_k"),
    "d_model": _size("d_model"),
    "d_k": _size("d_k"),
    "d_v": _size("d_v"),
    "scaling": Control(scaling_word, _choose_scaling),
    "factor": Control(_read_factor, _write_factor),
    "view": _choice("view"),
    "step": _choice("step"),
    "panel": _choice("panel"),
    "ranges": _choice("ranges"),
    "large": _field("large"),
    "text": Control(lambda bench: bench.text or SAMPLE, _write_text),
    **{key: Control(read, write) for key, (read, write) in MASK_CONTROLS.items()},
}


def take_up() -> Desk:
    """Apply what the reader did since the last run: controls that were moved, operations of the board.

    Streamlit may stop a run wherever the session's state is touched, to start the next: everything
    is read first, then the desk is changed in one go.
    """
    desk: Desk | None = st.session_state.get("desk")
    if desk is None:
        desk = Desk(*from_query(st.query_params.to_dict()), told=_told())
        st.session_state["desk"] = desk
    _take_moves(desk)
    take_operations(desk)
    return desk


def _told() -> dict[str, Any]:
    """What the browser has told of its controls, by their ids and not yet read: a new tab tells nothing."""
    context = get_script_run_ctx()
    return dict(context.session_state._state._new_widget_state.states) if context else {}


def catch_up(desk: Desk) -> bool:
    """Find what was moved in a tab that has outlived its server; whether another run has to apply it.

    The first word to the new server is a control that was moved. It tells what all of them show, and the link
    holds everything but that one. Streamlit can read it once the controls have been drawn.
    """
    told, desk.told = desk.told, {}
    if not told:
        return False
    context = get_script_run_ctx()
    assert context is not None
    state = context.session_state._state
    keys, values = state._key_id_mapper.id_key_mapping, WStates(told, state._new_widget_state.widget_metadata)
    for here in told:
        key = keys.get(here)
        with suppress(KeyError, TypeError, ValueError, IndexError, AttributeError):  # made by hand
            if key in desk.shown and values[here] != desk.shown[key]:
                desk.late[key] = values[here]
    return bool(desk.late)


def follow(desk: Desk) -> Literal["page", "asides", "board"]:
    """Apply what the reader moved, and hand out what has changed by it; what of the page has to be drawn.

    "asides" are the shared controls with their words, beside the board; "board" where all of them show what
    they would show anyway.
    """
    before, look = _body(desk), _look(desk)
    _take_moves(desk)
    take_operations(desk)
    if _body(desk) != before:
        return "page"
    looks_other = _look(desk) != look
    has_other = hand_out(desk, desk.page)
    return "asides" if looks_other or has_other else "board"


def _take_moves(desk: Desk) -> None:
    keys = {*desk.shown, *desk.before}
    asked = sorted(key for key in keys if key.startswith(choices.KEY))  # Streamlit keeps no order
    held, desk.late = _held([*(key for key in CONTROLS if key in keys), *asked]) | desk.late, {}
    _move(desk, held)


def _body(desk: Desk) -> tuple[object, ...]:
    """What a page outside its board, its words and the shared controls depends on."""
    bench = desk.bench
    return desk.notice, bench.example, bench.choices, *(getattr(bench, name) for name in BODY)


def _look(desk: Desk) -> tuple[object, ...]:
    """What the shared controls show beside their own values."""
    bench = desk.bench
    masks = [
        part.describe(bench.n_q, bench.n_k)
        for mask in (bench.mask, bench.against)
        for part in (mask.first, mask.second)
        if part is not None
    ]
    drawn = [key for key in CONTROLS if is_drawn(bench, key)]
    return masks, drawn, bench.n_q == bench.n_k, dict(desk.refused)


def take_operations(desk: Desk) -> None:
    """Apply what the board sent."""
    desk.receive(board.pending(BOARD, desk.session, desk.ack))


def hand_out(desk: Desk, page: str, drawn: Sequence[str] = ()) -> bool:
    """Give every control its value, before any of them is drawn; whether the browser has to be told one.

    On another page it is another control, which Streamlit would begin anew where no browser has told of it.
    Only a shared control, `drawn` on that page as on the one before, stays: it is not told a value that it
    shows anyway, for a reader who has just moved it would see it go back. What a browser tells may be older
    than the last answer, though: until it has told the value that it was given, it is given it again.
    """
    values = dict(_values(desk))
    stay = values if desk.page == page else _shared(desk.beside) & _shared(drawn)
    state = _held(key for key in values if key in stay)
    changed = False
    for key, value in values.items():
        if value != desk.shown.get(key, value):
            desk.before.setdefault(key, []).append(desk.shown[key])
        if key in desk.before or key in desk.unsent or key not in state or state[key] != value:
            st.session_state[key] = value  # which has the browser be told it
            desk.unsent.add(key)
            changed = True
        desk.shown[key] = value
    return changed


def _shared(drawn: Sequence[str]) -> set[str]:
    """The controls that `shared` draws under those names of lessons.SHARED."""
    masks = [key for key in MASK_CONTROLS if key.startswith("mask_")]
    under = {"mask": masks, "n": ["n", "n_k"], "scaling": ["scaling", "factor"]}
    return {"example", *(key for name in drawn for key in under.get(name, [name]))} if drawn else set()


def _held(keys: Iterable[str]) -> dict[str, Any]:
    """What the session's state holds under some keys. Its `to_dict` reads everything: a tenth of a run."""
    found = ((key, st.session_state.get(key, _NOTHING)) for key in keys)
    return {key: value for key, value in found if value is not _NOTHING}


def framing(desk: Desk) -> tuple[Bench, str]:
    """What the page around the board depends on: a change of it runs the whole page."""
    return replace(desk.bench, edits={}, seed=0, step=1, selected=None), desk.notice


def _move(desk: Desk, moved: dict[str, Any]) -> None:
    """Change the bench by every control that no longer shows what it was given.

    A browser tells what it remembers of a control that comes back, too: only controls that are on the
    page count, and a new example overrules them all. Every message tells all controls, so one that was sent
    before the browser had the last answer brings old values beside the control that was moved, or beside
    what was done on the board; an old value by itself is news only where that answer has surely come.
    """
    has_come = not desk.unsent and time.monotonic() - desk.sent > ON_THE_WAY
    for key in [*desk.before]:
        if key not in moved or (has_come and moved[key] == desk.shown.get(key)):
            del desk.before[key]
    news = {
        key: value
        for key, value in moved.items()
        if value != desk.shown.get(key, value) and is_drawn(desk.bench, key)
    }
    fresh = {key: value for key, value in news.items() if value not in desk.before.get(key, ())}
    for key in [key for key in fresh if key in desk.before]:
        del desk.before[key]
        desk.unsent.add(key)  # the reader may have moved it before the browser had the last answer
    news = fresh or (news if has_come else {})
    for key, value in ({"example": news["example"]} if "example" in news else news).items():
        desk.shown[key] = value
        desk.notice = ""
        desk.refused.pop(key, None)
        try:
            changed = _changed(desk.bench, key, value)
        except ValueError as reason:
            said = str(reason)[:LONGEST_REASON].rstrip(".")
            sentence = f"{said[:1].upper()}{said[1:]}. Nothing was changed."
            if key in TEXTS:
                desk.refused[key] = (sentence, CONTROLS[key].read(desk.bench))
            else:  # no control offers it: a message made by hand
                desk.notice = sentence
            continue
        bench, notice = changed if isinstance(changed, tuple) else (changed, "")
        desk.notice = notice
        desk.change(bench)


def _changed(bench: Bench, key: str, value: Any) -> Bench | tuple[Bench, str]:
    """The bench after a control was moved. Raises ValueError for what the bench cannot hold."""
    try:
        return CONTROLS[key].write(bench, value) if key in CONTROLS else choices.moved(bench, key, value)
    except (KeyError, TypeError, OverflowError, AttributeError):  # no control gives such a value
        raise ValueError(f"{key} cannot be that") from None


def is_drawn(bench: Bench, key: str) -> bool:
    """Whether a control is on some page for this bench."""
    only_for = {"n": bench.way == "x", "d_model": bench.way == "x", "n_q": bench.way == "qkv"}
    only_for |= {"n_k": bench.way == "qkv", "factor": scaling_word(bench) == "number"}
    only_for |= {"ranges": bench.panel == "heat", "large": bench.panel == "large"}
    return only_for[key] if key in only_for else is_mask_drawn(bench, key)


def _values(desk: Desk) -> Iterator[tuple[str, Any]]:
    """What every control shows. A refused text stays in its field until the bench changes there."""
    for key, control in CONTROLS.items():
        if not is_drawn(desk.bench, key):
            desk.shown.pop(key, None)
            continue
        value = control.read(desk.bench)
        if key in desk.refused and desk.refused[key][1] == value:
            yield key, desk.shown[key]
        else:
            desk.refused.pop(key, None)
            yield key, value


def shared(desk: Desk, drawn: Sequence[str], moved: Moved = None) -> None:
    """The controls that pages share: an example, and those of lessons.SHARED that are named.

    `moved` is called when one of them is moved.
    """
    bench = desk.bench
    st.selectbox(
        "Example", list(EXAMPLES), key="example", format_func=lambda name: EXAMPLES[name].title,
        help="An example sets every number, size, token and mask. Undo brings yours back.", on_change=moved,
    )  # fmt: skip
    prose.paragraph(EXAMPLES[bench.example].note, kind="quiet")
    if "mask" in drawn:
        draw_mask(bench, "mask", "Mask", moved)
    for name in SIZES:
        if ("n" if name == "n_k" else name) in drawn and is_drawn(bench, name):
            st.slider(SIZES[name], 1, LARGEST_SIDE, key=name, on_change=moved)
    if "scaling" in drawn:
        st.segmented_control(
            "Scaling of the scores", list(SCALINGS), key="scaling", format_func=SCALINGS.__getitem__,
            on_change=moved,
        )  # fmt: skip
        if not isinstance(bench.scaling, str):
            text_field(desk, "factor", "Factor", "For example 0.5, 1/3 or sqrt(2).", moved)
    if "tokens" in drawn:
        help_text = 'Separated by blanks. "a b" is one token; "\\n" is a line break.'
        text_field(desk, "tokens", "Tokens", help_text, moved)


def text_field(desk: Desk, key: str, label: str, help_text: str, moved: Moved = None) -> None:
    """A line of text; what is wrong with it stands under it, and the text stays."""
    st.text_input(label, key=key, help=help_text, on_change=moved)
    _tell_refused(desk, key)


def text_area(desk: Desk, key: str, label: str, help_text: str, longest: int) -> None:
    """Several lines of text, of so many letters at most."""
    st.text_area(label, key=key, help=help_text, max_chars=longest, height=120)
    _tell_refused(desk, key)


def _tell_refused(desk: Desk, key: str) -> None:
    if key in desk.refused:
        prose.notice(desk.refused[key][0])

"""Whatever comes in from outside, made up by the hundred thousand: nothing but plain sentences may come out.

Each door of the app has a target: links, codes with a right checksum and wrong content, masks, numbers,
pasted blocks, tokens, messages of the board, controls moved by hand, uploads, frames of the websocket. A
target gives what Hypothesis makes up to the code that meets it first, and looks at what became of it.
The core may refuse with a ValueError of one sentence; what keeps a reader's state must take everything.

    python benchmarks/fuzz.py                        100,000 inputs
    python benchmarks/fuzz.py --inputs 2000 --only board
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import sys
import time
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from common import ROOT, table
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from streamlit.components.v2.bidi_component.serialization import BidiComponentSerde
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

sys.path.insert(0, str(ROOT))

from attention_core import limits
from attention_core.examples import EXAMPLES
from attention_core.learning import Trainer
from attention_core.masks import MASKS, MaskSpec, allowed
from attention_core.numbers import parse_block, parse_number
from attention_core.uploads import read_csv, read_npz
from attention_ui import bits, board, controls, wire
from attention_ui.bench import EDITABLE, Bench, givens, opened, with_edit, with_sizes
from attention_ui.desk import Desk
from attention_ui.links import EDITS, PARAMETERS, from_query, to_query
from attention_ui.scene import scene
from attention_ui.texts import is_linked
from attention_ui.tokens import join_tokens, split_tokens

LONGEST_SENTENCE = 400  # letters
Check = Callable[[Any], None]


@dataclass(frozen=True)
class Target:
    """A door: what is made up for it, how it is given in, and its share of all inputs."""

    name: str
    inputs: st.SearchStrategy[Any]
    check: Check
    share: float


def sentence(call: Callable[[], object]) -> object:
    """What a call gives, or None where it refuses in one sentence; anything else is an error."""
    try:
        return call()
    except ValueError as reason:
        said = str(reason)
        assert 0 < len(said) <= LONGEST_SENTENCE and "Traceback" not in said and "\n" not in said, said[:200]
        return None


def is_sound(bench: Bench) -> None:
    """A bench that a reader can go on with: its numbers are finite, and its link gives it back."""
    assert all(np.isfinite(values).all() for values in givens(bench).values())
    again, said = from_query(dict(parse_qsl(to_query(bench), keep_blank_values=True)))
    told = bench if is_linked(bench.text) else replace(bench, text="")  # too long for a link, and told so
    assert again == told and not said, said


# what is made up ---------------------------------------------------------------------------------

letters = st.text(max_size=60)
awkward = st.sampled_from(
    ["", "0", "-1", "17", "999999999999999999", "1e999", "nan", "inf", "٤", "\x00", "\ud7ff", "💥" * 9,
     "<script>", "a" * 5_000, "9" * 5_000, "$x$", "../..", "%00", "None", "true", "[[]]", "1/0", "−∞"]
)  # fmt: skip
whole = st.integers(-(2**70), 2**70) | st.integers(-2, 20)
real = st.floats() | st.floats(-9, 9) | st.sampled_from([1e60, -1e60, 1e61, 5e-324, 1.7976931348623157e308])
cells = st.dictionaries(st.tuples(st.integers(0, 15), st.integers(0, 15)), st.floats(-1e60, 1e60), max_size=6)
matrices = st.dictionaries(st.sampled_from(EDITABLE), cells, max_size=3)
codes = matrices.map(lambda found: bits.pack(found, EDITABLE))


@st.composite
def spoiled(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text with a few letters changed, left out or put in."""
    text = draw(texts)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.text(max_size=3)) + text[place + draw(st.integers(0, 3)) :]
    return text


@st.composite
def forged_codes(draw: st.DrawFn) -> str:
    """A code whose checksum is right, whatever it holds."""
    body = draw(st.binary(max_size=80))
    return bits.VERSION + base64.urlsafe_b64encode(bits._checksum(body) + body).decode().rstrip("=")


masks = st.sampled_from(
    ["none", "causal", "causal-end", "window-2-0", "window-1-1-end", "padding-3-left", "prefix-2",
     "causal.and.padding-3-left", "custom-2x2-AA", "custom-64x64-AA"]
)  # fmt: skip
lines = st.lists(st.text(max_size=6), min_size=1, max_size=18).map(lambda found: join_tokens(tuple(found)))
numerals = st.from_regex(
    r"[-+−]?(sqrt|√)?\(?[0-9]{0,4}[.,/*×]?[0-9]{0,4}(e[-+]?[0-9]{1,4})?\)?", fullmatch=True
)
a_number = (
    numerals | letters | awkward | st.sampled_from(["(" * 60 + "1", "√" * 63 + "2", "1" * 65, "1,234,567"])
)


def link_values() -> st.SearchStrategy[dict[str, str]]:
    """Parameters of a link, many of them right, some spoiled."""
    right: dict[str, st.SearchStrategy[str]] = {
        "example": st.sampled_from(list(EXAMPLES)),
        "m": codes | forged_codes(),
        "m2": codes | forged_codes(),
        "mask": masks,
        "against": masks,
        "tokens": lines,
        "scale": numerals,
        "cell": st.sampled_from(["q.1.1", "weights.16.16", "nothing.1.1"]),
        "p5.heads": st.sampled_from(["1", "2", "4"]),
        "p7.norm": letters,
    }
    others = [parameter.name for parameter in PARAMETERS if parameter.name not in right]
    values = {name: st.integers(-1, 20).map(str) for name in (*others, "n")} | right
    return st.fixed_dictionaries(
        {}, optional={name: spoiled(value) | awkward for name, value in values.items()} | {"utm": letters}
    )


kinds = st.sampled_from([*board.ARGUMENTS, "format"])
names = st.sampled_from([*EDITABLE, "mask", "mask_a", "mask_b", "weights", "gamma", "", "__proto__", "Q"])
blocks = st.lists(st.lists(a_number, max_size=5), max_size=5).map(
    lambda rows: "\n".join("\t".join(row) for row in rows)
)
pasted = (
    blocks | spoiled(blocks) | letters | st.sampled_from(["[[1,2],[3,4]]", '"' * 99, "1\t" * 70, "\r\n" * 70])
)
arguments = st.one_of(names, st.integers(-1, 20), a_number, pasted, whole, st.none(), st.booleans())
well_formed = st.one_of(
    st.tuples(st.integers(1, 9), st.just("edit"), names, st.integers(0, 17), st.integers(0, 17), a_number),
    st.tuples(st.integers(1, 9), st.just("paste"), names, st.integers(0, 17), st.integers(0, 17), pasted),
    st.tuples(
        st.integers(1, 9),
        st.sampled_from(["toggle", "select"]),
        names,
        st.integers(0, 99),
        st.integers(0, 99),
    ),
    st.tuples(st.integers(1, 9), st.just("step"), whole),
    st.tuples(st.integers(1, 9), st.sampled_from(["undo", "redo", "reset", "new"])),
).map(list)
operations = st.lists(
    well_formed
    | st.lists(whole | kinds | arguments, max_size=7)
    | st.tuples(whole, kinds, arguments).map(list),
    max_size=9,
)
anything = st.recursive(
    st.none() | st.booleans() | whole | real | letters,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(letters, inner, max_size=4),
    max_leaves=12,
)
told = st.one_of(
    operations.map(lambda ops: {"ops": {"session": "mine", "ops": ops}}),
    anything.map(lambda value: {"ops": {"session": "mine", "ops": value}}),
    anything.map(lambda value: {"ops": value, "drawn": value}),
    anything,
).map(json.dumps) | st.sampled_from(
    ["[" * 3_000, '{"ops":' * 900, "7" * 5_000, '{"ops": [' + "9" * 4_400, "NaN", ""]
)

sliders = st.sampled_from(["n", "n_q", "n_k", "d_model", "d_k", "d_v", "step", "large"])
every = st.sampled_from(list(controls.CONTROLS))
lessons = st.from_regex(r"choice p[0-9]{1,2}\.[a-z]{1,9}", fullmatch=True)
words = st.sampled_from([*MASKS, *EXAMPLES, "x", "qkv", "steps", "heat", "number"])
moves = st.lists(
    st.one_of(
        st.tuples(sliders, whole | real | st.none()),
        st.tuples(every, a_number | words),
        st.tuples(every, anything),
        st.tuples(lessons, letters | awkward | real | st.booleans()),
    ),
    max_size=4,
)


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """A NumPy archive, spoiled here and there."""
    stream = io.BytesIO()
    with zipfile.ZipFile(
        stream, "w", draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    ) as archive:
        for name in draw(
            st.lists(st.sampled_from(["q", "k", "v", "../q", "q.npy", ""]), max_size=3, unique=True)
        ):
            inside = io.BytesIO()
            shape = draw(st.lists(st.integers(0, 5), max_size=3))
            kind = draw(st.sampled_from(["f8", "f4", "i2", "?", "c8", "U3", "M8[s]"]))
            np.save(inside, np.zeros(shape, dtype=kind))
            content = bytearray(inside.getvalue())
            if draw(st.booleans()) and content:
                content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
            archive.writestr(f"{name}.npy", bytes(content))
    data = bytearray(stream.getvalue())
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


tables = (blocks | spoiled(blocks) | letters).map(str.encode) | st.binary(max_size=60)


def frame(text: str) -> bytes:
    message = BackMsg()
    message.rerun_script.widget_states.widgets.append(WidgetState(id="board", json_value=text))
    return bytes(message.SerializeToString())


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """What a browser might send, or something else."""
    data = bytearray(frame(draw(told)))
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return draw(st.binary(max_size=80)) if draw(st.booleans()) else bytes(data)


# how it is given in ------------------------------------------------------------------------------


def a_link(query: dict[str, str]) -> None:
    bench, said = from_query(query)
    assert "\n" not in said and len(said) < 4_000
    is_sound(bench)
    assert np.isfinite(scene(bench).values["output"]).all()


def a_code(code: str) -> None:
    for held, name_bits in EDITS.values():
        sentence(lambda held=held, name_bits=name_bits: bits.unpack(code, held, name_bits))


def a_mask(text: str) -> None:
    spec = sentence(lambda: MaskSpec.from_text(text))
    if isinstance(spec, MaskSpec):
        assert spec.to_text() == text and allowed(spec, 3, 5).shape == (3, 5)


def a_number_typed(text: str) -> None:
    value = sentence(lambda: parse_number(text))
    assert value is None or np.isfinite(value)


def a_block(text: str) -> None:
    sentence(lambda: parse_block(text))
    desk = Desk(with_sizes(opened("seed"), n_q=4, n_k=4))
    desk.receive([[1, "paste", "q", 1, 0, text]])
    is_sound(desk.bench)


def a_line(text: str) -> None:
    tokens = sentence(lambda: split_tokens(text))
    assert tokens is None or split_tokens(join_tokens(tokens)) == tokens  # type: ignore[arg-type]


def a_text(text: str) -> None:
    sentence(lambda: Trainer(text))


def a_message(text: str) -> None:
    if wire.closing({"type": "websocket.receive", "bytes": frame(text)}):
        return
    state = BidiComponentSerde(default={"ops": None}).deserialize(text)
    desk = Desk(with_edit(opened("seed"), "q", 0, 0, 0.5), session="mine")
    desk.receive(board.operations(state.get("ops"), desk.session, desk.ack))
    is_sound(desk.bench)


def some_moves(moved: list[tuple[str, object]]) -> None:
    desk = Desk(opened("seed"))
    for key, value in moved:
        desk.shown[key] = None
        controls._move(desk, {key: value})
        assert "\n" not in desk.notice and len(desk.notice) <= LONGEST_SENTENCE
    is_sound(desk.bench)


def an_archive(data: bytes) -> None:
    found = sentence(lambda: read_npz("a.npz", data, ["q", "k", "v"]))
    assert found is None or all(array.nbytes <= 8 * limits.LARGEST_MEMBER for array in found.values())  # type: ignore[attr-defined]


def a_table(data: bytes) -> None:
    sentence(lambda: read_csv("a.csv", data, (2, 2)))


def a_frame(data: bytes) -> None:
    assert wire.closing({"type": "websocket.receive", "bytes": data}) in (0, 1002, 1003, 1008, 1009)


TARGETS = (
    Target("links", link_values(), a_link, 0.18),
    Target("codes", spoiled(codes) | forged_codes(), a_code, 0.12),
    Target("masks", spoiled(masks) | letters | awkward, a_mask, 0.06),
    Target("numbers", a_number | spoiled(numerals), a_number_typed, 0.10),
    Target("pasted blocks", pasted, a_block, 0.10),
    Target("lines of tokens", spoiled(lines) | letters | awkward, a_line, 0.08),
    Target("texts to learn from", letters | awkward, a_text, 0.02),
    Target("board messages", told, a_message, 0.14),
    Target("controls moved by hand", moves, some_moves, 0.08),
    Target("archives", archives() | st.binary(max_size=80), an_archive, 0.05),
    Target("tables", tables, a_table, 0.04),
    Target("frames", frames(), a_frame, 0.03),
)


def run(target: Target, inputs: int, start: int) -> tuple[int, str]:
    """Give that many inputs in; how many there were, and what went wrong ('' where nothing did)."""
    count = 0

    @seed(start)
    @settings(
        max_examples=inputs, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    @given(target.inputs)
    def trial(value: Any) -> None:
        nonlocal count
        count += 1
        target.check(value)

    try:
        trial()
    except Exception:
        return count, traceback.format_exc()
    return count, ""


def main() -> None:
    """Go through all targets and print the table; ends with 1 where anything went wrong."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--inputs", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", default="", help="a part of a target's name")
    asked = options.parse_args()
    rows, wrong, given_in = [], [], 0
    for target in TARGETS:
        if asked.only not in target.name:
            continue
        began = time.perf_counter()
        count, error = run(target, round(asked.inputs * target.share), asked.seed)
        given_in += count
        rows.append(
            [
                target.name,
                f"{count:,}",
                "1 and more" if error else "0",
                f"{time.perf_counter() - began:.0f} s",
            ]
        )
        if error:
            wrong.append(f"{target.name}:\n{error[-3000:]}")
    table(["door", "inputs", "tracebacks", "time"], rows)
    print(f"{given_in:,} inputs, {len(wrong)} doors with tracebacks, seed {asked.seed}")
    print(*wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

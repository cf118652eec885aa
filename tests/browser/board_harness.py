"""A page that shows nothing but the board, with made-up numbers, for tests in a real browser.

?case= attention, tokens, far, small or nothing chooses the numbers, ?n= the sequence length, ?delay= the
seconds that the server takes for every run, ?all leaves out the steps. Operations are applied to the
numbers here, and the log of all that arrived stands below the board.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import streamlit as st

from attention_ui import theme
from attention_ui.board import Board, Grid, Message, Steps, Toolbar, Unit, draw, pending, provide

AWKWARD = ["the", "␣", "⏎", "<img src=x onerror=alert(1)>", "$x$", "**b**", "தமிழ்", "العربية", "🙂", "the"]
TITLES = ["X", "Projections", "K transposed", "Scores", "Scaling", "Mask", "Softmax", "Output"]
LABELS = {"k_t": [("K", ""), ("⊤", "sup")]}

# id: title, role, dims, rows, columns, reads
FACTS: dict[str, tuple[str, str, str, str, str, list[tuple[str, str]]]] = {
    "q": ("Q", "q", "n × d_k", "query", "", []),
    "k": ("K", "k", "n × d_k", "key", "", []),
    "v": ("V", "v", "n × d_v", "key", "", []),
    "k_t": ("K transposed", "k", "d_k × n", "", "key", [("k", "swapped")]),
    "scores": ("Scores", "plain", "n × n", "query", "key", [("q", "row"), ("k_t", "column")]),
    "scaled": ("Scaled scores", "plain", "n × n", "query", "key", [("scores", "cell")]),
    "allow": ("Mask", "plain", "n × n", "query", "key", []),
    "masked": ("Masked scores", "plain", "n × n", "query", "key", [("scaled", "cell"), ("allow", "cell")]),
    "weights": ("Weights", "weights", "n × n", "query", "key", [("masked", "row")]),
    "output": ("Output", "output", "n × d_v", "query", "", [("weights", "row"), ("v", "column")]),
}


@dataclass
class Model:
    """The numbers of one reader, and everything that was said."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    allow: np.ndarray
    tokens: list[str]
    session: str = field(default_factory=lambda: uuid.uuid4().hex[:6])
    ack: int = 0
    step: int = 4
    seed: int = 0
    selected: tuple[str, int, int] | None = ("scores", 0, 2)
    messages: list[Message] = field(default_factory=list)
    past: list[dict[str, np.ndarray]] = field(default_factory=list)
    future: list[dict[str, np.ndarray]] = field(default_factory=list)
    log: list[list[Any]] = field(default_factory=list)

    def given(self) -> dict[str, np.ndarray]:
        return {"q": self.q.copy(), "k": self.k.copy(), "v": self.v.copy(), "allow": self.allow.copy()}

    def restore(self, given: dict[str, np.ndarray]) -> None:
        self.q, self.k, self.v, self.allow = (given[name].copy() for name in ("q", "k", "v", "allow"))


def model_of(case: str, n: int, seed: int = 0) -> Model:
    tokens = {"tokens": AWKWARD, "small": ["cat"]}.get(case, ["the", "cat", "sat", "the", "mat"])
    tokens = [tokens[i % len(tokens)] for i in range(n or (len(tokens) if case == "tokens" else 4))]
    n = 1 if case == "small" else len(tokens)
    rng = np.random.default_rng(seed)
    d = 1 if case == "small" else 8 if n > 8 else 3
    q, k, v = (rng.integers(-8, 9, (n, width)) / 4 for width in (d, d, 2))
    if case == "far":
        q[min(2, n - 1), 0] = 1e9
    allow = np.tri(n, dtype=bool)
    if case == "nothing":
        allow[1] = False
    return Model(q, k, v, allow, tokens[:n])


def show(value: float) -> str:
    if np.isneginf(value):
        return "−∞"
    text = f"{value:.4g}" if abs(value) >= 1e4 else f"{round(value, 2):g}"
    return text.replace("-", "−")


def grid(model: Model, name: str, values: np.ndarray) -> Grid:
    title, role, dims, rows, cols, reads = FACTS[name]
    kind = "given" if name in ("q", "k", "v") else "switch" if name == "allow" else "computed"
    scale = {"allow": "none", "weights": "weight"}.get(name, "signed")
    limit = 1.0 if scale != "signed" else theme.colour_limit(values)
    clipped = theme.lie_beyond(values, limit)
    nowhere = [i for i in range(len(values)) if name == "weights" and not model.allow[i].any()]
    return Grid(
        name=title,
        cells=[[show(v) for v in row] for row in values],
        label=LABELS.get(name, ()),
        size=f"{values.shape[0]} × {values.shape[1]}",
        dims=dims,
        role=role,
        kind=kind,
        rows=model.tokens if rows else (),
        cols=model.tokens if cols else (),
        row_axis=rows,
        col_axis=cols,
        exact=[[repr(float(v)) for v in row] for row in values] if kind == "given" else None,
        levels=theme.levels(values, limit),
        clipped=[(int(i), int(j)) for i, j in np.argwhere(clipped)],
        scale=scale,
        legend={"none": "", "weight": "colour 0 to 1"}.get(scale, f"colour −{limit:g} to {limit:g}"),
        reads=reads,
        sums=[show(s) for s in values.sum(-1)] if name == "weights" else None,
        notes=dict.fromkeys(nowhere, "may look nowhere"),
        meaning=f"{title}, one row for each {rows or 'feature'}.",
    )


def softmax(scores: np.ndarray) -> np.ndarray:
    top = np.where(np.isfinite(scores).any(-1, keepdims=True), scores.max(-1, keepdims=True), 0)
    exps = np.exp(scores - top)
    return exps / np.where(exps.sum(-1, keepdims=True) == 0, 1, exps.sum(-1, keepdims=True))


def grids_of(model: Model) -> dict[str, Grid]:
    q, k, v = model.q, model.k, model.v
    scores = q @ k.T
    scaled = scores / np.sqrt(q.shape[1])
    masked = np.where(model.allow, scaled, -np.inf)
    weights = softmax(masked)
    values = {"q": q, "k": k, "v": v, "k_t": k.T, "scores": scores, "scaled": scaled, "masked": masked}
    values |= {"allow": np.where(model.allow, 0.0, -np.inf), "weights": weights, "output": weights @ v}
    return {name: grid(model, name, matrix) for name, matrix in values.items()}


LAYOUT = [
    [Unit("scores", left="q", top="k_t"), Unit("scaled", via="÷ √d_k")],
    [Unit("k"), Unit("allow"), Unit("masked", via="+ M"), Unit("weights", via="softmax")],
    [Unit("output", left="weights", top="v", echo=["weights"])],
]


def take(model: Model, op: list[Any], case: str, n: int) -> None:
    """Apply one operation to the numbers."""
    model.log.append(op)
    kind, arguments = op[1], op[2:]
    if kind == "select":
        model.selected = tuple(arguments)
        return
    if kind == "step":
        model.step = arguments[0]
        return
    model.messages = []
    if kind in ("undo", "redo"):
        source, target = (model.past, model.future) if kind == "undo" else (model.future, model.past)
        if source:
            target.append(model.given())
            model.restore(source.pop())
        return
    before = model.given()
    if kind == "edit":
        write(model, *arguments)
    elif kind == "paste":
        name, i, j, block = arguments
        for di, line in enumerate(block.splitlines()):
            for dj, text in enumerate(line.split("\t")):
                if i + di < getattr(model, name).shape[0] and j + dj < getattr(model, name).shape[1]:
                    write(model, name, i + di, j + dj, text)
    elif kind == "toggle":
        model.allow[arguments[1], arguments[2]] ^= True
    elif kind in ("reset", "new"):
        model.seed = 0 if kind == "reset" else model.seed + 1
        model.restore(model_of(case, n, model.seed).given())
    if not model.messages:
        model.past.append(before)
        model.future.clear()


def write(model: Model, name: str, i: int, j: int, text: str) -> None:
    matrix = getattr(model, name)
    try:
        value = float(text.strip().replace("−", "-").replace(",", "."))
        if not np.isfinite(value):
            raise ValueError
    except ValueError:
        place = f"{name.upper()}, row {i + 1}, column {j + 1}"
        said = f"{place}: “{text}” is not a number. {show(matrix[i, j])} stays."
        model.messages.append(Message(int(time.time() * 1000), name, i, j, said))
        return
    matrix[i, j] = value


def main() -> None:
    st.set_page_config(layout="wide", page_title="The board")
    time.sleep(float(st.query_params.get("delay", "0")))
    case, asked = st.query_params.get("case", "attention"), int(st.query_params.get("n", "0"))
    n = st.sidebar.slider("Sequence length", 0, 16, asked)
    if st.session_state.get("case") != (case, n):
        old = st.session_state.get("model")
        st.session_state.case = (case, n)
        st.session_state.model = model_of(case, n)
        if old is not None:
            st.session_state.model.session, st.session_state.model.ack = old.session, old.ack
    model: Model = st.session_state.model
    for op in pending("board", model.session, model.ack):
        take(model, op, case, n)
        model.ack = op[0]
    show_board(model)
    st.text_input("Another control")
    st.button("Another button")
    with st.container(key="log"):
        st.code(json.dumps(model.log, ensure_ascii=False), language=None)
    with st.container(key="numbers"):
        st.code(json.dumps({name: given.tolist() for name, given in model.given().items()}), language=None)


def show_board(model: Model) -> None:
    last = len(model.tokens) - 1
    selected = model.selected and (model.selected[0], *(min(at, last) for at in model.selected[1:]))
    board = Board(
        grids=grids_of(model),
        layout=LAYOUT if model.step > 1 else [[Unit("q"), Unit("k"), Unit("v")]],
        session=model.session,
        ack=model.ack,
        toolbar=Toolbar(bool(model.past), bool(model.future), True, model.seed),
        steps=None if "all" in st.query_params else Steps(TITLES, model.step),
        selected=selected,
        messages=model.messages,
    )
    provide()
    draw(board, "board")


main()

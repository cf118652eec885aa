from __future__ import annotations

import re
from math import erf, sqrt
from typing import Any

import numpy as np
import pytest

from attention_core.block import RECIPES, block_sheet
from attention_core.export import to_latex, to_numpy, to_torch
from attention_core.head_choices import beside
from attention_core.numbers import show
from attention_core.sheet import Sheet, cost, parameters, run, work

pytestmark = pytest.mark.filterwarnings("error")

N, D_MODEL, D_K, D_V, D_FF = 7, 12, 4, 5, 9
CHOICES: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "encoder": ("encoder", 3, 3, {}),
    "encoder-gelu": ("encoder", 3, 3, {"feed_forward": "gelu"}),
    "encoder-pre": ("encoder", 4, 4, {"norm": "pre"}),
    "encoder-none": ("encoder", 2, 2, {"norm": "none"}),
    "encoder-no-skip": ("encoder", 3, 3, {"residual": False}),
    "encoder-pre-no-skip": ("encoder", 3, 3, {"norm": "pre", "residual": False}),
    "encoder-bare": ("encoder", 1, 1, {"norm": "none", "residual": False}),
    "gpt2": ("gpt2", 3, 3, {}),
    "gpt2-post": ("gpt2", 3, 3, {"norm": "post"}),
    "llama": ("llama", 4, 2, {}),
    "llama-one": ("llama", 1, 1, {"positions": "rope-interleaved"}),
    "llama-post-no-skip": ("llama", 4, 1, {"norm": "post", "residual": False}),
    "llama-alibi": ("llama", 3, 3, {"positions": "alibi"}),
}
each_block = pytest.mark.parametrize("name", CHOICES)


def sheet_of(name: str) -> Sheet:
    kind, heads, few, more = CHOICES[name]
    return block_sheet(kind, heads, few, d_head=D_K, d_value=D_V, **more)  # type: ignore[arg-type]


def sizes_of(name: str) -> dict[str, int]:
    _, heads, few, _ = CHOICES[name]
    sizes = {"one": 1, "token": N, "query": N, "key": N, "d_model": D_MODEL, "d_k": D_K, "d_v": D_V}
    sizes |= {"n_heads·d_k": heads * D_K, "n_kv_heads·d_k": few * D_K, "pair": D_K // 2, "d_ff": D_FF}
    return sizes | {"n_heads·d_v": heads * D_V, "n_kv_heads·d_v": few * D_V}


def made_up(name: str, batch: tuple[int, ...] = ()) -> dict[str, Any]:
    """Numbers for every given line, under a causal mask."""
    rng = np.random.default_rng(6)
    sheet, sizes = sheet_of(name), sizes_of(name)
    given: dict[str, Any] = {
        line.name: rng.normal(size=(*(batch if line.name == "x" else ()), *(sizes[a] for a in line.axes)))
        * 0.7
        for line in sheet.given
    }
    given |= {"mask": np.tri(N, dtype=bool), "epsilon": 1e-5}
    return given | beside(sheet, N, n_heads=CHOICES[name][1], d_head=D_K, base=50.0)


class ByHand:
    """The blocks in plain NumPy, without a sheet: one row or one query at a time."""

    def __init__(self, name: str, given: dict[str, Any]) -> None:
        self.kind, self.heads, self.few, more = CHOICES[name]
        usual = {"encoder": ("post", "relu"), "gpt2": ("pre", "gelu_tanh"), "llama": ("pre", "swiglu")}
        self.norm_at = more.get("norm", usual[self.kind][0])
        self.network = more.get("feed_forward", usual[self.kind][1])
        self.positions = more.get("positions", "rope-half" if self.kind == "llama" else None)
        self.skip, self.given = more.get("residual", True), given

    def block(self, x: np.ndarray) -> np.ndarray:
        for place, part in (("1", self.attention), ("2", self.feed_forward)):
            made = part(self.norm(x, place) if self.norm_at == "pre" else x)
            x = x + made if self.skip else made
            x = self.norm(x, place) if self.norm_at == "post" else x
        return x

    def norm(self, x: np.ndarray, place: str) -> np.ndarray:
        gain = self.given[f"gain_{place}"][0]
        if self.kind == "llama":
            return np.array([row / sqrt((row @ row) / len(row) + 1e-5) * gain for row in x])
        shift = self.given[f"shift_{place}"][0]
        return np.array([(row - row.mean()) / sqrt(row.var() + 1e-5) * gain + shift for row in x])

    def attention(self, x: np.ndarray) -> np.ndarray:
        q, k, v = (self.linear(x, letter) for letter in "qkv")
        side_by_side = []
        for h in range(self.heads):
            g = h // (self.heads // self.few)
            asked = [self.turn(row[h * D_K : (h + 1) * D_K], i) for i, row in enumerate(q)]
            offered = [self.turn(row[g * D_K : (g + 1) * D_K], j) for j, row in enumerate(k)]
            out = []
            for i in range(len(x)):
                scores = [asked[i] @ offered[j] / sqrt(D_K) - self.slope(h) * (i - j) for j in range(i + 1)]
                powers = np.exp(scores) / np.exp(scores).sum()
                out.append(sum(powers[j] * v[j, g * D_V : (g + 1) * D_V] for j in range(i + 1)))
            side_by_side.append(np.array(out))
        return self.linear(np.concatenate(side_by_side, axis=1), "o")

    def slope(self, head: int) -> float:
        return [1 / 16, 1 / 256, 1 / 4][head] if self.positions == "alibi" else 0.0

    def turn(self, row: np.ndarray, position: int) -> np.ndarray:
        if self.positions not in ("rope-half", "rope-interleaved"):
            return row
        result, apart = row.copy(), D_K // 2 if self.positions == "rope-half" else 1
        for pair in range(D_K // 2):
            a = pair if self.positions == "rope-half" else 2 * pair
            spun = complex(row[a], row[a + apart]) * np.exp(1j * position * 50.0 ** (-2 * pair / D_K))
            result[a], result[a + apart] = spun.real, spun.imag
        return result

    def linear(self, x: np.ndarray, which: str) -> np.ndarray:
        return x @ self.given[f"w_{which}"] + self.given.get(f"b_{which}", 0.0)

    def feed_forward(self, x: np.ndarray) -> np.ndarray:
        if self.network == "swiglu":
            gate = x @ self.given["w_gate"]
            return (gate / (1 + np.exp(-gate)) * (x @ self.given["w_up"])) @ self.given["w_down"]
        bend = {
            "relu": lambda a: max(a, 0.0),
            "gelu": lambda a: a * (1 + erf(a / sqrt(2))) / 2,
            "gelu_tanh": lambda a: a * (1 + np.tanh(sqrt(2 / np.pi) * (a + 0.044715 * a**3))) / 2,
        }[self.network]
        return self.linear(np.vectorize(bend)(self.linear(x, "1")), "2")


@each_block
@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "two"])
def test_the_output_is_that_of_the_definition(name: str, batch: tuple[int, ...]) -> None:
    given = made_up(name, batch)
    values = run(sheet_of(name), given)
    hand = ByHand(name, given)
    rows = given["x"].reshape(-1, N, D_MODEL)
    want = np.stack([hand.block(x) for x in rows]).reshape(*batch, N, D_MODEL)
    np.testing.assert_allclose(values["output"], want, rtol=1e-11, atol=1e-11)


@each_block
def test_the_stream_between_the_two_halves_is_a_stage(name: str) -> None:
    if not CHOICES[name][3].get("residual", True):
        assert not any(line.name.startswith("stream") for line in sheet_of(name))
        return
    given = made_up(name)
    values, hand = run(sheet_of(name), given), ByHand(name, given)
    x = given["x"]
    want = x + hand.attention(hand.norm(x, "1") if hand.norm_at == "pre" else x)
    np.testing.assert_allclose(values["stream_1"], want, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(values["stream_1"], x + values["attended"])


@each_block
def test_every_line_has_a_name_of_its_own_and_the_size_it_says(name: str) -> None:
    sheet, sizes = sheet_of(name), sizes_of(name)
    values = run(sheet, made_up(name))
    for what in ("name", "title", "symbol", "mark"):
        found = [getattr(line, what) for line in sheet]
        assert len(set(found)) == len(found), what
    for line in sheet:
        assert values[line.name].shape == tuple(sizes[axis] for axis in line.axes), line.name
        assert line.step == 0
        assert line.meaning.endswith(".") and line.look.endswith(".")
        assert np.isfinite(values[line.name]).all() or line.name.startswith("masked"), line.name
    assert sheet.stages[-1].name == "output"
    assert len(cost(sheet, sizes)) == len(sheet.stages)
    learned = sum(parameters(sheet, sizes).values())
    free = ("x", "mask", "epsilon", "divisor", "positions", "exponents", "base")
    rest = [v.size for n, v in values.items() if n in [g.name for g in sheet.given] and n not in free]
    assert learned == sum(rest) - sum(name.startswith("slope") for name in values)


@each_block
def test_the_work_of_every_cell_ends_in_what_it_shows(name: str) -> None:
    sheet = sheet_of(name)
    values = run(sheet, made_up(name))
    for stage in sheet.stages:
        for i, j in np.ndindex(values[stage.name].shape):
            done = work(sheet, values, stage.name, i, j)
            assert done.text.endswith(show(values[stage.name][i, j])), (stage.name, done.text)


@each_block
def test_a_token_changes_nothing_before_it_under_a_causal_mask(name: str) -> None:
    sheet, given = sheet_of(name), made_up(name)
    before = run(sheet, given)["output"]
    given["x"][4, 2] += 0.5
    moved = (run(sheet, given)["output"] != before).any(axis=1)
    assert moved.tolist() == [False] * 4 + [True] * 3


@each_block
def test_the_exported_program_gives_the_same_numbers(name: str) -> None:
    sheet = sheet_of(name)
    values = run(sheet, made_up(name))
    scope: dict[str, Any] = {"print": lambda *_: None}
    exec(to_numpy(sheet, values), scope)
    for line in sheet:
        np.testing.assert_allclose(scope[line.name], values[line.name], rtol=1e-12, atol=1e-12)
    latex = to_latex(sheet, values)
    assert latex.count("{") == latex.count("}")
    assert not re.search(r"\{\{|None", latex.replace(r"\sqrt{d_k}", ""))
    compile(to_torch(sheet, values), "<torch>", "exec")


def test_every_kind_is_tried_and_the_same_choice_is_the_same_sheet() -> None:
    assert {kind for kind, *_ in CHOICES.values()} == set(RECIPES)
    assert block_sheet("gpt2", 2, d_head=3) is block_sheet("gpt2", 2, d_head=3)


def test_what_is_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="kind is one of encoder, gpt2, llama, not 'bert'"):
        block_sheet("bert", d_head=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="norm is one of pre, post, none, not 'before'"):
        block_sheet("gpt2", d_head=3, norm="before")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind is one of relu"):
        block_sheet("encoder", d_head=3, feed_forward="sine")
    with pytest.raises(ValueError, match="3 of 3 columns cannot be turned"):
        block_sheet("llama", 2, d_head=3)

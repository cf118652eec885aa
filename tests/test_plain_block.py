"""The block without a sheet: the numbers of PyTorch and transformers, and those of the sheets."""

from __future__ import annotations

import ast
import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_core import plain_block as plain
from attention_core.block import block_sheet
from attention_core.head_choices import beside
from attention_core.sheet import run
from tests.conformance import adapter

PEERS = Path(__file__).parent / "conformance" / "peers"
BLOCKS: dict[str, tuple[str, str, plain.Plain]] = {
    "post": ("encoder", "post", plain.ENCODER_POST),
    "pre": ("encoder", "pre", plain.ENCODER_PRE),
    "gpt2": ("gpt2", "pre", plain.GPT2),
    "llama": ("llama", "pre", plain.LLAMA),
}
OPS = ("EncoderLayer", "GPT2Block", "LlamaBlock")
CASES = [
    case
    for case in json.loads((PEERS / "manifest.json").read_text(encoding="utf-8"))["cases"]
    if case["op"] in OPS
]


def plain_of(case: dict[str, Any]) -> plain.Plain:
    """The block that a case is about."""
    how = case["attributes"]
    if case["op"] == "EncoderLayer":
        base = plain.ENCODER_PRE if how["norm_first"] else plain.ENCODER_POST
        return replace(base, causal=bool(how["is_causal"]), bend=how["activation"])
    return plain.GPT2 if case["op"] == "GPT2Block" else plain.LLAMA


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_numbers_of_pytorch_and_transformers_come_out(case, monkeypatch):
    """The adapter names the weights for its sheet; here they go to the plain block instead."""
    with np.load(PEERS / case["file"]) as data:
        inputs = {name[3:]: data[name] for name in data.files if name.startswith("in.")}
        want = data["out.Y"]
    caught: dict[str, Any] = {}

    def catch(sheet, given):
        caught.update(given)
        return run(sheet, given)

    monkeypatch.setattr(adapter, "run", catch)
    getattr(adapter, case["op"])(inputs, case["attributes"])
    heads = case["attributes"]["num_heads"]
    made = plain.plain_block(plain_of(case), caught, heads, case["attributes"].get("num_kv_heads"))
    rtol, atol = case.get("tolerance") or (1e-10, 1e-12)  # LLaMA's norms and angles are float32 there
    np.testing.assert_allclose(made, want, rtol=rtol, atol=atol)


def test_there_is_a_case_of_every_kind():
    assert {case["op"] for case in CASES} == set(OPS)
    kinds = {(c["attributes"].get("norm_first"), c["attributes"].get("activation")) for c in CASES}
    assert {(0, "relu"), (0, "gelu"), (1, "relu"), (1, "gelu")} <= kinds


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "two"])
def test_the_sheets_come_to_the_same(name, batch):
    kind, norm, block = BLOCKS[name]
    n, heads, d_head, d_ff = 5, 3, 4, 7
    width = heads * d_head
    sheet = block_sheet(kind, heads, d_head=d_head, norm=norm)
    axes = {"one": 1, "token": n, "d_model": width, "d_ff": d_ff}
    axes |= dict.fromkeys(("n_heads·d_k", "n_kv_heads·d_k", "n_heads·d_v", "n_kv_heads·d_v"), width)
    rng = np.random.default_rng(3)
    given: dict[str, Any] = {
        line.name: rng.normal(
            size=[*(batch if line.name == "x" else ()), *(axes[axis] for axis in line.axes)]
        )
        for line in sheet.given
        if line.axes and set(line.axes) <= set(axes)
    }
    given |= {"mask": np.tri(n, dtype=bool) if block.causal else np.ones((n, n), dtype=bool)}
    given |= {"epsilon": 1e-5} | beside(sheet, n, n_heads=heads, d_head=d_head)
    want = run(sheet, given)["output"]
    np.testing.assert_allclose(plain.plain_block(block, given, heads), want, rtol=1e-11, atol=1e-11)


def test_it_shares_no_code_with_the_sheets():
    tree = ast.parse(inspect.getsource(plain))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [module for module in modules if module and module.startswith("attention_core")]


def test_what_is_not_given_is_named():
    with pytest.raises(KeyError, match="gain_1"):
        plain.plain_block(plain.GPT2, {"x": np.ones((2, 4))}, 2)

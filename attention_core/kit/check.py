"""Runs your attention on cases that others have worked out: python check.py [MODULE] [--only TEXT]

MODULE is my_attention unless another is named; it is looked for beside this file. For every function it says
how many cases come out, and of those that do not, which stage is the first to be wrong. --only takes the
cases whose name or kind holds TEXT. The exit code is 0 when at least one case passed and none failed.

cases.npz holds the cases: numbers, and one JSON text with what each is about. It is read with
allow_pickle=False, so that nothing in it is run. Tolerances (rtol, atol) follow the type that a case was
worked out in. Where the cases come from: README.txt and NOTICE.txt.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
TOLERANCE = {
    "float64": (1e-10, 1e-12),
    "float32": (1e-5, 1e-6),
    "float16": (2e-3, 1e-3),
    "bfloat16": (2e-2, 1e-2),
}
SHOWN = 5  # failures that are told in full
KNOWN = "; this is a known mistake: "

Arrays = dict[str, NDArray[Any]]
Case = Mapping[str, Any]


# what a case asks for, put to the functions of my_attention.py -----------------------------------


def softmax_case(mine: ModuleType, inputs: Arrays, asked: Case) -> Arrays:
    return {"output": mine.softmax(wide(inputs["input"]), asked["axis"])}


def log_softmax_case(mine: ModuleType, inputs: Arrays, asked: Case) -> Arrays:
    return {"output": mine.log_softmax(wide(inputs["input"]), asked["axis"])}


def mask_case(mine: ModuleType, inputs: Arrays, asked: Case) -> Arrays:
    """One mask, with causal beside it where the case says so."""
    n_q, n_k, offset = asked["n_q"], asked["n_k"], asked.get("offset", 0)
    if asked["kind"] == "causal":
        return {"mask": mine.causal(n_q, n_k, offset)}
    if asked["kind"] == "sliding_window":
        left = asked["window"] - bool(asked.get("counts_self"))
        mask = mine.window(n_q, n_k, left, None, offset)
    else:
        mask = mine.padding(inputs["lengths"], n_k, asked.get("side", "right"))
    return {"mask": mask & mine.causal(n_q, n_k, offset) if asked.get("is_causal") else mask}


def trace_case(mine: ModuleType, inputs: Arrays, asked: Case) -> Arrays:
    return dict(attend(mine, inputs["Q"], inputs["K"], inputs["V"], inputs, asked))


def attention_case(mine: ModuleType, inputs: Arrays, asked: Case) -> Arrays:
    """ONNX's operator: heads may be packed into the features, and keys of the past may come first."""
    q, k, v = inputs["Q"], inputs["K"], inputs["V"]
    packed = q.ndim == 3
    if packed:
        q = mine.split_heads(q, asked["q_num_heads"])
        k, v = (mine.split_heads(a, asked["kv_num_heads"]) for a in (k, v))
    if "past_key" in inputs:
        k = np.concatenate([inputs["past_key"], k], axis=-2)
        v = np.concatenate([inputs["past_value"], v], axis=-2)
    made = attend(mine, q, k, v, inputs, asked)
    stage = ("scaled", "capped", "masked", "weights")[asked["qk_matmul_output_mode"]]
    output = mine.merge_heads(made["output"]) if packed else made["output"]
    return {"Y": output, "present_key": k, "present_value": v, "qk_matmul_output": made[stage]}


OPS = {
    "Softmax": softmax_case,
    "LogSoftmax": log_softmax_case,
    "Mask": mask_case,
    "AttentionTrace": trace_case,
    "Attention": attention_case,
}


def attend(
    mine: ModuleType, q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], inputs: Arrays, asked: Case
) -> Mapping[str, NDArray[Any]]:
    """The learner's attention, with a mask for everything that the case says about who sees whom."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    mask = frontier(mine, n_q, n_k, inputs, asked)
    given, bias = mask_and_bias(inputs, n_k)
    if given is not None:
        mask = given if mask is None or given.dtype != np.bool_ else mask & given
    made: Mapping[str, NDArray[Any]] = mine.attention(
        wide(q),
        wide(k),
        wide(v),
        mask=mask,
        bias=bias,
        scale=asked["scale"],
        softcap=asked["softcap"] or None,
    )
    return made


def frontier(mine: ModuleType, n_q: int, n_k: int, inputs: Arrays, asked: Case) -> NDArray[Any] | None:
    """Causal, a window and the keys in use, at once; None where every key may be seen."""
    sides = [None if asked[f"{side}_window_size"] < 0 else asked[f"{side}_window_size"] for side in SIDES]
    lengths = inputs.get("nonpad_kv_seqlen")

    def rule(offset: int) -> NDArray[Any] | None:
        mask = None if sides == [None, None] else mine.window(n_q, n_k, *sides, offset)
        if asked["is_causal"]:
            seen = mine.causal(n_q, n_k, offset)
            mask = seen if mask is None else mask & seen
        return mask

    if lengths is None:
        return rule(inputs["past_key"].shape[-2] if "past_key" in inputs else 0)
    in_use: NDArray[Any] = mine.padding(lengths, n_k)[:, None]
    rules = [rule(int(length) - n_q) for length in lengths]
    return (
        in_use
        if rules[0] is None
        else in_use & np.stack([each for each in rules if each is not None])[:, None]
    )


SIDES = ("left", "right")


def mask_and_bias(inputs: Arrays, n_k: int) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """A mask of numbers is added to the scores; −∞ in it blocks. A short one closes the keys at the end."""
    mask = inputs.get("attn_mask")
    if mask is None:
        return None, None
    short = n_k - mask.shape[-1]
    if short > 0 and "nonpad_kv_seqlen" in inputs:
        closed = False if mask.dtype == np.bool_ else -np.inf
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, short)], constant_values=closed)
    if mask.dtype.kind != "f":
        return mask, None
    return mask != -np.inf, np.where(mask == -np.inf, 0.0, wide(mask))


def wide(a: NDArray[Any]) -> NDArray[np.float64]:
    return np.array(a, dtype=np.float64)


# how a case came out ----------------------------------------------------------------------------


def check(case: Case, data: Mapping[str, NDArray[Any]], mine: ModuleType) -> str:
    """Whether a case passes: "pass", "not written", or a sentence on what is wrong."""
    inputs = {name[3:]: a.copy() for name, a in data.items() if name.startswith("in.")}
    try:
        with np.errstate(all="ignore"):
            made = OPS[case["op"]](mine, inputs, case["attributes"])
    except NotImplementedError:
        return "not written"
    except Exception as error:
        return "pass" if case.get("raises") else f"raised {type(error).__name__}: {error}"
    if case.get("raises"):
        return f"accepted what has to be refused ({case['raises']})"
    for name, a in inputs.items():
        if not np.array_equal(a, data[f"in.{name}"], equal_nan=a.dtype.kind == "f"):
            return f"{name} was changed in place"
    for output in case["outputs"]:
        said = off(case, output, data, made)
        if said:
            return said
    return "pass"


def off(case: Case, output: Case, data: Mapping[str, NDArray[Any]], made: Mapping[str, Any]) -> str:
    """What is wrong with one output, '' where it agrees."""
    name, want = output["name"], data["out." + output["name"]]
    if made.get(name) is None:
        return f"{name} is missing"
    have = np.asarray(made[name])
    if have.shape != want.shape:
        return f"{name} has the shape {have.shape}, and {want.shape} is right"
    rtol, atol = case.get("tolerance") or TOLERANCE.get(output["dtype"], (0.0, 0.0))
    a, b = have.astype(want.dtype).astype(np.float64), want.astype(np.float64)
    close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return ""
    place = tuple(int(i) for i in np.argwhere(~close)[0])
    bug = data.get("wrong." + name)
    known = bug is not None and np.allclose(a, bug.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True)
    note = f"{KNOWN}{case['wrong']}" if known else ""
    return (
        f"{name} is the first to be wrong: at {place} it is {a[place]:.6g}, and {b[place]:.6g} is right{note}"
    )


def run(mine: ModuleType, only: str = "") -> list[tuple[Case, str]]:
    """Every case with how it came out."""
    with np.load(HERE / "cases.npz", allow_pickle=False) as archive:
        cases = json.loads(archive["manifest"].tobytes())
        arrays: dict[str, Arrays] = {case["name"]: {} for case in cases}
        for key in archive.files:
            name, _, part = key.partition("/")
            if part:
                arrays[name][part] = archive[key]
    chosen = [case for case in cases if only in case["name"] or only in case["kind"]]
    return [(case, check(case, arrays[case["name"]], mine)) for case in chosen]


def report(results: list[tuple[Case, str]]) -> int:
    """Print what came of the cases; the exit code."""
    words = {"pass": 0, "not written": 2}
    counts = {op: Counter(words.get(said, 1) for case, said in results if case["op"] == op) for op in OPS}
    for op, count in counts.items():
        print(f"{op:15} {count[0]:4} passed {count[1]:4} failed {count[2]:4} not written yet")
    failed = [(case, said) for case, said in results if said not in words]
    for case, said in failed[:SHOWN]:
        print(f"\n{case['op']}, {case['name']}: {said}.")
        if case.get("title"):
            print(f"    what it is about: {case['title']}")
    if len(failed) > SHOWN:
        print(f"\n… and {len(failed) - SHOWN} more; --only takes those whose name or kind holds a text.")
    known = {said.partition(KNOWN)[2] for _, said in failed} - {""}
    if known:
        print(f"\nKnown mistakes that give the same numbers: {'; '.join(sorted(known))}.")
    total = sum(counts.values(), Counter())
    print(f"\n{total[0]} passed, {total[1]} failed, {total[2]} not written yet")
    return 0 if total[0] and not total[1] else 1


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Check your attention against cases that others worked out.")
    parser.add_argument("module", nargs="?", default="my_attention")
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    sys.path.insert(0, str(HERE))
    return report(run(importlib.import_module(chosen.module), chosen.only))


if __name__ == "__main__":
    sys.exit(main())

"""The kit as a learner gets it: unpacked somewhere else, run by a plain Python that knows no app."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from attention_core import kit
from tests.conformance import pack

ROOT = Path(__file__).parent.parent

RIGHT = """
import numpy as np


def softmax(a, axis=-1):
    if a.shape[axis] == 0:
        return a.copy()
    top = a.max(axis=axis, keepdims=True)
    e = np.exp(a - np.where(top == -np.inf, 0.0, top))
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0.0, 1.0, total)


def log_softmax(a, axis=-1):
    below = a - a.max(axis=axis, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=axis, keepdims=True))


def causal(n_q, n_k, offset=0):
    return np.arange(n_k) <= np.arange(n_q)[:, None] + offset


def window(n_q, n_k, left, right, offset=0):
    far = np.arange(n_k) - np.arange(n_q)[:, None] - offset
    return (True if left is None else far >= -left) & (True if right is None else far <= right) & (far == far)


def padding(lengths, n_k, side="right"):
    places, lengths = np.arange(n_k), np.asarray(lengths)[:, None, None]
    return (places < lengths if side == "right" else places >= n_k - lengths)


def split_heads(a, heads):
    return a.reshape(*a.shape[:2], heads, -1).swapaxes(1, 2)


def merge_heads(a):
    return a.swapaxes(1, 2).reshape(a.shape[0], a.shape[2], -1)


def attention(q, k, v, *, mask=None, bias=None, scale=None, softcap=None):
    if k.shape[-2] != v.shape[-2]:
        raise ValueError("as many keys as values are needed")
    if q.ndim > 2 and 1 < k.shape[-3] < q.shape[-3]:
        k, v = (np.repeat(a, q.shape[-3] // k.shape[-3], axis=-3) for a in (k, v))
    scores = q @ k.swapaxes(-1, -2)
    scaled = scores / np.sqrt(q.shape[-1]) if scale is None else scores * scale
    capped = scaled if softcap is None else softcap * np.tanh(scaled / softcap)
    masked = capped if bias is None else capped + bias
    if mask is not None:
        if mask.dtype != np.bool_:
            raise ValueError("the mask has to be boolean")
        masked = np.where(mask, masked, -np.inf)
    if masked.shape[-2:] != scores.shape[-2:]:
        raise ValueError("the mask does not fit")
    weights = softmax(masked)
    seen = np.where(np.isfinite(v), v, 0.0)
    output = weights @ seen
    top = masked.max(axis=-1, initial=-np.inf)
    with np.errstate(all="ignore"):
        lse = np.log(np.exp(masked - np.where(np.isinf(top), 0.0, top)[..., None]).sum(-1)) + top
    return {"scores": scores, "scaled": scaled, "capped": capped, "masked": masked, "weights": weights,
            "output": output, "logsumexp": lse}
"""

WRONG = {  # what is changed, and the stage that is then said to be the first wrong one
    "the root": ("np.sqrt(q.shape[-1])", "q.shape[-1]", "scaled is the first to be wrong"),
    "the mask": ("masked = np.where(mask, masked, -np.inf)", "pass", "masked is the first to be wrong"),
    "the rows": ("weights = softmax(masked)", "weights = softmax(masked, -2)", "weights is the first to be"),
    "the heads": ("a.reshape(*a.shape[:2], heads, -1).swapaxes(1, 2)",
                  "a.reshape(a.shape[0], heads, a.shape[1], -1)", "Y is the first to be wrong"),
    "the runs": ("np.repeat(a, q.shape[-3] // k.shape[-3], axis=-3)",
                 "np.concatenate([a] * (q.shape[-3] // k.shape[-3]), axis=-3)",
                 "Known mistakes that give the same numbers: tiled."),
    "the types": ("if mask.dtype != np.bool_:", "if False:", "accepted what has to be refused"),
    "the inputs": ("scores = q @ k.swapaxes(-1, -2)", "k *= 1.0; v /= 1; scores = q @ k.swapaxes(-1, -2) + 1",
                   "scores is the first to be wrong"),
}  # fmt: skip


def unpacked(folder: Path) -> Path:
    with zipfile.ZipFile(io.BytesIO(kit.archive())) as archive:
        archive.extractall(folder)
    return folder / kit.FOLDER


def checked(folder: Path, *more: str) -> tuple[int, str]:
    """The exit code and what was printed; -I leaves PYTHONPATH and the folder at hand out."""
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", str(folder / "check.py"), *more],
        cwd=folder.parent, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_stub_as_it_comes_has_nothing_to_check(tmp_path):
    code, said = checked(unpacked(tmp_path))
    assert code == 1
    assert "0 passed, 0 failed, 147 not written yet" in said


def test_a_right_attention_passes_every_case(tmp_path):
    folder = unpacked(tmp_path)
    (folder / "my_attention.py").write_text(RIGHT, encoding="utf-8")
    code, said = checked(folder)
    assert (code, "147 passed, 0 failed, 0 not written yet" in said) == (0, True), said


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_attention_is_told_what_is_wrong_first(tmp_path, what):
    old, new, expected = WRONG[what]
    assert RIGHT.count(old) == 1
    folder = unpacked(tmp_path)
    (folder / "another.py").write_text(RIGHT.replace(old, new), encoding="utf-8")
    code, said = checked(folder, "another")
    assert code == 1 and expected in said, said
    assert "0 not written yet" in said.splitlines()[-1]


def test_a_change_in_place_is_seen(tmp_path):
    folder = unpacked(tmp_path)
    text = RIGHT.replace(
        "    below = a - a.max", "    a -= a.max(axis=axis, keepdims=True)\n    below = a - a.max"
    )
    text += (
        "\n\nsplit = split_heads\n\n\ndef split_heads(a, heads):\n    a += 1\n    return split(a, heads)\n"
    )
    (folder / "my_attention.py").write_text(text, encoding="utf-8")
    assert "Q was changed in place" in checked(folder)[1]


def test_one_function_at_a_time(tmp_path):
    folder = unpacked(tmp_path)
    stub = (folder / "my_attention.py").read_text(encoding="utf-8")
    only = RIGHT.partition("def log_softmax")[0]
    (folder / "my_attention.py").write_text(f"{stub}\n{only}", encoding="utf-8")
    code, said = checked(folder)
    assert code == 0
    assert "12 passed, 0 failed, 135 not written yet" in said


def test_the_archive_holds_the_cases_of_the_conformance_suite():
    with np.load(ROOT / "attention_core" / "kit" / "cases.npz", allow_pickle=False) as archive:
        held = {name: archive[name] for name in archive.files}
    wanted = pack.packed()
    assert held.keys() == wanted.keys()
    for name, array in wanted.items():
        assert array.dtype == held[name].dtype
        np.testing.assert_array_equal(array, held[name])


def test_the_names_of_the_cases_differ():
    names = [said["name"] for said, _ in pack.cases()]
    assert len(set(names)) == len(names) == 147


def test_the_kit_needs_numpy_and_nothing_else_and_no_pickle():
    for name in ("my_attention.py", "check.py"):
        tree = ast.parse((ROOT / "attention_core" / "kit" / name).read_text(encoding="utf-8"))
        imported = {
            alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {module.split(".")[0] for module in imported} - sys.stdlib_module_names <= {"numpy"}
        assert "pickle" not in imported
    assert "allow_pickle=True" not in (ROOT / "attention_core" / "kit" / "check.py").read_text(
        encoding="utf-8"
    )


def test_the_archive_says_where_the_cases_come_from_and_is_made_once():
    with zipfile.ZipFile(io.BytesIO(kit.archive())) as archive:
        assert [Path(name).name for name in archive.namelist()] == list(kit.FILES)
        assert {str(Path(name).parent) for name in archive.namelist()} == {kit.FOLDER}
        notice = archive.read(f"{kit.FOLDER}/NOTICE.txt").decode()
        licence = archive.read(f"{kit.FOLDER}/LICENSE.txt").decode()
    assert "ONNX Project Contributors" in notice and "Apache-2.0" in notice
    assert "Apache License" in licence and "Version 2.0" in licence
    assert kit.archive() is kit.archive()

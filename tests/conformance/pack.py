"""The cases that a learner's own functions are checked against, as one archive.

`python -m tests.conformance.pack` writes attention_core/kit/cases.npz: the arrays of a case under "name/in.Q"
and such, and "manifest", a JSON text in bytes. Only the ops in OPS and the masks in MASKS are taken.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
TARGET = HERE.parent.parent / "attention_core" / "kit" / "cases.npz"
FOLDERS = ("peers", "onnx", "pitfalls")
OPS = ("Softmax", "LogSoftmax", "Mask", "AttentionTrace", "Attention")  # in the order they are written in
MASKS = ("causal", "sliding_window", "padding")
KEPT = ("name", "op", "kind", "title", "outputs", "raises", "wrong", "tolerance")


def cases() -> list[tuple[dict[str, Any], Path]]:
    """[(what the archive says of a case, its file)], op by op; those with the most stages come first."""
    found = []
    for folder in FOLDERS:
        manifest = json.loads((HERE / folder / "manifest.json").read_text(encoding="utf-8"))
        for case in manifest["cases"]:
            if case["op"] not in OPS or case["attributes"].get("kind", MASKS[0]) not in MASKS:
                continue
            defaults = manifest["ops"].get(case["op"], {}).get("defaults", {})
            said = {name: case[name] for name in KEPT if case.get(name) is not None}
            said |= {"origin": folder, "attributes": {**defaults, **case["attributes"]}}
            found.append((said, HERE / folder / case["file"]))
    return sorted(found, key=lambda pair: (OPS.index(pair[0]["op"]), -len(pair[0]["outputs"])))


def packed() -> dict[str, NDArray[Any]]:
    """Everything that goes into the archive."""
    chosen = cases()
    text = json.dumps([said for said, _ in chosen], ensure_ascii=False).encode()
    arrays = {"manifest": np.frombuffer(text, dtype=np.uint8)}
    for said, file in chosen:
        with np.load(file, allow_pickle=False) as archive:
            arrays |= {f"{said['name']}/{part}": archive[part] for part in archive.files}
    return arrays


if __name__ == "__main__":
    np.savez_compressed(TARGET, allow_pickle=False, **packed())

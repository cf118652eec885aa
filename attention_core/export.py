r"""A sheet written out for use elsewhere: as a NumPy program, as PyTorch and as LaTeX.

The programs hold every given number exactly, work out the same lines under the same names, and need nothing
but the library they are written for.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from math import isinf, isnan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_core.numbers import show as _show
from attention_core.operations import MATMUL, SOFTMAX, matmul
from attention_core.sheet import Given, Sheet, Stage
from attention_core.sheets import attention_sheet
from attention_core.written import Show, equals, tex

Values = Mapping[str, NDArray[Any]]

_LATEX_COLUMNS = 10  # what LaTeX's matrix environments allow unless told otherwise


def to_numpy(sheet: Sheet, values: Values, *, tokens: Sequence[str] = ()) -> str:
    """A program that works the sheet out again from its given numbers and prints the last line.

    tokens, where there are any, are named in a comment. Raises KeyError where a given line has no value.
    """
    calls = {stage.name: _numpy_call(stage, values) for stage in sheet.stages}
    functions = dict.fromkeys(f for stage in sheet.stages for f in stage.operation.helpers)
    if any(call.startswith("matmul(") for call in calls.values()):
        functions[matmul] = None
    helpers = [_source(function) for function in functions]
    return "\n".join(
        [
            *_heading(sheet, tokens),
            *("import math\n",) * any("math." in source for source in helpers),
            "import numpy as np",
            *(f"\n\n{source}" for source in helpers),
            *("\n" if helpers else "",),
            *_given_lines(sheet, values, "np", "np.array({})"),
            *_stage_lines(sheet, calls),
            f"print({sheet.stages[-1].name})\n",
        ]
    )


def to_torch(sheet: Sheet, values: Values) -> str:
    """The same in PyTorch. Plain attention comes by hand and in one call, with a check that both agree.

    The one call, scaled_dot_product_attention, knows no soft cap, so a sheet with one is written by hand
    only. Raises KeyError where a line of the sheet has no value.
    """
    calls = {s.name: s.operation.torch.format(*s.inputs) for s in sheet.stages}
    closed = _closed(sheet, values)
    for weights, (_, name) in closed.items():
        calls[weights] += f".masked_fill({name}, 0.0)"
    lines = _stage_lines(sheet, calls)
    note = "# A query that may look nowhere gets 0. Older versions of PyTorch give it NaN, newer ones 0.\n"
    for scores, name in dict.fromkeys(closed.values()):
        after = lines.index(f"{scores} = {calls[scores]}") + 1
        lines.insert(after, f"{note}{name} = torch.isneginf({scores}).all(dim=-1, keepdim=True)")
        note = ""
    lines += _fused(sheet, values, bool(closed)) if _is_attention(sheet) else []
    body = "\n".join([*_given_lines(sheet, values, "torch", "torch.tensor({}, dtype=torch.float64)"), *lines])
    return "\n".join(
        [
            *_heading(sheet, ()),
            *("import math\n",) * ("math." in body),
            "import torch",
            *("import torch.nn.functional as F",) * ("F." in body),
            "",
            body,
            f"print({sheet.stages[-1].name})\n",
        ]
    )


def _closed(sheet: Sheet, values: Values) -> dict[str, tuple[str, str]]:
    """{weights: (scores, name of a mask)} for every softmax with a row of −∞ only: no key to look at."""
    shares = [stage for stage in sheet.stages if stage.operation is SOFTMAX]
    return {
        stage.name: (stage.inputs[0], "closed" if len(shares) == 1 else f"closed_{stage.name}")
        for stage in shares
        if bool((values[stage.inputs[0]] == -np.inf).all(axis=-1).any())
    }


def _is_attention(sheet: Sheet) -> bool:
    """True for a sheet of sheets.py, whose output scaled_dot_product_attention makes in one call."""
    return sheet == attention_sheet(
        from_x="x" in sheet,
        scaling="sqrt" if "divisor" in sheet else "number" if "scale" in sheet else "none",
        softcap="softcap" in sheet,
        bias="bias" in sheet,
        lse="lse" in sheet,
    )


def to_latex(sheet: Sheet, values: Values | None = None, show: Show = _show) -> str:
    """The stages as aligned equations; with values, every line of the sheet again as a matrix of numbers.

    Numbers are written as `show` writes them, and "≈" says that it rounded. Raises ValueError for values
    with more than two axes.
    """
    formulas = [(stage.symbol, sheet.formula(stage.name)) for stage in sheet.stages]
    blocks = [_aligned([f"{left} &= {right}" for left, right in formulas if left != right])]
    if values is not None:
        blocks += [_aligned([_matrix(line, values[line.name], show) for line in sheet])]
        widest = max(np.shape(values[line.name])[-1] for line in sheet if line.axes)
        if widest > _LATEX_COLUMNS:
            blocks.insert(0, rf"% for LaTeX, in the preamble: \setcounter{{MaxMatrixCols}}{{{widest}}}")
    return "\n\n".join(blocks) + "\n"


def _heading(sheet: Sheet, tokens: Sequence[str]) -> list[str]:
    first = ", ".join(line.title for line in sheet.given)
    named = [f"# Tokens: {', '.join(map(repr, tokens))}"] if tokens else []
    return [f"# From {first} to {sheet.stages[-1].title}, stage by stage.", *named, ""]


def _given_lines(sheet: Sheet, values: Values, library: str, wrap: str) -> list[str]:
    lines = []
    for line in sheet.given:
        value = np.asarray(values[line.name])
        if not line.axes:
            lines += [f"# {line.meaning}", f"{line.name} = {_single(line, float(value), library)}"]
            continue
        if line.is_rule:
            lines += ["# True where a query may look at a key."]
        kind = wrap.replace("torch.float64", "torch.bool") if line.is_rule else wrap
        empty = f"{library}.{'ones' if line.is_rule else 'zeros'}({value.shape}, dtype={library}."
        empty += ("bool)" if library == "torch" else "bool_)") if line.is_rule else "float64)"
        lines += [f"{line.name} = {kind.format(_nested(value, library)) if value.size else empty}"]
    return [*lines, ""]


def _single(line: Given, number: float, library: str) -> str:
    """One number; a square root of a whole number is written as such, where that is exactly it."""
    square = round(number * number) if 0 < number < 1e6 else 0
    if line.name == "divisor" and square and sqrt(square) == number:
        return f"{'np' if library == 'np' else 'math'}.sqrt({square})"
    return _number(number, library)


def _nested(value: NDArray[Any], library: str, indent: int = 1) -> str:
    """The array as nested lists, one row a line."""
    if value.ndim == 1:
        return f"[{', '.join(_number(x, library) for x in value.tolist())}]"
    inner = ",\n".join("    " * indent + _nested(part, library, indent + 1) for part in value)
    return f"[\n{inner},\n{'    ' * (indent - 1)}]"


def _number(x: float, library: str) -> str:
    if isinstance(x, bool):
        return repr(x)
    if isnan(x):
        return f"{library}.nan"
    return f"{'-' * (x < 0)}{library}.inf" if isinf(x) else repr(x)


def _stage_lines(sheet: Sheet, calls: Mapping[str, str]) -> list[str]:
    lines = []
    for stage in sheet.stages:
        lines += [f"# {stage.title}: {stage.meaning[0].lower()}{stage.meaning[1:]}"]
        lines += [f"{stage.name} = {calls[stage.name]}"]
    return [*lines, ""]


def _numpy_call(stage: Stage, values: Values) -> str:
    """The stage in NumPy; a product takes care of NaN and ∞ only where there are any."""
    if stage.operation is MATMUL and stage.aside:
        factor = values.get(stage.inputs[1])
        if factor is not None and not np.isfinite(factor).all():
            return f"matmul({', '.join(stage.inputs)}, {stage.aside})"
    return stage.operation.code.format(*stage.inputs)


def _source(function: Callable[..., Any]) -> str:
    """The function as this package runs it, without its type annotations and module names."""
    tree = ast.parse(inspect.getsource(function))
    return ast.unparse(ast.fix_missing_locations(_Plain().visit(tree)))


class _Plain(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for argument in (*node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return node
        return ast.Assign(targets=[node.target], value=node.value, type_comment=None)


def _fused(sheet: Sheet, values: Values, closed: bool) -> list[str]:
    """The call of scaled_dot_product_attention that makes the same output, and the check that it does."""
    if "softcap" in sheet:
        return [
            "# scaled_dot_product_attention has no soft cap, so there is no second way to write this.",
            "",
        ]
    scale = "1 / divisor" if "divisor" in sheet else "scale" if "scale" in sheet else "1.0"
    mask = "bias.masked_fill(~mask, -torch.inf)" if "bias" in sheet else "mask"
    lines = [
        "# The same in one call. In a boolean attn_mask, True means that the query may look.",
        f"fused = F.scaled_dot_product_attention(q, k, v, attn_mask={mask}, scale={scale})",
    ]
    lines += ["fused = fused.masked_fill(closed, 0.0)"] * closed
    check = "torch.testing.assert_close(fused, output, rtol=1e-10, atol=1e-12"
    if not all(np.isfinite(values[name]).all() for name in "qkv"):
        lines += ["# In PyTorch NaN and ∞ get through a mask as well, because 0 × NaN is NaN."]
        check += ", equal_nan=True"
    return [*lines, f"{check})", ""]


def _aligned(rows: Sequence[str]) -> str:
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def _matrix(line: Given | Stage, value: NDArray[Any], show: Show) -> str:
    """One row of an aligned block: the symbol and its matrix, a rule as 0 and −∞."""
    if value.ndim > 2:
        raise ValueError(f"LaTeX shows one matrix at a time, and {line.name} has the shape {value.shape}")
    numbers = np.where(value, 0.0, -np.inf) if isinstance(line, Given) and line.is_rule else value
    texts = [[show(x) for x in row] for row in np.atleast_2d(numbers.T).T.tolist()]
    sign = equals(numbers.ravel().tolist(), [text for row in texts for text in row])
    if not line.axes:
        return f"{line.symbol} &{sign} {tex(texts[0][0])}"
    rows = " \\\\ ".join(" & ".join(map(tex, row)) for row in texts)
    return rf"{line.symbol} &{sign} \begin{{bmatrix}} {rows} \end{{bmatrix}}"

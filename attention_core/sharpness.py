r"""How sharp a row of weights is, in one number a row: entropy, largest weight, gradient norm.

entropy    H_i = −Σ_j a_ij log a_ij                  from 0 (one weight is 1) to log m (all m are equal)
gradient   ‖J_i‖, J_jl = a_ij (δ_jl − a_il)          the derivative of softmax, all its entries squared,
                                                     added up, and the root taken
"""

from __future__ import annotations

from math import log, prod, sqrt

import numpy as np

from attention_core.operations import Array, operation, per_cell
from attention_core.worked import Cell, Work
from attention_core.written import equals, listed, plain_sign, read, tex, wrapped


def entropy(a: Array) -> Array:
    """(…, n, 1): −Σ a log a over each row of weights a (…, n, m); a weight of 0 adds nothing."""
    result: Array = -(a * np.log(np.where(a > 0, a, 1))).sum(axis=-1, keepdims=True)
    return result + 0.0  # −0 becomes 0


def largest(a: Array) -> Array:
    """(…, n, 1): the largest weight of each row."""
    result: Array = a.max(axis=-1, keepdims=True)
    return result


def gradient_norm(a: Array) -> Array:
    """(…, n, 1): the Frobenius norm of the derivative of softmax at each row of weights a (…, n, m)."""
    squares = (a[..., :, None] * (np.eye(a.shape[-1]) - a[..., None, :])) ** 2
    result: Array = np.sqrt(squares.sum(axis=(-2, -1)))[..., None]
    return result


def _work_entropy(here: Cell) -> Work:
    row = here.row
    parts = [-a * log(a) if a > 0 else 0.0 for a in row]
    texts = [here.show(part) for part in parts]
    total = here.value(lambda: sum(parts))
    sign = equals([sum(map(read, texts))], [total])
    return Work(
        f"{' + '.join(texts)} {plain_sign(sign)} {total}",
        (
            *listed("a &= ", row, here.show),
            *listed(r"-a \log a &\approx ", parts, here.show),
            rf"{here.name} &= -\textstyle\sum a \log a",
            *wrapped("&= ", [tex(text) for text in texts]),
            f"&{sign} {tex(total)}",
        ),
    )


def _work_largest(here: Cell) -> Work:
    row = here.row
    value = here.value(lambda: max(row))
    return Work(
        f"the largest of {', '.join(here.show(a) for a in row)}: {value}",
        (*listed("a &= ", row, here.show), rf"{here.name} &= \max a = {tex(value)}"),
    )


def _work_gradient(here: Cell) -> Work:
    """Of the m² entries, those on the diagonal are a (1 − a), the others −a a′: their squares in two sums."""
    row = here.row
    diagonal = sum((a * (1 - a)) ** 2 for a in row)
    beside = sum((a * b) ** 2 for k, a in enumerate(row) for m, b in enumerate(row) if k != m)
    value = here.value(lambda: sqrt(diagonal + beside))
    first, second = here.show(diagonal), here.show(beside)
    sign = equals([sqrt(read(first) + read(second))], [value])
    return Work(
        f"√({first} + {second}) {plain_sign(sign)} {value}",
        (
            *listed("a &= ", row, here.show),
            rf"\textstyle\sum_j (a_j (1 - a_j))^2 &{equals([diagonal], [first])} {tex(first)}",
            rf"\textstyle\sum_{{j \neq l}} (a_j a_l)^2 &{equals([beside], [second])} {tex(second)}",
            rf"{here.name} &= \sqrt{{{tex(first)} + {tex(second)}}} {sign} {tex(value)}",
        ),
    )


# fmt: off
ENTROPY = operation("entropy", entropy, "row", _work_entropy, per_cell(3),
                    latex=r"-\textstyle\sum_j \left({0}\right)_{{ij}} \log \left({0}\right)_{{ij}}",
                    code="-({0} * np.log(np.where({0} > 0, {0}, 1))).sum(axis=-1, keepdims=True) + 0.0",
                    torch="-torch.xlogy({0}, {0}).sum(dim=-1, keepdim=True)")
LARGEST = operation("largest", largest, "row", _work_largest, per_cell(1),
                    latex=r"\max_j \left({0}\right)_{{ij}}",
                    code="{0}.max(axis=-1, keepdims=True)", torch="{0}.amax(dim=-1, keepdim=True)")
GRADIENT = operation("gradient norm", gradient_norm, "row", _work_gradient,
                     lambda shapes: 4 * prod(shapes[0]) * shapes[0][-1],
                     latex=r"\sqrt{{\textstyle\sum_{{jl}} \left({0}\right)_{{ij}}^2"
                           r" \left(\delta_{{jl}} - \left({0}\right)_{{il}}\right)^2}}",
                     code="np.sqrt((({0}[..., :, None] * (np.eye({0}.shape[-1]) - {0}[..., None, :])) ** 2)"
                          ".sum(axis=(-2, -1)))[..., None]",
                     torch="({0}[..., :, None] * (torch.eye({0}.shape[-1]) - {0}[..., None, :]))"
                           ".square().sum(dim=(-2, -1)).sqrt()[..., None]")
# fmt: on

OPERATIONS = (ENTROPY, LARGEST, GRADIENT)

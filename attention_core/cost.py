r"""What attention takes, estimated from shapes: operations, bytes to and from memory, the least time.

    time of a line = max(operations / peak rate, bytes / bandwidth)        Williams et al. 2009

Everything here is an estimate. A line (a product, a softmax over the table) is counted as if it read its
inputs from memory once and wrote its result back once, and as if lines took turns; what an accelerator's
caches save and what starting a line costs is left out. A multiply-add is 2 operations, as in operations.py.
Keys and values are counted once for each of their own heads, however many query heads share them.
A causal mask saves nothing here: the whole table is worked out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, prod
from typing import Literal

from attention_core.accelerators import GIGA, Accelerator, number_bytes
from attention_core.limits import LARGEST_COUNTED
from attention_core.mask_arrays import whole
from attention_core.sheet import ONE, Cost, Given, Sheet
from attention_core.sheet import cost as counted

PER_CELL = 7  # a score is scaled and masked, and softmax takes five
TITLES = {
    "q": "Q = X W_Q",
    "k": "K = X W_K",
    "v": "V = X W_V",
    "scores": "Scores",
    "weights": "Scaling, mask and softmax",
    "heads": "Weights times V",
    "attention": "Attention in tiles",
    "output": "Product with W_O",
    "network": "Feed-forward network",
    "logits": "Logits",
    "total": "Together",
}
TABLE = ("scores", "weights", "heads")  # the lines that hold the table of queries and keys


@dataclass(frozen=True)
class Layer:
    """The sizes of one attention with its projections.

    numbers is a key of accelerators.NUMBERS. Raises ValueError where a size is not a whole number above 0,
    where key heads cannot be shared out equally, and for any other numbers.
    """

    d_model: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    batch: int = 1
    numbers: str = "fp16"

    def __post_init__(self) -> None:
        for name in ("d_model", "n_heads", "n_kv_heads", "d_head", "batch"):
            check_size(name, getattr(self, name))
        check_heads(self.n_heads, self.n_kv_heads)
        number_bytes(self.numbers)

    @property
    def number_bytes(self) -> int:
        return number_bytes(self.numbers)


def check_size(name: str, value: int) -> None:
    """Raise ValueError unless the value is a whole number from 1 to 2²⁴."""
    if not whole(value) or not 1 <= value <= LARGEST_COUNTED:
        raise ValueError(f"{name} has to be a whole number from 1 to {LARGEST_COUNTED}, not {value!r}")


def check_heads(n_heads: int, n_kv_heads: int) -> None:
    """Raise ValueError where heads of keys cannot be shared out equally among heads of queries."""
    if n_heads % n_kv_heads:
        raise ValueError(
            f"{n_kv_heads} heads of keys and values cannot be shared out equally "
            f"among {n_heads} heads of queries"
        )


def sheet_costs(
    sheet: Sheet, sizes: Mapping[str, int], *, numbers: str = "fp16", batch: int = 1
) -> tuple[Cost, ...]:
    """One Cost per stage of a sheet that is worked through for every entry of a batch.

    Learned matrices are the same for the whole batch and are read once; a rule takes 1 byte an entry.
    Raises ValueError naming an axis without a size.
    """
    operations = {line.name: line.operations for line in counted(sheet, sizes)}
    known, bytes_each = {ONE: 1, **sizes}, number_bytes(numbers)
    check_size("batch", batch)

    def size(name: str) -> int:
        line = sheet[name]
        entries = prod(known[axis] for axis in line.axes)
        rule, learned = (line.is_rule, line.is_learned) if isinstance(line, Given) else (False, False)
        return entries * (1 if rule else bytes_each) * (1 if learned else batch)

    return tuple(
        Cost(stage.name, batch * operations[stage.name], sum(map(size, stage.inputs)), size(stage.name))
        for stage in sheet.stages
    )


def prefill(layer: Layer, n: int, *, tile: int | None = None) -> tuple[Cost, ...]:
    """All n tokens of a prompt at once: one Cost per line. tile as in `attention_costs`."""
    return attention_costs(layer, n, n, tile=tile)


def decode(layer: Layer, n: int, *, tile: int | None = None) -> tuple[Cost, ...]:
    """One new token, the last of n; the keys and values of the others are in the cache."""
    return attention_costs(layer, 1, n, tile=tile)


def attention_costs(layer: Layer, n_q: int, n_k: int, *, tile: int | None = None) -> tuple[Cost, ...]:
    """n_q new tokens, the last of n_k: their projections, their attention to all n_k, the product with W_O.

    tile=None writes the table of scores to memory and reads it back; a number works in tiles with so many
    queries, which reads keys and values once for every tile of queries and never writes the table (Dao et al.
    2022). Raises ValueError where a size is not a whole number above 0 or n_q is more than n_k.
    """
    check_size("n_q", n_q)
    check_size("n_k", n_k)
    if n_q > n_k:
        raise ValueError(f"n_q = {n_q} new tokens cannot be the last of n_k = {n_k}")
    bytes_each, d = layer.number_bytes, layer.d_head
    rows, wide, narrow = layer.batch * n_q, layer.n_heads * d, layer.n_kv_heads * d
    queries = layer.batch * layer.n_heads * n_q * d * bytes_each
    keys = layer.batch * layer.n_kv_heads * n_k * d * bytes_each
    cells = layer.batch * layer.n_heads * n_q * n_k
    table = cells * bytes_each

    middle: tuple[Cost, ...]
    if tile is None:
        middle = (
            Cost("scores", 2 * cells * d, queries + keys, table),
            Cost("weights", PER_CELL * cells, table, table),
            Cost("heads", 2 * cells * d, table + keys, queries),
        )
    else:
        check_size("tile", tile)
        passes = -(-n_q // tile)
        middle = (Cost("attention", (4 * d + PER_CELL) * cells, queries + passes * 2 * keys, queries),)
    return (
        weight_product("q", rows, layer.d_model, wide, bytes_each),
        weight_product("k", rows, layer.d_model, narrow, bytes_each),
        weight_product("v", rows, layer.d_model, narrow, bytes_each),
        *middle,
        weight_product("output", rows, wide, layer.d_model, bytes_each),
    )


def weight_product(name: str, rows: int, width: int, columns: int, bytes_each: int) -> Cost:
    """(rows, width) times a learned matrix (width, columns), which is read once for all rows."""
    read = (rows * width + width * columns) * bytes_each
    return Cost(name, 2 * rows * width * columns, read, rows * columns * bytes_each)


def total(costs: Iterable[Cost], name: str = "total") -> Cost:
    """All lines together, as one."""
    lines = tuple(costs)
    return Cost(
        name,
        sum(line.operations for line in lines),
        sum(line.bytes_read for line in lines),
        sum(line.bytes_written for line in lines),
    )


def intensity(cost: Cost) -> float:
    """Operations per byte; ∞ where no byte is moved, 0 where nothing at all is done."""
    if cost.bytes:
        return cost.operations / cost.bytes
    return inf if cost.operations else 0.0


def bound(cost: Cost, accelerator: Accelerator, numbers: str) -> Literal["arithmetic", "memory"]:
    """Which of the two sets the time of a line."""
    return "arithmetic" if intensity(cost) >= accelerator.ridge(numbers) else "memory"


def seconds(costs: Cost | Iterable[Cost], accelerator: Accelerator, numbers: str) -> float:
    """The least time for a line, or for lines one after the other: the sum of their times."""
    lines = (costs,) if isinstance(costs, Cost) else costs
    peak, bandwidth = accelerator.peak(numbers), GIGA * accelerator.bandwidth
    return sum(max(line.operations / peak, line.bytes / bandwidth) for line in lines)


def table_bytes(layer: Layer, n: int) -> int:
    """The memory of one table of n × n scores for every head and every entry of the batch."""
    check_size("n", n)
    return layer.batch * layer.n_heads * n * n * layer.number_bytes


def square_rules(layer: Layer, of: Literal["operations", "bytes"] = "operations") -> int:
    """The fewest tokens for which the lines with the n × n table take more than the four projections."""

    def more(n: int) -> bool:
        lines = prefill(layer, n)
        inside = total(line for line in lines if line.name in TABLE)
        beside = total(line for line in lines if line.name not in TABLE)
        return bool(getattr(inside, of) > getattr(beside, of))

    if of not in ("operations", "bytes"):
        raise ValueError(f"of is operations or bytes, not {of!r}")
    low, high = 0, 1
    while not more(high) and high < LARGEST_COUNTED:
        low, high = high, min(2 * high, LARGEST_COUNTED)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if more(middle) else (middle, high)
    return high

"""Large and small amounts in words: bytes, seconds and operations, each number by the one formatter."""

from __future__ import annotations

from math import floor, isfinite, log10

from attention_core.numbers import show
from attention_core.written import visible

PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
RAISED = str.maketrans("0123456789−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
WRITTEN_OUT = 100_000  # from here on a whole number is written with a power of ten


def size(count: float) -> str:
    """Bytes in units of a thousand, as bandwidths are given: 96 bytes, 268.44 MB."""
    return f"{show(count)} {'byte' if count == 1 else 'bytes'}" if count < 1000 else _in_units(count, "B")


def duration(seconds: float) -> str:
    """A time: 13.42 µs, 1.07 s."""
    return _in_units(seconds, "s")


def whole(count: float) -> str:
    """A number of operations: 1,536 or 34.36 × 10⁹."""
    if count < WRITTEN_OUT:
        return f"{count:,.0f}" if count == round(count) else show(count)
    power = _power(count)
    return f"{show(count / 10.0**power)} × 10{str(power).translate(RAISED)}"


def share(part: float) -> str:
    """A part of a whole in per cent; a tiny one is said to be less than a hundredth of one."""
    return "less than 0.01 %" if 0 < 100 * part < 0.01 else f"{show(100 * part)} %"


def _in_units(amount: float, unit: str) -> str:
    power = min(max(_power(amount), min(PREFIXES)), max(PREFIXES))
    return f"{visible(amount / 10.0**power, show)} {PREFIXES[power]}{unit}"


def _power(amount: float) -> int:
    """The multiple of three by which an amount is written with one to three digits before the point."""
    return 3 * floor(log10(amount) / 3) if isfinite(amount) and amount > 0 else 0

"""Peak rates of named accelerators, as their makers state them: what a roofline is drawn from.

Rates are in 10¹² operations a second, with a multiply-add counted as 2, bandwidths in 10⁹ bytes a second,
memory in 10⁹ bytes. `half` is the rate of the matrix units on FP16 or BF16 with FP32 sums and without
sparsity; where a data sheet states it with sparsity, half of that is given, as the sheet's footnote says.
`single` is FP32 outside the matrix units. No calculation reaches these rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

TERA, GIGA = 10**12, 10**9


@dataclass(frozen=True)
class Numbers:
    """A type of numbers: its name, and how many bytes one takes."""

    title: str
    bytes: int


NUMBERS = {
    "fp32": Numbers("FP32, 4 bytes", 4),
    "fp16": Numbers("FP16 or BF16, 2 bytes", 2),
}


def number_bytes(numbers: str) -> int:
    """What one number of this type takes. Raises ValueError for what is not a key of NUMBERS."""
    if numbers not in NUMBERS:
        raise ValueError(f"numbers are one of {', '.join(NUMBERS)}, not {numbers!r}")
    return NUMBERS[numbers].bytes


@dataclass(frozen=True)
class Accelerator:
    """What the maker of an accelerator states, or what a reader has entered.

    Raises ValueError where a rate is not a finite number above 0.
    """

    title: str
    half: float  # 10^12 operations a second
    single: float  # 10^12 operations a second
    bandwidth: float  # 10^9 bytes a second
    memory: float  # 10^9 bytes
    source: str
    date: str

    def __post_init__(self) -> None:
        for name in ("half", "single", "bandwidth", "memory"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                raise ValueError(f"{name} has to be a finite number above 0, not {value}")

    def peak(self, numbers: str) -> float:
        """Operations a second on numbers of this type, a key of NUMBERS."""
        return TERA * (self.half if number_bytes(numbers) == 2 else self.single)

    def ridge(self, numbers: str) -> float:
        """The operations per byte from which on arithmetic, not memory, sets the time."""
        return self.peak(numbers) / (GIGA * self.bandwidth)

    def roof(self, numbers: str, intensity: float) -> float:
        """The most operations a second at so many operations per byte."""
        return min(self.peak(numbers), GIGA * self.bandwidth * intensity)


def own(half: float, single: float, bandwidth: float, memory: float) -> Accelerator:
    """A reader's own accelerator, in the units above. Raises ValueError where a rate is not above 0."""
    return Accelerator("Your own", half, single, bandwidth, memory, "entered by the reader", "")


_SHEET = "NVIDIA {} Tensor Core GPU, data sheet"

# fmt: off
ACCELERATORS = {
    "t4": Accelerator(
        "NVIDIA T4", 65.0, 8.1, 300.0, 16.0, _SHEET.format("T4"), "2019"),
    "v100": Accelerator(
        "NVIDIA V100 SXM2", 125.0, 15.7, 900.0, 32.0, _SHEET.format("V100"), "January 2020"),
    "a100": Accelerator(
        "NVIDIA A100 80 GB SXM", 312.0, 19.5, 2039.0, 80.0, _SHEET.format("A100"), "June 2021"),
    "l4": Accelerator(
        "NVIDIA L4", 121.0, 30.3, 300.0, 24.0, _SHEET.format("L4"), "2023"),
    "rtx4090": Accelerator(
        "NVIDIA GeForce RTX 4090", 165.2, 82.6, 1008.0, 24.0,
        "NVIDIA Ada GPU Architecture, white paper", "2023"),
    "h100": Accelerator(
        "NVIDIA H100 SXM", 989.5, 67.0, 3350.0, 80.0, _SHEET.format("H100"), "2024"),
    "h200": Accelerator(
        "NVIDIA H200 SXM", 989.5, 67.0, 4800.0, 141.0, _SHEET.format("H200"), "2024"),
    "mi300x": Accelerator(
        "AMD Instinct MI300X", 1307.4, 163.4, 5300.0, 192.0,
        "AMD Instinct MI300X Accelerator, data sheet", "December 2023"),
}
# fmt: on

"""Colours: one list of roles and steps, for the board, the figures and the paper.

A colour is a role and never the only carrier of meaning. Signed numbers go from orange through
paper to blue in 21 steps centred on 0; weights deepen in one hue in 11 steps from 0 to 1. The steps
are even in OKLCH lightness, but for one leap where neither dark nor light text would keep 4.5:1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

THEMES = ("light", "dark")
STEPS = 10  # colour steps on each side of 0
FAR = 20.0  # a number this many times the typical one is left out of the colour range

ROLES = {
    "light": {
        "x": "#505c6c",
        "q": "#1f53b8",
        "k": "#964c04",
        "v": "#156f41",
        "weights": "#6e34b3",
        "output": "#b10d43",
        "plain": "#414853",
    },
    "dark": {
        "x": "#b1bfd1",
        "q": "#9bbeff",
        "k": "#f9a870",
        "v": "#81d39f",
        "weights": "#c9acff",
        "output": "#ff9eaa",
        "plain": "#c0c8d5",
    },
}

SURFACES = {
    "light": {
        "paper": "#ffffff",
        "raised": "#f5f5f3",
        "line": "#d9d9d5",
        "text": "#1f2328",
        "quiet": "#5b626d",
        "refused": "#b3261e",
        "accent": "#2f5d8a",
    },
    "dark": {
        "paper": "#15181c",
        "raised": "#1e2227",
        "line": "#3a3f46",
        "text": "#e8e6e1",
        "quiet": "#a3abb6",
        "refused": "#ffb4a9",
        "accent": "#8ab4e0",
    },
}

INKS = {"light": ("#101828", "#ffffff"), "dark": ("#0b0f19", "#f5f7fa")}
ZERO = {"light": "#f5f7f9", "dark": "#23272c"}

_BLUE = {
    "light": "d5eafb b8dcfa 9dcdf8 84bdf3 6caeed 579ee6 438edc 2271c3 0e61b6 0151a5",
    "dark": "273446 2c435f 2f5277 326190 3571a7 428cc9 449bdc 47aaee 4ebafe 72c8fe",
}
_ORANGE = {
    "light": "f4e4d0 efd1af eabe90 e3ab74 dc9758 d3843e c97124 ab5503 994700 873a00",
    "dark": "432e23 593825 6f4326 854f26 9a5c26 b87432 c98133 d98f37 e89e3f f5ae4b",
}
_VIOLET = {
    "light": "ebe1fb decef9 d0bbf7 c2a8f2 b396ed a385e5 9474dc 7857c3 6947b6 5a38a8",
    "dark": "343046 443a5f 544578 665090 785ba8 9571c9 a67bdc b886ee c993fe d5a6fe",
}


def _colours(ramp: str) -> list[str]:
    return [f"#{colour}" for colour in ramp.split()]


# by theme; SIGNED[theme][level + 10] for levels −10…10, WEIGHT[theme][level] for levels 0…10
SIGNED = {t: [*reversed(_colours(_ORANGE[t])), ZERO[t], *_colours(_BLUE[t])] for t in THEMES}
WEIGHT = {t: [ZERO[t], *_colours(_VIOLET[t])] for t in THEMES}


def luminance(colour: str) -> float:
    """Relative luminance of "#rrggbb" between 0 and 1, as WCAG 2.2 defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, from 1 to 21 (WCAG 2.2)."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def ink(colour: str, theme: str = "light") -> str:
    """The theme's text colour that reads best on that colour."""
    return max(INKS[theme], key=lambda text: contrast(text, colour))


def level(value: ArrayLike, limit: float) -> NDArray[np.int64]:
    """Colour steps −10…10 of numbers, of the same shape: 0 for 0, ±10 from ±limit on.

    A number other than 0 never takes the colour of 0's other side; NaN takes step 0.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.asarray(value, dtype=np.float64) / limit
    share = np.minimum(np.maximum(share, -1.0), 1.0)
    steps: NDArray[np.int64] = np.rint(np.where(np.isnan(share), 0.0, share) * STEPS).astype(np.int64)
    return steps


def levels(values: ArrayLike, limit: float) -> list[list[int | None]]:
    """(rows, columns) colour steps as the board takes them; None where there is no number: −∞ and NaN."""
    values = np.asarray(values, dtype=np.float64)
    blank = np.isnan(values) | (values == -np.inf)
    if not blank.any():
        plain: list[list[int | None]] = level(values, limit).tolist()
        return plain
    return [
        [None if no else int(step) for step, no in zip(steps, nos, strict=True)]
        for steps, nos in zip(level(values, limit), blank, strict=True)
    ]


def colour_limit(values: ArrayLike) -> float:
    """The limit of a colour range −limit…limit for these numbers.

    It is a round number that takes in every number up to FAR times the typical size (the lower median of
    what is not 0), so that a single huge number leaves the others readable. Matrices to be compared go in
    together. Without a number that is not 0, the limit is 1.
    """
    sizes = np.abs(np.asarray(values, dtype=np.float64).ravel())
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size:
        return 1.0
    sizes.sort()
    typical = sizes[(sizes.size - 1) // 2]
    return _round_up(float(sizes[sizes / FAR <= typical][-1]))


def lie_beyond(values: NDArray[np.float64], limit: float) -> NDArray[np.bool_]:
    """Which numbers lie outside −limit…limit; −∞ has no colour and is not counted, NaN is no number."""
    with np.errstate(invalid="ignore"):
        return (np.abs(values) > limit) & ~np.isneginf(values)


def _round_up(size: float) -> float:
    """The next number of the form 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(size)) if size >= 1e-300 else 1e-300
    rounded = (float(f"{step * power:.3g}") for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10))
    limit = next(limit for limit in rounded if limit >= size)
    return limit if math.isfinite(limit) else size


def plotly_scale(kind: str, theme: str = "light") -> list[list[float | str]]:
    """A Plotly colour scale from the same steps: "signed" from −limit to limit, "weight" from 0 to 1."""
    steps = {"signed": SIGNED, "weight": WEIGHT}[kind][theme]
    return [[i / (len(steps) - 1), colour] for i, colour in enumerate(steps)]


def css_variables(theme: str) -> str:
    """Roles, surfaces and every colour step with its text colour as CSS declarations."""
    named = {f"role-{name}": colour for name, colour in ROLES[theme].items()} | SURFACES[theme]
    for scale, steps in (("signed", SIGNED[theme]), ("weight", WEIGHT[theme])):
        for step, colour in enumerate(steps, start=-STEPS if scale == "signed" else 0):
            name = f"{scale}-{step}".replace("--", "-m")
            named |= {name: colour, f"{name}-ink": ink(colour, theme)}
    return " ".join(f"--{name}: {colour};" for name, colour in named.items())


def css(scope: str) -> str:
    """The style sheet's colours below a selector: [data-theme] chooses, paper is always light.

    A cell with data-level inside a [data-scale] takes the step's colour and text colour.
    """
    light, dark = (css_variables(theme) for theme in THEMES)
    rules = [f"{scope} {{ {light} }}", f"{scope}[data-theme=dark] {{ {dark} }}"]
    rules.append(f"@media print {{ {scope}, {scope}[data-theme=dark] {{ {light} }} }}")
    for scale, first in (("signed", -STEPS), ("weight", 0)):
        for step in range(first, STEPS + 1):
            name = f"{scale}-{step}".replace("--", "-m")
            cell = f'{scope} [data-scale={scale}] [data-level="{step}"]'
            rules.append(f"{cell} {{ --cell: var(--{name}); --ink: var(--{name}-ink); }}")
    return "\n".join(rules)

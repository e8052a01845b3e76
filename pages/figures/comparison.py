"""The values of several runs as one phrase, in the runs' order, each with its ratio to the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from engine.core.format import exact, ratio

SAME = 0.005  # the largest relative difference that is reported as none


def compared(values: Mapping[str, float], text: Callable[[float], str]) -> str:
    """`static 1.24 s, continuous 509 ms (0.410x)`; `text` formats a value."""
    first, *others = values
    parts = [f"{first} {text(values[first])}"]
    return ", ".join(parts + [f"{n} {text(values[n])}{_ratio_text(values[n], values[first])}" for n in others])


def _ratio_text(value: float, base: float) -> str:
    if value == base:
        return " (the same)"
    if base <= 0 or value <= 0 or np.isinf(value) or np.isinf(base):
        return ""
    return f" (within {exact(100 * SAME, '%')})" if abs(value / base - 1) < SAME else f" ({ratio(value / base)})"

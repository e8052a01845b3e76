"""The values of several runs as one phrase: the lowest first, each with its ratio to the lowest."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from engine.core.format import exact, ratio

SAME = 0.005  # the largest relative difference that is reported as none


def compared(values: Mapping[str, float], text: Callable[[float], str]) -> str:
    """`continuous 509 ms, static 1.24 s (2.44x)`; `text` formats a value."""
    lowest, *others = sorted(values, key=lambda name: values[name])
    parts = [f"{lowest} {text(values[lowest])}"]
    return ", ".join(parts + [f"{n} {text(values[n])}{_ratio_text(values[n], values[lowest])}" for n in others])


def _ratio_text(value: float, base: float) -> str:
    if value == base:
        return " (the same)"
    if base <= 0 or np.isinf(value):
        return ""
    return f" (within {exact(100 * SAME, '%')})" if value / base - 1 < SAME else f" ({ratio(value / base)})"

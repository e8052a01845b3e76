"""The contrast of two colors, as WCAG defines it."""

from __future__ import annotations

import numpy as np


def linear_rgb(color: str) -> np.ndarray:
    values = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    """From 1 to 21, for colors as #rrggbb."""
    bright, dim = sorted((float(linear_rgb(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)

"""Requests as colors in the KV pool: in turn by request number, the same in every figure.

There are fewer colors than requests, so a color only separates requests with nearby numbers; hover texts have the
number.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from pages.figures.colors import palette

FREE = 0  # the code of a free block; then the codes of the requests' colors, then those of their pale variants
TINT = 0.32


def color_codes(request_ids: pd.Series, dark: bool) -> np.ndarray:
    """The color code of each request, from 1 on. Consecutive requests differ."""
    return 1 + request_ids.to_numpy(dtype=int) % num_colors(dark)


def num_colors(dark: bool) -> int:
    """The number of colors for requests."""
    return len(palette(dark).requests)


def color_scale(dark: bool, *, with_pale: bool = False) -> list[list[object]]:
    """A color scale of flat steps, one per code: free, the requests and, with `with_pale`, paler ones for unfilled."""
    colors = palette(dark)
    pale = [blended(color, colors.empty, TINT) for color in colors.requests] if with_pale else []
    fills = [colors.empty, *colors.requests, *pale]
    return [[(i + edge) / len(fills), fill] for i, fill in enumerate(fills) for edge in (0, 1)]


def color_scale_range(dark: bool, *, with_pale: bool = False) -> tuple[float, float]:
    """zmin and zmax that put each code in the middle of its step of `color_scale`."""
    return -0.5, num_colors(dark) * (1 + with_pale) + 0.5


def blended(color: str, background: str, share: float) -> str:
    """`share` of a color over a background, both #rrggbb."""
    mixed = share * _channels(color) + (1 - share) * _channels(background)
    return "#" + "".join(f"{round(value):02x}" for value in mixed)


def _channels(color: str) -> np.ndarray:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)], dtype=float)

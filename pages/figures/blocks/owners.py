"""Whose block it is, as a color: requests get the owners' colors in turn, by their number, the same in every figure.

There are fewer colors than requests, so a color tells those apart that came one after another, and no more; the hover
carries the number.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from pages.figures.colors import palette

FREE = 0  # the code of a block that nobody holds; owners' codes follow, then those of their pale variants
TINT = 0.32


def owner_codes(request_ids: pd.Series, dark: bool) -> np.ndarray:
    """The code of each request, from 1 on; requests with neighboring numbers differ."""
    return 1 + request_ids.to_numpy(dtype=int) % num_owners(dark)


def num_owners(dark: bool) -> int:
    """How many owners' colors there are."""
    return len(palette(dark).owners)


def code_colors(dark: bool, *, with_pale: bool = False) -> list[list[object]]:
    """A color scale of flat steps, one a code: free, the owners and, for what they have not filled, paler ones."""
    colors = palette(dark)
    pale = [blended(owner, colors.empty, TINT) for owner in colors.owners] if with_pale else []
    fills = [colors.empty, *colors.owners, *pale]
    return [[(i + edge) / len(fills), fill] for i, fill in enumerate(fills) for edge in (0, 1)]


def code_range(dark: bool, *, with_pale: bool = False) -> tuple[float, float]:
    """zmin and zmax that put each code into the middle of its step of `code_colors`."""
    return -0.5, num_owners(dark) * (1 + with_pale) + 0.5


def blended(color: str, ground: str, share: float) -> str:
    """`share` of a color over a ground, both #rrggbb."""
    mixed = share * _channels(color) + (1 - share) * _channels(ground)
    return "#" + "".join(f"{round(value):02x}" for value in mixed)


def _channels(color: str) -> np.ndarray:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)], dtype=float)

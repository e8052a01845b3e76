"""Whose block it is, as a colour: requests get the owners' colours in turn, by their number, the same in every figure.

There are fewer colours than requests, so a colour tells those apart that came one after another, and no more; the hover
carries the number.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from pages.figures.colours import palette

FREE = 0  # the code of a block that nobody holds; owners' codes follow, then those of their pale variants
TINT = 0.32


def owner_codes(request_ids: pd.Series, dark: bool) -> np.ndarray:
    """The code of each request, from 1 on; requests with neighbouring numbers differ."""
    return 1 + request_ids.to_numpy(dtype=int) % num_owners(dark)


def num_owners(dark: bool) -> int:
    """How many owners' colours there are."""
    return len(palette(dark).owners)


def code_colours(dark: bool, *, with_pale: bool = False) -> list[list[object]]:
    """A colour scale of flat steps, one a code: free, the owners and, for what they have not filled, paler ones."""
    colours = palette(dark)
    pale = [blended(owner, colours.empty, TINT) for owner in colours.owners] if with_pale else []
    fills = [colours.empty, *colours.owners, *pale]
    return [[(i + edge) / len(fills), fill] for i, fill in enumerate(fills) for edge in (0, 1)]


def code_range(dark: bool, *, with_pale: bool = False) -> tuple[float, float]:
    """zmin and zmax that put each code into the middle of its step of `code_colours`."""
    return -0.5, num_owners(dark) * (1 + with_pale) + 0.5


def blended(colour: str, ground: str, share: float) -> str:
    """`share` of a colour over a ground, both #rrggbb."""
    mixed = share * _channels(colour) + (1 - share) * _channels(ground)
    return "#" + "".join(f"{round(value):02x}" for value in mixed)


def _channels(colour: str) -> np.ndarray:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=float)

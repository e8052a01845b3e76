"""How large an experiment may be: how often its points are repeated, and how many runs that makes in all."""

from __future__ import annotations

MAX_REPEATS = 1_000
MAX_POINTS = 2_000


def check_repeats(repeats: int) -> None:
    """ValueError, one clear line, for a number of repeats that cannot be asked for."""
    if not 1 <= repeats <= MAX_REPEATS:
        raise ValueError(f"repeats {repeats}: use 1 to {MAX_REPEATS:,}")


def check_points(what: str, points: int, fewer: str) -> None:
    """ValueError, one clear line, for more `points`, all repeats counted, than an experiment takes.

    `what` is asked for, and begins with the field that is to blame; of `fewer` there have to be fewer.
    """
    if points > MAX_POINTS:
        raise ValueError(f"{what}: {points:,} points; use fewer {fewer} ({MAX_POINTS:,} at most)")

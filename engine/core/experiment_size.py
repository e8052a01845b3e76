"""How large an experiment may be: how often its points are repeated, and how many runs that makes in all."""

from __future__ import annotations

from engine.core.errors import FieldError
from engine.core.option import Bounds, Option

MAX_REPEATS = 1_000
MAX_POINTS = 2_000
REPEATS = Option(
    default=1,
    label="Repeats",
    help="of each run, interleaved",
    flags=("--repeats",),
    takes=Bounds(low=1, high=MAX_REPEATS),
    metavar="N",
    group="measuring",
)


def check_repeats(repeats: int) -> None:
    """ValueError, one clear line, for a number of repeats that cannot be asked for."""
    REPEATS.check(repeats)


def check_points(what: str, points: int, fewer: str) -> None:
    """ValueError, one clear line, for more `points`, all repeats counted, than an experiment takes.

    `what` is asked for, and begins with the kind of experiment; of `fewer` there have to be fewer.
    """
    if points > MAX_POINTS:
        raise FieldError(what.split()[0], f"{what}: {points:,} points; use fewer {fewer} ({MAX_POINTS:,} at most)")

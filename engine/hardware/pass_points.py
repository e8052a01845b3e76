"""From measured passes to points on a roofline: what they computed and read, how fast, and where the bend came.

Passes come added up in bins, as the store hands them over. Everything counted is linear in what is added up, save the
weights, which each pass reads once: the sums here are the sums of the passes. Bytes and FLOP are those of
engine.hardware.roofline, so keys and values count by KV heads and attention by query heads.

It does not know where a chunk of a prompt began: what earlier chunks left in the cache counts neither as read nor as
attended to, so a chunked pass is a little more than is said. Where nobody logged prompt lengths, prompts of one pass
are taken to be equally long, which is the least that they can come to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.passes import PassKind
from engine.hardware.roofline import (
    Ceilings,
    ModelShape,
    PassStats,
    decode_stats,
    intensity_flop_per_byte,
    pass_bytes,
    pass_flop,
)

MAX_BATCH = 1 << 20
NO_GAIN = 0.5  # a pass that grows faster than the square root of its rows has left the flat part of the curve
LEAST_SAMPLES = 3
DOUBLING = 1.8  # sizes that are means of many rows need not be twice each other to the last digit


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPoint:
    """`passes` of one kind and about one shape: their seconds, FLOP and bytes in all, and the median of one."""

    kind: str
    rows: float
    width: float
    passes: int
    seconds: float
    median_s: float
    flop: float
    read_bytes: float

    @property
    def intensity(self) -> float:
        """FLOP a byte."""
        return self.flop / self.read_bytes

    @property
    def flop_per_s(self) -> float:
        return self.flop / self.seconds

    @property
    def bytes_per_s(self) -> float:
        return self.read_bytes / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization:
    """All passes of one kind against a machine's ceilings: MBU and MFU, shares of 1. NaN without ceilings."""

    kind: str
    passes: int
    seconds: float
    median_s: float
    intensity: float
    bytes_per_s: float
    flop_per_s: float
    mbu: float
    mfu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bend:
    """Where more rows stopped being nearly free: between two batch sizes. `growth` is the pass's time, high over low.

    Where it was not reached `high` is None, `low` the largest size that was looked at, and `growth` its time over that
    of the `smallest`.
    """

    smallest: int
    low: int
    high: int | None
    growth: float


def pass_points(bins: Iterable[Mapping[str, Any]], shape: ModelShape) -> tuple[PassPoint, ...]:
    """A point a bin. The columns of a bin are those of store.pass_bins; a bin without seconds is left out."""
    points = []
    for row in bins:
        passes, seconds = int(row["passes"]), float(row["seconds"])
        if not seconds > 0:
            continue
        facts = summed_stats(row)
        points.append(
            PassPoint(
                kind=str(row["kind"]),
                rows=float(row["rows"]) / passes,
                width=float(row["width"]) / passes,
                passes=passes,
                seconds=seconds,
                median_s=float(row["median_s"]),
                flop=float(pass_flop(shape, facts)),
                read_bytes=pass_bytes(shape, facts) + (passes - 1) * shape.weight_bytes,
            )
        )
    return tuple(points)


def summed_stats(row: Mapping[str, Any]) -> PassStats:
    """The facts of a bin's passes, added up. `row` holds sums over the passes, as in store.pass_bins."""
    kind, rows, computed = PassKind(str(row["kind"])), int(row["rows"]), int(row["computed_positions"])
    if kind is PassKind.DECODE:
        decode_rows, read = rows, 0
    else:
        read = int(row["prompt_tokens"]) if kind is PassKind.MIXED else computed
        decode_rows = max(0, min(rows, int(row["tokens"]) - read)) if kind is PassKind.MIXED else 0
    segments = rows - decode_rows + int(row["chunk_rows"])
    return PassStats(
        kind=kind,
        rows=rows,
        decode_rows=decode_rows,
        segments=segments,
        tokens=decode_rows + read,
        kv_positions=computed,
        attention_pairs=computed - read + _read_pairs(row, kind, read, segments),
        width=round(float(row["width"]) / int(row["passes"])),
        masked=bool(row["masked"]),
    )


def _read_pairs(row: Mapping[str, Any], kind: PassKind, read: int, segments: int) -> int:
    """Scores of prompts: a full square a row under a mask, else each row's own triangle."""
    if not read or not segments:
        return 0
    if kind is PassKind.PREFILL and row["masked"]:
        return int(row["row_squares"])
    squares = row["squared_lengths"]
    if kind is PassKind.PREFILL and squares is not None and not math.isnan(squares):
        return (int(squares) + read) // 2
    return round((read * read / segments + read) / 2)


def utilization(points: Sequence[PassPoint], ceilings: Ceilings | None) -> tuple[Utilization, ...]:
    """One a kind of pass that there is, prefill first."""
    found = []
    for kind in PassKind:
        mine = [point for point in points if point.kind == kind]
        if not mine:
            continue
        seconds, flop, read_bytes = (sum(getattr(p, name) for p in mine) for name in ("seconds", "flop", "read_bytes"))
        most = max(mine, key=lambda point: point.passes)
        found.append(
            Utilization(
                kind=str(kind),
                passes=sum(point.passes for point in mine),
                seconds=seconds,
                median_s=_weighted_median([(p.median_s, p.passes) for p in mine]) if len(mine) > 1 else most.median_s,
                intensity=flop / read_bytes,
                bytes_per_s=read_bytes / seconds,
                flop_per_s=flop / seconds,
                mbu=read_bytes / seconds / ceilings.read_bytes_per_s if ceilings else math.nan,
                mfu=flop / seconds / ceilings.flop_per_s if ceilings else math.nan,
            )
        )
    return tuple(found)


def _weighted_median(values: Sequence[tuple[float, int]]) -> float:
    """The least value at or below which half of the weight lies."""
    half, so_far = sum(weight for _, weight in values) / 2, 0
    for value, weight in sorted(values):
        so_far += weight
        if so_far >= half:
            return value
    raise AssertionError("no values")


def predicted_bend(shape: ModelShape, width: int, balance_flop_per_byte: float) -> int | None:
    """The least batch size whose decode pass, `width` columns wide, computes as much a byte as the machine can.

    Over weights alone that is about the balance point; each row's own keys and values push it further out. None where
    they keep it away for good.
    """

    def reaches(rows: int) -> bool:
        return intensity_flop_per_byte(shape, decode_stats(rows, width)) >= balance_flop_per_byte

    if not reaches(MAX_BATCH):
        return None
    low, high = 0, MAX_BATCH  # intensity grows with every row
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def measured_bend(seconds: Mapping[int, float]) -> Bend | None:
    """Where a pass's time began to grow faster than the square root of its rows, from its median seconds by rows.

    Sizes are compared that lie about a doubling apart or more, so that noise between neighbors is no bend. None of
    fewer than two such sizes.
    """
    sizes = _doublings(sorted(size for size, value in seconds.items() if value > 0))
    if len(sizes) < 2:
        return None
    for low, high in zip(sizes[:-1], sizes[1:], strict=True):
        growth = seconds[high] / seconds[low]
        if math.log(growth) > NO_GAIN * math.log(high / low):
            return Bend(smallest=sizes[0], low=low, high=high, growth=growth)
    return Bend(smallest=sizes[0], low=sizes[-1], high=None, growth=seconds[sizes[-1]] / seconds[sizes[0]])


def _doublings(sizes: Sequence[int]) -> list[int]:
    """The largest of the sizes, and below it each about half of the one before or less."""
    kept: list[int] = []
    for size in reversed(sizes):
        if not kept or DOUBLING * size <= kept[-1]:
            kept.append(size)
    return kept[::-1]

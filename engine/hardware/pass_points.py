"""Measured passes as points on a roofline: FLOP, bytes read, rates, and the batch size where the curve bends.

Passes arrive as sums over bins, as the store delivers them. All counts are linear in these sums except the weights,
which each pass reads once. Bytes and FLOP follow engine.hardware.roofline: keys and values count by KV heads,
attention by query heads.

The start of a prompt chunk is unknown: positions cached by earlier chunks count neither as read nor as attended to, so
the true cost of a chunked pass is slightly higher. Without logged prompt lengths, the prompts of a pass are assumed to
be equally long, which gives the lowest possible count.
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
    kv_bytes,
    pass_flop,
)

MAX_BATCH = 1 << 20
NO_GAIN = 0.5  # time that grows faster than the square root of the rows has left the flat part of the curve
LEAST_SAMPLES = 3
DOUBLING = 1.8  # not exactly 2, since sizes are means over many rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPoint:
    """Passes of one kind and about the same shape: total seconds, FLOP and bytes, and the median time of a pass."""

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
        """FLOP per byte."""
        return self.flop / self.read_bytes

    @property
    def flop_per_s(self) -> float:
        return self.flop / self.seconds

    @property
    def bytes_per_s(self) -> float:
        return self.read_bytes / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization:
    """All passes of one kind against a machine's ceilings: MBU and MFU from 0 to 1, NaN without ceilings."""

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
    """The batch sizes between which additional rows stop being nearly free. `growth` is pass time, high / low.

    If no bend was found, `high` is None, `low` is the largest size, and `growth` compares it with the `smallest`.
    """

    smallest: int
    low: int
    high: int | None
    growth: float


def pass_points(bins: Iterable[Mapping[str, Any]], shape: ModelShape) -> tuple[PassPoint, ...]:
    """One point per bin with the columns of the store's pass bins; bins without seconds are left out."""
    points = []
    for row in bins:
        passes, seconds = int(row["passes"]), float(row["seconds"])
        if not seconds > 0:
            continue
        stats = summed_stats(row)
        points.append(
            PassPoint(
                kind=str(row["kind"]),
                rows=float(row["rows"]) / passes,
                width=float(row["width"]) / passes,
                passes=passes,
                seconds=seconds,
                median_s=float(row["median_s"]),
                flop=float(pass_flop(shape, stats)),
                read_bytes=kv_bytes(shape, stats) + passes * shape.weight_bytes_read(stats.tokens / passes),
            )
        )
    return tuple(points)


def summed_stats(row: Mapping[str, Any]) -> PassStats:
    """The stats of a bin's passes, summed up. `row` holds sums over the passes, as in the store's pass bins."""
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
    """Attention scores of prompts: a full square per row under a mask, else each row's own triangle."""
    if not read or not segments:
        return 0
    if kind is PassKind.PREFILL and row["masked"]:
        return int(row["row_squares"])
    squares = row["squared_lengths"]
    if kind is PassKind.PREFILL and squares is not None and not math.isnan(squares):
        return (int(squares) + read) // 2
    return round((read * read / segments + read) / 2)


def utilization(points: Sequence[PassPoint], ceilings: Ceilings | None) -> tuple[Utilization, ...]:
    """One entry per kind of pass, prefill first."""
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
    """The smallest value with at least half of the weight at or below it."""
    half, so_far = sum(weight for _, weight in values) / 2, 0
    for value, weight in sorted(values):
        so_far += weight
        if so_far >= half:
            return value
    raise AssertionError("no values")


def predicted_bend(shape: ModelShape, width: int, balance_flop_per_byte: float) -> int | None:
    """The smallest batch size whose decode pass, `width` columns wide, reaches the machine's balance point.

    The balance point is the ridge of the roofline, in FLOP per byte. With weights only, it needs about as many rows;
    each row's keys and values push the batch size up. None if they keep the intensity below it at any size.
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
    """The batch size from which a pass's time grows faster than the square root of its rows.

    `seconds` is the median time by rows. Only sizes about a factor of two apart are compared, so noise between
    neighbors is not called a bend. None with fewer than two such sizes.
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
    """The largest size, then each time the next one that is about half or less; in rising order."""
    kept: list[int] = []
    for size in reversed(sizes):
        if not kept or DOUBLING * size <= kept[-1]:
            kept.append(size)
    return kept[::-1]

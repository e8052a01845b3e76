"""A load test as one JSON object: one row per engine and rate, capacities, saturation points (`knee`) and ratios."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from engine.load.load_point import LittlesLaw, LoadPoint
from engine.load.load_table import Capacity, LoadRow, LoadTable, SaturationPoint
from engine.workload.arrivals import rate_deviation

Figure = Callable[[LoadPoint], float | None]


def achieved_per_s(point: LoadPoint) -> float | None:
    return point.achieved_per_s


FIGURES: Mapping[str, Figure] = {
    "offered_per_s": lambda point: point.offered_per_s,
    "achieved_per_s": achieved_per_s,
    "output_tokens_per_s": lambda point: point.output_tokens_per_s,
    "queue_wait_p50_s": lambda point: point.queue_wait_p50_s,
    "ttft_p50_s": lambda point: point.ttft_p50_s,
    "ttft_p95_s": lambda point: point.ttft_p95_s,
    "waiting_mean": lambda point: point.waiting_mean,
    "queue_growth_per_s": lambda point: None if point.growth is None else point.growth.slope_per_s,
    "decode_pass_p50_s": lambda point: point.decode_pass_p50_s,
    "window_s": lambda point: None if point.window is None else point.window.length_s,
}


def _good(name: str) -> Figure:
    return lambda point: None if point.goodput is None else getattr(point.goodput, name)


GOODPUT: Mapping[str, Figure] = {
    "goodput_requests_per_s": _good("requests_per_s"),
    "goodput_tokens_per_s": _good("tokens_per_s"),
    "goodput_share": _good("share"),
    "ttft_share": _good("ttft_share"),
    "tpot_share": _good("tpot_share"),
}


def load_report(table: LoadTable) -> dict[str, Any]:
    """`points`, `capacity`, `knee` and `capacity_ratios` by engine, `capacity_ratio` of the last engine to the first.

    Numbers are medians over the completed repeats, named as in FIGURES and GOODPUT; null if missing.
    """
    capacities = {engine: table.capacity(engine) for engine in table.engines}
    saturation = {engine: table.saturation_point(engine) for engine in table.engines}
    ratios = {engine: table.capacity_ratio(engine) for engine in table.engines[1:]}
    last = table.engines[-1] if len(table.engines) > 1 else None
    return {
        "points": [row_report(row) for row in table.rows],
        "capacity": {engine: capacity_report(found) for engine, found in capacities.items()},
        "knee": {engine: saturation_report(found) for engine, found in saturation.items()},
        "capacity_base": table.engines[0] if table.engines else None,
        "capacity_ratios": ratios,
        "capacity_ratio": None if last is None else ratios[last],
    }


def row_report(row: LoadRow) -> dict[str, Any]:
    """One engine at one rate, as a flat object."""
    achieved = row.summary(achieved_per_s)
    middle = row.middle
    return {
        "engine": row.engine,
        "role": row.role,
        "rate_per_s": row.rate_per_s,
        "offered_deviation": rate_deviation(row.rate_per_s, row.median(FIGURES["offered_per_s"])),
        "status": row.status,
        "error": row.error,
        "repeats": len(row.samples),
        "completed": len(row.points),
        "run_ids": [sample.run_id for sample in row.samples],
        "ttft_n": middle and middle.ttft_n,
        **{name: row.median(figure) for name, figure in {**FIGURES, **GOODPUT}.items()},
        "achieved_low_per_s": achieved and achieved.low,
        "achieved_high_per_s": achieved and achieved.high,
        "queue_grows": row.grows,
        "queue_grows_in": sum(row.verdicts),
        "queue_judged_in": len(row.verdicts),
        "little": None if middle is None else little_report(middle.little),
    }


def little_report(little: LittlesLaw | None) -> dict[str, Any] | None:
    if little is None:
        return None
    return asdict(little) | {
        "expected_number": little.expected_number,
        "ratio": little.ratio,
        "holds": little.holds,
    }


def capacity_report(capacity: Capacity | None) -> dict[str, Any] | None:
    if capacity is None:
        return None
    rate = capacity.requests_per_s
    return {
        "requests_per_s": rate.median,
        "low_per_s": rate.low,
        "high_per_s": rate.high,
        "repeats": rate.n,
        "output_tokens_per_s": capacity.tokens_per_s,
        "grows_at_0.9": None if capacity.below is None else capacity.below.grows,
        "grows_at_1.1": None if capacity.above is None else capacity.above.grows,
        "served_at_0.9_per_s": None if capacity.below is None else capacity.below.median(achieved_per_s),
        "served_at_1.1_per_s": None if capacity.above is None else capacity.above.median(achieved_per_s),
        "confirmed": capacity.is_confirmed,
    }


def saturation_report(found: SaturationPoint | None) -> dict[str, Any] | None:
    return None if found is None else {**asdict(found), "wait_ratio": found.wait_ratio}

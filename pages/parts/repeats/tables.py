"""The tables of a repeats experiment: medians and spreads, ratios, each repeat, every run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from engine.experiments.repeats import paired, summary_of, values_of
from pages.figures.repeats.findings import agreement_text
from pages.figures.repeats.measures import MEASURES, RepeatMeasure, times_text
from pages.parts.experiments.description import spread_text
from pages.parts.experiments.tables import attempts_of
from pages.parts.shared.links import compare_link
from pages.parts.shared.tables import csv_text

ENGINE_HEADER = ("metric", "engine", "median", "lowest", "highest", "spread", "n")
RATIO_HEADER = ("metric", "ratio", "median", "lowest", "highest", "agree")
RUN_FIGURES = ("tok/s", "TTFT p50, s", "TTFT p95, s", "TPOT p50, ms", "ITL p99, ms", "duration, s", "dead, %")
CSV_FIRST = ("position", "key", "engine", "repeat", "status", "run_id", "error", "asked_bytes", "free_bytes")

Points = Sequence[Mapping[str, Any]]
Names = Mapping[str, str]


def engine_rows(points: Points, names: Names) -> list[list[str]]:
    """Each metric of each engine over its completed runs, without metrics that no run has."""
    rows = []
    for measure in MEASURES:
        found = {key: summary_of(points, key, measure.name) for key in names}
        known = [key for key in names if found[key] is not None]
        for key in known:
            summary = found[key]
            assert summary is not None
            ends = [measure.text(value) for value in (summary.median, summary.low, summary.high)]
            spread = spread_text(summary.spread)
            title = measure.title if key == known[0] else ""
            rows.append([title, names[key], *ends, spread, str(summary.n)])
    return rows


def ratio_rows(points: Points, names: Names) -> list[list[str]]:
    """The ratios of each other engine to the first, without metrics that have none."""
    base, *others = names
    rows = []
    for measure in MEASURES:
        title = measure.title
        for key in others:
            found = paired(points, key, base, measure.name)
            summary = found.summary
            if summary is not None:
                ends = [times_text(value) for value in (summary.median, summary.low, summary.high)]
                rows.append([title, f"{names[key]} / {names[base]}", *ends, agreement_text(found)])
                title = ""
    return rows


def repeat_table(points: Points, names: Names, measure: RepeatMeasure) -> pd.DataFrame:
    """A row per repeat: each engine's value in the unit of the axis, the ratios to the first, and a link to Compare."""
    values = {key: values_of(points, key, measure.name) for key in names}
    most = max((value for of_key in values.values() for value in of_key.values()), default=0.0)
    factor, unit = measure.axis_scale(most)
    repeats = sorted({int(point["repeat"]) for point in points})
    columns: dict[str, list[Any]] = {"repeat": [repeat + 1 for repeat in repeats]}
    for key, name in names.items():
        columns[f"{name}, {unit}"] = [_scaled(values[key].get(repeat), factor) for repeat in repeats]
    base, *others = names
    for key in others:
        ratios = paired(points, key, base, measure.name).ratios
        columns[f"{names[key]} / {names[base]}"] = [ratios.get(repeat) for repeat in repeats]
    if others:
        columns["compare"] = [_repeat_link(points, repeat) for repeat in repeats]
    return pd.DataFrame(columns)


def _repeat_link(points: Points, repeat: int) -> str | None:
    """The address of Compare with the runs of one repeat, in running order; None for fewer than two."""
    runs = [str(point["run_id"]) for point in points if int(point["repeat"]) == repeat and point["has_run"]]
    return compare_link(runs) if len(runs) > 1 else None


def runs_table(points: pd.DataFrame) -> pd.DataFrame:
    """Every run in running order, with its status and a link."""
    attempts = attempts_of(points)
    return pd.DataFrame(
        {
            "run": attempts.run,
            "engine": points["series"],
            "repeat": attempts.repeat,
            "status": attempts.status,
            "tok/s": points["output_tokens_per_s"],
            "TTFT p50, s": points["ttft_p50_s"],
            "TTFT p95, s": points["ttft_p95_s"],
            "TPOT p50, ms": points["tpot_p50_s"] * 1e3,
            "ITL p99, ms": points["itl_p99_s"] * 1e3,
            "duration, s": points["duration_s"],
            "dead, %": points["dead_fraction"] * 100,
            "error": attempts.error,
        }
    )


def csv_of(points: pd.DataFrame) -> str:
    """All runs and metrics in full precision, in seconds and bytes; `repeat` counts from 0."""
    left_out = {"series", "config", "point_values", "has_run", "live_run_id", "attempts", "ended_at", *CSV_FIRST}
    metrics = [name for name in points if name not in left_out and points[name].notna().any()]
    return csv_text(points[[*CSV_FIRST, *metrics]])


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor

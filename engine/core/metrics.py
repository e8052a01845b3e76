"""Every metric of the lab, defined once: what the store's views, the pages, the command line and the glossary all use.

Per request: how long it waited and how evenly its tokens came (`latency`). Per run: counts, rates and times (`pace`),
the waste ledger (`ledger`), and percentiles of each latency with the number of samples beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.core.latency import Floats, itl, request_metrics
from engine.core.ledger import KV_METRICS, POSITION_METRICS, PREEMPTION_METRICS, SLOT_STEP_METRICS
from engine.core.metric import Level, Metric, RunFacts, RunMetric, Value, percentile, run_facts, share
from engine.core.pace import COUNT_METRICS, RATE_METRICS, TIME_METRICS
from engine.core.record import RunRecord

__all__ = ["METRICS", "RUN_METRICS", "Metric", "RunMetric", "Value", "itl", "request_metrics", "run_metrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A latency that has one sample a request, or one a gap. Its metric is `<key>_s`."""

    key: str
    label: str
    formula: str
    meaning: str
    level: Level
    samples: Callable[[RunFacts], Floats]


LATENCIES = (
    Latency(
        key="queue_wait",
        label="Queue wait",
        formula="admitted_s - arrival_s",
        meaning="From the moment a request meant to arrive until the engine gave it a slot.",
        level="request",
        samples=lambda facts: facts.requests["queue_wait_s"],
    ),
    Latency(
        key="ttft",
        label="Time to first token (TTFT)",
        formula="first delivery - arrival_s",
        meaning="How long a reader looks at an empty answer, the wait in the queue included.",
        level="request",
        samples=lambda facts: facts.requests["ttft_s"],
    ),
    Latency(
        key="itl",
        label="Inter-token latency (ITL)",
        formula="delivery of a token - delivery of the same request's token before it",
        meaning="Every single pause in a growing answer. Not defined for answers that are returned whole.",
        level="gap",
        samples=lambda facts: facts.gap_s,
    ),
    Latency(
        key="tpot",
        label="Time per output token (TPOT)",
        formula="(last delivery - first delivery) / (output_tokens - 1)",
        meaning="A finished answer's average pause. Not defined for a single token, nor for answers returned whole.",
        level="request",
        samples=lambda facts: facts.requests["tpot_s"],
    ),
    Latency(
        key="e2e",
        label="End-to-end latency (E2E)",
        formula="last delivery - arrival_s",
        meaning="From the moment a request meant to arrive until its answer was complete. Finished requests only.",
        level="request",
        samples=lambda facts: facts.requests["e2e_s"],
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """One number of many samples."""

    key: str
    percent: float
    label: str
    meaning: str


STATISTICS = (
    Statistic(key="p50", percent=50, label="median", meaning="half of the samples lie below it"),
    Statistic(key="p95", percent=95, label="95th percentile", meaning="19 of 20 samples lie below it"),
    Statistic(key="p99", percent=99, label="99th percentile", meaning="99 of 100 lie below it; from 100 samples on"),
    Statistic(key="max", percent=100, label="largest", meaning="no sample lies above it"),
)


def _latency_metric(latency: Latency) -> Metric:
    return Metric(
        name=f"{latency.key}_s",
        label=latency.label,
        unit="s",
        formula=latency.formula,
        meaning=latency.meaning,
        level=latency.level,
        better="lower",
    )


def _statistic(latency: Latency, statistic: Statistic) -> RunMetric:
    linear = "" if statistic.percent == 100 else ", linear between samples"
    return RunMetric(
        name=f"{latency.key}_{statistic.key}_s",
        label=f"{latency.label}, {statistic.label}",
        unit="s",
        formula=f"{statistic.label} of {latency.key}_s{linear}",
        meaning=f"{latency.label}: {statistic.meaning}.",
        better="lower",
        function=lambda facts: percentile(latency.samples(facts), statistic.percent),
    )


def _sample_count(latency: Latency) -> RunMetric:
    return RunMetric(
        name=f"{latency.key}_n",
        label=f"{latency.label}, samples",
        unit="samples",
        formula=f"count of measured {latency.key}_s",
        meaning=f"How many samples the percentiles of {latency.label} rest on.",
        better=None,
        function=lambda facts: int(np.count_nonzero(~np.isnan(latency.samples(facts)))),
    )


SAMPLE_METRICS = (
    *(_latency_metric(latency) for latency in LATENCIES),
    Metric(
        name="pass_s",
        label="Pass time",
        unit="s",
        formula="end_s - start_s",
        meaning="How long one run of the model took, until the device had its tokens.",
        level="pass",
        better="lower",
    ),
)


def itl_max_over_p50(facts: RunFacts) -> float | None:
    worst_s, median_s = percentile(facts.gap_s, 100), percentile(facts.gap_s, 50)
    return None if worst_s is None else share(worst_s, median_s)


STALL_METRICS = (
    RunMetric(
        name="itl_max_over_p50",
        label="Worst gap over median gap",
        unit="times",
        formula="itl_max_s / itl_p50_s",
        meaning="How many times the usual pause in an answer the worst one lasted: how far admissions stall others.",
        better="lower",
        function=itl_max_over_p50,
    ),
)

RUN_METRICS: tuple[RunMetric, ...] = (
    *COUNT_METRICS,
    *RATE_METRICS,
    *(
        metric
        for latency in LATENCIES
        for metric in (*(_statistic(latency, statistic) for statistic in STATISTICS), _sample_count(latency))
    ),
    *STALL_METRICS,
    *SLOT_STEP_METRICS,
    *POSITION_METRICS,
    *PREEMPTION_METRICS,
    *TIME_METRICS,
    *KV_METRICS,
)

METRICS: tuple[Metric, ...] = (*SAMPLE_METRICS, *RUN_METRICS)


def run_metrics(record: RunRecord, *, peak_memory_bytes: int | None = None) -> dict[str, Value]:
    """Every metric of the run by its name, in the glossary's order; None where a run has no such value."""
    facts = run_facts(record, peak_memory_bytes)
    return {metric.name: metric.function(facts) for metric in RUN_METRICS}

"""Every metric of the lab, defined once for the store's views, the pages, the command line and the glossary.

Per request: latencies (`latency`). Per run: counts, rates and times (`throughput`), the waste breakdown (`waste`), and
percentiles of each latency with their number of samples.
"""

from __future__ import annotations

from engine.core.record import RunRecord
from engine.metrics.distribution import STATISTICS, Statistic, percentile
from engine.metrics.latency import LATENCIES, Latency
from engine.metrics.metric import MeasuredRun, Metric, RunMetric, Value, measured_run, share
from engine.metrics.throughput import COUNT_METRICS, RATE_METRICS, TIME_METRICS
from engine.metrics.waste import KV_METRICS, POSITION_METRICS, PREEMPTION_METRICS, SLOT_STEP_METRICS

__all__ = ["METRICS", "RUN_METRICS", "Metric", "RunMetric", "Value", "run_metrics"]


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
        function=lambda run: percentile(run.samples[latency.key], statistic.percent),
    )


def _sample_count(latency: Latency) -> RunMetric:
    return RunMetric(
        name=f"{latency.key}_n",
        label=f"{latency.label}, samples",
        unit="samples",
        formula=f"count of measured {latency.key}_s",
        meaning=f"Number of samples behind the percentiles of {latency.label}.",
        better=None,
        function=lambda run: len(run.samples[latency.key]),
    )


SAMPLE_METRICS = (
    *(_latency_metric(latency) for latency in LATENCIES),
    Metric(
        name="pass_s",
        label="Pass time",
        unit="s",
        formula="end_s - start_s",
        meaning="Duration of one forward pass, until the device had its tokens.",
        level="pass",
        better="lower",
    ),
)


def itl_max_over_p50(run: MeasuredRun) -> float | None:
    worst_s, median_s = percentile(run.samples["itl"], 100), percentile(run.samples["itl"], 50)
    return None if worst_s is None else share(worst_s, median_s)


STALL_METRICS = (
    RunMetric(
        name="itl_max_over_p50",
        label="Worst gap over median gap",
        unit="times",
        formula="itl_max_s / itl_p50_s",
        meaning="The worst gap between tokens as a multiple of the median gap: how much admissions stall decode rows.",
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
    """Every metric of the run by name, in the glossary's order; None where the run has no such value."""
    run = measured_run(record, peak_memory_bytes)
    return {metric.name: metric.function(run) for metric in RUN_METRICS}

"""A metric's value as text, by its unit: 52.1 ms, 43.8 %, 2.88 GiB, 312 tokens/s, 2,304 slot-steps."""

from __future__ import annotations

from collections.abc import Mapping

from engine.core.format import MISSING, NO_BREAK_SPACE, count, counted, in_unit, is_missing, quantity
from engine.metrics.distribution import STATISTICS, least_samples
from engine.metrics.metric import Metric, Value
from engine.metrics.metrics import RUN_METRICS

METRIC_BY_NAME = {metric.name: metric for metric in RUN_METRICS}
COUNTED = frozenset({"requests", "tokens", "steps", "passes", "slot-steps", "positions", "samples", "preemptions"})


def value_text(unit: str, value: Value) -> str:
    """Three significant digits with the unit; counts in full: 1.92x, 8 requests."""
    if value is None or is_missing(value):
        return MISSING
    return f"{counted(value)} {unit}" if unit in COUNTED else in_unit(value, unit)


def metric_text(metric: Metric, value: Value) -> str:
    """As value_text, but counts without their unit, because the metric's label names what is counted."""
    if value is None or is_missing(value):
        return MISSING
    if metric.unit in COUNTED:
        return count(value)
    return quantity(value, metric.unit) if metric.unit == "times" else value_text(metric.unit, value)


def value_and_unit(metric: Metric, value: Value) -> tuple[str, str]:
    """The number and the unit apart, for a tile: ("75.3", "tokens/s"), ("4,096", ""), ("–", "")."""
    text, _, unit = metric_text(metric, value).partition(NO_BREAK_SPACE)
    return text, unit


def headline_metric(name: str, *runs: Mapping[str, Value]) -> str:
    """The metric to headline: `itl_p95_s`, or `itl_max_s` where one of the runs has too few samples for the percentile.

    `runs` are the metrics by name of the runs that share the headline.
    """
    latency, _, statistic = name.removesuffix("_s").rpartition("_")
    percent = next((each.percent for each in STATISTICS if each.key == statistic and 50 < each.percent < 100), None)
    if percent is None:
        return name
    samples = [run.get(f"{latency}_n") for run in runs]
    is_supported = all(n is not None and n >= least_samples(percent) for n in samples)
    return name if is_supported else f"{latency}_max_s"

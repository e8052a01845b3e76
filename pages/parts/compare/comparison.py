"""The difference table: each metric of several runs, its ratio to the first run's, and in words which is better.

Which way is good comes from the metric itself. Counts are compared exactly; of measured values, two that are within
TIE_SHARE of each other are called about equal, since a run measured twice differs by as much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.format import MISSING, is_missing, ratio
from engine.metrics.metric import Metric, Value
from pages.parts.runs.compared import METRIC_BY_NAME, Compared
from pages.parts.shared.metric_text import COUNTED, metric_text

TIE_SHARE = 0.02
LEAST_RATIO = 0.001

KEY_METRICS = (
    "output_tokens_per_s",
    "duration_s",
    "queue_wait_p50_s",
    "ttft_p50_s",
    "ttft_p95_s",
    "itl_p50_s",
    "itl_p95_s",
    "itl_max_s",
    "itl_max_over_p50",
    "tpot_p50_s",
    "e2e_p50_s",
    "e2e_p95_s",
    "passes",
    "slot_steps",
    "dead_fraction",
    "computed_positions",
    "padding_fraction",
    "decode_pass_p50_s",
    "prefill_share",
    "preemptions",
    "recomputed_tokens",
    "kv_unused_fraction",
    "kv_fragment_position_s",
    "peak_memory_bytes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """One run's value beside the first run's: `ratio` is this over the first, None where it cannot be had, as
    of a run that did not complete."""

    value: Value
    text: str
    ratio: float | None
    verdict: str

    @property
    def ratio_text(self) -> str:
        if self.ratio is None:
            return MISSING
        if self.ratio == 0:
            return "none"
        return ratio(self.ratio) if self.ratio >= LEAST_RATIO else f"under {LEAST_RATIO}x"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A row of the table: the metric, the first run's value, and the other runs' against it."""

    metric: Metric
    first: Value
    first_text: str
    others: tuple[Against, ...]


def differences(runs: Sequence[Compared], names: Sequence[str] = KEY_METRICS) -> tuple[Difference, ...]:
    """A row for each metric that at least one of the runs has, in the order of `names`."""
    metrics = [METRIC_BY_NAME[name] for name in names]
    rows = [_difference(metric, runs) for metric in metrics]
    return tuple(row for row in rows if not (is_missing(row.first) and all(is_missing(o.value) for o in row.others)))


def _difference(metric: Metric, runs: Sequence[Compared]) -> Difference:
    first, *others = runs
    return Difference(
        metric=metric,
        first=first.metric(metric.name),
        first_text=metric_text(metric, first.metric(metric.name)),
        others=tuple(_against(metric, first, other) for other in others),
    )


def _against(metric: Metric, first: Compared, other: Compared) -> Against:
    base, value = first.metric(metric.name), other.metric(metric.name)
    both_complete = first.is_complete and other.is_complete
    return Against(
        value=value,
        text=metric_text(metric, value),
        ratio=_ratio(base, value) if both_complete else None,
        verdict=verdict(metric, base, value) if both_complete else "",
    )


def _ratio(base: Value, value: Value) -> float | None:
    """None where a value is missing or without bound: infinity is no multiple of anything."""
    if not base or value is None or is_missing(value) or math.isinf(base) or math.isinf(value):
        return None
    return value / base


def verdict(metric: Metric, base: Value, value: Value) -> str:
    """`better`, `worse`, `equal`, `about equal`; empty where a value is missing or neither way is good."""
    if base is None or value is None or is_missing(base) or is_missing(value):
        return ""
    if base == value:
        return "equal"
    if metric.unit not in COUNTED and is_tie(base, value):
        return "about equal"
    if metric.better is None:
        return ""
    return "better" if (value > base) == (metric.better == "higher") else "worse"


def is_tie(a: float, b: float) -> bool:
    """Whether two measured values are within TIE_SHARE of each other; nothing is near what is without bound."""
    if math.isinf(a) or math.isinf(b):
        return a == b
    return abs(a - b) <= TIE_SHARE * max(abs(a), abs(b))

"""The metrics of compared runs: ratios to the first run as tiles and a table, with a verdict.

The metric itself says whether higher or lower is better. Counts are compared exactly; measured values within TIE_SHARE
of each other are about equal, because a second run of the same settings differs by as much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from engine.core.format import MISSING, NO_BREAK_SPACE, count, exact, is_missing, ratio
from engine.metrics.metric import Metric, Value
from engine.metrics.metrics import RUN_METRICS
from pages.parts.compare.compared_run import ComparedRun
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.metric_text import COUNTED, METRIC_BY_NAME, headline_metric, metric_text
from pages.parts.shared.tables import draw_table
from pages.parts.shared.tiles import Tile, draw_tiles

TIE_SHARE = 0.02
LEAST_RATIO = 0.001

RATIOS = {
    "output_tokens_per_s": "Throughput",
    "duration_s": "Duration",
    "ttft_p50_s": "TTFT p50",
    "e2e_p50_s": "E2E p50",
    "itl_p95_s": "ITL p95",
    "slot_steps": "Slot-steps",
}
COUNTS_FIRST = ("passes", "slot_steps", "computed_positions", "output_tokens_per_s", "ttft_p50_s", "e2e_p50_s")
LABELS = RATIOS | {"passes": "Forward passes", "computed_positions": "Computed positions"}

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
class RelativeValue:
    """One run's value and its `ratio` to the first run's: None where a value is missing or a run did not complete."""

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
    """A row of the table: the metric, the first run's value, and the other runs' values relative to it."""

    metric: Metric
    first: Value
    first_text: str
    others: tuple[RelativeValue, ...]


def draw_ratios(runs: Sequence[ComparedRun], *, trusted: bool) -> None:
    """At most six tiles; `ratio_tiles` says which."""
    draw_tiles(ratio_tiles(runs, trusted=trusted))


def ratio_tiles(runs: Sequence[ComparedRun], *, trusted: bool) -> list[Tile]:
    """For two runs the second over the first, for more a tile a run. Where times are not `trusted`, counts come first
    and times have no verdict."""
    if len(runs) > 2:
        metric = METRIC_BY_NAME["output_tokens_per_s" if trusted else "passes"]
        row = _difference(metric, runs)
        return [_run_tile(runs[0].name, metric, row.first_text, "the baseline")] + [
            _run_tile(run.name, metric, other.text, _relation(other, runs[0].name))
            for run, other in zip(runs[1:], row.others, strict=True)
        ]
    metrics = [headline_metric(name, *(run.metrics for run in runs)) for name in (RATIOS if trusted else COUNTS_FIRST)]
    return [_tile(row, runs, trusted) for row in differences(runs, metrics)]


def _relation(other: RelativeValue, first: str) -> str:
    return f"{other.ratio_text} of {first}, {other.verdict}" if other.verdict else f"{other.ratio_text} of {first}"


def _run_tile(name: str, metric: Metric, text: str, note: str) -> Tile:
    value, _, unit = text.partition(NO_BREAK_SPACE)
    return Tile(label=f"{name}, {metric.label.lower()}", value=value, unit=unit, note=note, hint=metric.meaning)


def draw_differences(runs: Sequence[ComparedRun], distrust: str) -> None:
    """The key metrics in a table; every metric in an expander. `distrust` says why the times cannot be trusted."""
    header = difference_header(runs)
    figures = range(1, len(header))
    draw_table(header, difference_rows(differences(runs)), figures=figures)
    incomplete = [run.name for run in runs if not run.is_complete]
    if incomplete:
        st.caption(f"{plain(', '.join(incomplete))} did not complete: nothing is called better or worse.")
    else:
        st.caption(
            f"Each ratio is over {plain(runs[0].name)}. Counts are compared exactly; measured values within "
            f"{exact(TIE_SHARE * 100, '%')} are about equal, because repeated runs differ by as much."
        )
    if distrust:
        st.caption(plain(f"The times cannot be trusted: {distrust}. Counts can."))
    with st.expander("Every metric"):
        every = differences(runs, [metric.name for metric in RUN_METRICS])
        draw_table(header, difference_rows(every), figures=figures)
        st.page_link("pages/glossary.py", label="Metrics in the glossary", icon=":material/dictionary:")


def differences(runs: Sequence[ComparedRun], names: Sequence[str] = KEY_METRICS) -> tuple[Difference, ...]:
    """A row for each metric that at least one of the runs has, in the order of `names`."""
    rows = [_difference(METRIC_BY_NAME[name], runs) for name in names]
    return tuple(row for row in rows if not (is_missing(row.first) and all(is_missing(o.value) for o in row.others)))


def _difference(metric: Metric, runs: Sequence[ComparedRun]) -> Difference:
    first, *others = runs
    return Difference(
        metric=metric,
        first=first.metric(metric.name),
        first_text=metric_text(metric, first.metric(metric.name)),
        others=tuple(_relative(metric, first, other) for other in others),
    )


def _relative(metric: Metric, first: ComparedRun, other: ComparedRun) -> RelativeValue:
    base, value = first.metric(metric.name), other.metric(metric.name)
    both_complete = first.is_complete and other.is_complete
    return RelativeValue(
        value=value,
        text=metric_text(metric, value),
        ratio=_ratio(base, value) if both_complete else None,
        verdict=verdict(metric, base, value) if both_complete else "",
    )


def _ratio(base: Value, value: Value) -> float | None:
    """None where a value is missing, zero as a base, or infinite."""
    if not base or value is None or is_missing(value) or math.isinf(base) or math.isinf(value):
        return None
    return value / base


def verdict(metric: Metric, base: Value, value: Value) -> str:
    """`better`, `worse`, `equal`, `about equal`; empty where a value is missing or neither direction is better."""
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
    """Whether two measured values are within TIE_SHARE of each other; an infinite value ties with infinity only."""
    if math.isinf(a) or math.isinf(b):
        return a == b
    return abs(a - b) <= TIE_SHARE * max(abs(a), abs(b))


def difference_header(runs: Sequence[ComparedRun]) -> list[str]:
    """metric and the first run; then the other run and the ratio, or a column for each of several others."""
    first, *others = runs
    if len(others) == 1:
        return ["metric", first.name, others[0].name, "ratio"]
    return ["metric", first.name, *(other.name for other in others)]


def difference_rows(rows: Sequence[Difference]) -> list[list[str]]:
    """The cells below difference_header."""
    lines = []
    for row in rows:
        verdicts = [" ".join(filter(None, (other.ratio_text, other.verdict))) for other in row.others]
        if len(row.others) == 1:
            others = [row.others[0].text, verdicts[0]]
        else:
            others = [f"{other.text} ({text})" for other, text in zip(row.others, verdicts, strict=True)]
        lines.append([row.metric.label, row.first_text, *others])
    return lines


def _tile(row: Difference, runs: Sequence[ComparedRun], trusted: bool) -> Tile:
    """`TTFT p50 (n = 8)`, the ratio, and the values: better, worse, or not trusted."""
    other, name = row.others[0], row.metric.name
    better = f"{row.metric.better.capitalize()} is better." if row.metric.better else "Neither direction is better."
    verdict = other.verdict if trusted or row.metric.unit in COUNTED else "not trusted"
    latency, _, statistic = name.removesuffix("_s").rpartition("_")
    samples = [run.metric(f"{latency}_n") for run in runs]
    label = LABELS.get(name, f"{latency.upper()} {statistic}")
    if any(n is not None for n in samples):
        label += f" (n = {listed(list(dict.fromkeys(map(count, samples))))})"
    return Tile(
        label=label,
        value=other.ratio_text,
        note=f"{verdict + ': ' if verdict else ''}{_against(other.text, row.first_text)}",
        hint=f"{runs[1].name} over {runs[0].name}. {row.metric.meaning} {better}",
    )


def _against(text: str, first_text: str) -> str:
    """`60.0 against 40.0 tokens/s`: a unit that both have once."""
    (value, _, unit), (_, _, first_unit) = text.partition(NO_BREAK_SPACE), first_text.partition(NO_BREAK_SPACE)
    return f"{value if unit == first_unit else text} against {first_text}"

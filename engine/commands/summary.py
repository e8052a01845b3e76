"""The lines in which `engine run` and `engine simulate` sum up a run: each figure's label and unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.core.config import RunConfig
from engine.core.format import aligned
from engine.core.terminal import table_lines
from engine.workload.arrivals import drawn_rate_text, parse_arrival, rate_deviation

LINES = {
    "decode_step_s": ("decode step", "s"),
    "tokens_per_s_per_request": ("tokens/s per request", "tokens/s"),
    "tokens_per_s": ("tokens/s, total", "tokens/s"),
    "output_tokens": ("output tokens", ""),
    "duration_s": ("duration", "s"),
    "output_tokens_per_s": ("throughput", "tokens/s"),
    "queue_wait_p50_s": ("queue wait p50", "s"),
    "ttft_p50_s": ("TTFT p50", "s"),
    "itl_p50_s": ("ITL p50", "s"),
    "itl_max_s": ("worst gap", "s"),
    "passes": ("passes", ""),
    "useful_slot_steps": ("useful slot-steps", ""),
    "slot_steps": ("slot-steps", ""),
    "dead_fraction": ("dead fraction", "share"),
    "padding_fraction": ("padding fraction", "share"),
}


def requested_rate(config: RunConfig, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The requested rate in requests/s and the deviation of the drawn one, as a share; both null without a rate."""
    asked = parse_arrival(config.workload.arrival).rate
    deviation = rate_deviation(asked, metrics.get("offered_requests_per_s"))
    return {"requested_requests_per_s": asked, "offered_deviation": deviation}


def arrival_lines(report: Mapping[str, Any]) -> list[str]:
    """The requested and the drawn rate, as a line; none if all requests arrive at once."""
    text = drawn_rate_text(report.get("requested_requests_per_s"), report.get("offered_requests_per_s"))
    return [f"  arrivals: {text}"] if text else []


def summary_lines(report: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """A line for each of the figures `names` that the report has, aligned and indented."""
    cells = [[LINES[name][0], aligned(report[name], LINES[name][1])] for name in names if report.get(name) is not None]
    return [f"  {line}" for line in table_lines(cells, "ll")]

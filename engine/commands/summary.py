"""The lines in which `engine run` and `engine simulate` sum up a run: each figure's label and unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.core.format import aligned
from engine.core.terminal import table_lines

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


def summary_lines(report: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """A line for each of the figures `names` that the report has, aligned and indented."""
    cells = [[LINES[name][0], aligned(report[name], LINES[name][1])] for name in names if report.get(name) is not None]
    return [f"  {line}" for line in table_lines(cells, "ll")]

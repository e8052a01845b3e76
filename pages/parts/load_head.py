"""The head of a load test: what was asked, on what, how its points ended, and the button that brings its form back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.config import RunConfig
from engine.core.format import exact, plural
from pages.parts.experiment_head import draw_again, draw_experiment_head, shared_values
from pages.parts.experiment_words import cap_words, how_words
from pages.parts.load_columns import rate_words
from pages.parts.load_data import LoadData
from pages.parts.load_settings import FIELDS
from pages.parts.markdown import listed, plain

MOST_FAILURES = 6
MOST_RATES = 8


def draw_head(data: LoadData) -> None:
    """One line of what and where, what failed, and the way to its form."""
    if data.config is not None:
        draw_experiment_head(load_line(data), data.info, data.points, failure_lines(data))
        draw_again("load", "load test", load_values(data.config, data.settings), FIELDS)


def load_line(data: LoadData) -> str:
    """`static and continuous, smollm2-135m, 4 slots: 48 requests of chat, budget 8-48, poisson at 1, 2, 3 a second`."""
    assert data.config is not None
    config, workload = data.config, data.config.workload
    rates = rates_words(data.rates)
    how = [*how_words(config), plural(config.slots, "slot"), *cap_words(config)]
    who = ", ".join([listed(list(data.table.engines)), config.model, *how])
    what = f"{plural(workload.requests, 'request')} of {workload.prompts}, budget {workload.budget}"
    return f"{who}: {what}, {data.settings.get('law', '')} at {rates} a second, seed {workload.seed}"


def rates_words(rates: Sequence[float]) -> str:
    """`1, 2, 3`; of many, `29 rates from 2 to 58`."""
    if len(rates) > MOST_RATES:
        return f"{len(rates)} rates from {exact(rates[0], digits=4)} to {exact(rates[-1], digits=4)}"
    return ", ".join(exact(rate, digits=4) for rate in rates)


def failure_lines(data: LoadData) -> list[str]:
    """`- static, 2/s: out of memory: …`, the first few."""
    failed = [row for row in data.table.rows if row.status in ("oom", "failed", "crashed")]
    lines = []
    for row in failed[:MOST_FAILURES]:
        status = "out of memory" if row.status == "oom" else row.status
        why = f": {row.error}" if row.error else ""
        lines.append(f"- {plain(f'{row.engine}, {rate_words(row.role, row.rate_per_s)}: {status}{why}')}")
    if len(failed) > MOST_FAILURES:
        lines.append(f"- and {len(failed) - MOST_FAILURES:,} more")
    return lines


def load_values(config: RunConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The form's values for a load test's settings."""
    return shared_values(config, settings) | {
        "engines": ",".join(settings.get("engines") or ()),
        "rates": ",".join(f"{float(rate):g}" for rate in settings.get("rates_per_s") or ()),
        "law": settings.get("law") or "poisson",
        "confirm": "yes" if settings.get("confirm") else "no",
        "ttft_limit_s": settings.get("ttft_limit_s"),
        "tpot_limit_s": settings.get("tpot_limit_s"),
        "requests": config.workload.requests,
        "prompts": config.workload.prompts,
        "slots": config.slots,
    }

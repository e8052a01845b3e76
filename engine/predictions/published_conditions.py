"""Whether an experiment has the settings of a published text, so that their figures can be compared.

Each function takes the experiment's points, as `measure` does, and returns how its settings differ, or None if they are
the same. Machine and model may differ: the texts' ratios apply to any.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.config import RunConfig
from engine.core.request import ExactPrompt
from engine.experiments.experiment import ENDED
from engine.workload.budgets import RangeBudget, parse_budget
from engine.workload.prompts import parse_prompts
from engine.workload.workload import build_workload

LENGTHS = (16, 64, 256, 1024, 4096)  # tokens of the texts' five prompts
LONGEST = LENGTHS[-1]
REQUESTS, SLOTS = 400, 32  # of the texts' load
BUDGET = RangeBudget(low=64, high=256)
BATCH_BUDGET = 256  # new tokens a request of the texts' batches

Rows = Sequence[Mapping[str, Any]]


def uniform_batches(rows: Rows) -> list[Mapping[str, Any]]:
    """The points of a static sweep's grid."""
    grid = [row for row in rows if row["engine"] == "static" and row["role"] == "point"]
    return [row for row in grid if row["prompt_tokens"] is not None and row["batch_size"] is not None]


def unlike_the_sweep(grid: Rows, largest: int) -> str | None:
    """The texts' sweep: their five lengths, each from one row to `largest` or until memory ran out."""
    if not grid:
        return "no static batches of one prompt length"
    if unended := [row for row in grid if row["status"] not in ENDED]:
        return f"{len(unended):,} of its {len(grid):,} static batches have not ended yet"
    by_length = {tokens: [row for row in grid if row["prompt_tokens"] == tokens] for tokens in LENGTHS}
    if missing := [f"{tokens:,}" for tokens, batches in by_length.items() if not batches]:
        return f"no prompts of {_listed(missing)} tokens"
    for tokens, batches in by_length.items():
        done = [row["batch_size"] for row in batches if row["status"] == "completed"]
        if 1 not in done:
            return f"no batch of one at {tokens:,} tokens"
        if max(done) < largest and all(row["status"] != "oom" for row in batches):
            return (
                f"at {tokens:,} tokens it ends at a batch of {max(done):,}, before {largest:,} and before out of memory"
            )
    return None


def unlike_the_budget(grid: Rows) -> str | None:
    """The texts' batches generate 256 tokens a row."""
    budgets = {_config(row).workload.budget for row in grid}
    other = sorted(text for text in budgets if parse_budget(text) != RangeBudget(low=BATCH_BUDGET, high=BATCH_BUDGET))
    return f"a budget of {other[0]}, not {BATCH_BUDGET}" if other else None


def unlike_the_load(rows: Rows, engines: Sequence[str]) -> str | None:
    """The texts' load: 400 requests of their mix for 32 slots, with random arrivals."""
    asked = [row for row in rows if row["engine"] in engines and row["role"] in ("rate", "saturation")]
    if missing := [name for name in engines if all(row["engine"] != name for row in asked)]:
        return f"no points of {_listed(missing)}"
    for row in asked:
        if (difference := _unlike_mix(_config(row))) is not None:
            return difference
        arrival = _config(row).workload.arrival
        if row["role"] == "rate" and not arrival.startswith("poisson"):
            return f"arrivals {arrival}, not poisson"
    return None


def _unlike_mix(config: RunConfig) -> str | None:
    workload = config.workload
    mix = parse_prompts(workload.prompts)
    if sorted(mix.lengths) != list(LENGTHS) or len(set(mix.weights)) > 1:
        return f"prompts {workload.prompts}, not {','.join(f'p{tokens}' for tokens in LENGTHS)}"
    if parse_budget(workload.budget) != BUDGET:
        return f"a budget of {workload.budget}, not {BUDGET.low}-{BUDGET.high}"
    if workload.requests != REQUESTS:
        return f"{workload.requests:,} requests a run, not {REQUESTS}"
    return None if config.slots == SLOTS else f"{config.slots:,} slots, not {SLOTS}"


def unlike_the_spike(rows: Rows, engines: Sequence[str]) -> str | None:
    """The texts' spike: a prompt of 4,096 tokens, the longest, is prefilled while other rows decode."""
    sides = [row for row in rows if row["key"] in engines]
    if missing := [name for name in engines if all(row["key"] != name for row in sides)]:
        return f"no run of {_listed(missing)}"
    configs = [_config(row) for row in sides]
    if len({(config.workload, config.slots) for config in configs}) > 1:
        return "not the same requests and slots for each engine"
    workload, slots = configs[0].workload, configs[0].slots
    mix = parse_prompts(workload.prompts)
    if LONGEST not in mix.lengths or max(mix.lengths) > LONGEST:
        return f"prompts {workload.prompts}, the longest not of {LONGEST:,} tokens"
    specs = build_workload(workload).requests
    later = specs[slots:] if workload.arrival == "closed" else specs[1:]  # the first ones are admitted at once
    lengths = {spec.prompt.tokens for spec in specs if isinstance(spec.prompt, ExactPrompt)}
    if slots < 2 or len(lengths) < 2 or len({spec.budget_tokens for spec in specs}) < 2:
        return "no rows decode while another is admitted: that needs two slots, two prompt lengths and two budgets"
    if not any(isinstance(spec.prompt, ExactPrompt) and spec.prompt.tokens == LONGEST for spec in later):
        return f"no prompt of {LONGEST:,} tokens arrives while others decode"
    return None


def _config(row: Mapping[str, Any]) -> RunConfig:
    """The run's configuration. ValueError if it was not kept or cannot be read."""
    config = row.get("config")
    if not isinstance(config, str):
        raise ValueError("not kept")
    return RunConfig.from_dict(json.loads(config))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]

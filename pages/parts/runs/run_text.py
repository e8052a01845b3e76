"""A run in words: one line to pick it by, and the sentences of its header. Pure text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from engine.core.config import RunConfig
from engine.core.format import count, duration, exact, is_missing, number, plural
from engine.core.presets import PRESETS
from engine.metrics.metric import Value
from engine.validity.machine_checks import BUSY_LOAD, load_of
from pages.parts.runs.comparable import dtype_name
from pages.parts.shared.markdown import plain


def when(created_at: object) -> str:
    """`2026-11-29 14:31:07` in this machine's time zone; what is no time is shown as it is.

    A moment without a zone is in UTC, as the store keeps it.
    """
    if isinstance(created_at, str):
        try:
            created_at = datetime.fromisoformat(created_at)
        except ValueError:
            return created_at
    if not isinstance(created_at, datetime) or pd.isna(created_at):  # NaT is a datetime too
        return "unknown time"
    moment = created_at.to_pydatetime(warn=False) if isinstance(created_at, pd.Timestamp) else created_at
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return zoned.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def choice_label(row: Mapping[str, Any]) -> str:
    """`14:31:07 static, 4 slots, 8 requests, smollm2-135m`: a run in a list of runs, the newest first."""
    parts = [f"{when(row.get('created_at'))}  {row.get('engine')}"]
    for column, noun in (("slots", "slot"), ("requests", "request")):
        value = row.get(column)
        if not is_missing(value):
            parts.append(plural(int(value), noun))
    parts.append(str(row.get("model")))
    if row.get("status") != "completed":
        parts.append(str(row.get("status")))
    return ", ".join(parts)


def engine_line(config: RunConfig) -> str:
    """`Static batching, 4 slots, batches formed from what has arrived`; of a paged engine its blocks and caps."""
    if config.engine == "serial":
        return f"Serial, one request at a time{_how(config)}"
    words = f"{config.engine.capitalize()} batching, {plural(config.slots, 'slot')}"
    if PRESETS[config.engine].has_blocks:
        words += f", blocks of {plural(config.block_size, 'position')}"
    if config.engine == "chunked":
        words += f", at most {plural(config.max_num_batched_tokens, 'token')} a step"
    if config.pool_gib is not None:
        words += f", a KV pool of at most {exact(config.pool_gib, 'GiB')}"
    if config.engine == "static":
        formed = {"arrived": "from what has arrived", "full": "when full"}.get(config.form.rule)
        formed = formed or f"when full or after {duration(config.form.timeout_s)}"
        words += f", batches formed {formed}"
        words += ", returned whole" if config.returns == "whole" else ""
    return words + _how(config)


def _how(config: RunConfig) -> str:
    """How its passes are carried out, where it is not the usual way."""
    graph = ", as CUDA graphs" if config.execution == "graph" else ""
    return graph + (", timed without stops (async)" if config.timing == "async" else "")


def machine_line(info: Mapping[str, Any]) -> str:
    """`smollm2-135m in fp32 on AMD EPYC (cpu, 2 threads)`."""
    model, device = info.get("model") or {}, info.get("device") or {}
    kind, name = str(device.get("kind") or "unknown device"), device.get("name")
    threads = device.get("threads")
    details = [kind] + ([plural(int(threads), "thread")] if threads else [])
    where = f"{name} ({', '.join(details)})" if name and name != kind else kind
    return plain(f"{model.get('name') or 'unknown model'} in {dtype_name(model)} on {where}")


def busy_line(info: Mapping[str, Any]) -> str:
    """A warning where the machine had more to do than this run when it began; empty otherwise."""
    load, cores = load_of(info) or (0.0, 1)
    if not load > BUSY_LOAD * cores:  # as of NaN
        return ""
    return (
        f"The machine was busy when this run began (load {number(load)} on {plural(cores, 'core')}): "
        f"timings may include other processes' work."
    )


def workload_line(info: Mapping[str, Any], metrics: Mapping[str, Value]) -> str:
    """`8 requests (chat, budget 8-48, arrival closed, seed 0): 233 tokens in 4.31 s`."""
    workload = info.get("workload") or {}
    settings = [
        str(workload.get("prompts")),
        *(f"{name} {workload.get(name)}" for name in ("budget", "arrival", "seed")),
    ]
    done = f"{plural(int(metrics.get('output_tokens') or 0), 'new token')}"
    took = metrics.get("duration_s")
    done += f" in {duration(took)}" if took is not None and not is_missing(took) else ""
    requests = workload.get("requests")
    return plain(f"{count(requests)} requests ({', '.join(settings)}): {done}")

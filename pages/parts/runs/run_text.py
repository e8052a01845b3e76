"""A run as text: the line that lists it, the sentences of its header, and its name among other runs. No widgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from engine.core.config import RunConfig
from engine.core.format import count, duration, exact, is_missing, number, plural
from engine.core.presets import PRESETS
from engine.core.units import short_dtype
from engine.metrics.metric import Value
from engine.validity.machine_checks import BUSY_LOAD, load_of
from pages.parts.shared.markdown import plain


def when(created_at: object) -> str:
    """`2026-11-29 14:31:07` in this machine's time zone; a text that is no time is returned as it is.

    A time without a zone is in UTC, as in the store.
    """
    moment = created_at
    if isinstance(created_at, str):
        try:
            moment = datetime.fromisoformat(created_at)
        except ValueError:
            return created_at
    if not isinstance(moment, datetime) or pd.isna(moment):  # NaT is a datetime too
        return "unknown time"
    moment = moment.to_pydatetime(warn=False) if isinstance(moment, pd.Timestamp) else moment
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return zoned.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def choice_label(row: Mapping[str, Any]) -> str:
    """`2026-11-29 14:31:07  static, 4 slots, 8 requests, smollm2-135m`: a run in a list of runs."""
    parts = [f"{when(row.get('created_at'))}  {row.get('engine')}"]
    for column, noun in (("slots", "slot"), ("requests", "request")):
        value = row.get(column)
        if value is not None and not is_missing(value):
            parts.append(plural(int(value), noun))
    parts.append(str(row.get("model")))
    if row.get("status") != "completed":
        parts.append(str(row.get("status")))
    return ", ".join(parts)


def engine_line(config: RunConfig) -> str:
    """`Static batching, 4 slots, batches formed from what has arrived`; with blocks and limits where it has them."""
    if PRESETS[config.engine].slots == 1:
        return f"{config.engine.capitalize()}, one request at a time{_execution(config)}"
    text = f"{config.engine.capitalize()} batching, {plural(config.num_slots, 'slot')}"
    if PRESETS[config.engine].has_blocks:
        text += f", blocks of {plural(config.block_size, 'position')}"
    if PRESETS[config.engine].is_chunked:
        text += f", at most {plural(config.max_num_batched_tokens, 'token')} per step"
    if config.pool_gib is not None:
        text += f", a KV pool of at most {exact(config.pool_gib, 'GiB')}"
    if PRESETS[config.engine].forms_batches:
        formed = {"arrived": "from what has arrived", "full": "when full"}.get(config.form.rule)
        formed = formed or f"when full or after {duration(config.form.timeout_s)}"
        text += f", batches formed {formed}"
        text += ", full response mode" if config.returns == "whole" else ""
    return text + _execution(config)


def _execution(config: RunConfig) -> str:
    """CUDA graphs and async timing, where the run uses them."""
    graph = ", with CUDA graphs" if config.execution == "graph" else ""
    return graph + (", async timing" if config.timing == "async" else "")


def machine_line(info: Mapping[str, Any]) -> str:
    """`smollm2-135m in fp32 on AMD EPYC (cpu, 2 threads)`."""
    model, device = info.get("model") or {}, info.get("device") or {}
    kind, name = str(device.get("kind") or "unknown device"), device.get("name")
    threads = device.get("threads")
    details = [kind] + ([plural(int(threads), "thread")] if threads else [])
    where = f"{name} ({', '.join(details)})" if name and name != kind else kind
    return plain(f"{model.get('name') or 'unknown model'} in {dtype_name(model)} on {where}")


def dtype_name(model: Mapping[str, Any]) -> str:
    """A model's dtype by the name that the command line and Bench use: `fp32`, `bf16`."""
    return short_dtype(str(model.get("dtype") or "unknown"))


def busy_line(info: Mapping[str, Any]) -> str:
    """A warning where other processes kept the machine busy when the run began; else empty."""
    load, cores = load_of(info) or (0.0, 1)
    if not load > BUSY_LOAD * cores:  # a NaN load is not busy
        return ""
    return (
        f"The machine was busy when this run began (load {number(load)} on {plural(cores, 'core')}): "
        f"timings may include other processes' work."
    )


def workload_line(info: Mapping[str, Any], metrics: Mapping[str, Value]) -> str:
    """`8 requests (chat, budget 8-48, arrival closed, seed 0): 233 new tokens in 4.31 s`."""
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


ENDINGS = {
    "running": "is still running",
    "stopped": "was stopped",
    "oom": "ran out of memory",
    "failed": "failed",
    "crashed": "crashed",
}


def ending_text(status: str, finished: int, requests: int) -> str:
    """`ran out of memory after 3 of 8 requests`: the verb phrase of a run that did not complete."""
    text = ENDINGS.get(status, f"ended as {status}")
    return f"{text} after {count(finished)} of {plural(requests, 'request')}"


def run_names(configs: Sequence[RunConfig]) -> tuple[str, ...]:
    """A distinct name for each run: its engine, then the settings in which runs of one engine differ, then a number."""
    names = [config.engine for config in configs]
    for setting_text in _DISTINCTIONS:
        for engine in {name for name in names if names.count(name) > 1}:
            places = [i for i, name in enumerate(names) if name == engine]
            texts = [setting_text(configs[i]) for i in places]
            if len(set(texts)) > 1:
                for i, text in zip(places, texts, strict=True):
                    names[i] += f", {text}"
    return tuple(_numbered(names, i) for i in range(len(names)))


def _numbered(names: Sequence[str], place: int) -> str:
    same = [i for i, name in enumerate(names) if name == names[place]]
    return names[place] if len(same) == 1 else f"{names[place]}, run {same.index(place) + 1}"


_DISTINCTIONS: tuple[Callable[[RunConfig], str], ...] = (
    lambda config: plural(config.num_slots, "slot"),
    lambda config: f"form {config.form}",
    lambda config: "full responses" if config.returns == "whole" else "streamed",
    lambda config: config.execution,
    lambda config: config.timing,
    lambda config: f"blocks of {config.block_size}",
    lambda config: f"{plural(config.max_num_batched_tokens, 'token')} per step",
    lambda config: "pool uncapped" if config.pool_gib is None else f"pool {exact(config.pool_gib, 'GiB')}",
    lambda config: config.model,
    lambda config: config.dtype,
    lambda config: config.device,
    lambda config: f"{plural(config.workload.requests, 'request')}, budget {config.workload.budget}",
    lambda config: config.workload.arrival,
    lambda config: f"temperature {config.sampling.temperature:g}",
    lambda config: f"seed {config.workload.seed}",
)


def flattened(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as one list of names and values: `workload.seed`, 0."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

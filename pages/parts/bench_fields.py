"""The settings of the Bench page: each one's name in the URL, its default, and what a link may give it.

Widgets take their values from the query parameters of the same names. `complaints` finds those that a field cannot
take, so that the page can say which value it did not take, and what it uses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.config import (
    BLOCK_SIZES,
    DEVICES,
    DTYPES,
    ENGINES,
    EXECUTIONS,
    MAX_BATCHED_TOKENS,
    MAX_GIB,
    MAX_REQUESTS,
    MAX_SLOTS,
    RETURNS,
    TIMINGS,
    RunConfig,
)

FORMS = ("arrived", "full", "timeout")
PROMPT_KINDS = ("chat", "lengths", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of a few words."""

    options: tuple[str, ...]
    default: str

    def complaint(self, text: str) -> str | None:
        return None if text in self.options else f"use one of {', '.join(self.options)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number from `low` to `high`; `low` itself is out when `above` is true. A default of None means: not set."""

    low: float
    high: float
    default: float | None
    whole: bool = True
    above: bool = False

    def complaint(self, text: str) -> str | None:
        try:
            value = float(int(text)) if self.whole else float(text)
        except (ValueError, OverflowError):
            value = math.nan
        is_low = value <= self.low if self.above else value < self.low
        if math.isfinite(value) and not is_low and value <= self.high:
            return None
        kind = "a whole number" if self.whole else "a number"
        if self.above:
            return f"use {kind} above {self.low:,.0f}, up to {self.high:,.0f}"
        return f"use {kind} from {self.low:,.0f} to {self.high:,.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Free text. It stays in its field even when it is wrong: the field says what to mend."""

    default: str

    def complaint(self, text: str) -> str | None:
        return None


Field = Choice | Number | Text

MAX_SHOWN = 40  # characters of a link's bad value

FIELDS: dict[str, Field] = {
    "engine": Choice(options=ENGINES, default="continuous"),
    "slots": Number(low=1, high=MAX_SLOTS, default=4),
    "first": Choice(options=ENGINES, default="static"),
    "second": Choice(options=ENGINES, default="continuous"),
    "max_num_batched_tokens": Number(low=1, high=MAX_BATCHED_TOKENS, default=512),
    "block_size": Choice(options=tuple(map(str, BLOCK_SIZES)), default="16"),
    "form": Choice(options=FORMS, default="arrived"),
    "timeout": Number(low=0, high=3600, default=1.0, whole=False, above=True),
    "return": Choice(options=RETURNS, default="stream"),
    "model": Text(default="smollm2-135m"),
    "device": Choice(options=DEVICES, default="auto"),
    "dtype": Choice(options=DTYPES, default="auto"),
    "prompts": Choice(options=PROMPT_KINDS, default="chat"),
    "mix": Text(default="p16,p64"),
    "requests": Number(low=1, high=MAX_REQUESTS, default=8),
    "budget": Text(default="8-48"),
    "arrival": Text(default="closed"),
    "seed": Number(low=0, high=2**32 - 1, default=0),
    "temperature": Number(low=0, high=10, default=0.0, whole=False),
    "top_k": Number(low=0, high=1_000_000, default=0),
    "top_p": Number(low=0, high=1, default=1.0, whole=False, above=True),
    "warmups": Number(low=0, high=100, default=1),
    "repeats": Number(low=1, high=50, default=1),
    "execution": Choice(options=EXECUTIONS, default="eager"),
    "timing": Choice(options=TIMINGS, default="sync"),
    "pool_gib": Number(low=0, high=MAX_GIB, default=None, whole=False, above=True),
    "capacity_gib": Number(low=0, high=MAX_GIB, default=None, whole=False, above=True),
    "gpu_memory_utilization": Number(low=0, high=1, default=0.9, whole=False, above=True),
}


def complaints(query: Mapping[str, str], fields: Mapping[str, Field] = FIELDS) -> list[str]:
    """A line for each value of a link that its field cannot take, with the default that is used instead."""
    lines = []
    for name, field in fields.items():
        why = field.complaint(query[name]) if name in query else None
        if why is not None:
            used = "none" if field.default is None else field.default
            text = query[name] if len(query[name]) <= MAX_SHOWN else f"{query[name][:MAX_SHOWN]}…"
            lines.append(f"{name} {text!r}: {why}; {used} is used instead")
    return lines


def query_of(config: RunConfig) -> dict[str, str]:
    """The query parameters that bring Bench to a run's settings; values at their default are left out.

    A run does not know how often it was asked for: `repeats` are the caller's to add. A file of prompts does not
    travel in a link: the page asks for it again.
    """
    workload, sampling = config.workload, config.sampling
    kind = workload.prompts if workload.prompts in ("chat", "file") else "lengths"
    values: dict[str, Any] = {
        "engine": config.engine,
        "slots": config.slots,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "block_size": str(config.block_size),
        "form": config.form.rule,
        "timeout": config.form.timeout_s,
        "return": config.returns,
        "model": config.model,
        "device": config.device,
        "dtype": config.dtype,
        "prompts": kind,
        "mix": workload.prompts if kind == "lengths" else None,
        "requests": workload.requests,
        "budget": workload.budget,
        "arrival": workload.arrival,
        "seed": workload.seed,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "warmups": config.warmups,
        "execution": config.execution,
        "timing": config.timing,
        "pool_gib": config.pool_gib,
        "capacity_gib": config.capacity_gib,
        "gpu_memory_utilization": config.gpu_memory_utilization,
    }
    return {name: str(v) for name, v in values.items() if v is not None and v != FIELDS[name].default}

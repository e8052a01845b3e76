"""The workload of a configuration, built once, and a budget as text."""

from __future__ import annotations

from functools import lru_cache

from engine.core.config import WorkloadConfig
from engine.core.format import plural
from engine.workload.budgets import CountedBudget, EosBudget, RangeBudget, parse_budget
from engine.workload.workload import Workload, build_workload


@lru_cache(maxsize=32)
def workload_of(config: WorkloadConfig) -> Workload:
    """The workload of a configuration, built once. ValueError as build_workload."""
    return build_workload(config)


def budget_text(text: str) -> str:
    """The number of output tokens per request, as a sentence. ValueError as parse_budget."""
    match parse_budget(text):
        case RangeBudget(low=low, high=high) if low == high:
            return f"Every request gets exactly {plural(low, 'new token')}; an end of sequence is ignored."
        case RangeBudget(low=low, high=high):
            return f"{low:,} to {high:,} new tokens per request, drawn evenly; an end of sequence is ignored."
        case CountedBudget(groups=groups):
            parts = [f"{plural(requests, 'request')} of {plural(tokens, 'token')}" for requests, tokens in groups]
            return f"{', '.join(parts)}, in random order (by the seed)."
        case EosBudget(cap=cap):
            return f"Until the model ends its answer, at most {cap:,} tokens."
        case _:
            return ""

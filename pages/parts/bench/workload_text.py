"""Bench as text: what a field's value means, and what the button will run. No widgets."""

from __future__ import annotations

from engine.core.config import RunConfig
from engine.core.format import duration, number, percent, plural
from engine.workload.arrivals import (
    ClosedArrival,
    ConstantArrival,
    GammaArrival,
    PoissonArrival,
    parse_arrival,
    rate_text,
)
from engine.workload.prompts import parse_prompts
from engine.workload.workload import Workload
from pages.parts.shared.devices import model_on_device
from pages.parts.shared.markdown import plain


def arrival_text(text: str) -> str:
    """The arrivals as a sentence. ValueError as parse_arrival."""
    match parse_arrival(text):
        case ClosedArrival():
            return "All requests arrive at once."
        case ConstantArrival(rate=rate):
            return f"One request every {duration(1 / rate)}."
        case PoissonArrival(rate=rate):
            return f"Random arrivals, {number(rate)} per second on average, as from many independent users."
        case GammaArrival(rate=rate, cv=cv):
            manner = "in bursts" if cv > 1 else "more evenly than Poisson" if cv < 1 else "as Poisson"
            return f"{number(rate)} per second on average, {manner} (coefficient of variation {number(cv)})."
        case _:
            return ""


def drawn_text(workload: Workload | None) -> str:
    """The rate of the drawn arrivals beside the asked one; empty if all requests arrive at once."""
    if workload is None:
        return ""
    text = rate_text(parse_arrival(workload.config.arrival).rate, [spec.arrival_s for spec in workload.requests])
    return f"Rate: {text}." if text else ""


def mix_text(text: str) -> str:
    """A mix of prompt lengths as a sentence. ValueError as parse_prompts."""
    mix = parse_prompts(text)
    total = sum(mix.weights)
    parts = [f"{plural(n, 'token')} {percent(w / total)}" for n, w in zip(mix.lengths, mix.weights, strict=True)]
    return f"Real text cut to exactly: {', '.join(parts)}." if parts else ""


def form_text(form: str, arrival: str) -> str:
    """What the rule for forming a batch does. ValueError as parse_arrival."""
    if isinstance(parse_arrival(arrival), ClosedArrival):
        return "All requests arrive at once: every batch is full, except perhaps the last."
    return {
        "arrived": "When the engine is free, the waiting requests form a batch, up to all slots.",
        "full": "The engine idles until every slot has a request; the last batch may be smaller.",
        "timeout": "The engine idles until every slot has a request or the oldest has waited for the timeout.",
    }[form]


def workload_sentence(config: RunConfig, workload: Workload) -> str:
    """The requests as text: their number, prompts, output tokens and arrival."""
    budgets = [spec.budget_tokens for spec in workload.requests]
    noun = {"chat": "chat question", "file": "prompt"}.get(config.workload.prompts, "request")
    what = plural(len(budgets), noun)
    if config.workload.prompts not in ("chat", "file"):
        what += f" with {_lengths(config)}"
    low, high = min(budgets), max(budgets)
    at_most = "" if all(spec.ignore_eos for spec in workload.requests) else "at most "
    tokens = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    total = f", {at_most}{sum(budgets):,} in total" if len(budgets) > 1 else ""
    sentences = f"{what}, {at_most}{tokens} new tokens each{total}. {arrival_text(config.workload.arrival)}"
    return " ".join(filter(None, (sentences, drawn_text(workload))))


def machine_text(config: RunConfig) -> str:
    """`smollm2-135m in fp32 on cpu, with CUDA graphs`."""
    graphs = ", with CUDA graphs" if config.execution == "graph" else ""
    return f"{plain(model_on_device(config))}{graphs}"


def _lengths(config: RunConfig) -> str:
    mix = parse_prompts(config.workload.prompts)
    if len(mix.lengths) == 1:
        return f"a prompt of exactly {plural(mix.lengths[0], 'token')}"
    lengths = ", ".join(f"{n:,}" for n in mix.lengths[:-1])
    return f"prompts of exactly {lengths} or {mix.lengths[-1]:,} tokens"

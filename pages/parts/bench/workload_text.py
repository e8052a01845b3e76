"""Bench as text: what a field's value means, and what the button will run. No widgets."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.config import RunConfig
from engine.core.format import count, duration, number, percent, plural
from engine.core.presets import PRESETS
from engine.workload.arrivals import ClosedArrival, ConstantArrival, GammaArrival, PoissonArrival, parse_arrival
from engine.workload.prompts import parse_prompts
from engine.workload.workload import Workload
from pages.parts.bench.forecast import Forecast, is_paged
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
    return f"{what}, {at_most}{tokens} new tokens each{total}. {arrival_text(config.workload.arrival)}"


def machine_text(config: RunConfig) -> str:
    """`smollm2-135m in fp32 on cpu, with CUDA graphs`."""
    graphs = ", with CUDA graphs" if config.execution == "graph" else ""
    return f"{plain(model_on_device(config))}{graphs}"


def engine_text(config: RunConfig) -> str:
    """`static batching, 4 slots`; with block size and tokens per step where the engine has them."""
    if config.engine == "serial":
        return "serial, one request at a time"
    text = f"{config.engine} batching, {plural(config.slots, 'slot')}"
    if is_paged(config):
        text += f", blocks of {plural(config.block_size, 'position')}"
    if PRESETS[config.engine].is_chunked:
        text += f", at most {plural(config.max_num_batched_tokens, 'token')} per step"
    return text


def forecast_table(rows: Sequence[tuple[RunConfig, Forecast]]) -> str:
    """A Markdown table with a row per engine; empty where no engine's passes can be counted in advance."""
    known = [(config, plan) for config, plan in rows if plan.passes is not None]
    if not known:
        return ""
    lines = ["| engine | passes | slot-steps | dead |", "|---|--:|--:|--:|"]
    for config, plan in known:
        dead = plan.dead_slot_steps or 0
        dead_share = f"{count(dead)} ({percent(dead / plan.slot_steps)})" if dead and plan.slot_steps else "none"
        passes = f"{count(plan.passes)} = {count(plan.prefill_passes)} + {count(plan.decode_passes)}"
        if PRESETS[config.engine].is_chunked:
            passes += f" + {count(plan.mixed_passes)} mixed"
        lines.append(f"| {config.engine} | {passes} | {count(plan.slot_steps)} | {dead_share} |")
    return "\n".join(lines)


def forecast_text(rows: Sequence[tuple[RunConfig, Forecast]]) -> str:
    """How the table is counted, what it leaves out, and how the numbers of passes compare."""
    known = [(config, plan) for config, plan in rows if plan.passes is not None]
    if not known:
        return _UNKNOWN[rows[0][1].unknown or "arrivals"]
    sentences = [_BASIS[known[0][1].basis]]
    if any(is_paged(config) for config, _ in known):
        sentences.append("Paged runs are counted with a pool that never runs out; preemption adds passes.")
    sentences += [f"{c.engine.capitalize()}: {_UNKNOWN[plan.unknown]}" for c, plan in rows if plan.unknown]
    return " ".join([*sentences, *_passes_compared(known)])


_BASIS = {
    "exact": "Prefill + decode passes, counted by running the real schedulers without the model.",
    "at most": "Prefill + decode passes if every request uses its full budget; an early end needs fewer.",
}
_UNKNOWN = {
    "arrivals": "The number of passes depends on this machine's speed, because requests arrive during the run.",
    "size": "Too many tokens to count the passes in advance.",
    "prompt lengths": "the number of chunks is known only after tokenization.",
}


def _passes_compared(known: Sequence[tuple[RunConfig, Forecast]]) -> list[str]:
    """The most passes against the fewest, for two engines or more."""
    passes = {config.engine: plan.passes for config, plan in known if plan.passes}
    if len(passes) < 2:
        return []
    more, fewer = max(passes, key=lambda name: passes[name]), min(passes, key=lambda name: passes[name])
    if passes[more] == passes[fewer]:
        both = "Both need" if len(passes) == 2 else "All need"
        return [f"{both} the same number of passes."]
    ratio = number(passes[more] / passes[fewer])
    return [f"{more.capitalize()} needs {ratio} times the passes of {fewer}; the time per pass differs too."]


def _lengths(config: RunConfig) -> str:
    mix = parse_prompts(config.workload.prompts)
    if len(mix.lengths) == 1:
        return f"a prompt of exactly {plural(mix.lengths[0], 'token')}"
    lengths = ", ".join(f"{n:,}" for n in mix.lengths[:-1])
    return f"prompts of exactly {lengths} or {mix.lengths[-1]:,} tokens"

"""The Bench page in words: what a field's text means, and what a press of the button will do. Pure text, no widgets."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.config import RunConfig
from engine.core.format import count, duration, number, percent, plural
from engine.workload.arrivals import ClosedArrival, ConstantArrival, GammaArrival, PoissonArrival, parse_arrival
from engine.workload.prompts import parse_prompts
from engine.workload.workload import Workload
from pages.parts.shared.devices import model_on_device
from pages.parts.shared.forecast import Forecast, is_paged
from pages.parts.shared.markdown import plain


def arrival_text(text: str) -> str:
    """What arrivals ask for. ValueError as parse_arrival."""
    match parse_arrival(text):
        case ClosedArrival():
            return "Every request is there at the start."
        case ConstantArrival(rate=rate):
            return f"One request every {duration(1 / rate)}."
        case PoissonArrival(rate=rate):
            return f"At random, {number(rate)} a second on average, as many independent users would come."
        case GammaArrival(rate=rate, cv=cv):
            manner = "in bursts" if cv > 1 else "more evenly than at random" if cv < 1 else "at random"
            return f"{number(rate)} a second on average, {manner} (coefficient of variation {number(cv)})."
        case _:
            return ""


def mix_text(text: str) -> str:
    """What a mix of prompt lengths asks for. ValueError as parse_prompts."""
    mix = parse_prompts(text)
    total = sum(mix.weights)
    parts = [f"{plural(n, 'token')} {percent(w / total)}" for n, w in zip(mix.lengths, mix.weights, strict=True)]
    return f"Real text cut to exactly: {', '.join(parts)}." if parts else ""


def form_text(form: str, arrival: str) -> str:
    """What the rule for forming a batch does, and where it has nothing to do. ValueError as parse_arrival."""
    if isinstance(parse_arrival(arrival), ClosedArrival):
        return "Every request is there at the start: batches are full, except perhaps the last."
    return {
        "arrived": "Whoever waits when the engine is free is taken, up to a full batch.",
        "full": "The engine idles until every slot has a request; the last batch may be smaller.",
        "timeout": "The engine idles until every slot has a request or the oldest has waited that long.",
    }[form]


def workload_sentence(config: RunConfig, workload: Workload) -> str:
    """The requests in one sentence: how many, of what, how long, when."""
    budgets = [spec.budget_tokens for spec in workload.requests]
    noun = {"chat": "chat question", "file": "prompt"}.get(config.workload.prompts, "request")
    what = plural(len(budgets), noun)
    if config.workload.prompts not in ("chat", "file"):
        what += f" with {_lengths(config)}"
    low, high = min(budgets), max(budgets)
    at_most = "" if all(spec.ignore_eos for spec in workload.requests) else "at most "
    tokens = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    total = f", {at_most}{sum(budgets):,} in all" if len(budgets) > 1 else ""
    return f"{what}, {at_most}{tokens} new tokens each{total}. {arrival_text(config.workload.arrival)}"


def machine_text(config: RunConfig) -> str:
    """`smollm2-135m in fp32 on cpu`; with CUDA graphs that too."""
    graphs = ", as CUDA graphs" if config.execution == "graph" else ""
    return f"{plain(model_on_device(config))}{graphs}"


def engine_text(config: RunConfig) -> str:
    """`static batching, 4 slots`; with blocks and tokens a step where the engine has them; `serial` has one slot."""
    if config.engine == "serial":
        return "serial, one request at a time"
    words = f"{config.engine} batching, {plural(config.slots, 'slot')}"
    if is_paged(config):
        words += f", blocks of {plural(config.block_size, 'position')}"
    if config.engine == "chunked":
        words += f", at most {plural(config.max_num_batched_tokens, 'token')} a step"
    return words


def forecast_table(rows: Sequence[tuple[RunConfig, Forecast]]) -> str:
    """A Markdown table, a row an engine; empty when nothing can be known beforehand."""
    known = [(config, plan) for config, plan in rows if plan.passes is not None]
    if not known:
        return ""
    lines = ["| engine | passes | slot-steps | dead |", "|---|--:|--:|--:|"]
    for config, plan in known:
        dead = plan.dead_slot_steps or 0
        dead_share = f"{count(dead)} ({percent(dead / plan.slot_steps)})" if dead and plan.slot_steps else "none"
        passes = f"{count(plan.passes)} = {count(plan.prefill_passes)} + {count(plan.decode_passes)}"
        if config.engine == "chunked":
            passes += f" + {count(plan.mixed_passes)} mixed"
        lines.append(f"| {config.engine} | {passes} | {count(plan.slot_steps)} | {dead_share} |")
    return "\n".join(lines)


def forecast_text(rows: Sequence[tuple[RunConfig, Forecast]]) -> str:
    """What the table rests on, what it leaves out, and what the schedules promise against each other."""
    known = [(config, plan) for config, plan in rows if plan.passes is not None]
    if not known:
        return _UNKNOWN[rows[0][1].unknown or "arrivals"]
    said = [_BASIS[known[0][1].basis]]
    if any(is_paged(config) for config, _ in known):
        said.append("Paged runs are counted as if their pool never ran out; a preemption adds passes.")
    said += [f"{c.engine.capitalize()}: {_UNKNOWN[plan.unknown]}" for c, plan in rows if plan.unknown]
    return " ".join([*said, *_promise(known)])


_BASIS = {
    "exact": "Prefill + decode passes, counted by driving the engines' own schedulers over these requests.",
    "at most": "Prefill + decode passes, counted as if every budget were spent; an early end makes it less.",
}
_UNKNOWN = {
    "arrivals": "How many passes that takes depends on how fast this machine is: requests arrive while it runs.",
    "size": "Too many tokens to walk through beforehand: the run will count its passes.",
    "prompt lengths": "how many chunks these prompts take is known once their words are tokens.",
}


def _promise(known: Sequence[tuple[RunConfig, Forecast]]) -> list[str]:
    """How the most passes compare with the fewest, where there is something to compare."""
    passes = {config.engine: plan.passes for config, plan in known if plan.passes}
    if len(passes) < 2:
        return []
    more, fewer = max(passes, key=lambda name: passes[name]), min(passes, key=lambda name: passes[name])
    if passes[more] == passes[fewer]:
        both = "Both need" if len(passes) == 2 else "All need"
        return [f"{both} the same number of passes here: the schedule alone gives none of them an advantage."]
    ratio = number(passes[more] / passes[fewer])
    return [f"{more.capitalize()} needs {ratio} times the passes of {fewer}; a pass's time will differ too."]


def _lengths(config: RunConfig) -> str:
    mix = parse_prompts(config.workload.prompts)
    if len(mix.lengths) == 1:
        return f"a prompt of exactly {plural(mix.lengths[0], 'token')}"
    lengths = ", ".join(f"{n:,}" for n in mix.lengths[:-1])
    return f"prompts of exactly {lengths} or {mix.lengths[-1]:,} tokens"

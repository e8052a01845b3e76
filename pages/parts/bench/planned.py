"""The planned timelines on Bench: one figure an engine on one axis, the finding, and a table of what the plan costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.format import count, duration, number, percent, plural, size
from engine.core.presets import PRESETS
from engine.core.units import dtype_of
from engine.simulator.machine import THIS, SimulatedMachine, fitting_calibration, simulated_machine
from pages.figures.timeline.timeline import shared_range, slot_timeline
from pages.parts.bench.plan import Plan, num_plannable, plan_of
from pages.parts.runs.badges import SIMULATED
from pages.parts.shared.charts import show_still
from pages.parts.shared.devices import device_of
from pages.parts.shared.lab import is_dark
from pages.parts.shared.machines import calibrations
from pages.parts.shared.markdown import code, plain
from pages.parts.shared.workloads import workload_of

LEAST_PX, MOST_PX, LANE_PX = 104, 260, 18  # of the lanes of one planned timeline, and of one of many lanes

Planned = Sequence[tuple[RunConfig, Plan]]


def draw_planned(configs: Sequence[RunConfig], simulated: SimulatedMachine | None = None) -> None:
    """The plan of each engine, redrawn with every setting; on the GPU that runs are `simulated` on, if any."""
    machines, why_no_times = machines_of(configs) if simulated is None else ([simulated] * len(configs), "")
    most = min(num_plannable(config, workload_of(config.workload)) for config in configs)  # the same for all engines
    plans = [(config, plan_of(config, machine, most)) for config, machine in zip(configs, machines, strict=True)]
    known = [(config, plan) for config, plan in plans if plan.is_known]
    if known:
        st.markdown(f"**{plan_caption(known)}**")
        _draw_timelines(known)
        st.markdown(plan_table(known))
        st.caption(plain_keeping_code(plan_notes(known, why_no_times)))
    for config, plan in plans:
        if plan.problem:
            st.caption(f":material/block: {config.engine.capitalize()} cannot run: {plain(plan.problem)}.")
    if not known and not any(plan.problem for _, plan in plans):
        st.info(
            "Requests arrive during the run, so the schedule depends on pass times. "
            + plain_keeping_code(why_no_times),
            icon=":material/speed:",
        )


def _draw_timelines(known: Planned) -> None:
    unit = known[0][1].unit
    window = shared_range([plan.spans for _, plan in known], unit)
    for config, plan in known:
        figure = slot_timeline(
            plan.spans,
            unit=unit,
            queue=plan.queue,
            x_range=window,
            num_lanes=config.num_slots,
            preemptions=plan.preemptions,
            title=f"{config.engine}, {'simulated' if plan.basis == 'simulated' else 'planned'}",
            most_px=min(MOST_PX, max(LEAST_PX, LANE_PX * config.num_slots)),
            dark=is_dark(),
        )
        show_still(figure, alt=f"Planned slot timeline of {config.engine}", key=f"plan_{config.engine}")


def plan_caption(known: Planned) -> str:
    """`Static needs 87 forward passes, continuous 74 (static 1.18x); 39.1 % of static's slot-steps are dead.`

    Durations where the schedule is in seconds. Of a workload that is too large, what was planned.
    """
    plan = known[0][1]
    in_seconds = plan.unit == "second"
    if in_seconds:
        lengths = {config.engine: float(plan.metrics["duration_s"] or 0.0) for config, plan in known}
        amounts = [duration(length) for length in lengths.values()]
    else:
        lengths = {config.engine: float(plan.num_passes or 0) for config, plan in known}
        first, *rest = lengths.values()
        amounts = [plural(first, "forward pass", "forward passes"), *map(count, rest)]
    names = list(lengths)
    others = "".join(f", {name} {amount}" for name, amount in zip(names[1:], amounts[1:], strict=True))
    verb = "takes" if in_seconds else "needs"
    sentence = f"{names[0].capitalize()} {verb} {amounts[0]}{others}{_ratio_text(lengths)}; {_dead_text(known)}."
    if plan.is_sampled:
        sentence = f"The first {count(plan.requests)} of {plural(plan.of_requests, 'request')}: {sentence}"
    return f"Simulated: {sentence}" if in_seconds else sentence


def _ratio_text(lengths: dict[str, float]) -> str:
    """` (static 1.18x)`: the longest against the shortest."""
    longest, shortest = max(lengths, key=lambda name: lengths[name]), min(lengths, key=lambda name: lengths[name])
    if len(lengths) < 2 or not lengths[shortest]:
        return ""
    if lengths[longest] == lengths[shortest]:
        return " (the same)"
    return f" ({longest} {number(lengths[longest] / lengths[shortest])}x)"


def _dead_text(known: Planned) -> str:
    shares = {config.engine: (plan.dead_slot_steps or 0) / (plan.slot_steps or 1) for config, plan in known}
    dead = [f"{percent(share)} of {engine}'s slot-steps are dead" for engine, share in shares.items() if share]
    return " and ".join(dead) if dead else "no slot-step is dead"


def plan_table(known: Planned) -> str:
    """A Markdown table, a row an engine: passes, dead slot-steps, padding, peak KV, and times where there are any."""
    timed = any(plan.metrics for _, plan in known)
    head = ["engine", "forward passes", "dead slot-steps", "padding", "peak KV"]
    head += ["duration", "output tokens/s", "TTFT p50"] if timed else []
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    for config, plan in known:
        dead, slot_steps = plan.dead_slot_steps or 0, plan.slot_steps or 1
        cells = [
            config.engine,
            _passes_text(config, plan),
            f"{count(dead)} ({percent(dead / slot_steps)})" if dead else "none",
            percent(plan.padding or 0.0) if plan.padding else "none",
            "unknown" if plan.peak_kv_bytes is None else size(plan.peak_kv_bytes),
        ]
        if timed:
            metric = plan.metrics
            cells += (
                [duration(metric["duration_s"]), number(metric["output_tokens_per_s"]), duration(metric["ttft_p50_s"])]
                if metric
                else ["–"] * 3
            )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _passes_text(config: RunConfig, plan: Plan) -> str:
    """`87 = 2 prefill + 85 decode`, with mixed passes where the engine has them."""
    kinds = ["prefill", "decode", *(["mixed"] if PRESETS[config.engine].is_chunked else [])]
    return f"{count(plan.num_passes or 0)} = {' + '.join(f'{count(plan.kind(kind))} {kind}' for kind in kinds)}"


def plan_notes(known: Planned, why_no_times: str) -> str:
    """What the numbers rest on."""
    bases = {plan.basis for _, plan in known}
    sentences = []
    if "simulated" in bases:
        sentences.append("The schedule is simulated, because it depends on pass times.")
    if "estimated" in bases:
        sentences.append("Estimated: prompts count one token per four characters.")
    if "at most" in bases:
        sentences.append("Every budget counts in full; an early EOS shortens the run.")
    if bases == {"exact"}:
        sentences.append("Exact: the engines' own schedulers, without the model.")
    timed = next((plan for _, plan in known if plan.metrics), None)
    if timed is not None:
        sentences.append(f"Times are {SIMULATED.label}: {timed.source}")
    elif why_no_times:
        sentences.append(why_no_times)
    return " ".join(sentences)


def machines_of(configs: Sequence[RunConfig]) -> tuple[list[SimulatedMachine | None], str]:
    """Each engine's machine with calibrated pass times, and why those without one have none."""
    first = configs[0]
    known = [c for c in calibrations() if c.device.partition(":")[0] == device_of(first.device)]
    command = code(f".venv/bin/python -m engine calibrate --model {first.model}")
    if not known:
        return [None] * len(configs), f"No times: this device is not calibrated. {command} measures it."
    machines: list[SimulatedMachine | None] = []
    why = ""
    for config in configs:
        device = device_of(config.device)
        resolved = replace(config, device=device, dtype=dtype_of(config.dtype, device))
        try:
            machines.append(simulated_machine(config, THIS, calibrations=[fitting_calibration(resolved, known)]))
        except ValueError as error:
            machines.append(None)
            why = f"No times of {config.engine}: {_message(error).rstrip('.')}."
    return machines, why


def _message(error: ValueError) -> str:
    """What is wrong, without the option that the command line names."""
    return error.message if isinstance(error, FieldError) else str(error)


def plain_keeping_code(text: str) -> str:
    """Text with Markdown escaped, except commands in backticks."""
    parts = text.split("`")
    return " ".join(f"`{part}`" if place % 2 else plain(part) for place, part in enumerate(parts) if part)

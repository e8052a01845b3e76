"""The planned timelines on Bench, and the measured ones beside them: a row an engine, one axis, and the findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.core.config import RunConfig
from engine.core.errors import FieldError
from engine.core.format import count, duration, number, percent, plural, size
from engine.core.presets import PRESETS
from engine.core.units import dtype_of
from engine.metrics.metric import Value
from engine.simulator.machine import THIS, SimulatedMachine, fitting_calibration, simulated_machine
from pages.figures.timeline.spans import Unit
from pages.figures.timeline.timeline import shared_range, slot_timeline
from pages.parts.bench.calibrate import draw_calibrate
from pages.parts.bench.measured import NOT_AS_PLANNED, MeasuredTimeline, measured, measured_runs, measured_text
from pages.parts.bench.plan import Basis, Plan, num_plannable, plan_of
from pages.parts.bench.seeds import draw_seeds
from pages.parts.runs.badges import SIMULATED
from pages.parts.shared.charts import show_still
from pages.parts.shared.devices import device_of
from pages.parts.shared.lab import is_dark, lab
from pages.parts.shared.links import runs_query
from pages.parts.shared.machines import calibrations
from pages.parts.shared.markdown import plain
from pages.parts.shared.workloads import workload_of

LEAST_PX, MOST_PX, LANE_PX = 104, 260, 18  # of the lanes of one planned timeline, and of one of many lanes
NOT_RUN = "Not run with these settings."
NOT_CALIBRATED = "Calibrate adds seconds and TTFT."
# What a plan rests on: its name, and why.
BASES: dict[Basis, tuple[str, str]] = {
    "exact": ("planned", "Passes and slot-steps are exact: the engines' own schedulers, without the model."),
    "at most": ("planned, at most", "Every budget counts in full; an early EOS shortens the run."),
    "estimated": ("estimated", "Estimated: prompts count one token per four characters."),
    "simulated": ("simulated", "The schedule is simulated, because it depends on pass times."),
}

Planned = Sequence[tuple[RunConfig, Plan]]


def draw_planned(
    configs: Sequence[RunConfig], others: Sequence[RunConfig] = (), simulated: SimulatedMachine | None = None
) -> None:
    """The plan of each engine, redrawn with every setting, and the measured timeline beside it.

    Of `others`, the same settings with other engines, those that have a measured run. `simulated` is the GPU that runs
    are simulated on, if any.
    """
    runs = measured_runs((*configs, *others))
    engines = {config.engine for config in configs}
    also = {config.engine: config for config in others if config.engine in runs and config.engine not in engines}
    configs = (*configs, *also.values())
    machines, why_no_times = machines_of(configs) if simulated is None else ([simulated] * len(configs), "")
    most = min(num_plannable(config, workload_of(config.workload)) for config in configs)  # the same for all engines
    plans = [(config, plan_of(config, machine, most)) for config, machine in zip(configs, machines, strict=True)]
    known = [(config, plan) for config, plan in plans if plan.is_known]
    unit = known[0][1].unit if known else "second"
    done = {engine: measured(str(lab().home), run.run_id, unit) for engine, run in runs.items()}
    if known:
        st.markdown(f"**{plan_caption(known)}**", help=plain_keeping_code(plan_notes(known, why_no_times)))
        draw_seeds(known)
    _draw_result(known, done)
    if known or done:
        _draw_timelines(plans, done, unit)
    if simulated is None and not any(plan.problem for _, plan in plans):
        draw_calibrate(configs, has_times=not why_no_times)
    if known:
        with st.expander("Details", icon=":material/table:"):
            st.markdown(plan_table(known))
            st.caption(plain_keeping_code(plan_notes(known, why_no_times)))
    for config, plan in plans:
        if plan.problem:
            st.caption(f":material/block: {config.engine.capitalize()} cannot run: {plain(plan.problem)}.")
    if not known and not any(plan.problem for _, plan in plans):
        st.info(
            "Requests arrive during the run, so the plan needs pass times. " + plain_keeping_code(why_no_times),
            icon=":material/speed:",
        )


def _draw_result(known: Planned, done: Mapping[str, MeasuredTimeline]) -> None:
    """The finding of the measured runs, and where to see all of them."""
    if not done:
        return
    text = measured_text(known, done)
    icon = ":orange[:material/error:]" if text.startswith(NOT_AS_PLANNED) else ":green[:material/check_circle:]"
    st.markdown(f"{icon} **{plain(text)}**")
    run_ids = [run.run_id for run in done.values()]
    with st.container(horizontal=True):
        if len(run_ids) > 1:
            st.page_link(
                "pages/compare.py",
                label="Open the comparison",
                icon=":material/compare_arrows:",
                query_params=runs_query(run_ids),
            )
        for engine, run in done.items():
            st.page_link(
                "pages/run.py",
                label=f"Open the {engine} run",
                icon=":material/view_timeline:",
                query_params={"run_id": run.run_id},
            )


def _draw_timelines(plans: Planned, done: Mapping[str, MeasuredTimeline], unit: Unit) -> None:
    """A row an engine: the planned timeline, and the measured one beside it as soon as one engine has run."""
    drawn = [plan.spans for _, plan in plans if plan.is_known] + [run.spans for run in done.values()]
    window = shared_range(drawn, unit)
    for config, plan in plans:
        run = done.get(config.engine)
        if not plan.is_known and run is None:
            continue
        height_px = min(MOST_PX, max(LEAST_PX, LANE_PX * config.num_slots))
        shared: dict[str, Any] = {"unit": unit, "x_range": window, "num_lanes": config.num_slots, "dark": is_dark()}
        shared["most_px"] = height_px
        places = iter(_columns(2 if done and plan.is_known else 1))
        if plan.is_known:
            with next(places):
                st.markdown(f":small[{plan_line(config, plan)}]")
                figure = slot_timeline(plan.spans, queue=plan.queue, preemptions=plan.preemptions, **shared)
                show_still(figure, alt=f"Planned slot timeline of {config.engine}", key=f"plan_{config.engine}")
        if done:
            with next(places):
                _draw_measured(config.engine, run, shared)


def _columns(number_of: int) -> Sequence[DeltaGenerator]:
    """Aligned at the bottom: the figures are equally high, the lines above them may wrap."""
    return st.columns(number_of, gap="small", vertical_alignment="bottom")


def _draw_measured(engine: str, run: MeasuredTimeline | None, shared: Mapping[str, Any]) -> None:
    if run is None:
        st.markdown(f":small[**{engine}**, measured: –]")
        show_still(
            slot_timeline(pd.DataFrame(), queue=pd.DataFrame(), note=NOT_RUN, **shared),
            alt=f"No measured slot timeline of {engine}",
            key=f"measured_{engine}",
        )
        return
    st.markdown(f":small[{measured_line(engine, run)}]")
    figure = slot_timeline(run.spans, queue=run.queue, preemptions=run.preemptions, **shared)
    show_still(figure, alt=f"Measured slot timeline of {engine}", key=f"measured_{engine}")


def plan_line(config: RunConfig, plan: Plan) -> str:
    """`static, planned: 87 passes · 39.1 % dead · 2.27 % padding · 15.1 MiB KV`, with times where there are any."""
    parts = [plural(plan.num_passes or 0, "pass", "passes")]
    parts.append(f"{percent((plan.dead_slot_steps or 0) / (plan.slot_steps or 1))} dead")
    parts.append(f"{percent(plan.padding or 0.0)} padding")
    if plan.peak_kv_bytes is not None:
        parts.append(f"{size(plan.peak_kv_bytes)} KV")
    if plan.metrics:
        parts += _times(plan.metrics["duration_s"], plan.metrics["ttft_p50_s"], about="about ")
    return f"**{config.engine}**, {BASES[plan.basis][0]}: {' · '.join(parts)}"


def measured_line(engine: str, run: MeasuredTimeline) -> str:
    """`static, measured: 87 passes · 9.81 s · TTFT 412 ms`."""
    parts = [plural(run.num_passes, "pass", "passes"), *_times(run.duration_s, run.ttft_p50_s)]
    return f"**{engine}**, measured: {' · '.join(parts)}"


def _times(duration_s: Value, ttft_s: Value, about: str = "") -> list[str]:
    return [f"{about}{duration(duration_s)}", f"TTFT {duration(ttft_s)}"]


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
    sentences = [BASES[basis][1] for basis in ("simulated", "estimated", "at most") if basis in bases]
    if bases == {"exact"}:
        sentences.append(BASES["exact"][1])
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
    if not known:
        return [None] * len(configs), NOT_CALIBRATED
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

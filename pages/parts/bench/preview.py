"""The simulator's own answer for what Bench is set to, before anything runs: duration, throughput, waits.

From the newest calibration of the device that a run would use, with the model that is set; without one there is nothing
but the way to get one. Answers are kept, and a workload that would take the simulator more than a moment is not tried:
a page that thinks for seconds would be worse than none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import streamlit as st

from engine.core.config import RunConfig
from engine.core.dtypes import dtype_of
from engine.core.format import duration, number, plural
from engine.core.presets import PRESETS
from engine.experiments.repeats import plan_repeats
from engine.hardware.calibration import Calibration
from engine.metrics.metric import Value
from engine.metrics.metrics import run_metrics
from engine.simulator.machine import THIS, fitting_calibration, simulated_machine
from engine.simulator.simulator import estimated_tokens, simulate
from engine.workload.workload import Workload
from pages.parts.bench.settings import Settings
from pages.parts.experiments.choice import EXPERIMENT
from pages.parts.experiments.estimate import Pace, basis_text, duration_text, known_pace
from pages.parts.experiments.form import NO_ID, named, submit
from pages.parts.predictions.form import Draft, PredictionForm
from pages.parts.runs.badges import SIMULATED
from pages.parts.shared.devices import device_of
from pages.parts.shared.machines import calibrations
from pages.parts.shared.markdown import code, listed, plain
from pages.parts.shared.workloads import workload_of

ENOUGH_S = 0.25  # of the simulator's own time, all engines together, on a laptop's core
TOKEN_S, SERIAL_TOKEN_S, REQUEST_S, CHUNK_S, BLOCK_S = 2.5e-6, 9e-6, 4e-4, 6e-5, 2e-6  # as measured, rounded up
PREFIX = "hardware this: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """`metrics` by their glossary names; empty where `problem` says why there are none. `source`: the calibration."""

    metrics: dict[str, Value]
    source: str = ""
    problem: str = ""


def draw_preview(configs: Sequence[RunConfig]) -> None:
    """A small table, an engine a line, marked as simulated; or one line that says why there is none."""
    known = [c for c in calibrations() if c.device.partition(":")[0] == device_of(configs[0].device)]
    if problem := _why_not(configs, known):
        st.caption(f":material/function: {problem}")
        return
    previews = [(config, preview(config, _fitting(config, known))) for config in configs]
    answered = [(config, found) for config, found in previews if found.metrics]
    if answered:
        st.markdown(f"**:violet-badge[:material/function: {SIMULATED.label}] What the simulator expects**")
        st.markdown(preview_table(answered))
        st.caption(f"{plain(answered[0][1].source)} {_basis(configs[0])}")
    problems = {config.engine: found.problem for config, found in previews if found.problem}
    for problem in dict.fromkeys(problems.values()):
        mine = [engine for engine, its in problems.items() if its == problem]
        st.caption(f":material/function: No preview of {listed(mine)}: {_as_written(problem)}.")


def preview_table(rows: Sequence[tuple[RunConfig, Preview]]) -> str:
    """A Markdown table of duration, output tokens/s, and the medians of TTFT and queue wait."""
    lines = ["| engine | duration | output tokens/s | first token, p50 | queue, p50 |", "|---|--:|--:|--:|--:|"]
    for config, found in rows:
        metric = found.metrics
        cells = (
            duration(metric["duration_s"]),
            number(metric["output_tokens_per_s"]),
            duration(metric["ttft_p50_s"]),
            duration(metric["queue_wait_p50_s"]),
        )
        lines.append(f"| {config.engine} | {' | '.join(cells)} |")
    return "\n".join(lines)


@lru_cache(maxsize=128)
def preview(config: RunConfig, calibration_text: str) -> Preview:
    """One engine under the virtual clock, on the machine of a calibration, given as JSON."""
    known = Calibration.from_json(calibration_text)
    try:
        machine = simulated_machine(config, THIS, calibrations=[known])
        simulated = simulate(config, workload_of(config.workload), machine.cost, machine.shape)
    except ValueError as error:
        return Preview(metrics={}, problem=str(error).removeprefix(PREFIX))
    if simulated.shortage is not None:
        return Preview(metrics={}, problem=f"it would run out of memory ({simulated.shortage})")
    return Preview(metrics=run_metrics(simulated.record()), source=machine.source)


def simulating_s(config: RunConfig, workload: Workload) -> float:
    """About how long simulating takes by itself, without doing it."""
    if len(workload.requests) * REQUEST_S > ENOUGH_S:
        return math.inf
    tokens = sum(spec.budget_tokens for spec in workload.requests)
    prompts = sum(estimated_tokens(spec.prompt) for spec in workload.requests)
    took_s = len(workload.requests) * REQUEST_S
    took_s += tokens * (SERIAL_TOKEN_S if config.engine == "serial" else TOKEN_S)
    if PRESETS[config.engine].has_blocks:
        took_s += (prompts + tokens) / config.block_size * BLOCK_S
    if config.engine == "chunked":
        took_s += prompts / config.max_num_batched_tokens * CHUNK_S
    return took_s


def _why_not(configs: Sequence[RunConfig], known: Sequence[Calibration]) -> str:
    """One line where no engine can be previewed; empty where one may."""
    first = configs[0]
    if not known:
        return (
            "No preview: this device was not calibrated. "
            f"{code(f'.venv/bin/python -m engine calibrate --model {first.model}')} measures it, and the simulator "
            "answers here from then on."
        )
    if sum(simulating_s(config, workload_of(config.workload)) for config in configs) > ENOUGH_S:
        return (
            "No preview: so many requests and tokens would keep this page waiting. `.venv/bin/python -m engine "
            "simulate` takes any number."
        )
    return ""


def _fitting(config: RunConfig, known: Sequence[Calibration]) -> str:
    """The calibration that the simulator would take, as JSON."""
    device = device_of(config.device)
    resolved = replace(config, device=device, dtype=dtype_of(config.dtype, device))
    return fitting_calibration(resolved, known).to_json()


def _basis(config: RunConfig) -> str:
    workload = workload_of(config.workload)
    spent = all(spec.ignore_eos for spec in workload.requests)
    exact = config.workload.prompts not in ("chat", "file")
    said = ["Nothing ran: the engine's own schedule under a virtual clock, passes as long as calibrated ones."]
    said += [] if spent else ["As if every budget were spent; an early end makes it less."]
    said += [] if exact else ["Prompts are taken to have a token for every four characters."]
    return " ".join(said)


def _as_written(problem: str) -> str:
    """Foreign text made plain, save what it sets in backticks: a command to copy."""
    parts = problem.rstrip(".").split("`")
    return "`".join(part if place % 2 else plain(part) for place, part in enumerate(parts))


# Repeats on Bench: how many runs each button then starts, about how long that takes, and the start of them.

Runs = Sequence[RunConfig]


def draw_repeats(settings: Settings) -> None:
    """What the buttons come to where each engine is run more than once; nothing where it is not."""
    config = settings.config
    if config is None or settings.repeats < 2:
        return
    device = device_of(config.device)
    pace = known_pace(config.model, dtype_of(config.dtype, device), device, config.execution)
    st.markdown(plain(runs_text(settings, pace)))
    runs = [config, *(settings.pair or ()), *(settings.layouts or ())]
    st.caption(plain(basis_text(runs, pace, "Times")))


def runs_text(settings: Settings, pace: Pace | None) -> str:
    """`3 times, all engines once and then all again: 3 runs of continuous (about 20 s), 6 of the pair (about 40 s).`"""
    assert settings.config is not None
    choices = (
        (settings.config.engine, (settings.config,)),
        ("the pair", settings.pair),
        ("the four layouts", settings.layouts),
    )
    said = []
    for name, runs in choices:
        if runs is not None:
            count = plural(len(runs) * settings.repeats, "run") if not said else f"{len(runs) * settings.repeats:,}"
            said.append(f"{count} of {name}{_about(runs, settings.repeats, pace)}")
    return f"{settings.repeats:,} times, all engines once and then all again: {listed(said)}."


def start_repeats(runs: Runs, repeats: int, form: PredictionForm, drafts: Sequence[Draft]) -> None:
    """Write down what is expected, queue the experiment, and go to the page that follows it."""
    plan = named(plan_repeats(runs, experiment_id=NO_ID, created_at="", repeats=repeats))
    if submit(plan, form, drafts):
        st.switch_page("pages/repeats.py", query_params={EXPERIMENT: plan.experiment_id})


def _about(runs: Runs, repeats: int, pace: Pace | None) -> str:
    if pace is None:
        return ""
    return f" (about {duration_text(repeats * sum(_run_s(pace, config) for config in runs))})"


def _run_s(pace: Pace, config: RunConfig) -> float:
    """No run is over before its last request has arrived."""
    last_s = max((spec.arrival_s for spec in workload_of(config.workload).requests), default=0.0)
    return max(pace.run_s(config), last_s)

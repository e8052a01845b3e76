"""The Bench page: settings, the forecast of a run, the run buttons, and the live view of what runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.core.config import RunConfig
from engine.launcher.job import JobKind
from engine.predictions.questions import Choice, of_engines
from engine.simulator.machine import SimulationTarget
from pages.parts.bench.controls import draw_controls
from pages.parts.bench.fleet import draw_fleet
from pages.parts.bench.hardware import Hardware, draw_hardware
from pages.parts.bench.instrument import draw_choices, draw_sliders, take_mix
from pages.parts.bench.live import show_live
from pages.parts.bench.measured import is_read
from pages.parts.bench.planned import draw_planned
from pages.parts.bench.profiles import draw_profile_source, draw_profiles
from pages.parts.bench.repeats import draw_repeats, start_repeats
from pages.parts.bench.scenarios import draw_scenarios
from pages.parts.bench.settings import COMPARISONS, BenchSettings
from pages.parts.bench.workload_text import machine_text, workload_sentence
from pages.parts.predictions.form import PredictionForm, add_predictions
from pages.parts.predictions.section import draw_predictions, subject_of_job
from pages.parts.shared.entry_guard import entry_guard
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.machine_fit import memory_warning
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.page_state import JOB, follow_job, followed_job, forget_job, is_asked, note, noted
from pages.parts.shared.share import draw_vllm_popover
from pages.parts.shared.widgets import draw_complaints

Runs = tuple[RunConfig, ...]
FORM = PredictionForm("bench")
FINISHED = "bench.finished_job"
WHAT_IT_IS = "Turn a setting: the plan redraws. Run it: the measured timeline lies beside the planned one."


def render() -> None:
    """The live view of a followed job; sliders beside the buttons and the planned timelines; all settings, folded.

    When a job has completed, its measured timelines are beside the planned ones.
    """
    take_mix()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title("Bench", anchor=False, width="content")
        draw_scenarios()
        draw_profiles()
    st.caption(WHAT_IT_IS)
    draw_complaints(also=(JOB,))
    _warm_the_worker()
    above = st.container()
    left, right = st.columns([1, 2.4], gap="medium")
    below = st.container()
    with left:
        hardware = draw_hardware()
        values = hardware.values | draw_choices()
        sliders = st.container()
    with st.expander("All settings", icon=":material/tune:"):
        settings = hardware.checked(draw_controls(values))
    with sliders:
        draw_sliders(values, settings)
    job_id = _followed(settings)
    with right:
        _draw_buttons(settings, hardware)
        _draw_plan(settings, hardware, values)
        FORM.draw(_choices(settings))
    with above if job_id else below:  # a followed job comes before the plan, the queue after it
        show_live(job_id)
        job = lab().queue.job(job_id or noted(FINISHED) or "")
        if job is not None:
            draw_predictions(subject_of_job(job))


def _followed(settings: BenchSettings) -> str | None:
    """The job of the live view. One that has completed with the current settings is no longer followed: its timelines
    are beside the plan. A simulated job shows links to its runs."""
    job_id = followed_job()
    job = lab().queue.job(job_id) if job_id else None
    if job is None or job.outcome != "completed":
        return job_id
    if not all(run.target is None and run.config in _runs(settings) and is_read(run.run_id) for run in job.runs):
        return job_id
    forget_job()
    note(FINISHED, job.job_id)
    return None


def _runs(settings: BenchSettings) -> Runs:
    """Every run that a button can start: the two engines first."""
    single = (settings.config,) if settings.config else ()
    return tuple(dict.fromkeys((*(settings.pair or ()), *single, *(settings.layouts or ()))))


def _warm_the_worker() -> None:
    """Load the default model as soon as a browser opens the page, so that the first run starts at once."""
    queue = lab().queue
    if is_asked("hardware"):
        return  # a simulation needs no model, and would wait for it
    if st.context.url and queue.worker_pid is None and not queue.jobs():
        default = RunConfig()
        queue.warm(default.model, default.device, default.dtype)


def _draw_plan(settings: BenchSettings, hardware: Hardware, values: Mapping[str, Any]) -> None:
    """What the buttons run, as planned timelines; or the problems to fix."""
    if settings.config is None or settings.workload is None:
        st.markdown("**Fix these settings first:**")
        st.markdown("\n".join(f"- {plain(problem)}" for problem in settings.problems.values()))
        return
    draw_profile_source(values)
    draw_planned(
        settings.pair or (settings.config,),
        _runs(settings) if hardware.target is None else (),
        hardware.preset_machine(settings.config),
    )
    where = hardware.text(settings.config) or machine_text(settings.config)
    st.caption(f"{workload_sentence(settings.config, settings.workload)} {where}.")
    draw_vllm_popover(settings.config, gpus=1 if hardware.target is None else hardware.target.tensor_parallel_size)
    if hardware.target is None:
        draw_repeats(settings)
    else:
        draw_fleet(settings.config, hardware.target)


def _draw_buttons(settings: BenchSettings, hardware: Hardware) -> None:
    engine = settings.config.engine if settings.config else "the engine"
    single = (settings.config,) if settings.config else None
    choices: tuple[tuple[str, str, JobKind, Runs | None], ...] = (
        (COMPARISONS["pair"].button, ":material/compare_arrows:", "pair", settings.pair),
        (f"Run {engine}", ":material/play_arrow:", "single", single),
        (COMPARISONS["layouts"].button, ":material/stacks:", "layouts", settings.layouts),
    )
    notice = st.container()  # errors appear next to the prediction form
    for column, (label, icon, kind, runs) in zip(st.columns(3), choices, strict=True):
        pressed = column.button(
            hardware.button_label(label),
            icon=icon,
            type="primary" if kind == "pair" else "secondary",
            width="stretch",
            disabled=runs is None,
            help=_button_help(runs),
        )
        if pressed and runs is not None:
            _submit(runs, kind, settings, notice, hardware.target)
    if hardware.target is None and single and (warning := memory_warning(single[0])):
        st.caption(f":orange[:material/warning: {plain(warning)}]")
    for name, why in settings.unavailable.items():
        st.caption(f":material/block: {COMPARISONS[name].button} is unavailable: {plain(why)}.")


def _button_help(runs: Runs | None) -> str | None:
    # The number of repeats stays out: a button that changes while a number field loses focus misses its click.
    return f"{listed([config.engine for config in runs])}, on the same requests" if runs and len(runs) > 1 else None


def _choices(settings: BenchSettings) -> list[Choice]:
    """The questions that a prediction can answer: each engine's metrics, and ratios between engines."""
    jobs = (settings.pair, settings.layouts, (settings.config,) if settings.config else None)
    engines = dict.fromkeys(config.engine for runs in jobs for config in runs or ())
    return of_engines(list(engines))


def _submit(
    configs: Runs,
    kind: JobKind,
    settings: BenchSettings,
    notice: DeltaGenerator,
    target: SimulationTarget | None,
) -> None:
    """Save the prediction, then queue the job. An incomplete prediction is an error and queues nothing."""
    choices = _choices(settings)
    if problem := FORM.problem(choices):
        notice.error(plain(problem), icon=":material/error:")
        return
    engines = [config.engine for config in configs]
    drafts = FORM.collect(choices, engines)
    if settings.repeats > 1:
        start_repeats(configs, settings.repeats, FORM, drafts)
        return
    job = lab().queue.submit(
        configs,
        kind=kind,
        label=listed(engines),
        visitor=visitor(),
        before=lambda job: add_predictions(subject_of_job(job), drafts),
        target=target,
    )
    FORM.forget(drafts)
    follow_job(job.job_id)
    st.rerun()


entry_guard(render)

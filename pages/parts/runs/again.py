"""The button that runs the same settings again, as a job like those of Bench; where it cannot, the reason."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.shared.devices import available_executions, device_of
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.page_state import JOB, page_key


def draw_again(runs: Sequence[LoadedRun]) -> None:
    """`Run again`, for several runs `Run all again`: queues new runs, in this order, and opens their live view."""
    label = "Run again" if len(runs) == 1 else "Run all again"
    problem = again_problem(runs)
    help = problem or "New runs with the same settings and requests, as a job on Bench; these runs stay"
    if st.button(
        label, icon=":material/replay:", type="primary", key=page_key("again"), disabled=bool(problem), help=help
    ):
        st.switch_page("pages/bench.py", query_params={JOB: run_again(runs)})
    if problem:
        st.caption(f"{label} is unavailable: {plain(problem)}")


def run_again(runs: Sequence[LoadedRun]) -> str:
    """Queue a new run of each configuration, side by side where there are several. Returns the job's id."""
    configs = [run.config for run in runs]
    kind = "single" if len(runs) == 1 else "pair" if len(runs) == 2 else "layouts"
    label = listed([config.engine for config in configs])
    return lab().queue.submit(configs, kind=kind, label=label, visitor=visitor()).job_id  # type: ignore[arg-type]


def again_problem(runs: Sequence[LoadedRun]) -> str:
    """Why these runs cannot be measured again here, as a sentence; empty where they can."""
    if any(run.info.get("simulated") for run in runs):
        return "A simulated run has no measured times; its command simulates it again."
    for run in runs:
        kind = str((run.info.get("device") or {}).get("kind"))
        if kind != device_of(run.config.device):
            return f"{run.config.engine.capitalize()} ran on {kind}, which this machine does not have."
        if run.config.execution not in available_executions(run.config.device):
            return f"{run.config.engine.capitalize()} needs CUDA graphs, which this machine does not have."
    return ""

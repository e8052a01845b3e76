"""Calibration from Bench: a button where the plan has no times, and the progress of what it started."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.core.config import RunConfig
from engine.core.presets import PRESETS
from engine.launcher.job import Job
from pages.parts.bench.plan import dimensions_of
from pages.parts.shared.cancel_button import draw_cancel
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.markdown import code, listed, plain
from pages.parts.shared.page_state import page_key

REFRESH_S = 1.0
KIND = "calibration"


def draw_calibrate(configs: Sequence[RunConfig], *, has_times: bool) -> None:
    """The button where a plan has no times; a running calibration of any visitor in its place."""
    job = next((job for job in reversed(lab().queue.jobs()) if job.kind == KIND), None)
    is_running = job is not None and not job.is_done
    if not is_running and (has_times or any(dimensions_of(config) is None for config in configs)):
        return
    st.fragment(_draw, run_every=REFRESH_S if is_running else None)(tuple(configs), job.job_id if job else None)


def _draw(configs: tuple[RunConfig, ...], job_id: str | None) -> None:
    job = lab().queue.job(job_id) if job_id else None
    if job is not None and not job.is_done:
        _draw_progress(job)
        return
    if job is not None and lab().store.ingest.calibrations():
        st.rerun()  # the plan has times now
    if job is not None and job.visitor == visitor() and job.outcome == "failed":
        st.caption(f":red[:material/error: The calibration failed: {plain(job.runs[0].error or '')}]")
    pressed = st.button(
        "Calibrate", icon=":material/speed:", type="tertiary", key=page_key("calibrate"), help=_help(configs)
    )
    if pressed:
        lab().queue.submit_calibration(configs[0], _engines(configs), visitor())
        st.rerun()  # the whole page: the progress is drawn every second


def _draw_progress(job: Job) -> None:
    run = job.runs[0]
    share = run.finished_requests / max(1, run.requests) if run.elapsed_s else 0.0
    state = "Calibration: in the queue" if job.state == "queued" else f"Calibration: {plain(run.message or 'starting')}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, share), text=f"{state} …")
        draw_cancel(job)


def _help(configs: Sequence[RunConfig]) -> str:
    command = code(f".venv/bin/python -m engine calibrate --model {configs[0].model}")
    return (
        f"Measures passes of {listed(_engines(configs))}, at most 20 seconds once the model is loaded; the plan then "
        f"has seconds and TTFT. It is short: a few shapes, once. {command} measures in full."
    )


def _engines(configs: Sequence[RunConfig]) -> list[str]:
    """The engines whose passes the plans need."""
    return list(dict.fromkeys(PRESETS[config.engine].calibrate_with for config in configs))

"""The end of a job on Bench: how each run ended, what was kept, and where to see it."""

from __future__ import annotations

import contextlib
import time

import streamlit as st

from engine.core.format import plural
from engine.launcher.job import Job, JobRun
from pages.parts.bench.measured import is_read
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.links import runs_query
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.page_state import follow_job, note, noted, page_key

INGEST_TIMEOUT_S = 15.0


def is_over(job: Job) -> bool:
    """Whether a job is done and the store has read its run logs, or had INGEST_TIMEOUT_S for it."""
    if not job.is_done:
        return False
    name = f"ended_{job.job_id}"
    if noted(name) is None:
        note(name, time.monotonic())
    is_late = time.monotonic() - float(noted(name)) > INGEST_TIMEOUT_S
    return is_late or all(is_read(run.run_id) for run in job.runs if run.has_log)


def draw_end(job: Job) -> None:
    """How each run ended, links to what was logged, the last output of a worker that died, and a way to resume."""
    for run in job.runs:
        _draw_run_end(run)
    logged = [run for run in job.runs if run.has_log]
    with st.container(horizontal=True, vertical_alignment="center"):
        if job.can_go_on:
            _draw_resume(job)
        if len(logged) > 1:
            st.page_link(
                "pages/compare.py",
                label="Compare the runs",
                icon=":material/compare_arrows:",
                query_params=runs_query([run.run_id for run in logged]),
            )
        for run in logged:
            part = "" if run.status == "completed" else "partial "
            st.page_link(
                "pages/run.py",
                label=f"Open the {part}{run.config.engine} run",
                icon=":material/view_timeline:",
                query_params={"run_id": run.run_id},
            )


def _draw_resume(job: Job) -> None:
    """A button that runs the missing engines of a comparison, once; after that it follows the resumed job."""
    is_resumed = any(other.goes_on_with == job.job_id for other in lab().queue.jobs())
    missing = listed([run.config.engine for run in job.missing])
    pressed = st.button(
        "Watch the resumed job" if is_resumed else "Resume",
        icon=":material/resume:",
        key=page_key("resume_job"),
        help="Already resumed" if is_resumed else f"Runs {missing} on the same requests",
    )
    if pressed:
        with contextlib.suppress(ValueError):  # the missing run was just restored from the trash
            follow_job(lab().queue.resume(job.job_id, visitor()).job_id)
        st.rerun()


def _draw_run_end(run: JobRun) -> None:
    engine = run.config.engine.capitalize()
    why = f": {plain(run.error)}" if run.error else ""
    if run.status == "completed":
        st.success(f"{engine} completed.", icon=":material/check_circle:")
    elif run.status == "stopped":
        st.info(f"{engine} was canceled{why}. {_kept(run)}", icon=":material/stop_circle:")
    elif run.status == "skipped":
        st.info(f"{engine} was {plain(run.error or 'not run')}.", icon=":material/skip_next:")
    elif run.status == "oom":
        st.warning(f"{engine} ran out of memory{why}. {_kept(run)}", icon=":material/memory:")
    elif run.status == "crashed":
        st.error(f"{engine} crashed{why}. {_kept(run)} The next run gets a new worker.", icon=":material/heart_broken:")
    else:
        st.error(f"{engine} failed{why}. {_kept(run)}", icon=":material/error:")
    if run.stderr.strip():
        with st.expander("Last output of the worker"):
            st.code(run.stderr[-8000:], language=None)


def _kept(run: JobRun) -> str:
    """How much of the run the store has."""
    if not run.has_log:
        return "Nothing was logged."
    tokens = len(lab().store.runs.tokens(run.run_id))
    if not tokens:
        return "No tokens were logged."
    return f"{plural(tokens, 'token')} {'was' if tokens == 1 else 'were'} logged and kept."

"""The end of a job on Bench: on to the results when all went well; else what happened and what was kept."""

from __future__ import annotations

import contextlib
import time

import streamlit as st

from engine.core.format import plural
from engine.launcher.job import Job, JobRun
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.page_state import follow_job, page_key

INGEST_PATIENCE_S = 1.5
LEAVING = "lab.leaving_for_results_of"


def move_on(job: Job) -> None:
    """A job has just ended: draw the whole page anew, and let it leave for the results if all went well.

    The fragment that sees the end does not leave by itself: a page reached from inside one was seen to stay blank.
    """
    _await_results([run.run_id for run in job.runs if run.has_log])
    if job.outcome == "completed":
        st.session_state[LEAVING] = job.job_id
    st.rerun()


def leave_for_results() -> None:
    """Go where `move_on` asked to go. Called by the whole page, first of all."""
    job_id = st.session_state.pop(LEAVING, None)
    job = lab().queue.job(job_id) if job_id else None
    if job is None:
        return
    if job.kind != "single":
        st.switch_page("pages/compare.py", query_params={"runs": _run_ids(job)})
    st.switch_page("pages/run.py", query_params={"run_id": job.runs[0].run_id})


def draw_end(job: Job) -> None:
    """A line a run, links to all that is there, the worker's last words if it died, a way to go on with the rest."""
    for run in job.runs:
        _draw_run_end(run)
    logged = [run for run in job.runs if run.has_log]
    with st.container(horizontal=True, vertical_alignment="center"):
        if job.can_go_on:
            _draw_resume(job)
        if len(logged) > 1:
            st.page_link(
                "pages/compare.py",
                label="Compare the two" if len(logged) == 2 else "Compare them",
                icon=":material/compare_arrows:",
                query_params={"runs": ",".join(run.run_id for run in logged)},
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
    """Run what is missing of runs side by side, once: whoever asks again follows the job that was made of it."""
    is_resumed = any(other.goes_on_with == job.job_id for other in lab().queue.jobs())
    missing = listed([run.config.engine for run in job.missing])
    pressed = st.button(
        "Follow the rest" if is_resumed else "Resume",
        icon=":material/resume:",
        key=page_key("resume_job"),
        help="It has been resumed already" if is_resumed else f"Runs {missing}, on the same requests as before",
    )
    if pressed:
        with contextlib.suppress(ValueError):  # what was missing came back from the trash just now: drawn anew below
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
        with st.expander("What the worker wrote last"):
            st.code(run.stderr[-8000:], language=None)


def _kept(run: JobRun) -> str:
    """What of the run is safe, as the store has it."""
    if not run.has_log:
        return "Nothing was logged yet."
    tokens = len(lab().store.runs.tokens(run.run_id))
    if not tokens:
        return "No token was logged yet."
    return f"{plural(tokens, 'token')} {'was' if tokens == 1 else 'were'} logged and kept."


def _await_results(run_ids: list[str]) -> None:
    """The store follows the run log by a fraction of a second: give it a moment, so that what is shown is whole."""
    deadline_s = time.monotonic() + INGEST_PATIENCE_S
    while time.monotonic() < deadline_s and any(_is_open(run_id) for run_id in run_ids):
        time.sleep(0.05)


def _is_open(run_id: str) -> bool:
    """Whether the store does not know yet how a run ended."""
    try:
        return bool(lab().store.runs.get(run_id)["status"] == "running")
    except KeyError:
        return True


def _run_ids(job: Job) -> str:
    return ",".join(run.run_id for run in job.runs)

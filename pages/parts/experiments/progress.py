"""Progress of an experiment: a bar, the current point, its place in the queue, and buttons to cancel or resume.

A fragment that redraws itself; the page is redrawn when the experiment begins or ends. It shows experiments of this
app's queue, of the command line, and interrupted ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.core.format import count, duration, plural
from engine.launcher.job import Job
from engine.runlog.experiment_log import ExperimentLog
from pages.figures.frames import records
from pages.parts.experiments.description import done_text, point_noun, point_text
from pages.parts.shared.cancel_button import draw_cancel
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.links import EXPERIMENT_PAGES
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key

REFRESH_LIVE_S = 1.0
REFRESH_IDLE_S = 3.0
EXPERIMENT_KINDS = ("sweep", "load", "overhead", "repeats")
KEPT = "Finished {0}s are kept. The current {0} is kept as far as it got; Resume runs it again."


def job_of(experiment_id: str) -> Job | None:
    """This app's newest job of an experiment; None if it has none."""
    return next((job for job in reversed(lab().queue.jobs()) if job.experiment_id == experiment_id), None)


def row_of(experiment_id: str) -> dict[str, Any] | None:
    """The experiment as a row of the store's `experiments`; None if the store does not have it yet."""
    rows = lab().store.experiments.list()
    mine = records(rows[rows["experiment_id"] == experiment_id])
    return mine[0] if mine else None


def is_being_closed(experiment_id: str) -> bool:
    """Whether this app's job of the experiment is done and no other process runs it.

    The store notices within a moment. Until then the experiment counts as `live`, so that the page is redrawn once,
    with all of its results.
    """
    job = job_of(experiment_id)
    return job is not None and job.is_done and not ExperimentLog.is_open(lab().queue.runs_folder / experiment_id)


def state_of(experiment_id: str) -> str:
    """`live`: queued, or running in any process. `interrupted`: points are left and no process runs them. `done`."""
    job, row = job_of(experiment_id), row_of(experiment_id)
    if (job is not None and not job.is_done) or (row is not None and bool(row["is_open"])):
        return "live"
    return "done" if row is None or int(row["done"]) >= int(row["points"]) else "interrupted"


def show_progress(experiment_id: str) -> str:
    """Draw the progress, the resume button, or how the experiment ended. Returns the state, as `state_of`."""
    state = state_of(experiment_id)
    refresh_s = REFRESH_LIVE_S if state == "live" else REFRESH_IDLE_S
    st.fragment(_draw, run_every=refresh_s)(experiment_id, _stage(experiment_id))
    return state


def _stage(experiment_id: str) -> tuple[object, ...]:
    """What the rest of the page depends on: the state, the list of experiments, and the progress of an idle one."""
    rows, state = lab().store.experiments.list(), state_of(experiment_id)
    known = tuple(rows.loc[rows["has_plan"].astype(bool), "experiment_id"])
    mine = rows.loc[rows["experiment_id"] == experiment_id, ["points", "done"]]
    return state, known, () if state == "live" else tuple(mine.to_numpy().ravel())


def _draw(experiment_id: str, drawn: tuple[object, ...]) -> None:
    """The fragment. Its buttons use callbacks, which also work if the page is about to be redrawn."""
    if _stage(experiment_id) != drawn:
        st.rerun()
    state = state_of(experiment_id)
    job, row = job_of(experiment_id), row_of(experiment_id)
    if job is not None and not job.is_done:
        _draw_job(job)
    elif state == "live" and row is not None:
        _draw_last_look(row) if is_being_closed(experiment_id) else _draw_elsewhere(row)
    elif state == "interrupted" and row is not None:
        _draw_interrupted(experiment_id, row, job)
    elif job is not None and job.is_done:
        _draw_trouble(job)


def _draw_job(job: Job) -> None:
    kept = KEPT.format(point_noun(job.kind))
    with st.container(border=True):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown(f"#### {_headline(job)}")
            draw_cancel(job, help=kept)
        st.progress(_share_done(job), text=_progress_text(job))
        st.caption(kept if job.place == 0 else queue_text(job))


def _headline(job: Job) -> str:
    if job.state == "queued":
        return "In the queue"
    return f"{plain(job.label)} · {point_noun(job.kind)} {min(job.done_points + 1, job.all_points)} of {job.all_points}"


def _share_done(job: Job) -> float:
    """By finished points, and by finished requests of the current one."""
    run = job.current
    current = run.finished_requests / run.requests if run is not None and run.requests else 0.0
    return min(1.0, (job.done_points + min(current, 0.99)) / max(1, job.all_points))


def _progress_text(job: Job) -> str:
    run = job.current
    if job.state == "queued" or run is None:
        return f"{plural(job.all_points, point_noun(job.kind))}. It starts automatically."
    what = point_text(job.point_values)
    if job.canceled:
        return f"{what}: canceling; the pass that runs now ends, then the log is closed"
    if run.state != "running":
        return f"{what}: {plain(run.message or 'starting the worker')} …"
    if run.output_tokens == 0:
        return f"{what}: warm-up"
    return f"{what}: {plural(run.output_tokens, 'token')} in {duration(run.elapsed_s)}"


def queue_text(job: Job) -> str:
    """The place of a job among the jobs of all visitors."""
    place = job.place or 0
    return f"Place {count(place)} in the queue; one job runs at a time." if place else "Next in the queue."


def draw_experiment_link(job: Job) -> None:
    """A link from a job to its experiment's page; nothing for a kind without a page."""
    if job.kind in EXPERIMENT_PAGES and job.experiment_id:
        where = {"experiment": job.experiment_id}
        st.page_link(EXPERIMENT_PAGES[job.kind], label="Watch", icon=":material/visibility:", query_params=where)


def draw_way_to_experiment(kind: str, experiment_id: str) -> None:
    """A link from a run to its experiment's page; nothing for a kind without a page."""
    if kind in EXPERIMENT_PAGES:
        label = "Repeats of this run" if kind == "repeats" else f"{kind.capitalize()} with this run"
        where = {"experiment": experiment_id}
        st.page_link(EXPERIMENT_PAGES[kind], label=label, icon=":material/stacked_line_chart:", query_params=where)


def draw_queue() -> None:
    """How many jobs run before one that is started now; nothing if there are none."""
    jobs = [job for job in lab().queue.jobs() if not job.is_done]
    if jobs:
        mine = sum(job.visitor == visitor() for job in jobs)
        whose = "yours" if mine == len(jobs) else f"{mine} of them yours" if mine else "of other visitors"
        st.caption(f":material/hourglass_top: {plural(len(jobs), 'job')} in the queue ({whose}); a new one runs after.")


def _draw_last_look(row: Mapping[str, Any]) -> None:
    """After the end of this app's job, until the store has read its last results."""
    st.progress(min(1.0, int(row["done"]) / max(1, int(row["points"]))), text="Reading the last results …")


def _draw_elsewhere(row: Mapping[str, Any]) -> None:
    """An experiment that the command line runs."""
    with st.container(border=True):
        st.markdown("#### Running on the command line")
        points = max(1, int(row["points"]))
        st.progress(min(1.0, int(row["done"]) / points), text=f"{done_text(row)}.")
        st.caption("Started outside this app; stop it where it was started.")


def _draw_interrupted(experiment_id: str, row: Mapping[str, Any], job: Job | None) -> None:
    left = plural(int(row["points"]) - int(row["done"]), point_noun(row.get("kind")))
    with st.container(border=True), st.container(horizontal=True, vertical_alignment="center"):
        was = "was canceled" if job is not None and job.canceled else "was interrupted"
        st.markdown(f"This experiment {was}: {done_text(row)}. {left} left to run.")
        st.button(
            "Resume",
            icon=":material/resume:",
            type="primary",
            key=page_key(f"resume_{experiment_id}"),
            on_click=_resume,
            args=(experiment_id,),
        )
    if problem := st.session_state.get(_problem_key(experiment_id)):
        st.error(plain(problem), icon=":material/error:")
    if job is not None:
        _draw_trouble(job)


def _resume(experiment_id: str) -> None:
    """Queue the rest of an experiment; the page shows an error if that fails."""
    st.session_state.pop(_problem_key(experiment_id), None)
    try:
        lab().queue.resume_experiment(experiment_id, visitor())
    except (OSError, ValueError) as error:
        st.session_state[_problem_key(experiment_id)] = str(error)


def _problem_key(experiment_id: str) -> str:
    return f"resume_problem_{experiment_id}"


def _draw_trouble(job: Job) -> None:
    """Why the queue stopped the experiment, and the last output of a worker that died."""
    if job.trouble:
        st.error(f"The queue stopped this experiment: {plain(job.trouble)}", icon=":material/error:")
    dead = next((run for run in job.runs if run.stderr.strip()), None)
    if dead is not None:
        with st.expander("Last output of the worker"):
            st.code(dead.stderr[-8000:], language=None)

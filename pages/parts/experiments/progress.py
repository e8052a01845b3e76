"""How far an experiment has come: one bar, the point at hand in words, cancel, resume, and one's place in the queue.

A fragment that redraws itself while the rest of the page stays as it is; the page is drawn anew when the experiment
begins or ends. It shows experiments of this app's queue, of the command line, and those that were cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.core.format import count, duration, plural
from engine.launcher.job import Job
from engine.runlog.experiment_log import ExperimentLog
from pages.parts.experiments.description import done_text, point_noun, point_text
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.links import EXPERIMENT_PAGES
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key

REFRESH_LIVE_S = 1.0
REFRESH_IDLE_S = 3.0
EXPERIMENT_KINDS = ("sweep", "load", "overhead", "repeats")
KEPT = "{}s that are done stay done; the one at hand is kept as far as it went and can be run again by Resume."


def job_of(experiment_id: str) -> Job | None:
    """This app's newest job of an experiment, done or not; None where it has none."""
    return next((job for job in reversed(lab().queue.jobs()) if job.experiment_id == experiment_id), None)


def row_of(experiment_id: str) -> dict[str, Any] | None:
    """The experiment as a row of the store's `experiments`; None where the store does not have it yet."""
    rows = lab().store.experiments.list()
    mine = rows[rows["experiment_id"] == experiment_id].to_dict("records")
    return {str(name): value for name, value in mine[0].items()} if mine else None


def is_being_closed(experiment_id: str) -> bool:
    """Whether this app's job of it is done and nobody else works on it: the store will have seen so in a moment.

    Until then the experiment is `live`, so that the page is drawn anew once, with all that the store has of it.
    """
    job = job_of(experiment_id)
    return job is not None and job.is_done and not ExperimentLog.is_open(lab().queue.runs_folder / experiment_id)


def state_of(experiment_id: str) -> str:
    """`live`: in this app's queue, or at work elsewhere. `cut off`: points are left and nobody works. `done`."""
    job, row = job_of(experiment_id), row_of(experiment_id)
    if (job is not None and not job.is_done) or (row is not None and bool(row["is_open"])):
        return "live"
    return "done" if row is None or int(row["done"]) >= int(row["points"]) else "cut off"


def show_progress(experiment_id: str) -> str:
    """Draw the bar, or the way to resume, or how it ended; returns the state as `state_of`."""
    state = state_of(experiment_id)
    refresh_s = REFRESH_LIVE_S if state == "live" else REFRESH_IDLE_S
    st.fragment(_draw, run_every=refresh_s)(experiment_id, _stage(experiment_id))
    return state


def _stage(experiment_id: str) -> tuple[object, ...]:
    """What the page around the bar depends on: the state, which experiments there are, and while idle how far it is."""
    rows, state = lab().store.experiments.list(), state_of(experiment_id)
    known = tuple(rows.loc[rows["has_plan"].astype(bool), "experiment_id"])
    mine = rows.loc[rows["experiment_id"] == experiment_id, ["points", "done"]]
    return state, known, () if state == "live" else tuple(mine.to_numpy().ravel())


def _draw(experiment_id: str, drawn: tuple[object, ...]) -> None:
    """The fragment. Its buttons act by callbacks: a press is heard even where the page is about to be drawn anew."""
    if _stage(experiment_id) != drawn:
        st.rerun()
    state = state_of(experiment_id)
    job, row = job_of(experiment_id), row_of(experiment_id)
    if job is not None and not job.is_done:
        _draw_job(job)
    elif state == "live" and row is not None:
        _draw_last_look(row) if is_being_closed(experiment_id) else _draw_elsewhere(row)
    elif state == "cut off" and row is not None:
        _draw_cut_off(experiment_id, row, job)
    elif job is not None and job.is_done:
        _draw_trouble(job)


def _draw_job(job: Job) -> None:
    kept = KEPT.format(point_noun(job.kind).capitalize())
    with st.container(border=True):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown(f"#### {_headline(job)}")
            label = "Stopping …" if job.canceled else "Cancel"
            st.button(
                label,
                icon=":material/stop_circle:",
                key=page_key(f"cancel_{job.job_id}"),
                disabled=job.canceled,
                help=kept,
                on_click=lab().queue.cancel,
                args=(job.job_id,),
            )
        st.progress(_share_done(job), text=_progress_text(job))
        st.caption(kept if job.place == 0 else queue_text(job))


def _headline(job: Job) -> str:
    if job.state == "queued":
        return "In the queue"
    return f"{plain(job.label)} · {point_noun(job.kind)} {min(job.done_points + 1, job.all_points)} of {job.all_points}"


def _share_done(job: Job) -> float:
    """Points that are done, and of the one at hand its finished requests."""
    run = job.current
    part = run.finished_requests / run.requests if run is not None and run.requests else 0.0
    return min(1.0, (job.done_points + min(part, 0.99)) / max(1, job.all_points))


def _progress_text(job: Job) -> str:
    run = job.current
    if job.state == "queued" or run is None:
        return f"{plural(job.all_points, point_noun(job.kind))}. It starts by itself when its turn comes."
    what = point_text(job.point_values)
    if run.state != "running":
        return f"{what}: {plain(run.message or 'starting the worker')} …"
    if run.output_tokens == 0:
        return f"{what}: warming up, before the clock starts"
    return f"{what}: {plural(run.output_tokens, 'token')} in {duration(run.elapsed_s)}"


def queue_text(job: Job) -> str:
    """A job's place among all visitors' jobs: one runs at a time."""
    place = job.place or 0
    if place == 0:
        return "Next: one job runs at a time, first come, first served."
    more = f", {count(place - 1)} more before this one" if place > 1 else ""
    return f"Place {place} in the queue: one job runs now{more}. One job runs at a time, first come, first served."


def draw_experiment_link(job: Job) -> None:
    """The way from a job to the page that follows it; nothing for a kind that has none."""
    if job.kind in EXPERIMENT_PAGES and job.experiment_id:
        where = {"experiment": job.experiment_id}
        st.page_link(EXPERIMENT_PAGES[job.kind], label="Watch", icon=":material/visibility:", query_params=where)


def draw_way_to_experiment(kind: str, experiment_id: str) -> None:
    """The way from a run to the page of the experiment that it is a point of; nothing for a kind that has none."""
    if kind in EXPERIMENT_PAGES:
        words = "The repeats that it is one of" if kind == "repeats" else f"The {kind} that it is a point of"
        where = {"experiment": experiment_id}
        st.page_link(EXPERIMENT_PAGES[kind], label=words, icon=":material/stacked_line_chart:", query_params=where)


def draw_queue() -> None:
    """What the machine has to do, for somebody who is about to add to it: nothing where it is idle."""
    jobs = [job for job in lab().queue.jobs() if not job.is_done]
    if jobs:
        mine = sum(job.visitor == visitor() for job in jobs)
        whose = "yours" if mine == len(jobs) else f"{mine} of them yours" if mine else "of other visitors"
        jobs_words = plural(len(jobs), "job")
        st.caption(f":material/hourglass_top: {jobs_words} in the queue ({whose}); one started now comes after that.")


def _draw_last_look(row: Mapping[str, Any]) -> None:
    """Between the end of this app's job and the store's last look at its folder."""
    st.progress(min(1.0, int(row["done"]) / max(1, int(row["points"]))), text="Reading what was measured last …")


def _draw_elsewhere(row: Mapping[str, Any]) -> None:
    """An experiment of the command line, as the store sees it."""
    with st.container(border=True):
        st.markdown("#### Running on the command line")
        points = max(1, int(row["points"]))
        st.progress(min(1.0, int(row["done"]) / points), text=f"{done_text(row)}.")
        st.caption("It was started outside this app, so it can only be stopped where it was started.")


def _draw_cut_off(experiment_id: str, row: Mapping[str, Any], job: Job | None) -> None:
    left = plural(int(row["points"]) - int(row["done"]), point_noun(row.get("kind")))
    with st.container(border=True), st.container(horizontal=True, vertical_alignment="center"):
        was = "was canceled" if job is not None and job.canceled else "was cut off"
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
    """Hand what is left of an experiment to the queue; where that cannot be done, a line is left for the page."""
    st.session_state.pop(_problem_key(experiment_id), None)
    try:
        lab().queue.resume_experiment(experiment_id, visitor())
    except (OSError, ValueError) as error:
        st.session_state[_problem_key(experiment_id)] = str(error)


def _problem_key(experiment_id: str) -> str:
    return f"resume_problem_{experiment_id}"


def _draw_trouble(job: Job) -> None:
    """Why the queue could not go on, and the worker's last words, where it died."""
    if job.trouble:
        st.error(f"The queue could not go on: {plain(job.trouble)}", icon=":material/error:")
    dead = next((run for run in job.runs if run.stderr.strip()), None)
    if dead is not None:
        with st.expander("What the worker wrote last"):
            st.code(dead.stderr[-8000:], language=None)

"""The live view of Bench: the followed job from the queue to its end, and the other jobs in the queue.

A fragment that redraws itself every second. Every element keeps its place; only the contents change.
"""

from __future__ import annotations

import streamlit as st

from engine.core.format import count, duration, plural
from engine.launcher.job import Job, JobRun
from pages.parts.bench.live_end import draw_end, is_over
from pages.parts.bench.live_run import draw_answers, draw_tiles, draw_timelines, live_passes, mark_watched
from pages.parts.bench.plan import planned_tokens
from pages.parts.experiments.description import point_noun
from pages.parts.experiments.progress import EXPERIMENT_KINDS, draw_experiment_link, queue_text
from pages.parts.shared.cancel_button import draw_cancel
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import follow_job, followed_job, forget_job, page_key

REFRESH_LIVE_S = 1.0  # redrawing takes CPU time from the run that is measured
REFRESH_IDLE_S = 2.0


def show_live(job_id: str | None) -> None:
    """Draw the job that the address names, if any, and the queue."""
    job = lab().queue.job(job_id) if job_id else None
    is_live = job is not None and not is_over(job)
    st.fragment(_draw, run_every=REFRESH_LIVE_S if is_live else REFRESH_IDLE_S)(job_id, is_live)


def _draw(job_id: str | None, was_live: bool) -> None:
    if followed_job() != job_id:
        st.rerun()  # Close or Watch was pressed: their callbacks act even if this run ends before it draws them
    jobs = lab().queue.jobs()
    job = next((job for job in jobs if job.job_id == job_id), None)
    if job is not None and was_live and is_over(job):
        st.rerun()  # the page shows the results
    if job is not None and job.kind in EXPERIMENT_KINDS:
        draw_experiment_link(job)
    elif job is not None:
        _draw_job(job)
    elif job_id is not None:
        st.info(
            "The app was restarted and no longer has this job. Its runs, if it had begun, are in History.",
            icon=":material/history:",
        )
        st.page_link("pages/history.py", label="Open History", icon=":material/history:")
    _draw_others([other for other in jobs if not other.is_done and other.job_id != job_id], job)


def _draw_job(job: Job) -> None:
    with st.container(border=True):
        _draw_header(job)
        if job.is_done:
            draw_end(job)
            return
        run = job.current
        assert run is not None
        _draw_progress(job, run)
        if job.state == "queued":
            return
        mark_watched(run)
        passes = live_passes(run)
        draw_tiles(run, passes)
        draw_timelines(job, passes)
        draw_answers(run)


def _draw_header(job: Job) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(f"#### {_headline(job)}")
        if job.is_done:
            st.button("Close", icon=":material/close:", key=page_key("close_job"), on_click=forget_job)
        else:
            draw_cancel(job)


def _headline(job: Job) -> str:
    if job.is_done:
        return {"completed": "Done", "stopped": "Canceled", "crashed": "The worker crashed"}.get(
            job.outcome or "", "Ended early"
        )
    if job.state == "queued":
        return "In the queue"
    run = job.current
    assert run is not None
    place = f" · run {job.runs.index(run) + 1} of {len(job.runs)}" if len(job.runs) > 1 else ""
    return f"{run.config.engine.capitalize()}{place}"


def _draw_progress(job: Job, run: JobRun) -> None:
    """A progress bar with one line of text, in every state. It only grows: until the first token it names the stage."""
    if job.canceled:
        st.progress(_share_done(job, run), text="Canceling: the pass that runs now ends, then the log is closed.")
    elif job.state == "queued":
        st.progress(0.0, text=f"{queue_text(job)} It starts automatically.")
    elif run.state == "running":
        st.progress(_share_done(job, run), text=_progress_text(run))
    else:
        st.progress(_share_done(job, run), text=f"{plain(run.message or 'starting the worker')} …")


def _share_done(job: Job, run: JobRun) -> float:
    """Of all runs of the job: those that are done, and the current one by tokens, or by requests if answers may end
    before their budget."""
    if run.config.workload.budget.startswith("eos"):
        share = run.finished_requests / max(1, run.requests)
    else:
        share = run.output_tokens / max(1, planned_tokens(run.config))
    return (job.runs.index(run) + min(1.0, share)) / len(job.runs)


def _progress_text(run: JobRun) -> str:
    if run.output_tokens == 0 and run.target is None:
        return "warm-up: a prefill of each prompt length and three decode steps"
    return (
        f"{count(run.finished_requests)} of {plural(run.requests, 'request')} finished, "
        f"{plural(run.output_tokens, 'token')}, {duration(run.elapsed_s)}"
    )


def _draw_others(others: list[Job], mine: Job | None) -> None:
    """A line for each other job in the queue, with a button to watch it."""
    if not others:
        return
    with st.container(border=True):
        st.markdown("**Queue** · one job runs at a time")
        for job in others:
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(_job_text(job))
                if job.kind in EXPERIMENT_KINDS:
                    draw_experiment_link(job)
                elif job.kind != "calibration":
                    st.button(
                        "Watch",
                        key=page_key(f"watch_{job.job_id}"),
                        type="tertiary",
                        icon=":material/visibility:",
                        on_click=follow_job,
                        args=(job.job_id,),
                    )
        if mine is None or mine.is_done:
            st.caption(f"A new job takes place {len(others)} in the queue.")


def _job_text(job: Job) -> str:
    whose = "yours" if job.visitor == visitor() else "another visitor's"
    if job.kind == "calibration":
        return f"{f'Place {job.place}' if job.place else 'Now'}: {plain(job.label)} ({whose})"
    if job.kind in EXPERIMENT_KINDS:
        what = f"{plain(job.label)}, {job.done_points} of {plural(job.all_points, point_noun(job.kind))} ({whose})"
        return f"Place {job.place}: {what}" if job.place else f"Now: {what}"
    run = job.current
    assert run is not None
    what = f"{plain(job.label)}, {plural(run.requests, 'request')} on {plain(run.config.model)} ({whose})"
    if job.place:
        return f"Place {job.place}: {what}"
    return f"Now: {what}, {count(run.finished_requests)} finished"

"""The choice of an experiment of a kind, the newest first; `?experiment=` in the address names one.

An experiment that was just queued is listed even if it is not in the store yet.
"""

from __future__ import annotations

import contextlib
from typing import Any

import streamlit as st

from engine.core.format import plural
from engine.launcher.job import Job
from engine.runlog.experiment_log import ExperimentLog
from engine.runlog.reader import RUN_ID
from pages.figures.frames import records
from pages.parts.experiments.description import experiment_label, point_noun
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain

EXPERIMENT = "experiment"
REFRESH_AWAITED_S = 0.5


def experiment_rows(kind: str) -> list[dict[str, Any]]:
    """The stored experiments of a kind, the newest first, as rows of the store's `experiments`."""
    return records(lab().store.experiments.list(kind))


def open_jobs(kind: str) -> dict[str, Job]:
    """This app's unfinished jobs of a kind, by experiment id, the newest first."""
    jobs = [job for job in lab().queue.jobs() if job.kind == kind and not job.is_done and job.experiment_id]
    return {str(job.experiment_id): job for job in reversed(jobs)}


def choose_experiment(kind: str, noun: str) -> str | None:
    """Draw the list and return the experiment to show: the newest if the address names none, None if it is unknown.

    `noun` is the page's name for one, such as `sweep`.
    """
    labels = _labels(kind)
    asked = st.query_params.get(EXPERIMENT) or None
    if asked is not None and asked not in labels:
        _draw_unknown(asked, kind, noun)
    if not labels:
        return None
    options = list(labels)
    index = options.index(asked) if asked in labels else None if asked else 0
    chosen = st.selectbox(
        f"{noun.capitalize()} (newest first)",
        options,
        index=index,
        format_func=lambda experiment_id: labels.get(experiment_id, experiment_id),
        placeholder=f"Choose one of {plural(len(options), noun)}",
    )
    if chosen is not None and chosen != asked:
        st.query_params[EXPERIMENT] = chosen
    return chosen


def follow_experiment(experiment_id: str) -> None:
    """Put an experiment into the address, so that the page shows it, also after a reload."""
    st.query_params[EXPERIMENT] = experiment_id


def _labels(kind: str) -> dict[str, str]:
    """The labels of all choices by id, first those that the store has not read yet."""
    jobs, rows = open_jobs(kind), {str(row["experiment_id"]): row for row in experiment_rows(kind)}
    fresh = {
        experiment_id: f"{job.label}, {plural(job.all_points, point_noun(job.kind))}, just started"
        for experiment_id, job in jobs.items()
        if experiment_id not in rows
    }
    return fresh | {known: experiment_label(row, is_live=known in jobs) for known, row in rows.items()}


def _draw_unknown(asked: str, kind: str, noun: str) -> None:
    """An experiment in the address that does not exist, is of another kind, or is not in the store yet."""
    if RUN_ID.fullmatch(asked) and (lab().home / "runs" / asked / "experiment.json").is_file():
        if kind_of(asked) is None:
            _await(asked)
            return
        st.warning(f"{plain(asked)} is an experiment of another kind, not a {noun}.", icon=":material/link_off:")
        return
    st.warning(
        f"No {noun} {plain(asked[:40])} found; it may have been deleted, or belong to another LAB_HOME.",
        icon=":material/link_off:",
    )


def kind_of(experiment_id: str) -> str | None:
    """The kind of a stored experiment; None if the store does not have it."""
    rows = lab().store.experiments.list()
    mine = rows.loc[rows["experiment_id"] == experiment_id, "kind"]
    return None if mine.empty else str(mine.iloc[0])


def _id_inside(folder_name: str) -> str | None:
    """The id in a folder's experiment.json if it differs from the folder's name, else None."""
    with contextlib.suppress(ValueError, OSError):
        found = ExperimentLog.read(lab().home / "runs" / folder_name).plan.experiment_id
        return None if found == folder_name else found
    return None


@st.fragment(run_every=REFRESH_AWAITED_S)
def _await(experiment_id: str) -> None:
    """Redraw the page as soon as the store has the experiment; show why it cannot be read."""
    problems = [line for folder, line in lab().recorder.problems.items() if folder.name == experiment_id]
    if problems:
        st.error(f"This experiment cannot be read: {plain(problems[0])}", icon=":material/error:")
    elif kind_of(experiment_id) is not None:
        st.rerun()
    elif (other := _id_inside(experiment_id)) is not None:
        st.warning(
            f"The folder {plain(experiment_id)} is a copy of experiment {plain(other[:80])}; choose that one above.",
            icon=":material/content_copy:",
        )
    else:
        st.info("Reading this experiment into the store …", icon=":material/hourglass_top:")

"""Choosing a stored experiment of a kind, the newest first. `?experiment=` names one; an unknown id is said plainly.

An experiment that was just handed to the queue may not be in the store yet: it can be chosen all the same.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

import streamlit as st

from engine.core.format import plural
from engine.launcher.job import Job
from engine.runlog.experiment_log import ExperimentLog
from pages.parts.experiments.description import experiment_label, point_noun
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain

EXPERIMENT = "experiment"
AWAIT_S = 0.5


def experiment_rows(kind: str) -> list[dict[str, Any]]:
    """The stored experiments of a kind, the newest first, as rows of the store's `experiments`."""
    return lab().store.experiments.list(kind).to_dict("records")


def open_jobs(kind: str) -> dict[str, Job]:
    """This app's jobs of a kind that are not done, by experiment id, the newest first."""
    jobs = [job for job in lab().queue.jobs() if job.kind == kind and not job.is_done and job.experiment_id]
    return {str(job.experiment_id): job for job in reversed(jobs)}


def choose_experiment(kind: str, noun: str) -> str | None:
    """Draw the list and return the experiment to show; the newest where the address names none, None for an unknown.

    `noun` is what the page calls one: `sweep`.
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
        f"{noun.capitalize()}, the newest first",
        options,
        index=index,
        format_func=lambda experiment_id: labels.get(experiment_id, experiment_id),
        placeholder=f"Choose one of {plural(len(options), noun)}",
    )
    if chosen is not None and chosen != asked:
        st.query_params[EXPERIMENT] = chosen
    return chosen


def follow_experiment(experiment_id: str) -> None:
    """Put an experiment into the address: the page shows it from now on, and after a reload too."""
    st.query_params[EXPERIMENT] = experiment_id


def _labels(kind: str) -> dict[str, str]:
    """What can be chosen, by id; those first that are so new that the store has yet to read them."""
    jobs, rows = open_jobs(kind), {str(row["experiment_id"]): row for row in experiment_rows(kind)}
    fresh = {
        experiment_id: f"{job.label}, {plural(job.all_points, point_noun(job.kind))}, just started"
        for experiment_id, job in jobs.items()
        if experiment_id not in rows
    }
    return fresh | {known: experiment_label(row, is_live=known in jobs) for known, row in rows.items()}


def _draw_unknown(asked: str, kind: str, noun: str) -> None:
    """A link to an experiment that is not here, or that the store has yet to read, or that is of another kind."""
    if re.fullmatch(r"[0-9A-Za-z_-]{1,64}", asked) and (lab().home / "runs" / asked / "experiment.json").is_file():
        if kind_of(asked) is None:
            _await(asked)
            return
        st.warning(f"{plain(asked)} is no {noun}: it is an experiment of another kind.", icon=":material/link_off:")
        return
    st.warning(
        f"There is no {noun} {plain(asked[:40])} here: it may have been deleted, or made under another LAB_HOME.",
        icon=":material/link_off:",
    )


def kind_of(experiment_id: str) -> str | None:
    """The kind of a stored experiment; None where the store does not have it."""
    rows = lab().store.experiments.list()
    mine = rows.loc[rows["experiment_id"] == experiment_id, "kind"]
    return None if mine.empty else str(mine.iloc[0])


def _id_inside(folder_name: str) -> str | None:
    """The id in a folder's experiment.json where it is another than the folder's name; None where it cannot be read."""
    with contextlib.suppress(ValueError, OSError):
        found = ExperimentLog.read(lab().home / "runs" / folder_name).plan.experiment_id
        return None if found == folder_name else found
    return None


@st.fragment(run_every=AWAIT_S)
def _await(experiment_id: str) -> None:
    """The whole page is drawn anew as soon as the store has it, or has said why it cannot."""
    problems = [line for folder, line in lab().recorder.problems.items() if folder.name == experiment_id]
    if problems:
        st.error(f"This experiment cannot be read: {plain(problems[0])}", icon=":material/error:")
    elif kind_of(experiment_id) is not None:
        st.rerun()
    elif (other := _id_inside(experiment_id)) is not None:
        st.warning(
            f"The folder {plain(experiment_id)} is a copy of experiment {plain(other[:80])}, by its experiment.json: "
            "choose that one above.",
            icon=":material/content_copy:",
        )
    else:
        st.info("This experiment is being read into the store …", icon=":material/hourglass_top:")

"""Deleting runs and experiments into the trash: History says what went, and can undo it."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.core.format import plural
from pages.parts.shared.lab import lab

JUST_DELETED = "lab.just_deleted"  # the entries that Undo brings back
NOTICE = "history.notice"


def delete_runs(run_ids: Sequence[str]) -> None:
    """Move runs into the trash; the page says so when it is drawn next."""
    done = lab().store.trash.delete(run_ids)
    st.session_state[JUST_DELETED] = [entry.entry_id for entry in done.entries]
    if done.refused:
        st.session_state[NOTICE] = " ".join(done.refused)


def delete_experiment(experiment_id: str) -> None:
    """Move an experiment into the trash, with its runs; the page says so when it is drawn next."""
    try:
        done = lab().store.trash.delete_experiment(experiment_id)
    except (KeyError, ValueError, OSError) as error:
        st.session_state[NOTICE] = str(error.args[0] if error.args else error)
        return
    st.session_state[JUST_DELETED] = [entry.entry_id for entry in done.entries]
    if done.refused:
        st.session_state[NOTICE] = " ".join(done.refused)


def predictions_text(subject_ids: Sequence[str]) -> str:
    """What becomes of the predictions of runs and experiments that are to be deleted; empty where there are none.

    A pair goes with the last of its runs.
    """
    store, ids = lab().store, set(subject_ids)
    rows = store.predictions.list()
    for experiment_id in rows.loc[rows["subject_kind"] == "experiment", "subject_id"].unique():
        runs = set(store.experiments.runs(experiment_id)["run_id"])
        if runs and runs <= ids:
            ids.add(experiment_id)
    count = int(rows["subject_id"].isin(ids).sum())
    if not count:
        return ""
    what, verb = plural(count, "prediction"), "stays" if count == 1 else "stay"
    return f"{what} of it {verb}, graded as now, under Predictions, and will say that what they were of is gone."

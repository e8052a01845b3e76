"""The predictions of a run or an experiment as cards: open ones to edit, closed and graded ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from engine.core.format import is_missing
from engine.launcher.job import Job
from engine.predictions.prediction import MAX_WHY, Expectation
from pages.figures.frames import records
from pages.parts.predictions.text import (
    BADGES,
    dates_text,
    entry_of,
    outcome_text,
    range_text,
    simulated_text,
    subject_text,
    without_ticks,
)
from pages.parts.shared.lab import lab
from pages.parts.shared.links import EXPERIMENT_PAGES, runs_query
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from store.predictions.predictions import Subject

WATCH_S = 2.0
CHANGING = ("prediction_id", "low", "high", "why", "outcome", "reason")


def draw_predictions(subject: Subject, *, title: str = "Predictions") -> None:
    """Every prediction of a subject; nothing where there is none."""
    rows = records(lab().store.predictions.list(subject))
    if not rows:
        return
    st.subheader(title, anchor="predictions")
    for row in reversed(rows):  # the oldest first
        draw_prediction(row)
    if any(row["outcome"] in ("open", "pending") for row in rows):
        _watch(subject, state_of_predictions(rows))


def has_predictions(subject: Subject) -> bool:
    """Whether there is a prediction of this subject."""
    return bool(len(lab().store.predictions.list(subject)))


@st.fragment(run_every=WATCH_S)
def _watch(subject: Subject, drawn: tuple[tuple[str, ...], ...]) -> None:
    """Draw the page again when one of them is edited, closed or graded."""
    if state_of_predictions(records(lab().store.predictions.list(subject))) != drawn:
        st.rerun()


def state_of_predictions(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], ...]:
    """The values that can change in rows of the store's `predictions`, to compare with later ones."""
    return tuple(tuple(str(row[name]) for name in CHANGING) for row in rows)


def draw_prediction(row: Mapping[str, Any], *, with_subject: bool = False) -> None:
    """The card of one row of the store's `predictions`, with the buttons that apply."""
    badge = BADGES[str(row["outcome"])]
    expected = range_text(str(row["unit"]), row["low"], row["high"])
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.badge(badge.label, icon=badge.icon, color=badge.color, help=badge.help)
            st.markdown(f"**{plain(str(row['label']))}**: expected {plain(expected)}")
        why = plain(without_ticks(str(row["why"])))
        lines = [plain(outcome_text(row)), plain(simulated_text(row)), f"*Reason:* {why}"]
        st.markdown("  \n".join(line for line in lines if line))
        line = dates_text(row)
        if with_subject:
            line += f". Of {plain(subject_text(row))}"
        st.caption(line)
        if row["outcome"] == "open" or with_subject:
            _draw_buttons(row, with_subject=with_subject)


def _draw_buttons(row: Mapping[str, Any], *, with_subject: bool) -> None:
    prediction_id = str(row["prediction_id"])
    with st.container(horizontal=True):
        if with_subject and not row["is_unknown"]:
            _draw_link(row)
        if row["outcome"] == "open":
            if st.button("Edit …", icon=":material/edit:", key=page_key(f"edit_{prediction_id}")):
                _edit(row)
            if st.button("Withdraw …", icon=":material/undo:", key=page_key(f"withdraw_{prediction_id}")):
                _withdraw(row)


def _draw_link(row: Mapping[str, Any]) -> None:
    """The link to its run or experiment."""
    subject_id = str(row["subject_id"])
    if row["subject_kind"] == "run":
        st.page_link(
            "pages/run.py", label="Open run", icon=":material/view_timeline:", query_params={"run_id": subject_id}
        )
        return
    page = EXPERIMENT_PAGES.get(str(row["experiment_kind"]))
    if page is not None:
        query = {"experiment": subject_id}
        st.page_link(page, label="Open experiment", icon=":material/science:", query_params=query)
        return
    runs = lab().store.experiments.runs(subject_id)["run_id"].tolist()
    if runs:
        query = runs_query([str(run_id) for run_id in runs])
        st.page_link("pages/compare.py", label="Compare runs", icon=":material/compare_arrows:", query_params=query)


@st.dialog("Edit prediction", icon=":material/edit:")
def _edit(row: Mapping[str, Any]) -> None:
    draw_edit(row)


def draw_edit(row: Mapping[str, Any]) -> None:
    """The fields for range and reason. The question cannot be changed."""
    entry = entry_of(str(row["unit"]))
    st.markdown(f"**{plain(str(row['label']))}**")
    low, high = st.columns(2)
    typed: dict[str, float | None] = {}
    for name, column, label in (("low", low, "From"), ("high", high, "To")):
        value = None if is_missing(row[name]) else float(f"{float(row[name]) / entry.factor:.12g}")
        typed[name] = column.number_input(f"{label}, {entry.unit}", value=value, placeholder="open", format="%g")
    why = st.text_area("Reason", str(row["why"]), max_chars=MAX_WHY)
    if st.button("Save", type="primary", icon=":material/save:"):
        try:
            ends = {name: None if end is None else end * entry.factor for name, end in typed.items()}
            expected = Expectation(**ends, why=why or "")
            seen = Expectation(**{n: None if is_missing(row[n]) else row[n] for n in ("low", "high")}, why=row["why"])
            lab().store.predictions.edit(str(row["prediction_id"]), expected, instead_of=seen)
        except (KeyError, ValueError) as error:
            st.error(plain(str(error.args[0])), icon=":material/error:")
        else:
            st.rerun()


@st.dialog("Withdraw this prediction?", icon=":material/undo:")
def _withdraw(row: Mapping[str, Any]) -> None:
    draw_withdraw(row)


def draw_withdraw(row: Mapping[str, Any]) -> None:
    """The confirmation."""
    expected = range_text(str(row["unit"]), row["low"], row["high"])
    st.markdown(f"**{plain(str(row['label']))}**: {plain(expected)}")
    st.markdown("This deletes the prediction. This cannot be undone.")
    with st.container(horizontal=True):
        if st.button("Withdraw", type="primary", icon=":material/undo:"):
            try:
                lab().store.predictions.withdraw(str(row["prediction_id"]))
            except (KeyError, ValueError) as error:
                st.error(plain(str(error.args[0])), icon=":material/error:")
            else:
                st.rerun()
        if st.button("Cancel"):
            st.rerun()


def subject_of_job(job: Job) -> Subject:
    """The subject of predictions of a job: its one run, or the experiment of its runs."""
    run_ids = tuple(run.run_id for run in job.runs if not run.kept)
    if job.experiment_id is None:
        return Subject(kind="run", subject_id=run_ids[0])
    return Subject(kind="experiment", subject_id=job.experiment_id, run_ids=run_ids)

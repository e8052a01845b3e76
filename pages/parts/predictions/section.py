"""What was predicted of a run or an experiment: open to edit, closed, or graded. For every page that shows one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from engine.core.format import is_missing
from engine.launcher.job import Job
from engine.predictions.prediction import MAX_WHY, Expectation
from pages.parts.predictions.text import (
    BADGES,
    entry_of,
    outcome_text,
    range_text,
    simulated_text,
    subject_text,
    without_ticks,
    written_text,
)
from pages.parts.shared.lab import lab
from pages.parts.shared.links import EXPERIMENT_PAGES
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from store.predictions.predictions import Subject

WATCH_S = 2.0
CHANGING = ("prediction_id", "low", "high", "why", "outcome", "reason")


def draw_predictions(subject: Subject, *, title: str = "What was predicted") -> None:
    """Every prediction of a subject; nothing at all where nobody made one."""
    rows = lab().store.predictions.list(subject).to_dict("records")
    if not rows:
        return
    st.subheader(title, anchor="predictions")
    for row in reversed(rows):  # as they were written
        draw_prediction({str(name): value for name, value in row.items()})
    if any(row["outcome"] in ("open", "pending") for row in rows):
        _watch(subject, state_of_predictions(rows))


@st.fragment(run_every=WATCH_S)
def _watch(subject: Subject, drawn: tuple[tuple[str, ...], ...]) -> None:
    """The page is drawn anew when one of them was edited, closed or graded since, by whomever."""
    if state_of_predictions(lab().store.predictions.list(subject).to_dict("records")) != drawn:
        st.rerun()


def state_of_predictions(rows: Sequence[Mapping[Any, Any]]) -> tuple[tuple[str, ...], ...]:
    """What a page that shows them depends on: rows of the store's `predictions`, as far as they can change."""
    return tuple(tuple(str(row[name]) for name in CHANGING) for row in rows)


def draw_prediction(row: Mapping[str, Any], *, with_subject: bool = False) -> None:
    """One prediction as the store's `predictions` has it, and what can still be done with it."""
    badge = BADGES[str(row["outcome"])]
    expected = range_text(str(row["unit"]), row["low"], row["high"])
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.badge(badge.label, icon=badge.icon, color=badge.color, help=badge.help)
            st.markdown(f"**{plain(str(row['label']))}**: expected {plain(expected)}")
        why = plain(without_ticks(str(row["why"])))
        lines = [plain(outcome_text(row)), plain(simulated_text(row)), f"*Why:* {why}"]
        st.markdown("  \n".join(line for line in lines if line))
        said = written_text(row)
        if with_subject:
            said += f". Of {plain(subject_text(row))}"
        st.caption(said)
        if row["outcome"] == "open" or with_subject:
            _draw_ways_on(row, with_subject=with_subject)


def _draw_ways_on(row: Mapping[str, Any], *, with_subject: bool) -> None:
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
    """The way to what it is of: a run, or the page of its kind of experiment."""
    subject_id = str(row["subject_id"])
    if row["subject_kind"] == "run":
        st.page_link(
            "pages/run.py", label="The run", icon=":material/view_timeline:", query_params={"run_id": subject_id}
        )
        return
    page = EXPERIMENT_PAGES.get(str(row["experiment_kind"]))
    if page is not None:
        query = {"experiment": subject_id}
        st.page_link(page, label="The experiment", icon=":material/science:", query_params=query)
        return
    runs = lab().store.experiments.runs(subject_id)["run_id"].tolist()
    if runs:
        query = {"runs": ",".join(map(str, runs[:8]))}
        st.page_link("pages/compare.py", label="The runs", icon=":material/compare_arrows:", query_params=query)


@st.dialog("Expect something else", icon=":material/edit:")
def _edit(row: Mapping[str, Any]) -> None:
    draw_edit(row)


def draw_edit(row: Mapping[str, Any]) -> None:
    """The range and the reason; the question stays."""
    entry = entry_of(str(row["unit"]))
    st.markdown(f"**{plain(str(row['label']))}**")
    low, high = st.columns(2)
    ends = {}
    for name, column, label in (("low", low, "From"), ("high", high, "To")):
        value = None if is_missing(row[name]) else float(f"{float(row[name]) / entry.factor:.12g}")
        ends[name] = column.number_input(f"{label}, {entry.unit}", value=value, placeholder="open", format="%g")
    why = st.text_area("Why", str(row["why"]), max_chars=MAX_WHY)
    if st.button("Save", type="primary", icon=":material/save:"):
        try:
            low_end, high_end = (None if ends[n] is None else ends[n] * entry.factor for n in ("low", "high"))
            expected = Expectation(low=low_end, high=high_end, why=why or "")
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
    """The question before it is gone."""
    expected = range_text(str(row["unit"]), row["low"], row["high"])
    st.markdown(f"**{plain(str(row['label']))}**: {plain(expected)}")
    st.markdown("It will be as if it had never been made. This cannot be undone.")
    with st.container(horizontal=True):
        if st.button("Withdraw", type="primary", icon=":material/undo:"):
            try:
                lab().store.predictions.withdraw(str(row["prediction_id"]))
            except (KeyError, ValueError) as error:
                st.error(plain(str(error.args[0])), icon=":material/error:")
            else:
                st.rerun()
        if st.button("Keep"):
            st.rerun()


def subject_of_job(job: Job) -> Subject:
    """What is predicted of a job of the queue: its one run, or the experiment of its runs."""
    run_ids = tuple(run.run_id for run in job.runs if not run.kept)
    if job.experiment_id is None:
        return Subject(kind="run", subject_id=run_ids[0])
    return Subject(kind="experiment", subject_id=job.experiment_id, run_ids=run_ids)

"""What can be done with the selected runs of the history: open, compare, repeat, note, pin, take along, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import is_missing, plural
from pages.parts.history.table import kept_apart
from pages.parts.runs.loaded_run import find_row
from pages.parts.runs.notes import edit_notes, set_pinned
from pages.parts.runs.run_text import engine_line, machine_line, workload_line
from pages.parts.runs.trash import delete_runs, predictions_text
from pages.parts.shared.fields import query_of
from pages.parts.shared.lab import lab
from pages.parts.shared.links import MAX_RUNS, runs_query
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from pages.parts.shared.transfer import draw_csv, draw_download
from pages.parts.shared.visit import JOB, visitor

Rows = Sequence[Mapping[str, Any]]


def draw_actions(chosen: Rows) -> None:
    """The buttons over the table; each is off until rows are selected that it can do something with."""
    ids = [str(row["run_id"]) for row in chosen]
    if st.button("Open", icon=":material/view_timeline:", disabled=len(ids) != 1, help="Select one run"):
        st.switch_page("pages/run.py", query_params={"run_id": ids[0]})
    can_compare = 2 <= len(ids) <= MAX_RUNS
    if st.button(
        "Compare", icon=":material/compare_arrows:", disabled=not can_compare, help=f"Select two to {MAX_RUNS} runs"
    ):
        st.switch_page("pages/compare.py", query_params=runs_query(oldest_first(chosen)))
    if st.button("Repeat …", icon=":material/replay:", disabled=len(ids) != 1, help="Select one run"):
        _repeat(ids[0])
    if st.button("Note and tags …", icon=":material/edit_note:", disabled=not ids, help="Select one run or more"):
        edit_notes(ids)
    _draw_pin(chosen, ids)
    sizes = [row["log_bytes"] for row in chosen if not is_missing(row["log_bytes"])]
    draw_download(ids, sum(sizes), label="Export", key=page_key("export"))
    draw_csv(ids or None)
    _draw_delete(chosen)


def oldest_first(rows: Rows) -> list[str]:
    """The ids of runs in the order in which they were made, as a comparison has them."""
    return [str(row["run_id"]) for row in sorted(rows, key=lambda row: (str(row["created_at"]), str(row["run_id"])))]


def _draw_pin(chosen: Rows, ids: Sequence[str]) -> None:
    pinned = bool(chosen) and all(bool(row["pinned"]) for row in chosen)
    label = "Unpin" if pinned else "Pin"
    if st.button(label, icon=":material/keep:", disabled=not ids, help="Pinned runs stand first", key=page_key("pin")):
        set_pinned(ids, not pinned)
        st.rerun()


def _draw_delete(chosen: Rows) -> None:
    deletable, running = kept_apart(chosen)
    if st.button(
        "Delete", icon=":material/delete:", disabled=not deletable, help="Into the trash, from where it can come back"
    ):
        if predictions_text(deletable):
            _confirm_delete(deletable)
        else:
            delete_runs(deletable)
            st.rerun()
    if running:
        st.caption(f"{plural(len(running), 'run')} of the selection still going: stop it on Bench before deleting it.")
    elif chosen:
        st.caption(f"{plural(len(chosen), 'run')} selected")


@st.dialog("Delete what was predicted of?", icon=":material/delete:")
def _confirm_delete(run_ids: Sequence[str]) -> None:
    draw_confirmation(run_ids)


def draw_confirmation(run_ids: Sequence[str]) -> None:
    """Predictions outlive their runs: said before, since nobody could find them under a run afterward."""
    st.markdown(f"{plural(len(run_ids), 'run')} into the trash, from where it can come back.")
    st.markdown(predictions_text(run_ids))
    with st.container(horizontal=True):
        if st.button(f"Delete {plural(len(run_ids), 'run')}", type="primary", icon=":material/delete:"):
            delete_runs(run_ids)
            st.rerun()
        if st.button("Keep"):
            st.rerun()


@st.dialog("Repeat this run?", icon=":material/replay:")
def _repeat(run_id: str) -> None:
    """The same settings once more: at once, or on Bench, where they can be changed first."""
    row = find_row(run_id)
    if row is None:
        st.error("This run is not here any more.", icon=":material/error:")
        return
    try:
        config = RunConfig.from_dict(row["info"]["config"])
    except (KeyError, TypeError, ValueError) as error:
        st.error(f"Its settings cannot be read here: {plain(str(error))}", icon=":material/error:")
        return
    st.markdown(f"**{engine_line(config)}**  \n{workload_line(row['info'], {})}  \n{machine_line(row['info'])}")
    st.caption("Settings and requests are the same; the machine is this one, as it is now.")
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Run it now", type="primary", icon=":material/play_arrow:"):
            job = lab().queue.submit((config,), kind="single", label=config.engine, visitor=visitor())
            st.switch_page("pages/bench.py", query_params={**query_of(config), JOB: job.job_id})
        if config.workload.prompts == "file":
            st.caption("On Bench its file of prompts would have to be uploaded again.")
        st.page_link(
            "pages/bench.py", label="Change it on Bench first", icon=":material/tune:", query_params=query_of(config)
        )

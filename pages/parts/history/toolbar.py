"""The buttons above History's table: open, compare, repeat, note, pin, export and delete the selected runs."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import is_missing, plural
from engine.simulator.machine import SimulationTarget
from pages.parts.runs.loaded_run import find_row
from pages.parts.runs.run_actions import delete_runs, draw_download, edit_notes, predictions_text, set_pinned
from pages.parts.runs.run_text import engine_line, machine_line, workload_line
from pages.parts.shared.fields import query_of
from pages.parts.shared.lab import lab, others_text, visitor
from pages.parts.shared.links import MAX_RUNS, runs_query
from pages.parts.shared.machine_fit import memory_warning
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import JOB, page_key
from store import Store
from store.transfer.tables import write_csv

Rows = Sequence[Mapping[str, Any]]


def draw_toolbar(chosen: Rows) -> None:
    """The buttons; each is off until a selection suits it."""
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
    if st.button("Note and tags …", icon=":material/edit_note:", disabled=not ids, help="Select one or more runs"):
        edit_notes(ids)
    _draw_pin(chosen, ids)
    sizes = [row["log_bytes"] for row in chosen if not is_missing(row["log_bytes"])]
    draw_download(ids, sum(sizes), label="Export", key=page_key("export"))
    _draw_csv(ids or None)
    _draw_delete(chosen)


def oldest_first(rows: Rows) -> list[str]:
    """The run ids by time of creation, the order of a comparison."""
    return [str(row["run_id"]) for row in sorted(rows, key=lambda row: (str(row["created_at"]), str(row["run_id"])))]


def _draw_pin(chosen: Rows, ids: Sequence[str]) -> None:
    pinned = bool(chosen) and all(bool(row["pinned"]) for row in chosen)
    label = "Unpin" if pinned else "Pin"
    if st.button(label, icon=":material/keep:", disabled=not ids, help="Pinned runs come first", key=page_key("pin")):
        set_pinned(ids, not pinned)
        st.rerun()


def _draw_csv(run_ids: Sequence[str] | None) -> None:
    """A button for the metrics of these runs (None: all runs) as a table, a row per run."""
    store = lab().store
    st.download_button(
        "Metrics as CSV",
        data=lambda: _csv(store, run_ids),
        file_name="metrics.csv",
        mime="text/csv",
        icon=":material/table_view:",
        on_click="ignore",
        help="Every metric of the selected runs, or of all runs if none is selected; a row per run",
        key=page_key("metrics_csv"),
    )


def _csv(store: Store, run_ids: Sequence[str] | None) -> str:
    content = io.StringIO(newline="")
    write_csv(store, content, run_ids)
    return content.getvalue()


def _draw_delete(chosen: Rows) -> None:
    deletable, running = split_running(chosen)
    if st.button("Delete", icon=":material/delete:", disabled=not deletable, help="Move to the trash; can be undone"):
        if predictions_text(deletable) or others_text(deletable):
            _confirm_delete(deletable)
        else:
            delete_runs(deletable)
            st.rerun()
    if running:
        st.caption(f"{plural(len(running), 'selected run')} still running: stop it on Bench, then delete it.")
    elif chosen:
        st.caption(f"{plural(len(chosen), 'run')} selected")


def split_running(rows: Rows) -> tuple[list[str], list[str]]:
    """The ids of the runs that can be deleted, and of those that are still running."""
    running = [str(row["run_id"]) for row in rows if row["status"] == "running"]
    return [str(row["run_id"]) for row in rows if str(row["run_id"]) not in running], running


@st.dialog("Delete these runs?", icon=":material/delete:")
def _confirm_delete(run_ids: Sequence[str]) -> None:
    draw_confirmation(run_ids)


def draw_confirmation(run_ids: Sequence[str]) -> None:
    """Whose runs they are, and where to find their predictions, which outlive them."""
    st.markdown(f"{plural(len(run_ids), 'run')} will move to the trash. This can be undone.")
    for line in (others_text(run_ids), predictions_text(run_ids)):
        if line:
            st.markdown(line)
    with st.container(horizontal=True):
        if st.button(f"Delete {plural(len(run_ids), 'run')}", type="primary", icon=":material/delete:"):
            delete_runs(run_ids)
            st.rerun()
        if st.button("Cancel"):
            st.rerun()


@st.dialog("Repeat this run?", icon=":material/replay:")
def _repeat(run_id: str) -> None:
    """Run the same settings again, or open them on Bench to change them."""
    row = find_row(run_id)
    if row is None:
        st.error("This run no longer exists.", icon=":material/error:")
        return
    try:
        config = RunConfig.from_dict(row["info"]["config"])
    except (KeyError, TypeError, ValueError) as error:
        st.error(f"This version cannot read the run's settings: {plain(str(error))}", icon=":material/error:")
        return
    st.markdown(f"**{engine_line(config)}**  \n{workload_line(row['info'], {})}  \n{machine_line(row['info'])}")
    target = SimulationTarget.of_run(row["info"])
    link = query_of(config, target)
    if target is None:
        st.caption("Same settings and requests, on this machine.")
        if warning := memory_warning(config):
            st.caption(f":orange[:material/warning: {plain(warning)}]")
    else:
        st.caption("Same settings and requests, simulated again.")
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Run" if target is None else "Simulate", type="primary", icon=":material/play_arrow:"):
            job = lab().queue.submit((config,), kind="single", label=config.engine, visitor=visitor(), target=target)
            st.switch_page("pages/bench.py", query_params={**link, JOB: job.job_id})
        if config.workload.prompts == "file":
            st.caption("Bench needs its prompt file again.")
        st.page_link("pages/bench.py", label="Edit on Bench", icon=":material/tune:", query_params=link)

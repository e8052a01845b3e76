"""A run that is still going, or that ended otherwise than meant: what is going on, told in words.

The watch on a live run redraws itself alone, so that figures stay still while somebody reads them; the whole page is
drawn anew when the run ends, however it ends.
"""

from __future__ import annotations

import streamlit as st

from engine.core.format import count, plural
from pages.parts.lab import lab
from pages.parts.markdown import plain
from pages.parts.page_state import page_key
from pages.parts.run_data import RunData, find_row
from pages.parts.run_trouble import draw_trouble, trouble_of

WATCH_S = 1.0


def draw_status(run: RunData) -> None:
    """Nothing for a run that completed and whose log is whole."""
    if damage := run.row.get("damage"):
        line = f"A part of this run's log cannot be read: {plain(str(damage))}. What is whole is shown."
        st.warning(line, icon=":material/broken_image:")
    if run.status == "running":
        _watch(run.run_id)
        return
    trouble = trouble_of(run.status, run.error, run.oom, run.metrics, run.num_requests)
    if trouble is not None:
        draw_trouble(trouble, worker_words(run.run_id))


@st.fragment(run_every=WATCH_S)
def _watch(run_id: str) -> None:
    row = find_row(run_id)
    if row is None or row["status"] != "running":
        st.rerun()
    metrics = lab().store.runs.metrics(run_id)
    done = (
        f"This run is still going: {count(metrics.get('finished_requests') or 0)} requests finished, "
        f"{plural(int(metrics.get('output_tokens') or 0), 'token')} so far."
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(f"{done} Below is what was logged when the page was drawn.", icon=":material/play_circle:")
        if st.button("Draw anew", icon=":material/refresh:", key=page_key(f"draw_{run_id}")):
            st.rerun()


def worker_words(run_id: str) -> str:
    """What the worker of this run wrote to its stderr before it died, if this app still knows."""
    runs = [run for job in lab().queue.jobs() for run in job.runs if run.run_id == run_id]
    return runs[-1].stderr if runs else ""  # a run that had not begun may have been queued twice

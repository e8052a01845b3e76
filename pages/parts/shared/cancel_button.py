"""Cancel of a job: one click for the visitor who started it, two for any other visitor."""

from __future__ import annotations

import streamlit as st

from engine.launcher.job import Job
from pages.parts.shared.lab import is_another_visitors, lab
from pages.parts.shared.page_state import page_key


def draw_cancel(job: Job, help: str | None = None) -> None:
    """The button, or the question before another visitor's job is canceled. Callbacks work in any fragment.

    It says `Canceling …` from the click to the end of the job.
    """
    asks = page_key(f"asks_to_cancel_{job.job_id}")
    if job.canceled:
        st.button("Canceling …", icon=":material/stop_circle:", key=page_key(f"cancel_{job.job_id}"), disabled=True)
    elif not is_another_visitors(job.visitor):
        _draw_cancel(job, "Cancel", help)
    elif st.session_state.get(asks):
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            st.markdown("Another visitor started this.")
            _draw_cancel(job, "Cancel it", "Its tokens so far are kept.")
            st.button("Keep running", key=page_key(f"keep_{job.job_id}"), on_click=_set, args=(asks, False))
    else:
        st.button(
            "Cancel …",
            icon=":material/stop_circle:",
            key=page_key(f"ask_{job.job_id}"),
            help=help,
            on_click=_set,
            args=(asks, True),
        )


def _draw_cancel(job: Job, label: str, help: str | None) -> None:
    st.button(
        label,
        icon=":material/stop_circle:",
        key=page_key(f"cancel_{job.job_id}"),
        help=help,
        on_click=lab().queue.cancel,
        args=(job.job_id,),
    )


def _set(key: str, value: bool) -> None:
    st.session_state[key] = value

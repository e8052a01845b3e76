"""One visit: who the visitor is, and which job the page follows. Its id is in the address, so a reload keeps it."""

from __future__ import annotations

import secrets

import streamlit as st

JOB = "job"


def visitor() -> str:
    """A name for this browser session, the same for as long as it lasts. It says nothing about the person."""
    if "lab.visitor" not in st.session_state:
        st.session_state["lab.visitor"] = secrets.token_hex(4)
    return str(st.session_state["lab.visitor"])


def followed_job() -> str | None:
    """The job that the address names, or None."""
    return st.query_params.get(JOB) or None


def follow_job(job_id: str) -> None:
    """Put a job into the address: the page shows it from now on, and after a reload too."""
    st.query_params[JOB] = job_id


def forget_job() -> None:
    """Take the job out of the address; the job itself goes on."""
    st.query_params.pop(JOB, None)

"""Choosing a run: the newest ones, and what a page says when there is none, or not the one that was asked for."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.parts.format import plain
from pages.parts.lab import lab

RECENT = 60


def recent_rows() -> list[dict[str, Any]]:
    """The newest runs, the newest first, as rows of the store's `runs`."""
    return lab().store.runs(limit=RECENT).to_dict("records")


def draw_no_runs(what: str) -> None:
    """No run at all: what this page would show, and the way to a first run."""
    st.info(f"There is no run yet. {what}", icon=":material/hourglass_empty:")
    st.page_link("pages/bench.py", label="Set up a first run on Bench", icon=":material/tune:")


def draw_unknown(run_ids: list[str]) -> None:
    """A link to runs that are not there: one line, and a way on."""
    named = ", ".join(plain(run_id[:40]) for run_id in run_ids)
    st.warning(
        f"There is no run {named} here: it may have been deleted, or made under another LAB_HOME.",
        icon=":material/link_off:",
    )
    st.page_link("pages/history.py", label="All runs are in History", icon=":material/history:")

"""Choosing a run: the newest ones, and what a page says when there is none, or not the one that was asked for."""

from __future__ import annotations

import re
from typing import Any

import streamlit as st

from engine.runlog.schema import RUN_FILE
from pages.parts.runs.loaded_run import find_row
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain

RECENT = 60
AWAIT_S = 0.5


def recent_rows() -> list[dict[str, Any]]:
    """The newest runs, the newest first, as rows of the store's `runs`."""
    return lab().store.runs.list(limit=RECENT).to_dict("records")


def draw_no_runs(what: str) -> None:
    """No run at all: what this page would show, and the way to a first run."""
    st.info(f"There is no run yet. {what}", icon=":material/hourglass_empty:")
    st.page_link("pages/bench.py", label="Set up a first run on Bench", icon=":material/tune:")
    _await_first()


@st.fragment(run_every=AWAIT_S)
def _await_first() -> None:
    """A first run may come from the command line; the page is drawn anew when it does."""
    if lab().store.runs.count():
        st.rerun()


def draw_unknown(run_ids: list[str]) -> None:
    """A link to runs that are not there: one line and a way on. For runs that the store has yet to read, a wait."""
    if any(_is_on_disk(run_id) for run_id in run_ids):
        _await(run_ids)
        return
    named = ", ".join(plain(run_id[:40]) for run_id in run_ids)
    st.warning(
        f"There is no run {named} here: it may have been deleted, or made under another LAB_HOME.",
        icon=":material/link_off:",
    )
    st.page_link("pages/history.py", label="All runs are in History", icon=":material/history:")


@st.fragment(run_every=AWAIT_S)
def _await(run_ids: list[str]) -> None:
    """The whole page is drawn anew as soon as the store has them all, or has said why it cannot."""
    problems = [plain(line) for folder, line in lab().recorder.problems.items() if folder.name in run_ids]
    if problems:
        st.error(f"This run cannot be read: {problems[0]}", icon=":material/error:")
    elif all(find_row(run_id) for run_id in run_ids):
        st.rerun()
    else:
        st.info("This run is being read into the store …", icon=":material/hourglass_top:")


def _is_on_disk(run_id: str) -> bool:
    """Whether the folder of runs holds this run, whatever the store knows."""
    is_name = re.fullmatch(r"[0-9A-Za-z_-]{1,64}", run_id) is not None
    return is_name and (lab().home / "runs" / run_id / RUN_FILE).is_file()

"""What can be done with an experiment as a whole: taken along as one file, deleted with its runs."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.core.format import plural
from pages.parts.lab import lab
from pages.parts.page_state import page_key
from pages.parts.shared.trash import delete_experiment, predictions_words
from pages.parts.transfer import draw_download
from store.queries.history import RunFilter

TO_DELETE = "lab.experiment_to_delete"


def delete_if_confirmed() -> None:
    """Called before a page of experiments draws anything: carry out what its dialog was told, and go to History.

    Not from the dialog itself: the page's bar would go on asking to be drawn anew meanwhile, and a request of the old
    page behind the way to the new one brings the old page's address back. A page that is drawn anew stops asking.
    """
    experiment_id = st.session_state.pop(TO_DELETE, None)
    if experiment_id is not None:
        with st.spinner("Deleting …"):
            delete_experiment(experiment_id)
        st.switch_page("pages/history.py")


def draw_experiment_tools(experiment_id: str) -> None:
    """Two buttons. Deleting asks first, says what becomes of predictions, and can be undone on History."""
    rows = lab().store.experiments.runs(experiment_id)
    run_ids = [str(run_id) for run_id in rows["run_id"]]
    found = lab().store.history.find(RunFilter(text=experiment_id), limit=1)
    is_going = bool((rows["status"] == "running").any())
    with st.container(horizontal=True):
        draw_download(run_ids, found.log_bytes, label="Export", key=page_key(f"export_{experiment_id}"))
        if st.button(
            "Delete …",
            icon=":material/delete:",
            key=page_key(f"delete_{experiment_id}"),
            disabled=is_going,
            help="Stop it first" if is_going else "With its runs, into the trash, from where it can come back",
        ):
            _confirm(experiment_id, run_ids)


@st.dialog("Delete this experiment?", icon=":material/delete:")
def _confirm(experiment_id: str, run_ids: Sequence[str]) -> None:
    draw_confirmation(experiment_id, run_ids)


def draw_confirmation(experiment_id: str, run_ids: Sequence[str]) -> None:
    """What will go, what stays, and the way back."""
    what = f"The experiment and {plural(len(run_ids), 'run')}"
    st.markdown(f"{what} go into the trash. History has it, and brings them back.")
    if kept := predictions_words([experiment_id, *run_ids]):
        st.markdown(kept)
    with st.container(horizontal=True):
        key = page_key(f"really_delete_{experiment_id}")
        if st.button("Delete", type="primary", icon=":material/delete:", key=key):
            st.session_state[TO_DELETE] = experiment_id
            st.rerun()
        if st.button("Keep"):
            st.rerun()

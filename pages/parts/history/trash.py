"""Undo after a delete, and the trash with everything that can be restored."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.core.format import plural, size
from pages.parts.runs.run_actions import JUST_DELETED, NOTICE, predictions_text
from pages.parts.runs.run_text import when
from pages.parts.shared.lab import lab, others_text
from pages.parts.shared.markdown import listed, plain
from pages.parts.shared.page_state import page_key
from store.trash import Entry


def what_text(entries: Sequence[Entry]) -> str:
    """`3 runs`, `1 experiment and 6 runs`."""
    experiments = sum(entry.kind == "experiment" for entry in entries)
    runs = len(entries) - experiments
    parts = [plural(experiments, "experiment")] if experiments else []
    return listed([*parts, plural(runs, "run")] if runs or not parts else parts)


def draw_undo() -> None:
    """The line after a delete with its Undo, until it is closed or something else is deleted."""
    known = {entry.entry_id: entry for entry in lab().store.trash.entries()}
    gone = [entry_id for entry_id in st.session_state.get(JUST_DELETED, []) if entry_id in known]
    if not gone:
        return
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        st.markdown(f":material/delete: {what_text([known[entry_id] for entry_id in gone])} moved to the trash.")
        if st.button("Undo", icon=":material/undo:", key=page_key("undo_delete")):
            _restore(gone)
        if st.button("", icon=":material/close:", type="tertiary", key=page_key("close_undo"), help="Dismiss"):
            st.session_state.pop(JUST_DELETED, None)
            st.rerun()


def draw_trash() -> None:
    """Everything in the trash, the last deleted first, to restore or to delete permanently."""
    entries = lab().store.trash.entries()
    if not entries:
        return
    total = sum(entry.log_bytes or 0 for entry in entries if entry.is_ours)
    with st.expander(f"Trash: {what_text(entries)}, {size(total)}", icon=":material/delete:"):
        labels = {entry.entry_id: _label(entry) for entry in entries}
        chosen = st.multiselect(
            "Deleted runs", list(labels), format_func=lambda entry_id: labels.get(entry_id, entry_id),
            key=page_key("trash"),
            placeholder="Choose runs to restore or delete permanently",
        )  # fmt: skip
        with st.container(horizontal=True):
            if st.button("Restore", icon=":material/undo:", disabled=not chosen):
                _restore(chosen)
            if st.button("Delete permanently …", icon=":material/delete_forever:", disabled=not chosen):
                _confirm_purge([entry for entry in entries if entry.entry_id in chosen])
            if st.button("Empty trash …", icon=":material/delete_sweep:"):
                _confirm_purge(entries)


@st.dialog("Delete permanently?", icon=":material/delete_forever:")
def _confirm_purge(entries: Sequence[Entry]) -> None:
    what = what_text(entries)
    st.markdown(f"This deletes {what} with all tokens, passes, answers and notes. This cannot be undone:")
    for line in (others_text(ids := [entry.run_id for entry in entries]), predictions_text(ids)):
        if line:
            st.caption(line)
    shown = [f"- {plain(_label(entry))}" for entry in entries[:5]]
    st.markdown("\n".join([*shown, *([f"- and {len(entries) - 5} more"] if len(entries) > 5 else [])]))
    outside = sum(not entry.is_ours for entry in entries)
    if outside:
        st.caption(f"{plural(outside, 'run')} of them came from another folder, which stays unchanged.")
    with st.container(horizontal=True):
        if st.button(f"Delete {what} permanently", type="primary", icon=":material/delete_forever:"):
            count = lab().store.trash.purge([entry.entry_id for entry in entries])
            gone = what if count == len(entries) else f"{count} of {what}"
            st.session_state[NOTICE] = f"Deleted {gone} permanently."
            st.rerun()
        if st.button("Cancel"):
            st.rerun()


def _restore(entry_ids: Sequence[str]) -> None:
    done = lab().store.trash.restore(entry_ids)
    st.session_state.pop(JUST_DELETED, None)
    st.session_state[NOTICE] = " ".join([f"Restored {what_text(done.entries)}.", *done.refused])
    st.rerun()


def _label(entry: Entry) -> str:
    if entry.kind == "experiment":
        return f"experiment {entry.engine}, {when(entry.created_at)}, deleted {when(entry.deleted_at)}"
    return f"{entry.engine}, {when(entry.created_at)}, run {entry.run_id}, deleted {when(entry.deleted_at)}"

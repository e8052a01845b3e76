"""Beside a run's figures: what is said of it, and the file to take it along in."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.parts.lab import lab
from pages.parts.markdown import plain
from pages.parts.page_state import page_key
from pages.parts.run_data import RunData
from pages.parts.shared.run_notes import edit_notes, set_pinned
from pages.parts.transfer import draw_download
from store.folders import log_bytes


def draw_run_tools(run: RunData) -> None:
    """The note and tags with the way to change them, the pin, and the run as one file once it is over."""
    said = lab().store.annotations.of(run.run_id)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for tag in said.tags:
            st.badge(plain(tag), icon=":material/sell:", color="gray")
        if st.button("Note and tags …", icon=":material/edit_note:", key=page_key("note")):
            edit_notes([run.run_id])
        if st.button("Unpin" if said.pinned else "Pin", icon=":material/keep:", key=page_key("pin")):
            set_pinned([run.run_id], not said.pinned)
            st.rerun()
        if run.status != "running":
            draw_download([run.run_id], log_bytes(Path(run.row["folder"])) or 0, label="Export", key=page_key("export"))
    if said.note:
        st.markdown("  \n".join(plain(line) for line in said.note.splitlines()))

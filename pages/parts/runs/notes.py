"""Saying something of runs: a note, tags, a pin. One dialog for one run or for several at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from engine.core.format import plural
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from store.annotations import MAX_NOTE, MAX_TAG, Annotation


@st.dialog("Note and tags", icon=":material/edit_note:")
def edit_notes(run_ids: Sequence[str]) -> None:
    """Of one run the note and all its tags; to several, tags are added."""
    before = lab().store.annotations.of(run_ids[0]) if len(run_ids) == 1 else Annotation()
    note = before.note
    if len(run_ids) == 1:
        note = st.text_area("Note", before.note, max_chars=MAX_NOTE, placeholder="What is worth remembering of it")
    tags = st.multiselect(
        "Tags" if len(run_ids) == 1 else f"Tags to add to {plural(len(run_ids), 'run')}",
        list(dict.fromkeys([*before.tags, *lab().store.history.facets()["tags"]])),
        default=list(before.tags),
        accept_new_options=True,
        placeholder="Choose or type one",
        help=f"Up to {MAX_TAG} characters each, without commas. History can be filtered by them.",
    )
    if st.button("Save", type="primary", icon=":material/save:"):
        try:
            save_notes(run_ids, note or "", tags)
        except (KeyError, ValueError) as error:
            st.error(plain(str(error.args[0])), icon=":material/error:")
        else:
            st.rerun()


def save_notes(run_ids: Sequence[str], note: str, tags: Sequence[str]) -> None:
    """What the dialog has: of one run all that is said, of several the tags that each gets besides its own."""
    store = lab().store
    for run_id in run_ids:
        before = store.annotations.of(run_id)
        if len(run_ids) == 1:
            store.annotations.set(run_id, Annotation(note=note, tags=tuple(tags), pinned=before.pinned))
        else:
            store.annotations.set(run_id, replace(before, tags=(*before.tags, *tags)))


def set_pinned(run_ids: Sequence[str], pinned: bool) -> None:
    """Pin runs to the top of History, or let them go; one that is gone meanwhile is passed over."""
    for run_id in run_ids:
        if lab().store.runs.has(run_id):
            lab().store.annotations.set(run_id, replace(lab().store.annotations.of(run_id), pinned=pinned))

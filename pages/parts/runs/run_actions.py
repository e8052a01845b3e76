"""What several pages do with runs: note, tag, pin, export, and move to the trash."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from engine.core.format import plural, size
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from store import Store
from store.annotations import MAX_NOTE, MAX_TAG, Annotation
from store.transfer.exporter import default_name, write_bundle

MAX_DOWNLOAD_BYTES = 200 << 20  # a browser downloads it from this process's memory
JUST_DELETED = "lab.just_deleted"  # the trash entries that Undo restores
NOTICE = "history.notice"  # what History shows once, when it is drawn next


@st.dialog("Note and tags", icon=":material/edit_note:")
def edit_notes(run_ids: Sequence[str]) -> None:
    """For one run its note and all its tags; for several, tags to add."""
    before = lab().store.annotations.of(run_ids[0]) if len(run_ids) == 1 else Annotation()
    note = before.note
    if len(run_ids) == 1:
        note = st.text_area("Note", before.note, max_chars=MAX_NOTE, placeholder="What to remember about this run")
    tags = st.multiselect(
        "Tags" if len(run_ids) == 1 else f"Tags to add to {plural(len(run_ids), 'run')}",
        list(dict.fromkeys([*before.tags, *lab().store.history.facets()["tags"]])),
        default=list(before.tags),
        accept_new_options=True,
        placeholder="Choose or type a tag",
        help=f"Up to {MAX_TAG} characters each, no commas. History can filter by tag.",
    )
    if st.button("Save", type="primary", icon=":material/save:"):
        try:
            save_notes(run_ids, note or "", tags)
        except (KeyError, ValueError) as error:
            st.error(plain(str(error.args[0])), icon=":material/error:")
        else:
            st.rerun()


def save_notes(run_ids: Sequence[str], note: str, tags: Sequence[str]) -> None:
    """Store what the dialog has: for one run, note and tags replace the old ones; for several, tags are added."""
    store = lab().store
    for run_id in run_ids:
        before = store.annotations.of(run_id)
        if len(run_ids) == 1:
            store.annotations.set(run_id, Annotation(note=note, tags=tuple(tags), pinned=before.pinned))
        else:
            store.annotations.set(run_id, replace(before, tags=(*before.tags, *tags)))


def set_pinned(run_ids: Sequence[str], pinned: bool) -> None:
    """Pin runs to the top of History, or unpin them; a run that no longer exists is skipped."""
    for run_id in run_ids:
        if lab().store.runs.has(run_id):
            lab().store.annotations.set(run_id, replace(lab().store.annotations.of(run_id), pinned=pinned))


def draw_download(run_ids: Sequence[str], log_bytes: float, *, label: str, key: str) -> None:
    """A button for one file with these runs, as `python -m store export` writes it; off where that is too large."""
    store = lab().store  # the file is made in a thread that has no Streamlit session
    too_large = log_bytes > MAX_DOWNLOAD_BYTES
    hint = "One file with these runs; History of another lab imports it"
    if too_large:
        hint = f"{size(log_bytes)} are too large to download; use: python -m store export {' '.join(run_ids[:3])} …"
    st.download_button(
        label,
        data=lambda: _bundle(store, run_ids),
        file_name=default_name(list(run_ids)) if run_ids else "runs.zip",
        mime="application/zip",
        icon=":material/download:",
        disabled=not run_ids or too_large,
        on_click="ignore",
        help=hint,
        key=key,
    )


def _bundle(store: Store, run_ids: Sequence[str]) -> bytes:
    content = io.BytesIO()
    write_bundle(store, run_ids, content)
    return content.getvalue()


def delete_runs(run_ids: Sequence[str]) -> None:
    """Move runs to the trash; History then offers to undo it."""
    done = lab().store.trash.delete(run_ids)
    st.session_state[JUST_DELETED] = [entry.entry_id for entry in done.entries]
    if done.refused:
        st.session_state[NOTICE] = " ".join(done.refused)


def delete_experiment(experiment_id: str) -> None:
    """Move an experiment and its runs to the trash; History then offers to undo it."""
    try:
        done = lab().store.trash.delete_experiment(experiment_id)
    except (KeyError, ValueError, OSError) as error:
        st.session_state[NOTICE] = str(error.args[0] if error.args else error)
        return
    st.session_state[JUST_DELETED] = [entry.entry_id for entry in done.entries]
    if done.refused:
        st.session_state[NOTICE] = " ".join(done.refused)


def predictions_text(subject_ids: Sequence[str]) -> str:
    """What happens to the predictions of runs and experiments that are about to be deleted; empty where there are none.

    A comparison made on Bench has no log: it is deleted with the last of its runs.
    """
    store, ids = lab().store, set(subject_ids)
    rows = store.predictions.list()
    for experiment_id in rows.loc[rows["subject_kind"] == "experiment", "subject_id"].unique():
        runs = set(store.experiments.runs(experiment_id)["run_id"])
        if runs and runs <= ids:
            ids.add(experiment_id)
    count = int(rows["subject_id"].isin(ids).sum())
    if not count:
        return ""
    it = "it" if len(subject_ids) == 1 else "them"
    stay, grade = ("stays", "its grade") if count == 1 else ("stay", "their grades")
    return f"{plural(count, 'prediction')} about {it} {stay} on Predictions, with {grade}."

"""Runs out of the app and into it: downloads that are made when they are asked for, and the upload of an export."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import streamlit as st

from engine.core.format import exact, plural, size
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from store import Store
from store.folders import UPLOADING
from store.transfer.exporter import default_name, write_bundle
from store.transfer.importer import import_runs
from store.transfer.tables import write_csv

MAX_DOWNLOAD_BYTES = 200 << 20  # a browser gets it out of this process's memory
MAX_UPLOAD_MIB = 200
UPLOADS = "history.uploads"  # how many files this visit has handed in: a new field for the next


def draw_download(run_ids: Sequence[str], log_bytes: float, *, label: str, key: str) -> None:
    """A button for a file of these runs, as `python -m store export` writes it. Larger ones are left to that."""
    store = lab().store  # the file is made in a thread that is no visitor's
    too_large = log_bytes > MAX_DOWNLOAD_BYTES
    hint = "One file with these runs: another lab takes it in, under History"
    if too_large:
        hint = f"{size(log_bytes)} are too much for a browser; use: python -m store export {' '.join(run_ids[:3])} …"
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


def draw_csv(run_ids: Sequence[str] | None) -> None:
    """A button for the metrics of these runs (all: None) as a table, a run a row."""
    store = lab().store
    st.download_button(
        "Metrics as CSV",
        data=lambda: _csv(store, run_ids),
        file_name="metrics.csv",
        mime="text/csv",
        icon=":material/table_view:",
        on_click="ignore",
        help="Every metric of the selected runs, or of all that are found, a run a row",
        key=page_key("metrics_csv"),
    )


def draw_upload() -> None:
    """The field for a file that another lab has exported, and what came of it."""
    st.markdown(
        "A file that a lab has exported, here or on another machine. It is taken in whole or not at all; runs that are "
        f"here already stay as they are. Up to {exact(MAX_UPLOAD_MIB, 'MiB')}; larger ones with "
        "`python -m store import FILE`."
    )
    turn = st.session_state.setdefault(UPLOADS, 0)
    key = page_key(f"upload_{turn}")
    upload = st.file_uploader("Exported runs", type=["zip"], max_upload_size=MAX_UPLOAD_MIB, key=key)
    if upload is not None and st.button("Import", type="primary", icon=":material/upload:"):
        if upload.size > MAX_UPLOAD_MIB << 20:  # the field refuses it; whoever speaks to the server does not have to
            st.error(f"{plain(upload.name)} is larger than {exact(MAX_UPLOAD_MIB, 'MiB')}.", icon=":material/error:")
        else:
            _import(upload, upload.name)


def _import(upload: IO[bytes], name: str) -> None:
    bar = st.progress(0.0, "Unpacking …")
    with tempfile.NamedTemporaryFile(suffix=".zip", dir=lab().home, prefix=UPLOADING) as file:
        while piece := upload.read(1 << 20):
            file.write(piece)
        file.flush()
        try:
            done = import_runs(
                lab().store,
                Path(file.name),
                lambda share, run_id: bar.progress(share * 0.9, f"Unpacking run {plain(run_id)} …"),
                name=name,
            )
        except (ValueError, OSError) as error:
            bar.empty()
            st.error(plain(str(error)), icon=":material/error:")
            return
    bar.progress(1.0, "Done")
    known = f", {plural(len(done.known), 'run')} already here" if done.known else ""
    st.session_state[UPLOADS] += 1
    st.session_state["history.notice"] = f"{plural(len(done.new), 'run')} imported{known}."
    st.rerun()


def _bundle(store: Store, run_ids: Sequence[str]) -> bytes:
    content = io.BytesIO()
    write_bundle(store, run_ids, content)
    return content.getvalue()


def _csv(store: Store, run_ids: Sequence[str] | None) -> str:
    content = io.StringIO(newline="")
    write_csv(store, content, run_ids)
    return content.getvalue()

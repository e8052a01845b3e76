"""The upload of exported runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO

import streamlit as st

from engine.core.format import exact, plural
from pages.parts.runs.run_actions import NOTICE
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from store.folders import UPLOADING
from store.transfer.importer import import_runs

MAX_UPLOAD_MIB = 200
UPLOADS = "history.uploads"  # files imported in this session: the next upload needs a new field


def draw_upload() -> None:
    """The field for an exported file, and what came of the import."""
    st.markdown(
        "Upload a file that a lab exported, here or on another machine. Runs that are already here stay unchanged. Up "
        f"to {exact(MAX_UPLOAD_MIB, 'MiB')}; import larger files with `python -m store import FILE`."
    )
    turn = st.session_state.setdefault(UPLOADS, 0)
    key = page_key(f"upload_{turn}")
    upload = st.file_uploader("Exported runs", type=["zip"], max_upload_size=MAX_UPLOAD_MIB, key=key)
    if upload is not None and st.button("Import", type="primary", icon=":material/upload:"):
        if upload.size > MAX_UPLOAD_MIB << 20:  # the field refuses it, but a direct request to the server may not
            st.error(f"{plain(upload.name)} is larger than {exact(MAX_UPLOAD_MIB, 'MiB')}.", icon=":material/error:")
        else:
            _import(upload, upload.name)


def _import(upload: IO[bytes], name: str) -> None:
    bar = st.progress(0.0, "Unpacking …")
    with tempfile.NamedTemporaryFile(suffix=".zip", dir=lab().home, prefix=UPLOADING) as file:
        while piece := upload.read(1 << 20):
            file.write(piece)
        file.flush()

        def show_progress(share: float, run_id: str) -> None:
            bar.progress(share * 0.9, f"Unpacking run {plain(run_id)} …")

        try:
            done = import_runs(lab().store, Path(file.name), show_progress, name=name)
        except (ValueError, OSError) as error:
            bar.empty()
            st.error(plain(str(error)), icon=":material/error:")
            return
    bar.progress(1.0, "Done")
    known = f", {plural(len(done.known), 'run')} already here" if done.known else ""
    st.session_state[UPLOADS] += 1
    st.session_state[NOTICE] = f"{plural(len(done.new), 'run')} imported{known}."
    st.rerun()

"""Pages over damaged runs: a store of an older version may have them, and no page ends in a traceback.

The bad values were once in logs, and an older version took them in: they are put into the store by SQL here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st

from pages.parts.shared.lab import lab
from store import Recorder, Store
from tests.support.page_app import open_page, words
from tests.support.runs.page_runs import write_run

SPOILS = {
    "tokens of a request": "UPDATE requests SET prompt_tokens = 2147483647 WHERE run_id = 'bad'",
    "a lane": "UPDATE spans SET lane = 1500000 WHERE run_id = 'bad' AND span_id = 0",
    "a time": "UPDATE tokens SET delivered_s = 'nan' WHERE run_id = 'bad' AND token_index = 1",
    "an arrival": "UPDATE requests SET arrival_s = 1e300 WHERE run_id = 'bad'",
    "settings": "UPDATE runs SET run_info = json_merge_patch(run_info, '{\"config\": [1]}') WHERE run_id = 'bad'",
    "a model": "UPDATE runs SET run_info = json_merge_patch(run_info, '{\"model\": 7}') WHERE run_id = 'bad'",
}
PAGES = (
    ("run", {"run_id": "bad"}),
    ("run", {"run_id": "good"}),
    ("compare", {"runs": "bad,good"}),
    ("memory", {}),
    ("roofline", {"runs": "bad,good"}),
    ("history", {}),
)


@pytest.fixture
def home(lab_home: Path) -> Iterator[Path]:
    yield lab_home
    lab().close()
    st.cache_resource.clear()


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=list(SPOILS))
def test_no_page_ends_in_a_traceback(home: Path, monkeypatch: pytest.MonkeyPatch, spoil: str) -> None:
    with Store(home) as store:
        for run_id in ("bad", "good"):
            store.ingest.run(write_run(home / "runs", run_id))
        store.cursor().execute(spoil).fetchall()
    (home / "runs/bad/spans.arrows").write_bytes(b"")  # its log is damaged too, so it does not come back
    monkeypatch.setattr(Recorder, "start", lambda self: None)
    lab().recorder.look()
    for name, query in PAGES:
        text = words(open_page(name, **query))  # fails at an exception
        if name == "history":
            assert "bad/spans.arrows: cut" in text
    assert lab().store.runs.list()["run_id"].tolist() == ["good"]

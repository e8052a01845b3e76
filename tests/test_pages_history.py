"""The History page, through app.py over a real store: the list, what can be done with a selection, deletion, paging."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.runlog.locks import hold
from engine.runlog.schema import LOCK_FILE
from pages.parts.lab import lab
from tests.page_app import links, open_page, take_in, words
from tests.page_runs import write_crashed, write_run


@pytest.fixture
def runs(lab_home: Path) -> Iterator[Path]:
    """The folder of run folders of this test's own LAB_HOME."""
    yield lab_home / "runs"
    lab().close()
    st.cache_resource.clear()


def listed(app: AppTest) -> list[str]:
    return app.dataframe[0].value["run"].tolist()


def test_without_runs_the_page_leads_to_bench(runs: Path) -> None:
    app = open_page("history")
    assert "There is no run yet." in words(app)
    assert "Set up a first run on Bench" in dict(links(app))


def test_runs_are_listed_newest_first_with_their_ending_in_words(runs: Path) -> None:
    write_run(runs, "r1", "static")
    write_run(runs, "r2", "continuous")
    write_crashed(runs, "r0", "static")
    take_in(runs.parent)
    app = open_page("history")
    assert listed(app)[0] == "r2"
    assert sorted(listed(app)[1:]) == ["r0", "r1"]
    table = app.dataframe[0].value.set_index("run")
    assert table.loc["r1", "status"] == "completed, random weights"
    assert table.loc["r0", "status"] == "crashed, random weights"
    assert table.loc["r1", "tokens/s"] == pytest.approx(15.0)
    assert table.loc["r1", "dead, %"] == pytest.approx(25.0)
    assert table.loc["r1", "open"] == "/run?run_id=r1"
    assert "3 runs in" in words(app)


def test_nothing_can_be_done_without_a_selection(runs: Path) -> None:
    write_run(runs, "r1")
    take_in(runs.parent)
    app = open_page("history")
    assert {button.label: button.disabled for button in app.button} == {
        "Open": True,
        "Compare": True,
        "Delete …": True,
    }


def test_thousands_of_runs_are_paged(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write_run(runs, f"r{number}")
    take_in(runs.parent)
    store = lab().store
    asked: list[tuple[int, int]] = []
    read = type(store).runs

    def watched(self: object, limit: int, offset: int = 0, **how: object) -> object:
        asked.append((limit, offset))
        return read(self, limit=limit, offset=offset, **how)

    monkeypatch.setattr(type(store), "runs", watched)
    monkeypatch.setattr(type(store), "count_runs", lambda self: 4321)
    app = open_page("history", page="2")
    assert not app.exception
    assert asked
    assert set(asked) == {(50, 50)}


def test_a_running_run_cannot_be_deleted(runs: Path) -> None:
    folder = write_crashed(runs, "r1")
    with hold(folder / LOCK_FILE, purpose="run r1"):
        take_in(runs.parent)
        with pytest.raises(ValueError, match="r1"):
            lab().store.delete_run("r1")
    assert folder.is_dir()

"""The History page, through app.py over a real store: the list, what can be done with a selection, deletion, paging."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.runlog.locks import hold
from engine.runlog.schema import LOCK_FILE
from pages.parts.runs.run_actions import save_notes
from pages.parts.shared.lab import lab
from store import Store
from store.annotations import Annotation
from store.transfer.exporter import export_runs
from tests.support.page_app import links, open_page, take_in, words
from tests.support.runs.page_runs import write_crashed, write_run


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


def test_runs_are_listed_newest_first_with_their_status(runs: Path) -> None:
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
    assert table.loc["r1", "badges"] == "6 of 7"
    assert table.loc["r1", "caveats"] == "random weights"
    assert "3 runs in" in words(app)


def test_nothing_can_be_done_without_a_selection(runs: Path) -> None:
    write_run(runs, "r1")
    take_in(runs.parent)
    app = open_page("history")
    assert {button.label: button.disabled for button in app.button} == {
        "Open": True,
        "Compare": True,
        "Repeat …": True,
        "Note and tags …": True,
        "Pin": True,
        "Delete": True,
    }


def test_many_runs_are_paged(runs: Path) -> None:
    write_run(runs, "r1")
    take_in(runs.parent)
    with Store(runs.parent) as store:  # copies of its row, each a minute older than the one before
        store.cursor().execute(
            "INSERT INTO runs BY NAME SELECT r.* REPLACE ('c' || i AS run_id, created_at - i * INTERVAL 1 MINUTE AS "
            "created_at) FROM runs r, (SELECT unnest(range(1, 121)) AS i)"
        ).fetchall()
    whole = ["r1", *(f"c{number}" for number in range(1, 121))]
    for page, expected in (("1", whole[:50]), ("3", whole[100:]), ("99", whole[:50]), ("-1", whole[:50])):
        app = open_page("history", page=page)
        assert listed(app) == expected, page
        assert "121 runs in" in words(app)


def select(app: AppTest, *places: int) -> AppTest:
    """Tick rows of the table."""
    app.session_state[app.dataframe[0].key] = {"selection": {"rows": list(places), "columns": [], "cells": []}}
    return app.run()


def press(app: AppTest, label: str) -> AppTest:
    """Press the button of that label."""
    next(button for button in app.button if button.label == label).click()
    return app.run()


@pytest.fixture
def three(runs: Path) -> Path:
    """r1 static, r2 continuous a minute later, r0 crashed, as old as r1."""
    write_run(runs, "r1", "static")
    write_run(runs, "r2", "continuous")
    write_crashed(runs, "r0", "static")
    take_in(runs.parent)
    with Store(runs.parent) as store:
        store.annotations.set("r1", Annotation(note="The long tail", tags=("baseline",)))
    return runs


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"text": "LONG"}, ["r1"]),
        ({"text": "r2"}, ["r2"]),
        ({"engine": "static"}, ["r1", "r0"]),
        ({"status": "crashed"}, ["r0"]),
        ({"tags": "baseline"}, ["r1"]),
        ({"badges": "random weights"}, ["r2", "r1", "r0"]),
        ({"badges": "real weights"}, []),
        ({"badges": "warm-up covered what was measured"}, []),  # the label in older links
        ({"since": "2026-11-28", "until": "2026-11-30"}, ["r2", "r1", "r0"]),
        ({"until": "2026-11-27"}, []),
        ({"pinned": "true"}, []),
        ({"engine": "paged"}, []),
        ({"engine": "continuous", "status": "completed", "text": "tiny-random"}, ["r2"]),
    ],
)
def test_a_link_carries_the_filters(three: Path, query: dict[str, str], expected: list[str]) -> None:
    app = open_page("history", **query)
    if expected:
        assert listed(app) == expected
        assert f"{len(expected)} of 3 runs in" in words(app) or len(expected) == 3
    else:
        assert "None of the 3 runs matches." in words(app)
        assert listed(press(app, "Clear search and filters")) == ["r2", "r1", "r0"]


def write_experiments(runs: Path) -> None:
    """A sweep of two runs, a pair of one, and a run that belongs to nothing."""
    sweep = {"id": "sweep1", "kind": "sweep", "label": "static, p16", "key": "a", "repeat": 0}
    write_run(runs, "r1", "static", experiment=sweep)
    write_run(runs, "r2", "continuous", experiment=sweep)
    write_run(runs, "r3", "static", experiment={"id": "pair-1", "kind": "pair", "label": "static and continuous"})
    write_run(runs, "r4", "static")
    take_in(runs.parent)


def test_a_run_says_which_experiment_it_belongs_to_and_leads_to_it(runs: Path) -> None:
    write_experiments(runs)
    shown = open_page("history").dataframe[0].value.set_index("run")["experiment"]
    names = {run: unquote(address.partition("#")[2]) for run, address in shown.items() if address}
    assert shown["r1"].startswith("/sweep?experiment=sweep1#sweep%3A%20static%2C%20p16")
    assert shown["r3"].startswith("/history?experiment=pair-1#pair%3A%20static%20and%20continuous")
    assert names == {"r1": "sweep: static, p16 · …eep1", "r2": names["r1"], "r3": "pair: static and continuous · …ir-1"}
    assert shown["r4"] == ""


def test_the_runs_of_one_experiment_by_a_link_and_by_the_field(runs: Path) -> None:
    write_experiments(runs)
    app = open_page("history", experiment="sweep1")
    assert listed(app) == ["r2", "r1"]
    assert app.expander[0].proto.expanded
    field = next(box for box in app.selectbox if box.label == "Experiment")
    assert any(option.endswith("sweep: static, p16") for option in field.options)
    app = field.set_value("pair-1").run()
    assert (listed(app), app.query_params["experiment"]) == (["r3"], "pair-1")
    app = next(box for box in app.selectbox if box.label == "Experiment").set_value(None).run()
    assert listed(app) == ["r2", "r4", "r3", "r1"]
    assert "experiment" not in app.query_params
    app = open_page("history", experiment="nowhere")
    assert "None of the 4 runs matches." in words(app)
    app = press(app, "Clear search and filters")
    assert len(listed(app)) == 4
    assert "experiment" not in app.query_params


def test_the_field_follows_the_address(runs: Path) -> None:
    write_experiments(runs)
    app = open_page("history", experiment="sweep1")
    field = next(box for box in app.selectbox if box.label == "Experiment")
    app = field.set_value("pair-1").run()
    app = app.run()  # by now the browser has the new address
    for address, expected in ({"experiment": "sweep1"}, ["r2", "r1"]), ({}, ["r2", "r4", "r3", "r1"]):
        app.query_params.clear()
        app.query_params.update(address)
        app = app.run()  # Back: another address, and no field was touched
        field = next(box for box in app.selectbox if box.label == "Experiment")
        assert (field.value, listed(app)) == (address.get("experiment"), expected)


def test_the_most_telling_columns_come_first(runs: Path) -> None:
    write_run(runs, "r1")
    take_in(runs.parent)
    columns = list(open_page("history").dataframe[0].value)
    assert columns[:6] == ["open", "status", "model", "engine", "tokens/s", "TTFT p50, s"]


def test_filters_set_on_the_page_narrow_the_list(three: Path) -> None:
    app = open_page("history")
    app.text_input(key="history.text").set_value("static").run()
    assert listed(app) == ["r1", "r0"]
    app.multiselect(key="history.status").set_value(["completed"]).run()
    assert listed(app) == ["r1"]
    assert app.dataframe[0].value["note and tags"].tolist() == ["[baseline] The long tail"]


def test_a_deleted_run_is_undone_restored_and_purged(three: Path) -> None:
    app = press(select(open_page("history"), 0, 1), "Delete")
    assert listed(app) == ["r0"]
    assert "2 runs moved to the trash." in words(app)
    assert sorted(path.name for path in three.iterdir()) == ["r0"]
    assert listed(press(app, "Undo")) == ["r2", "r1", "r0"]
    assert "moved to the trash" not in words(app)
    app = press(select(app, 0), "Delete")
    entries = lab().store.trash.entries()
    assert [entry.run_id for entry in entries] == ["r2"]
    app.multiselect(key="history.trash").set_value([entries[0].entry_id]).run()
    app = press(app, "Restore")
    assert listed(app) == ["r2", "r1", "r0"]
    app = press(select(app, 0), "Delete")
    assert "This cannot be undone" in words(press(app, "Empty trash …"))


def test_runs_are_pinned_and_annotated(three: Path) -> None:
    app = press(select(open_page("history"), 2), "Pin")
    assert listed(app) == ["r0", "r2", "r1"]
    assert app.dataframe[0].value["pinned"].tolist() == [True, False, False]
    app = press(select(app, 0), "Unpin")
    assert listed(app) == ["r2", "r1", "r0"]
    app = press(select(app, 1), "Note and tags …")
    assert app.text_area[0].value == "The long tail"
    save_notes(["r1"], "Another note", ["baseline"])
    assert lab().store.annotations.of("r1") == Annotation(note="Another note", tags=("baseline",))
    save_notes(["r1", "r2"], "", ["slow"])
    assert lab().store.annotations.of("r1") == Annotation(note="Another note", tags=("baseline", "slow"))
    assert lab().store.annotations.of("r2").tags == ("slow",)


def test_a_run_is_repeated_with_its_own_settings(three: Path) -> None:
    app = press(select(open_page("history"), 1), "Repeat …")
    assert "Static batching, 2 slots" in words(app)
    link = dict(links(app))["Edit on Bench"]
    assert all(part in link for part in ("engine=static", "slots=2", "model=tiny-random", "prompts=lengths", "mix=p16"))


def test_an_export_is_imported_on_another_machine(three: Path, tmp_path: Path) -> None:
    export_runs(lab().store, ["r1", "r2"], tmp_path / "pair.zip")
    lab().store.trash.delete(["r1", "r2"])
    app = open_page("history")
    app.file_uploader[0].set_value(("pair.zip", (tmp_path / "pair.zip").read_bytes(), "application/zip")).run()
    app = press(app, "Import")
    assert listed(app) == ["r2", "r1", "r0"]
    app.file_uploader[0].set_value(("holiday.zip", b"a picture", "application/zip")).run()
    app = press(app, "Import")
    assert "holiday.zip: not imported: the file is not a zip" in words(app)
    assert sorted(path.name for path in three.parent.iterdir() if path.name.startswith(".upload")) == []


def test_a_running_run_cannot_be_deleted(runs: Path) -> None:
    folder = write_crashed(runs, "r1")
    with hold(folder / LOCK_FILE, purpose="run r1"):
        take_in(runs.parent)
        with pytest.raises(ValueError, match="r1"):
            lab().store.trash.delete_run("r1")
    assert folder.is_dir()

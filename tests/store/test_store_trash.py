"""The trash: deleted runs are restored unchanged or purged; operations of a dead process are completed or undone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.runlog.locks import hold
from store import Recorder, Store
from store.annotations import Annotation
from store.trash import ENTRY_FILE, LOG
from tests.store.ingest.test_store_ingest import everything
from tests.support.runs.sample_runs import write_sample_run

SAID = Annotation(note="the one with the long tail", tags=("keep", "cpu"), pinned=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def add(store: Store, *args: Any, **settings: Any) -> str:
    folder = write_sample_run(store.runs_folder, *args, **settings)
    store.ingest.run(folder)
    return folder.name


def test_deleted_runs_are_restored_unchanged(store: Store) -> None:
    pair = {"id": "exp1", "kind": "pair", "label": "two"}
    run_ids = [add(store, engine, experiment=pair) for engine in ("static", "continuous")]
    add(store)
    store.annotations.set(run_ids[0], SAID)
    before, files = everything(store), sorted(path for path in store.runs_folder.rglob("*"))
    done = store.trash.delete(run_ids)
    assert [entry.run_id for entry in done.entries] == run_ids
    assert not done.refused
    assert len(store.runs.list()) == 1
    assert len(list(store.runs_folder.iterdir())) == 1
    assert store.cursor().execute("SELECT count(*) FROM experiments").fetchall() == [(0,)]
    assert {entry.run_id for entry in store.trash.entries()} == set(run_ids)
    back = store.trash.restore([entry.entry_id for entry in done.entries])
    assert (len(back.entries), back.refused) == (2, ())
    assert everything(store) == before
    assert sorted(path for path in store.runs_folder.rglob("*")) == files
    assert store.annotations.of(run_ids[0]) == Annotation(note=SAID.note, tags=("cpu", "keep"), pinned=True)
    assert store.trash.entries() == []


def test_the_recorder_does_not_ingest_a_deleted_run(store: Store) -> None:
    run_id = add(store)
    recorder = Recorder(store, store.runs_folder)
    recorder.look()
    store.trash.delete_run(run_id)
    recorder.look()
    assert store.runs.list().empty


def test_a_purged_run_is_gone_with_its_annotation(store: Store) -> None:
    kept, gone = add(store), add(store)
    for run_id in (kept, gone):
        store.annotations.set(run_id, SAID)
    entry = store.trash.delete_run(gone)
    assert entry.log_bytes is not None
    assert entry.log_bytes > 1000
    assert store.annotations.of(gone).note == SAID.note  # while it can still be restored
    assert store.trash.purge([entry.entry_id, "nothing"]) == 1
    assert store.annotations.of(gone) == Annotation()
    assert store.annotations.of(kept).pinned
    assert list(store.trash.folder.iterdir()) == []
    assert store.trash.restore([entry.entry_id]).refused == (
        f"the trash has no entry {entry.entry_id}: it was restored or deleted permanently",
    )


def test_of_several_runs_the_deletable_ones_are_deleted(store: Store) -> None:
    run_ids = [add(store), add(store, status=None)]
    with hold(store.runs_folder / run_ids[1] / "lock", purpose="run"):
        done = store.trash.delete([*run_ids, "unknown"])
    assert [entry.run_id for entry in done.entries] == run_ids[:1]
    assert done.refused == (
        f"run {run_ids[1]} is still running; stop it before deleting it",
        "the store has no run unknown",
    )


def test_a_run_outside_the_runs_folder_keeps_its_folder_and_is_restored_from_it(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path / "elsewhere")
    store.ingest.run(folder)
    before = everything(store)
    entry = store.trash.delete_run(folder.name)
    assert (folder / "tokens.arrows").exists()
    assert not store.trash.restore([entry.entry_id]).refused
    assert everything(store) == before
    entry = store.trash.delete_run(folder.name)
    shutil.rmtree(folder)
    assert "its folder is gone" in store.trash.restore([entry.entry_id]).refused[0]
    assert [left.entry_id for left in store.trash.entries()] == [entry.entry_id]


def test_a_restore_does_not_overwrite_another_copy(store: Store, tmp_path: Path) -> None:
    run_id = add(store)
    copy = shutil.copytree(store.runs_folder / run_id, tmp_path / "copy")
    entry = store.trash.delete_run(run_id)
    shutil.copytree(copy, store.runs_folder / run_id)
    store.ingest.all_in(store.runs_folder)
    assert store.trash.restore([entry.entry_id]).refused == (
        f"the store has another copy of run {run_id}; delete that copy first",
    )
    store.annotations.set(run_id, SAID)
    store.trash.purge([entry.entry_id])
    assert store.annotations.of(run_id).pinned, "the annotation of the existing run was lost with its copy"
    assert (store.runs_folder / run_id).is_dir()


@pytest.mark.parametrize("step", ["told", "moved", "restored", "purging", "untold"])
def test_operations_of_a_dead_process_are_completed_or_undone(tmp_path: Path, step: str) -> None:
    home = tmp_path / "home"
    with Store(home) as store:
        run_id = add(store)
        entry = store.trash.delete_run(run_id)
        store.trash.restore([entry.entry_id])
        place, folder = store.trash.folder / entry.entry_id, store.runs_folder / run_id
        entry = store.trash.delete_run(run_id)
        made = store.trash.folder / entry.entry_id
        if step == "purging":
            made.rename(store.trash.folder / f".purged-{entry.entry_id}")
        else:
            text = (made / ENTRY_FILE).read_text()
            store.trash.restore([entry.entry_id])
            place.mkdir()
            if step != "untold":
                (place / ENTRY_FILE).write_text(text)
            if step == "moved":
                folder.rename(place / LOG)
    with Store(home) as store:
        is_deleted = step in ("moved", "purging")
        assert store.runs.has(run_id) is not is_deleted
        assert (store.runs_folder / run_id).exists() is not is_deleted
        assert len(store.trash.entries()) == (step == "moved")
        assert len(list(store.trash.folder.iterdir())) == (step == "moved")
        if step == "moved":
            store.trash.restore([entry.entry_id for entry in store.trash.entries()])
            assert store.ingest.verify(run_id).outcome == "agrees"


def test_unreadable_entries_do_not_disturb_the_trash(store: Store) -> None:
    run_id = add(store)
    for name, text in (("one", "["), ("two", "{}"), ("three", '{"run_id": 3}')):
        (store.trash.folder / name / LOG).mkdir(parents=True)
        (store.trash.folder / name / ENTRY_FILE).write_text(text)
    (store.trash.folder / "a file").touch()
    assert store.trash.entries() == []
    store.trash.sweep()
    entry = store.trash.delete_run(run_id)
    assert (
        store.trash.restore([entry.entry_id, "../runs", "one"]).refused[0].startswith("the trash has no entry ../runs")
    )
    assert store.runs.has(run_id)

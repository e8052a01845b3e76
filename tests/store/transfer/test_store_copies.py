"""Copies of an experiment's folder: which folder is used, and the message about the other one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.runlog.experiment_log import POINTS_FILE, ExperimentLog
from store import Recorder, Store
from store.cli.main import main as store_main
from store.recorder import SWEEP_S
from tests.support.runs.experiments import out_of_memory, sweep_plan
from tests.support.runs.sample_runs import write_sample_run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """sweep1: the first of its three points ran out of memory."""
    with ExperimentLog.create(tmp_path / "home/runs", sweep_plan()) as log:
        out_of_memory(log, log.plan.points[0])
    return log.folder


def gone_on(folder: Path, place: Path) -> Path:
    """A copy of `folder` at `place` in which the second point has a record too."""
    shutil.copytree(folder, place)
    with (place / POINTS_FILE).open("a") as file:
        file.write((folder / POINTS_FILE).read_text().replace("/b1", "/b2"))
    return place


def kept(store: Store) -> tuple[list[str], str]:
    """The status of each point, and the folder that the store ingested."""
    (row,) = store.cursor().execute("SELECT folder FROM experiments").fetchall()
    return store.experiments.points("sweep1")["status"].tolist(), row[0]


@pytest.mark.parametrize("name", ["copy", "zcopy"])  # sorts before the original, and after it
def test_the_folder_named_by_the_experiments_id_is_used(store: Store, original: Path, name: str) -> None:
    copy = gone_on(original, original.with_name(name))
    recorder = Recorder(store, store.runs_folder)
    recorder.look()
    assert kept(store) == (["oom", "pending", "pending"], str(original.resolve()))
    (line,) = recorder.problems.values()
    assert line.startswith(
        f"{copy.resolve()}: a copy of experiment sweep1; the folder in use is {original.resolve()}, "
    )
    assert line.endswith("move or delete one of the two")
    with ExperimentLog.open(original) as log:
        out_of_memory(log, log.plan.points[2])
    recorder.look()
    assert kept(store)[0] == ["oom", "pending", "oom"]
    assert list(recorder.problems) == [copy]
    shutil.rmtree(copy)
    recorder.look()
    assert not recorder.problems


def test_the_original_replaces_a_copy_that_was_ingested_first(store: Store, original: Path, tmp_path: Path) -> None:
    copy = gone_on(original, tmp_path / "elsewhere/copy")
    away = original.rename(tmp_path / "away")
    store.ingest.experiment(copy)
    assert kept(store) == (["oom", "oom", "pending"], str(copy.resolve()))
    away.rename(original)
    assert store.ingest.experiment(original).has_changed
    assert kept(store) == (["oom", "pending", "pending"], str(original.resolve()))
    with pytest.raises(ValueError, match="copy of experiment sweep1"):
        store.ingest.experiment(copy)
    assert kept(store) == (["oom", "pending", "pending"], str(original.resolve()))


def test_a_renamed_folder_is_ingested(store: Store, original: Path) -> None:
    renamed = original.rename(original.with_name("renamed"))
    assert store.ingest.all_in(store.runs_folder) == ([], {})
    assert kept(store) == (["oom", "pending", "pending"], str(renamed.resolve()))


def test_of_two_folders_with_one_name_the_first_is_used(store: Store, original: Path, tmp_path: Path) -> None:
    store.ingest.experiment(original)
    same = tmp_path / "same/sweep1"
    shutil.copytree(original, same)
    assert not store.ingest.experiment(same).has_changed
    other = gone_on(original, tmp_path / "other/sweep1")
    with pytest.raises(ValueError, match="this copy is not ingested"):
        store.ingest.experiment(other)
    assert kept(store) == (["oom", "pending", "pending"], str(original.resolve()))
    shutil.rmtree(original)  # moved away
    assert store.ingest.experiment(other).has_changed
    assert kept(store) == (["oom", "oom", "pending"], str(other.resolve()))


def test_a_copied_home_follows_its_own_experiments(store: Store, original: Path, tmp_path: Path) -> None:
    store.ingest.experiment(original)
    store.close()
    new = tmp_path / "new"
    shutil.copytree(tmp_path / "home", new)
    own = new / "runs/sweep1"
    with Store(new) as copied:
        recorder = Recorder(copied, copied.runs_folder)
        recorder.look()
        assert kept(copied) == (["oom", "pending", "pending"], str(own.resolve()))
        with ExperimentLog.open(own) as log:
            out_of_memory(log, log.plan.points[2])
        recorder.look()
        assert kept(copied) == (["oom", "pending", "oom"], str(own.resolve()))
        assert not recorder.problems
        with pytest.raises(ValueError, match=f"the folder in use is {own.resolve()}, "):
            copied.ingest.experiment(original)


def test_a_copy_with_another_name_is_refused_whatever_its_content(store: Store, original: Path) -> None:
    copy = original.with_name("copy")
    shutil.copytree(original, copy)
    store.ingest.experiment(original)
    with pytest.raises(ValueError, match="this copy is not ingested"):
        store.ingest.experiment(copy)


def test_a_copy_is_tried_again_when_the_original_goes_and_comes(store: Store, original: Path, tmp_path: Path) -> None:
    copy = gone_on(original, original.with_name("copy"))
    with ExperimentLog.open(original) as log:  # the original has grown since
        log.add([replace(log.plan.points[0], key="later", position=3)])
    recorder = Recorder(store, store.runs_folder)
    recorder.look()
    assert list(recorder.problems) == [copy]
    away = original.rename(tmp_path / "away")
    recorder.look()
    assert not recorder.problems
    assert kept(store) == (["oom", "oom", "pending"], str(copy.resolve()))
    away.rename(original)
    recorder.look()
    assert kept(store) == (["oom", "pending", "pending", "pending"], str(original.resolve()))


def test_a_copy_of_an_experiment_in_the_trash_is_ingested_only_after_the_purge(store: Store, original: Path) -> None:
    copy = gone_on(original, original.with_name("copy"))
    recorder = Recorder(store, store.runs_folder)
    recorder.look()
    (entry,) = store.trash.delete_experiment("sweep1").entries
    recorder.look()
    assert store.experiments.list().empty
    assert "sweep1, which is in the trash; restore that experiment" in recorder.problems[copy]
    version = recorder.version
    again = Recorder(store, store.runs_folder)  # as after a restart
    again.look()
    assert store.experiments.list().empty
    again._swept_at -= SWEEP_S
    recorder._swept_at -= SWEEP_S
    recorder.look()
    assert recorder.version == version  # an unchanged problem is no change
    assert store.trash.restore([entry.entry_id]).refused == ()
    recorder.look()
    assert kept(store) == (["oom", "pending", "pending"], str(original.resolve()))
    assert f"the folder in use is {original.resolve()}" in recorder.problems[copy]
    (entry,) = store.trash.delete_experiment("sweep1").entries
    assert store.trash.purge([entry.entry_id]) == 1
    recorder.look()
    assert kept(store) == (["oom", "oom", "pending"], str(copy.resolve()))
    assert not recorder.problems


def test_the_only_folder_is_restored_whatever_its_name(store: Store, original: Path) -> None:
    renamed = original.rename(original.with_name("renamed"))
    store.ingest.experiment(renamed)
    (entry,) = store.trash.delete_experiment("sweep1").entries
    assert store.trash.restore([entry.entry_id]).refused == ()
    assert kept(store)[1] == str(renamed.resolve())


def test_a_copied_home_uses_its_own_run_folders(tmp_path: Path) -> None:
    with Store(tmp_path / "old") as old:
        folder = write_sample_run(old.runs_folder, "static", run_id="run1")
        Recorder(old, old.runs_folder).look()
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    with Store(tmp_path / "new") as new:
        Recorder(new, new.runs_folder).look()
        own = new.runs_folder.resolve() / "run1"
        assert new.runs.get("run1")["folder"] == str(own)
        new.ingest.run(folder)  # the old home's folder, given explicitly, changes nothing
        assert new.runs.get("run1")["folder"] == str(own)
        new.trash.delete(["run1"])
        Recorder(new, new.runs_folder).look()
        assert new.runs.list().empty
        assert folder.exists()
        assert not own.exists()


def test_the_command_line_reports_a_copy_in_one_line(
    lab_home: Path, original: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = gone_on(original, original.with_name("copy"))
    assert store_main(["ingest", str(original), str(copy)]) == 1
    output = capsys.readouterr()
    assert "sweep1  sweep, new, 1 of 3 points settled" in output.out
    assert f"not ingested: {copy.resolve()}: a copy of experiment sweep1" in output.out
    assert output.out.count("\n") == 2
    assert output.err == ""

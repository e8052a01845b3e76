"""Copies of an experiment's folder: whose points count, and what the one who copied is told."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.runlog.experiment_log import POINTS_FILE, ExperimentLog
from store import Recorder, Store
from store.cli import main as store_main
from tests.experiments import out_of_memory, sweep_plan


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
    """A copy of `folder` at `place` in which the second point has a record, too."""
    shutil.copytree(folder, place)
    with (place / POINTS_FILE).open("a") as file:
        file.write((folder / POINTS_FILE).read_text().replace("/b1", "/b2"))
    return place


def kept(store: Store) -> tuple[list[str], str]:
    """How each point stands, and the folder that the store has the experiment from."""
    (row,) = store.cursor().execute("SELECT folder FROM experiments").fetchall()
    return store.points("sweep1")["status"].tolist(), row[0]


@pytest.mark.parametrize("name", ["copy", "zcopy"])  # before the original in the order of names, and after
def test_the_folder_that_has_the_experiments_name_counts(store: Store, original: Path, name: str) -> None:
    copy = gone_on(original, original.with_name(name))
    recorder = Recorder(store, store.runs_folder)
    recorder.look()
    assert kept(store) == (["oom", "pending", "pending"], str(original.resolve()))
    (line,) = recorder.problems.values()
    assert line.startswith(f"{copy.resolve()}: a copy of experiment sweep1, whose folder is {original.resolve()}: ")
    assert line.endswith("move it away, or delete whichever of the two is not wanted")
    with ExperimentLog.open(original) as log:
        out_of_memory(log, log.plan.points[2])
    recorder.look()
    assert kept(store)[0] == ["oom", "pending", "oom"]
    assert list(recorder.problems) == [copy]
    shutil.rmtree(copy)
    recorder.look()
    assert not recorder.problems


def test_a_copy_that_came_first_gives_way_to_the_original(store: Store, original: Path, tmp_path: Path) -> None:
    copy = gone_on(original, tmp_path / "elsewhere/copy")
    store.ingest_experiment(copy)
    assert kept(store) == (["oom", "oom", "pending"], str(copy.resolve()))
    assert store.ingest_experiment(original).has_changed
    assert kept(store) == (["oom", "pending", "pending"], str(original.resolve()))
    with pytest.raises(ValueError, match="copy of experiment sweep1"):
        store.ingest_experiment(copy)
    assert kept(store) == (["oom", "pending", "pending"], str(original.resolve()))


def test_a_folder_that_was_renamed_can_be_looked_at(store: Store, original: Path) -> None:
    renamed = original.rename(original.with_name("renamed"))
    assert store.ingest_new(store.runs_folder) == ([], {})
    assert kept(store) == (["oom", "pending", "pending"], str(renamed.resolve()))


def test_of_two_folders_of_one_name_the_first_counts(store: Store, original: Path, tmp_path: Path) -> None:
    store.ingest_experiment(original)
    same = tmp_path / "same/sweep1"
    shutil.copytree(original, same)
    assert not store.ingest_experiment(same).has_changed
    other = gone_on(original, tmp_path / "other/sweep1")
    with pytest.raises(ValueError, match="nothing is taken in of this one"):
        store.ingest_experiment(other)
    assert kept(store) == (["oom", "pending", "pending"], str(original.resolve()))
    shutil.rmtree(original)  # it was moved
    assert store.ingest_experiment(other).has_changed
    assert kept(store) == (["oom", "oom", "pending"], str(other.resolve()))


def test_the_command_line_tells_of_a_copy_in_a_line(
    lab_home: Path, original: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = gone_on(original, original.with_name("copy"))
    assert store_main(["ingest", str(original), str(copy)]) == 1
    said = capsys.readouterr()
    assert "sweep1  sweep, new, 1 of 3 points settled" in said.out
    assert f"not taken in: {copy.resolve()}: a copy of experiment sweep1" in said.out
    assert said.out.count("\n") == 2
    assert said.err == ""

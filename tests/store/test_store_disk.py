"""A full disk, a disk that can only be read, and a damaged store file: one line each, and what can be read is read."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from engine.core.errors import MAX_LINE
from store import Recorder, Store
from store.cli.commands import read_only_answer
from store.cli.main import main
from store.database import StoreFull, disk_full_in_one_line
from tests.support.runs.sample_runs import write_sample_run

FULL = 'TransactionContext Error: Failed to commit: Could not write file "x": No space left on device'


@contextmanager
def small_disk(folder: Path, size: str = "12m") -> Iterator[Path]:
    """A file system of its own. Skips where it cannot be mounted."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def fill(folder: Path) -> Path:
    """Write until the disk is full."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return folder / "filler"


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    assert len(err) < MAX_LINE + 20
    return err


def test_a_full_disk_is_one_line_and_what_is_there_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        home = disk / "home"
        monkeypatch.setenv("LAB_HOME", str(home))
        write_sample_run(home / "runs", run_id="r1")
        assert main(["list"]) == 0
        assert main(["export", "r1", "--out", str(tmp_path / "r1.zip")]) == 0
        capsys.readouterr()
        filler = fill(disk)
        assert main(["list", "--json"]) == 0  # nothing new: nothing is written
        assert [run["run_id"] for run in json.loads(capsys.readouterr().out)] == ["r1"]
        assert main(["verify"]) == 0
        capsys.readouterr()
        for arguments in (["query", "SELECT 1", "--timeout", "60"], ["export", "r1", "--out", str(disk / "more.zip")]):
            assert main(arguments) == 1
            assert "o space" in one_line(capsys)
        assert main(["import", str(tmp_path / "r1.zip")]) in (1, 2)
        one_line(capsys)
        filler.unlink()
        assert main(["query", "SELECT count(*) AS n FROM runs", "--timeout", "60"]) == 0


def test_new_runs_on_a_full_disk_are_one_line_and_come_in_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("LAB_HOME", str(home))
    with Store(home) as store:
        for run_id in ("r1", "r2"):
            write_sample_run(store.runs_folder, run_id=run_id)
        recorder = Recorder(store, store.runs_folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("store.ingest.run_log._insert", full)
            with pytest.raises(StoreFull, match="No space left on device; free some space and try again"):
                store.ingest.all_in(store.runs_folder)
            assert recorder.look()
            assert list(recorder.problems) == [home / "lab.duckdb"]
        assert recorder.look()
        assert recorder.problems == {}
        assert store.runs.count() == 2
    write_sample_run(home / "runs", run_id="r3")
    monkeypatch.setattr("store.ingest.run_log._insert", full)
    assert main(["list"]) == 1
    assert "free some space and try again" in one_line(capsys)


def full(*arguments: object) -> None:
    raise duckdb.TransactionException(FULL)


def test_other_errors_of_the_database_stay_as_they_are() -> None:
    with pytest.raises(duckdb.CatalogException), disk_full_in_one_line():
        raise duckdb.CatalogException("no such table")


def test_a_home_that_can_only_be_read_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk", "40m") as disk:
        home = disk / "home"
        monkeypatch.setenv("LAB_HOME", str(home))
        write_sample_run(home / "runs", run_id="r1")
        assert main(["list"]) == 0
        write_sample_run(home / "runs", run_id="r2")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        capsys.readouterr()
        for arguments in (
            ["list"],
            ["query", "SELECT run_id FROM runs", "--timeout", "60"],
            ["export", "r1", "--out", str(tmp_path / "r1.zip")],
            ["verify"],
        ):
            assert main(arguments) == 0, arguments
            out, err = capsys.readouterr()
            assert err == "store: the store can only be read here: runs that it does not have yet are left out\n"
            assert "r2" not in out
        assert main(["ingest", str(home / "runs")]) == 2
        assert "can only be read; set LAB_HOME to a writable folder" in one_line(capsys)


def test_a_store_of_which_the_file_can_only_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    with Store(home) as store:
        store.ingest.run(write_sample_run(store.runs_folder, run_id="r1"))
    connect = duckdb.connect

    def only_reads(path: str, *, read_only: bool, config: dict[str, object]) -> duckdb.DuckDBPyConnection:
        if not read_only:
            raise duckdb.IOException(f'Cannot open file "{path}": Permission denied')
        return connect(path, read_only=True, config=config)

    monkeypatch.setattr(duckdb, "connect", only_reads)
    with Store(home) as store:
        assert store.is_read_only
        assert [run["run_id"] for run in read_only_answer(store, {"command": "list"})] == ["r1"]


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9])
def test_a_truncated_store_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], share: float
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("LAB_HOME", str(home))
    with Store(home) as store:
        store.ingest.run(write_sample_run(store.runs_folder, run_id="r1"))
    file = home / "lab.duckdb"
    os.truncate(file, int(file.stat().st_size * share))
    assert main(["list"]) == 2
    line = one_line(capsys)
    assert "move it and lab.duckdb.wal to another folder: the next command builds a new store from the run logs" in line
    file.rename(tmp_path / "damaged")
    assert main(["list"]) == 0
    assert "r1" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["folder", "FIFO", "device"])
def test_a_store_that_is_no_file_is_one_line(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "lab.duckdb"
    if kind == "folder":
        file.mkdir()
    elif kind == "FIFO":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=r"lab\.duckdb is no plain file; move it away"):
        Store(tmp_path)


def test_opening_a_current_store_writes_nothing(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.ingest.run(write_sample_run(store.runs_folder, run_id="r1"))
    Store(tmp_path).close()
    file = tmp_path / "lab.duckdb"
    before = file.read_bytes()
    Store(tmp_path).close()
    assert file.read_bytes() == before

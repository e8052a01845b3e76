"""Failures of ingest, opening and deleting: each is reported in one line, and loses no valid rows."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from engine.runlog.reader import RunLogReader
from store import Recorder, Store
from store.cli.owner import OwnerSocket
from store.ingest import run_log as ingest
from tests.store.cli.test_store_commands import answer, run_store
from tests.support.runs.sample_runs import PEAK_BYTES, without_checksums, write_sample_run


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def damage(folder: Path) -> Path:
    """Write invalid bytes after the schema, in a log without checksums: no batch of the stream can be read."""
    without_checksums(folder)
    file = folder / "tokens.arrows"
    data = file.read_bytes()
    at = data.index(b"\xff\xff\xff\xff", 8)
    file.write_bytes(data[:at] + b"rubbish!" + data[at + 8 :])
    return folder


def refused(home: Path, run_id: str = "refused") -> Path:
    """A folder whose run.json cannot be read."""
    folder = home / "runs" / run_id
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{")
    return folder


def test_verify_reports_a_damaged_run_that_was_never_ingested(home: Path) -> None:
    folder = damage(write_sample_run(home / "runs"))
    good = write_sample_run(home / "runs")
    ran = run_store(home, "verify")
    assert ran.returncode == 1
    assert ran.stdout.splitlines()[-1] == "1 runs agree, 1 differ, 0 not checked"
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith(folder.name)]
    assert "tokens.arrows: damaged after byte 0" in line
    assert good.name not in ran.stdout


def test_verify_reports_a_folder_that_is_not_in_the_store(home: Path) -> None:
    folder = refused(home)
    reply = answer(home, "verify", exit_status=1)
    assert (reply["ok"], reply["agree"], reply["differ"]) == (False, 0, 1)
    assert reply["runs"][0]["run_id"] == "refused"
    assert f"{folder / 'run.json'}: cannot be read as JSON" in reply["runs"][0]["lines"][0]


def test_verify_ingests_new_runs_first(home: Path) -> None:
    write_sample_run(home / "runs")
    assert answer(home, "verify")["agree"] == 1


def test_list_reports_folders_that_are_not_ingested(home: Path) -> None:
    folder = refused(home)
    good = write_sample_run(home / "runs")
    for options in ([], ["--json"]):
        ran = run_store(home, "list", *options)
        assert ran.returncode == 0
        assert good.name in ran.stdout
        assert ran.stderr.startswith(f"store: not ingested: {folder / 'run.json'}: cannot be read as JSON")
        assert ran.stderr.count("\n") == 1


def test_the_owner_reports_folders_that_are_not_ingested(home: Path) -> None:
    folder = refused(home)
    with Store(home) as store:
        recorder = Recorder(store, store.runs_folder)
        recorder.start()
        listed, verified = run_store(home, "list"), run_store(home, "verify")
        recorder.stop()
    assert (listed.returncode, listed.stdout) == (0, "No runs yet.\n")
    assert listed.stderr.startswith(f"store: not ingested: {folder / 'run.json'}: cannot be read as JSON")
    assert verified.returncode == 1
    assert verified.stdout.startswith("refused  differs: ")


def test_a_home_that_is_no_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for home, reason in [(Path("/dev/null/x"), "Not a directory"), (tmp_path / "file", "File exists")]:
        for command in ("list", "verify"):
            ran = run_store(home, command)
            assert (ran.returncode, ran.stdout) == (2, "")
            assert ran.stderr == f"store: {home}: {reason}; set LAB_HOME to a writable folder\n"


def test_a_run_folder_whose_stream_cannot_be_opened_is_one_line(home: Path) -> None:
    folder = write_sample_run(home / "runs")
    (folder / "tokens.arrows").unlink()
    (folder / "tokens.arrows").mkdir()
    ran = run_store(home, "ingest", folder)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout == f"not ingested: {folder / 'tokens.arrows'}: Is a directory\n"


def test_the_valid_part_of_a_damaged_run_is_ingested(home: Path) -> None:
    folder = damage(write_sample_run(home / "runs"))
    with Store(home) as store:
        for _ in range(2):
            with pytest.raises(ValueError, match=r"tokens\.arrows: damaged after byte 0"):
                store.ingest.run(folder)
        reader = RunLogReader(folder)
        assert len(store.runs.passes(folder.name)) == reader.table("passes").num_rows > 0
        assert len(store.runs.requests(folder.name)) == 8
        assert store.runs.get(folder.name)["status"] == "completed"
        assert len(store.runs.tokens(folder.name)) == 0
        assert store.ingest.verify(folder.name).outcome == "differs"


def test_a_damaged_run_is_marked_until_its_log_is_repaired(home: Path) -> None:
    folder, good = write_sample_run(home / "runs"), write_sample_run(home / "runs")
    whole = (folder / "tokens.arrows").read_bytes()
    damage(folder)
    with Store(home) as store:
        store.ingest.all_in(store.runs_folder)
        assert store.runs.get(folder.name)["damage"].startswith("tokens.arrows: damaged after byte 0: ")
        assert store.runs.get(good.name)["damage"] is None
        (folder / "tokens.arrows").write_bytes(whole)
        store.ingest.run(folder)
        assert store.runs.get(folder.name)["damage"] is None
        assert store.ingest.verify(folder.name).outcome == "agrees"


def test_a_damaged_run_does_not_stop_the_others(home: Path, tmp_path: Path) -> None:
    with Store(home) as store:
        folders = [write_sample_run(tmp_path, status=None) for _ in range(2)]
        for folder in folders:
            store.ingest.run(folder)
        store.cursor().execute("UPDATE runs SET status = 'running'").fetchall()
        store.cursor().execute("DELETE FROM ingest_progress WHERE run_id = ?", [folders[0].name]).fetchall()
        damage(folders[0])
        store.ingest.follow_running()
        assert store.runs.list()["status"].tolist() == ["crashed", "crashed"]


def test_a_delete_that_fails_leaves_the_run_and_its_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(home) as store:
        folder = write_sample_run(store.runs_folder)
        store.ingest.run(folder)
        monkeypatch.setattr("store.ingest.run_rows.OF_A_RUN", ("requests", "nowhere"))
        with pytest.raises(duckdb.Error, match="nowhere"):
            store.trash.delete_run(folder.name)
    with Store(home) as store:
        assert folder.is_dir()
        assert store.ingest.verify(folder.name).outcome == "agrees"


class Strict:
    """A cursor that refuses the next call before a result was read to its end, as a busy DuckDB may."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self.cursor = cursor
        self.unread: str | None = None

    def execute(self, statement: str, values: Any = ()) -> Strict:
        assert self.unread is None, f"not read: {self.unread}"
        self.unread = statement
        self.cursor.execute(statement, list(values))
        return self

    def fetchall(self) -> list[Any]:
        self.unread = None
        return self.cursor.fetchall()

    def fetchnumpy(self) -> Any:
        self.unread = None
        return self.cursor.fetchnumpy()

    def register(self, name: str, table: Any) -> None:
        assert self.unread is None, f"not read: {self.unread}"
        self.cursor.register(name, table)

    def unregister(self, name: str) -> None:
        assert self.unread is None, f"not read: {self.unread}"
        self.cursor.unregister(name)


def test_ingest_reads_each_result_to_its_end(home: Path) -> None:
    experiment = {"id": "e", "kind": "pair", "label": "two"}
    with Store(home) as store:
        folder = write_sample_run(store.runs_folder, status=None, experiment=experiment)
        strict: Any = Strict(store.cursor())
        assert ingest.ingest_folder(strict, folder, store.runs_folder).is_new
        (folder / "result.json").write_text(json.dumps({"status": "stopped", "totals": {}}))
        assert ingest.ingest_folder(strict, folder, store.runs_folder).status == "stopped"
        ingest.lose_run(strict, folder.name)
        assert strict.unread is None


def slowly(
    store: Store, monkeypatch: pytest.MonkeyPatch, hold: Callable[[], object]
) -> tuple[threading.Event, list[str]]:
    """Let every ingest start with `hold`. The event is set when one starts; the list has the finished ones."""
    begun, finished, as_it_was = threading.Event(), [], store.ingest.run

    def take(folder: Path) -> Any:
        begun.set()
        hold()
        report = as_it_was(folder)
        finished.append(report.run_id)
        return report

    monkeypatch.setattr(store.ingest, "run", take)
    return begun, finished


@pytest.fixture
def many(home: Path) -> list[Path]:
    return [write_sample_run(home / "runs") for _ in range(6)]


def test_a_recorder_stops_after_the_current_folder(
    home: Path, many: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Store(home) as store:
        recorder = Recorder(store, store.runs_folder)
        begun, finished = slowly(store, monkeypatch, lambda: recorder._stopping.wait(60))
        recorder.start()
        begun.wait()
        recorder.stop()
        assert len(finished) == 1
    assert caplog.records == []
    assert recorder.problems == {}


def test_a_socket_stops_after_its_current_request(
    home: Path, many: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(home) as store, socket.socket(socket.AF_UNIX) as asking:
        begun, finished = slowly(store, monkeypatch, lambda: time.sleep(0.3))
        owner = OwnerSocket(store, on_change=lambda: None)
        owner.start()
        asking.connect(str(home / "store.sock"))
        asking.sendall(json.dumps({"command": "ingest", "paths": [str(path) for path in many[:3]]}).encode() + b"\n")
        begun.wait()
        owner.stop()
        store.close()
        reply = json.loads(asking.makefile().readline())
    assert reply["ok"]["problems"] == []
    assert finished == [path.name for path in many[:3]]


def test_a_store_closes_during_a_query(home: Path) -> None:
    cut_off: list[duckdb.Error] = []
    asked = threading.Event()
    with Store(home) as store:

        def ask() -> None:
            cursor = store.cursor()
            asked.set()
            try:
                cursor.execute("SELECT count(*) FROM range(400_000_000_000) WHERE range % 7 = 3").fetchall()
            except duckdb.Error as error:
                cut_off.append(error)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asked.wait()
        time.sleep(0.5)
        store.close()
        asking.join(60)
    assert len(cut_off) == 1
    Store(home).close()


def test_a_stored_peak_may_be_below_the_runs_own_but_not_above(home: Path) -> None:
    with Store(home) as store:
        folder = write_sample_run(store.runs_folder)
        store.ingest.run(folder)
        outcomes = []
        for peak_bytes in (PEAK_BYTES - 1, PEAK_BYTES, PEAK_BYTES + 1):
            sql = "UPDATE run_summaries SET peak_memory_bytes = ?"
            store.cursor().execute(sql, [peak_bytes]).fetchall()
            outcomes.append(store.ingest.verify(folder.name).outcome)
    assert outcomes == ["agrees", "agrees", "differs"]

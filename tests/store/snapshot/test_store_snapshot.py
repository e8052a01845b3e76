"""The snapshot: its contents, when a new one is made, that it is always complete, and that the store stays locked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.runlog.writer import RunLogWriter
from engine.workload.workload import build_workload
from store import Store
from store.annotations import Annotation
from store.database import TABLES
from store.snapshot.snapshot import Snapshot
from store.snapshot.tables import HIDDEN_COLUMNS, PRIVATE
from tests.support.app_server import ROOT
from tests.support.runs.sample_runs import play, sample_run_info, write_sample_run

COMPUTED = ("request_metrics", "token_gaps", "run_metrics")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        for engine in ("static", "continuous"):
            opened.ingest.run(write_sample_run(opened.runs_folder, engine))
        yield opened


def ask(path: Path, query: str) -> list[Any]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(query).fetchall()


def rows(cursor: duckdb.DuckDBPyConnection, name: str, columns: str = "*") -> list[Any]:
    return sorted(map(repr, cursor.execute(f"SELECT {columns} FROM {name}").fetchall()))


def assert_equal_to_the_store(snapshot: Snapshot, store: Store) -> None:
    names = [name for (name,) in ask(snapshot.path, "SHOW TABLES")]
    assert {*TABLES.values(), *COMPUTED, "runs", "experiments", "run_checks"} <= set(names)
    with duckdb.connect(str(snapshot.path), read_only=True) as connection:
        for name in names:
            hidden = HIDDEN_COLUMNS.get(name)
            columns = f"* EXCLUDE ({', '.join(hidden)})" if hidden else "*"
            assert rows(connection, name) == rows(store.cursor(), name, columns), name


def test_a_snapshot_has_the_stores_tables_and_the_computed_ones(store: Store) -> None:
    snapshot = store.snapshots.publish()
    assert_equal_to_the_store(snapshot, store)
    assert (snapshot.runs, snapshot.tokens) == (2, len(rows(store.cursor(), "tokens")))
    assert snapshot.tokens > 0
    assert 0 <= snapshot.age_s < 60


def test_private_tables_are_not_in_a_snapshot(store: Store) -> None:
    store.saved_queries.save("mine", "SELECT 1")
    snapshot = store.snapshots.publish()
    names = {name for (name,) in ask(snapshot.path, "SELECT table_name FROM duckdb_tables()")}
    assert names.isdisjoint(PRIVATE)
    assert ask(snapshot.path, "SELECT function_name FROM duckdb_functions() WHERE NOT internal") == []
    assert "folder" not in {column[0] for column in ask(snapshot.path, "DESCRIBE runs")}


def test_a_new_snapshot_is_made_only_after_a_change(store: Store) -> None:
    assert store.snapshots.is_stale()
    first = store.snapshots.publish()
    made = first.path.stat()
    store.saved_queries.remember("SELECT 1", "1 row")
    assert not store.snapshots.is_stale()
    assert store.snapshots.publish() == first
    assert first.path.stat() == made
    store.ingest.run(write_sample_run(store.runs_folder, "serial"))
    assert store.snapshots.is_stale()
    second = store.snapshots.publish()
    assert second.runs == 3
    assert second.path.stat().st_ino != made.st_ino


def test_only_changed_runs_are_replaced_and_deleted_runs_are_removed(store: Store) -> None:
    gone = store.runs.list()["run_id"].iloc[0]
    config = RunConfig(engine="continuous", model="tiny-random", workload=WorkloadConfig(prompts="p16", requests=3))
    plan = build_workload(config.workload)
    folder, seen = store.runs_folder / "growing", []
    with RunLogWriter(folder, sample_run_info(config, plan, "growing", None, datetime.now(UTC))) as log:

        def on_pass() -> None:
            seen.append(len(seen))
            if len(seen) in (5, 12):
                log.flush()
                store.ingest.run(folder)
                if len(seen) == 12:
                    store.trash.delete_run(gone)
                    store.ingest.run(write_sample_run(store.runs_folder, "serial"))
                assert_equal_to_the_store(store.snapshots.publish(), store)

        play(log, config, plan, on_pass=on_pass)
        assert len(seen) > 12
    snapshot = store.snapshots.latest()
    assert snapshot is not None
    assert gone not in {run_id for (run_id,) in ask(snapshot.path, "SELECT run_id FROM tokens")}
    statuses = dict(ask(snapshot.path, "SELECT run_id, status FROM runs"))
    assert (len(statuses), statuses["growing"]) == (3, "running")
    assert ask(snapshot.path, "SELECT count(*) FROM run_metrics") == [(3,)]
    store.ingest.follow_running()
    ended = store.snapshots.publish()
    assert_equal_to_the_store(ended, store)
    assert ask(ended.path, "SELECT status FROM runs WHERE run_id = 'growing'") == [("crashed",)]


def test_a_note_is_a_change(store: Store) -> None:
    store.snapshots.publish()
    store.annotations.set(store.runs.list()["run_id"].iloc[0], Annotation(note="odd"))
    assert ask(store.snapshots.publish().path, "SELECT note FROM run_notes") == [("odd",)]


def test_the_store_stays_locked_by_this_process(store: Store) -> None:
    """A process that opens and closes DuckDB's file loses its lock on it."""
    store.snapshots.publish()
    store.ingest.run(write_sample_run(store.runs_folder, "serial"))
    store.snapshots.publish()
    code = "import sys, duckdb; duckdb.connect(sys.argv[1])"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(store.home / "lab.duckdb")], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert "Could not set lock" in ran.stderr


def test_a_reader_of_an_old_snapshot_is_not_disturbed(store: Store) -> None:
    path = store.snapshots.publish().path
    with duckdb.connect(str(path), read_only=True) as reader:
        assert reader.execute("SELECT count(*) FROM runs").fetchall() == [(2,)]
        code = f"import duckdb; c = duckdb.connect({str(path)!r}, read_only=True); input(); print(c.sql('FROM runs'))"
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            store.ingest.run(write_sample_run(store.runs_folder, "serial"))
            assert store.snapshots.publish().runs == 3
            out, _ = other.communicate(b"\n", timeout=300)
        assert other.returncode == 0
        assert out
        assert reader.execute("SELECT count(*) FROM tokens").fetchall()[0][0] > 0
    assert ask(path, "SELECT count(*) FROM runs") == [(3,)]


@pytest.mark.parametrize("damage", ["not a database", "another lab's", "cut off", "gone"])
def test_an_unreadable_snapshot_is_replaced(store: Store, damage: str) -> None:
    path = store.snapshots.publish().path
    if damage == "not a database":
        path.write_bytes(b"hello " * 3000)
    elif damage == "another lab's":
        with duckdb.connect(str(path)) as connection:
            connection.execute("UPDATE about.snapshot SET definition = 'x'").fetchall()
    elif damage == "cut off":
        path.write_bytes(path.read_bytes()[:9000])
    else:
        path.unlink()
    home = store.home
    store.close()
    with Store(home) as again:
        assert again.snapshots.latest() is None
        assert_equal_to_the_store(again.snapshots.publish(), again)


def test_a_snapshot_stays_valid_when_the_store_is_opened_again(store: Store) -> None:
    made = store.snapshots.publish()
    store.close()
    with Store(store.home) as again:
        assert not again.snapshots.is_stale()
        assert again.snapshots.publish() == made


def test_progress_is_reported_and_no_file_is_left_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (store.home / ".snapshot.duckdb-1").write_bytes(b"left by one that was killed")
    monkeypatch.setattr("store.snapshot.tables.PART_TOKENS", 1)
    progress: list[tuple[float, str]] = []
    store.snapshots.publish(lambda share, what: progress.append((share, what)))
    shares = [share for share, _ in progress]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert sum("computing gaps" in what for _, what in progress) == 2
    assert {name for name in os.listdir(store.home) if "snapshot" in name} == {"snapshot.duckdb"}


def test_a_copy_that_fails_is_one_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.snapshot.snapshot.FILE", "nowhere.duckdb")
    with pytest.raises(OSError, match="the snapshot could not be made") as error:
        store.snapshots.publish()
    assert "\n" not in str(error.value)


def test_concurrent_requests_make_one_snapshot(store: Store) -> None:
    made: list[Snapshot] = []
    threads = [threading.Thread(target=lambda: made.append(store.snapshots.publish())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert len({snapshot.made_at for snapshot in made}) == 1

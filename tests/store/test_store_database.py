"""The store's file: its lock, migrations after a backup, the run log's tables, and ingests that survive a kill."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

from engine.runlog.schema import STREAMS
from store import Store, StoreHeld
from store.database import MIGRATIONS, TABLES, VIEWS, open_database
from tests.support.app_server import ROOT
from tests.support.runs.sample_runs import write_sample_run

NUMBERED = sorted(MIGRATIONS.glob("*.sql"))
NEWEST = len(NUMBERED)

HOLDS = """
import sys, time
from pathlib import Path
from store import Store
store = Store(Path(sys.argv[1]))
print("open", flush=True)
time.sleep(60)
"""
INGESTS_FOR_EVER = """
import sys
from pathlib import Path
from store import Store
from tests.support.runs.sample_runs import write_sample_run
home = Path(sys.argv[1])
with Store(home) as store:
    while True:
        folder = write_sample_run(home / "runs")
        store.ingest.run(folder)
        print(folder.name, flush=True)
"""


def test_a_second_process_gets_the_holder_of_the_store(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(StoreHeld, match=rf"lab\.duckdb is held by process {process.pid};") as error:
            Store(tmp_path)
        assert error.value.pid == process.pid
        assert "\n" not in str(error.value)
        process.kill()
    with Store(tmp_path) as store:
        assert store.runs.list().empty


def test_every_ingest_that_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INGESTS_FOR_EVER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().strip() for _ in range(3)]
        process.kill()
        acknowledged += process.stdout.read().split()
    with Store(tmp_path) as store:
        store.ingest.all_in(store.runs_folder)
        assert set(acknowledged) <= set(store.runs.list()["run_id"])
        for run_id in store.runs.list()["run_id"]:
            assert store.ingest.verify(run_id).lines == []


def test_tables_have_the_run_logs_columns(tmp_path: Path) -> None:
    kinds = {"int32": "INTEGER", "int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN"}
    with Store(tmp_path) as store:
        for stream, schema in STREAMS.items():
            rows = [row[:2] for row in store.cursor().execute(f"DESCRIBE {TABLES[stream]}").fetchall()]
            assert rows[0] == ("run_id", "VARCHAR")
            assert dict(rows[1:]) == {field.name: kinds[str(field.type)] for field in schema}, stream


def test_a_store_is_unchanged_when_it_is_opened_again(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        folder = write_sample_run(store.runs_folder, "static")
        store.ingest.run(folder)
        before = store.runs.metrics(folder.name), store.runs.list(), store.runs.spans(folder.name)
    with Store(tmp_path) as store:
        assert store.runs.metrics(folder.name) == before[0]
        assert store.runs.list().equals(before[1])
        assert store.runs.spans(folder.name).equals(before[2])
        applied = store.cursor().execute("SELECT version, name FROM schema_migrations ORDER BY version").fetchall()
        assert applied == [(number, path.stem) for number, path in enumerate(NUMBERED, 1)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab.duckdb", "runs"]


def with_one_more_migration(folder: Path, sql: str) -> Path:
    folder.mkdir()
    for path in NUMBERED:
        (folder / path.name).write_text(path.read_text())
    (folder / f"{NEWEST + 1:04}_more.sql").write_text(sql)
    return folder


def test_a_migration_copies_the_file_first(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Store(home) as store:
        folder = write_sample_run(store.runs_folder)
        store.ingest.run(folder)
    migrations = with_one_more_migration(
        tmp_path / "migrations", "ALTER TABLE runs ADD COLUMN mood VARCHAR DEFAULT 'fine'"
    )
    connection = open_database(home, migrations)
    assert connection.execute("SELECT run_id, mood FROM runs").fetchall() == [(folder.name, "fine")]
    applied = connection.execute("SELECT version FROM schema_migrations ORDER BY 1").fetchall()
    assert [version for (version,) in applied] == list(range(1, NEWEST + 2))
    connection.close()
    with duckdb.connect(str(home / f"lab.duckdb.backup-version-{NEWEST}"), read_only=True) as backup:
        assert backup.execute("SELECT run_id FROM runs").fetchall() == [(folder.name,)]
    with pytest.raises(ValueError, match=f"has version {NEWEST + 1}, from a newer lab; .* up to version {NEWEST}"):
        Store(home)


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Store(home).close()
    sql = "ALTER TABLE runs ADD COLUMN mood VARCHAR; ALTER TABLE nowhere ADD COLUMN x VARCHAR"
    with pytest.raises(ValueError, match="nowhere"):
        open_database(home, with_one_more_migration(tmp_path / "migrations", sql))
    with Store(home) as store:
        columns = {row[0] for row in store.cursor().execute("DESCRIBE runs").fetchall()}
        assert "run_id" in columns
        assert "mood" not in columns


def test_summaries_follow_the_metrics_definitions(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        folder = write_sample_run(store.runs_folder)
        store.ingest.run(folder)
        before = store.runs.metrics(folder.name)
        # Like a store of an older lab with fewer metrics.
        store.cursor().execute("ALTER TABLE run_summaries DROP COLUMN ttft_p50_s")
    with Store(tmp_path) as store:
        assert store.runs.metrics(folder.name) == before
        assert store.runs.list()["ttft_p50_s"].tolist() == [before["ttft_p50_s"]]


def test_summaries_follow_a_formula_that_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, views = tmp_path / "home", tmp_path / "views"
    with Store(home) as store:
        folder = write_sample_run(store.runs_folder)
        store.ingest.run(folder)
        requests = store.runs.metrics(folder.name)["requests"]
        store.cursor().execute("UPDATE run_summaries SET requests = 7").fetchall()
    with Store(home) as store:
        assert store.runs.metrics(folder.name)["requests"] == 7, (
            "the same formulas, but the summaries were computed again"
        )
    views.mkdir()
    for path in VIEWS.glob("*.sql"):
        text = path.read_text()
        changed = text.replace("coalesce(a.requests, 0) AS requests", "coalesce(a.requests + 100, 0) AS requests")
        assert (changed != text) == (path.name == "2_run_metrics.sql")
        (views / path.name).write_text(changed)
    monkeypatch.setattr("store.database.VIEWS", views)
    with Store(home) as store:
        assert store.runs.metrics(folder.name)["requests"] == requests + 100


def test_a_file_that_is_no_store_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "lab.duckdb").write_bytes(b"a shopping list, not a database " * 300)
    with pytest.raises(ValueError, match=r"lab\.duckdb: .*not a valid DuckDB") as error:
        Store(tmp_path)
    assert "\n" not in str(error.value)


def test_threads_read_while_one_writes(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    with Store(tmp_path) as store:
        done = threading.Event()

        def read() -> None:
            try:
                while not done.is_set():
                    for run_id in store.runs.list()["run_id"]:
                        spans, tokens = store.runs.spans(run_id), store.runs.tokens(run_id)
                        assert len(tokens) > 0
                        assert spans["lane"].notna().all()
            except BaseException as error:
                errors.append(error)

        readers = [threading.Thread(target=read) for _ in range(4)]
        folders = [write_sample_run(tmp_path / "elsewhere", engine) for engine in ("static", "continuous", "serial")]
        store.ingest.run(folders[0])
        for reader in readers:
            reader.start()
        for folder in folders[1:]:
            store.ingest.run(folder)
        done.set()
        for reader in readers:
            reader.join()
    assert errors == []


def test_a_closed_store_is_free_after_use_by_threads(tmp_path: Path) -> None:
    used, leave = threading.Event(), threading.Event()
    with Store(tmp_path) as store:

        def use() -> None:
            store.runs.list()
            used.set()
            leave.wait()

        thread = threading.Thread(target=use)
        thread.start()
        used.wait()
    code = "import sys; from pathlib import Path; from store import Store; Store(Path(sys.argv[1])).close()"
    opened = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    leave.set()
    thread.join()
    assert opened.returncode == 0, opened.stderr


def test_the_store_is_created_with_its_folders(tmp_path: Path) -> None:
    home = tmp_path / "a" / "b"
    with Store(home) as store:
        assert store.runs.list().empty
        assert "run_id" in store.runs.list()
    assert os.listdir(home) == ["lab.duckdb"]

"""The sandbox: hostile statements are refused or stopped and change nothing; others are answered within limits."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from store import Recorder, Store
from store.sandbox import Answer, Asking, Limits, Refusal, ask, child
from tests.support.app_server import ROOT
from tests.support.hostile_sql import CORNERS, REFUSED, STOPPED
from tests.support.processes import await_end, process_lives, wait_for
from tests.support.runs.sample_runs import write_sample_run

PATIENCE_S = 60.0  # for statements that would otherwise never end
GROWTH_BYTES = 64 << 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with an open socket as in the app, two runs and a snapshot."""
    with Store(tmp_path_factory.mktemp("home")) as opened:
        for engine in ("static", "continuous"):
            write_sample_run(opened.runs_folder, engine)
        opened.ingest.all_in(opened.runs_folder)
        opened.snapshots.publish()
        recorder = Recorder(opened, opened.runs_folder)
        recorder.start()
        yield opened
        recorder.stop()


@pytest.fixture(scope="module")
def snapshot(store: Store) -> Path:
    return store.snapshots.publish().path


def state(store: Store) -> Any:
    """Everything that a statement must not change: the store's rows, the snapshot's bytes, the files beside them."""
    tables = [row[0] for row in store.cursor().execute("SELECT table_name FROM duckdb_tables()").fetchall()]
    counts = {t: store.cursor().execute(f"SELECT count(*), sum(hash(x)) FROM {t} x").fetchall() for t in tables}
    snapshot = store.home / "snapshot.duckdb"
    return counts, hashlib.sha256(snapshot.read_bytes()).hexdigest(), sorted(os.listdir(store.home))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def refusal_of(snapshot: Path, sql: str, limits: Limits) -> Refusal:
    """The refusal of a statement. AssertionError if it has an answer, or never ends."""
    began = time.monotonic()
    with pytest.raises(Refusal) as refused:
        ask(snapshot, sql, limits)
    assert time.monotonic() - began < PATIENCE_S
    return refused.value


@pytest.mark.parametrize("case", REFUSED)
def test_a_hostile_statement_is_refused_with_a_message(store: Store, snapshot: Path, case: str) -> None:
    sql, message = REFUSED[case]
    before = state(store)
    refusal = refusal_of(snapshot, sql, Limits(timeout_s=PATIENCE_S))
    assert message in str(refusal)
    assert refusal.reason in ("statement", "error")
    assert str(store.home) not in refusal.explained()
    assert state(store) == before


@pytest.mark.parametrize("case", STOPPED)
def test_a_statement_without_bounds_is_stopped(store: Store, snapshot: Path, case: str) -> None:
    before, resident = state(store), resident_bytes()
    refusal = refusal_of(snapshot, STOPPED[case], Limits(timeout_s=1.2))
    assert refusal.reason in ("memory", "time", "broken")
    assert resident_bytes() - resident < GROWTH_BYTES
    assert state(store) == before


def test_every_part_of_a_statement_is_checked(snapshot: Path) -> None:
    connection = child.open_snapshot(str(snapshot))
    for sql in CORNERS:
        with pytest.raises(child.Refused, match="not available here|the statement contains"):
            child.checked(connection, sql)
    connection.close()


def test_the_path_of_the_snapshot_is_never_revealed(store: Store, snapshot: Path) -> None:
    """Try every system view, every table function without arguments and every setting."""
    with duckdb.connect() as plain:
        functions = plain.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type LIKE 'table%' "
            "UNION SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'pragma'"
        ).fetchall()
        views = plain.execute("SELECT DISTINCT schema_name || '.' || view_name FROM duckdb_views()").fetchall()
        settings = plain.execute("SELECT name FROM duckdb_settings()").fetchall()
    statements = [f"FROM {name}()" for (name,) in functions] + [f"FROM system.{name}" for (name,) in views]
    statements += [f"SELECT current_setting('{name}')" for (name,) in settings]
    statements += ["SHOW DATABASES", "SHOW ALL TABLES", "DESCRIBE", "EXPLAIN ANALYZE FROM runs"]
    statements += ["SELECT current_database(), current_catalog(), current_schemas(true), current_query()"]
    connection = child.open_snapshot(str(snapshot))
    answered = 0
    for sql in statements:
        try:
            rows = connection.sql(child.checked(connection, sql)).fetchall()
        except (child.Refused, duckdb.Error) as error:
            rows = [(str(error),)]
        else:
            answered += 1
        assert str(store.home) not in repr(rows), sql
        assert "/root" not in repr(rows), sql
    connection.close()
    assert len(statements) > 200
    assert answered > 30


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*) AS n FROM runs", [{"n": 2}]),
        ("FROM runs SELECT DISTINCT model", [{"model": "tiny-random"}]),
        ("-- a comment\nVALUES (1, 'a'), (2, NULL);", [{"col0": 1, "col1": "a"}, {"col0": 2, "col1": None}]),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT sum(i) AS s FROM r",
            [{"s": 6}],
        ),
        ("SELECT 1 AS a, 2 AS a", [{"a": 1, "a_2": 2}]),
        ("SELECT 1.5::DECIMAL(4, 2) AS d, NULL AS n, [1, 2] AS l, INTERVAL 36 HOUR AS i", None),
        ("SELECT run_info ->> '$.engine' AS e FROM runs ORDER BY e", [{"e": "continuous"}, {"e": "static"}]),
        ("PIVOT runs ON engine IN ('static', 'serial') USING count(*)", None),
        ("SELECT column_name FROM duckdb_columns() WHERE table_name = 'runs' LIMIT 1", [{"column_name": "run_id"}]),
        ("SELECT 1 UNION ALL SELECT 2 ORDER BY 1 DESC", [{"1": 2}, {"1": 1}]),
    ],
)
def test_an_allowed_statement_is_answered(snapshot: Path, sql: str, rows: list[Any] | None) -> None:
    answer = ask(snapshot, sql, Limits(timeout_s=PATIENCE_S))
    assert answer.more is None
    assert 0 < answer.seconds < PATIENCE_S
    assert rows is None or answer.table.to_pylist() == rows


@pytest.mark.parametrize(
    "sql", ["SHOW TABLES", "DESCRIBE runs", "SUMMARIZE requests", "EXPLAIN SELECT 1", "EXPLAIN ANALYZE FROM runs"]
)
def test_descriptive_statements_are_answered(snapshot: Path, sql: str) -> None:
    assert ask(snapshot, sql).table.num_rows > 0


def test_sums_have_common_number_types(snapshot: Path) -> None:
    sql = "SELECT sum(token_id) AS s, avg(token_id)::DECIMAL(9, 3) AS d, 2::HUGEINT ** 100 AS big FROM tokens"
    table = ask(snapshot, sql).table
    assert [str(field.type) for field in table.schema] == ["int64", "double", "double"]
    assert table["big"].to_pylist() == [2.0**100]


def test_the_row_limit_is_reported(snapshot: Path) -> None:
    answer = ask(snapshot, "FROM range(100000000)", Limits(max_rows=2500))
    assert (answer.table.num_rows, answer.more) == (2500, "rows")
    assert answer.table["range"].to_pylist() == list(range(2500))
    whole = ask(snapshot, "FROM range(2500)", Limits(max_rows=2500))
    assert (whole.table.num_rows, whole.more) == (2500, None)


def test_the_size_limit_is_reported(snapshot: Path) -> None:
    limits = Limits(max_bytes=1 << 20, max_rows=100_000)
    answer = ask(snapshot, "SELECT repeat('x', 100) FROM range(1000000)", limits)
    assert answer.more == "bytes"
    assert 0 < answer.table.num_rows < 11_000
    one = ask(snapshot, "SELECT repeat('x', 3000000)", limits)
    assert (one.table.num_rows, one.more) == (0, "bytes")


def test_the_time_limit_stops_a_query(snapshot: Path) -> None:
    refusal = refusal_of(snapshot, "SELECT sleep_ms(3000)", Limits(timeout_s=0.5))
    assert (refusal.reason, str(refusal)) == (
        "time",
        "Stopped after 0.5\u00a0s. Query less data, or raise the time limit.",
    )
    assert ask(snapshot, "SELECT sleep_ms(600)", Limits(timeout_s=20)).table.num_rows == 1


def test_canceling_kills_the_process(snapshot: Path) -> None:
    asking = Asking(snapshot, "SELECT sleep_ms(60000)", Limits(timeout_s=60))
    wait_for(lambda: asking.pid is not None, 60)
    pid = asking.pid
    assert pid is not None
    assert process_lives(pid)
    asking.cancel()
    with pytest.raises(Refusal) as refused:
        asking.result()
    assert refused.value.reason == "canceled"
    assert asking.is_done
    assert not process_lives(pid)
    asking.cancel()


def test_a_query_ends_with_its_parent(snapshot: Path) -> None:
    """The query's process ends when its parent was killed, long before its time limit."""
    code = (
        "import sys, time; from pathlib import Path; from store.sandbox import Asking, Limits\n"
        "asking = Asking(Path(sys.argv[1]), 'SELECT sleep_ms(60000)', Limits(timeout_s=60))\n"
        "while asking.pid is None: time.sleep(0.01)\n"
        "print(asking.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(snapshot)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        time.sleep(0.5)
        process.kill()
    assert await_end(pid, within_s=30)


def test_a_missing_snapshot_is_reported_without_its_path(tmp_path: Path) -> None:
    refusal = refusal_of(tmp_path / "nowhere.duckdb", "SELECT 1", Limits())
    assert (refusal.reason, str(refusal)) == ("missing", "The snapshot cannot be read.")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"timeout_s": 0.0}, "timeout 0: use 0.1 to 60 seconds"),
        ({"timeout_s": 61}, "timeout 61"),
        ({"timeout_s": float("nan")}, "timeout nan"),
        ({"max_rows": 0}, "max rows 0: use 1 to 1000000"),
        ({"max_rows": 10**7}, "max rows 10000000"),
    ],
)
def test_limits_have_a_range(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limits(**limits)


def test_the_length_of_a_query_is_limited(snapshot: Path) -> None:
    with pytest.raises(ValueError, match="20,001 characters; use at most 20,000"):
        ask(snapshot, "x" * 20_001)


@pytest.mark.parametrize("depth", [400, 1500])
def test_a_deeply_nested_statement_does_not_crash(snapshot: Path, depth: int) -> None:
    try:
        outcome: Answer | Refusal = ask(snapshot, f"SELECT {'(' * depth}1{')' * depth}")
    except Refusal as refusal:
        outcome = refusal
    assert isinstance(outcome, Answer) == (depth == 400), outcome


DRIVER = """
import contextlib, io, json, sys, time
from store.cli.main import main
for sql in json.load(sys.stdin):
    out, err, began = io.StringIO(), io.StringIO(), time.monotonic()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["query", sql, "--json"])
    print(json.dumps([sql, status, out.getvalue(), err.getvalue(), time.monotonic() - began]), flush=True)
"""


def test_the_command_refuses_hostile_statements_while_the_app_has_the_store(store: Store) -> None:
    """Each ends with exit status 1 or 2, a reason and no rows; the app's memory and rows are unchanged."""
    bombs = ("a string of 2 GB", "a list of everything", "recursion without end")
    statements = [sql for sql, _ in list(REFUSED.values())[::2]] + [STOPPED[name] for name in bombs]
    assert len(statements) >= 20
    before, resident = state(store), resident_bytes()
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=ROOT,
        env=os.environ | {"LAB_HOME": str(store.home)},
        input=json.dumps(statements),
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert ran.returncode == 0, ran.stderr
    reports = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [report[0] for report in reports] == statements
    for sql, status, out, err, seconds in reports:
        assert (status in (1, 2), out) == (True, ""), sql
        assert err.startswith("store: "), sql
        assert seconds < PATIENCE_S, sql
    assert state(store) == before
    assert resident_bytes() - resident < GROWTH_BYTES

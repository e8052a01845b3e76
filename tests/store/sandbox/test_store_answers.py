"""Answers and refusals: places in a text, columns, files, `python -m store query`."""

from __future__ import annotations

import datetime
import io
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from store import Recorder, Store
from store.cli.query import shown
from store.sandbox import Refusal, ask
from store.sandbox.answer import interval_text, place_in, tidied
from store.sandbox.answer_files import to_arrow, to_csv, to_parquet, to_rows
from tests.support.app_server import ROOT
from tests.support.runs.sample_runs import write_sample_run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("home")) as opened:
        opened.ingest.run(write_sample_run(opened.runs_folder, "static", run_id="r1"))
        opened.ingest.run(write_sample_run(opened.runs_folder, "continuous", run_id="r2"))
        yield opened


def test_a_place_counts_lines_and_characters_from_one() -> None:
    sql = "SELECT 'é',\n  zzz\nFROM t"
    place = place_in(sql, len(b"SELECT '\xc3\xa9',\n  "), 3)
    assert place is not None
    assert (place.line, place.column, place.length, place.text) == (2, 3, 3, "  zzz")
    assert place.drawn() == "  zzz\n  ^^^"


@pytest.mark.parametrize("begin", [-1, 100])
def test_a_place_outside_the_text_is_none(begin: int) -> None:
    assert place_in("SELECT 1", begin, 1) is None


def test_the_end_of_a_text_is_a_place() -> None:
    place = place_in("SELECT 1 +", 10, 1)
    assert place is not None
    assert place.drawn() == "SELECT 1 +\n" + " " * 10 + "^"


def test_a_long_line_is_cut_around_the_place() -> None:
    sql = "SELECT " + "1 + " * 200 + "zzz" + " + 1" * 200
    place = place_in(sql, sql.index("zzz"), 3)
    assert place is not None
    line, carets = place.drawn().splitlines()
    assert line.startswith("…")
    assert line.endswith("…")
    assert line[carets.index("^") : carets.index("^") + carets.count("^")] == "zzz"
    assert len(line) == 102


@pytest.mark.parametrize(
    ("sql", "message", "carets"),
    [
        ("SELECT *\nFORM runs", "syntax error", "FORM runs\n     ^^^^"),
        ("SELECT 'é', zzz\nFROM runs", "zzz", "SELECT 'é', zzz\n            ^^^"),
        ("SELECT nope(1)", "nope does not exist", "SELECT nope(1)\n       ^^^^^^^"),
        ("SELECT 1\nFROM nowhere", "nowhere does not exist", "FROM nowhere\n     ^^^^^^^"),
        ("SELECT CAST(engine AS INTEGER) FROM runs", "Could not convert", "^"),
        ("EXPLAIN SELECT zzz", "zzz", "EXPLAIN SELECT zzz\n               ^^^"),
        ("SELECT 1;\nSELECT 2", "2 statements", "SELECT 1;\n         ^"),
        ("SELECT a, sum(b) FROM (VALUES (1, 2)) t(a, b)", "GROUP BY", "^"),
    ],
)
def test_an_error_shows_its_place(store: Store, sql: str, message: str, carets: str) -> None:
    with pytest.raises(Refusal) as refused:
        ask(store.snapshots.publish().path, sql)
    explained = refused.value.explained()
    assert message in explained
    assert carets in explained
    assert f"line {refused.value.place.line}, column {refused.value.place.column}" in explained


def test_columns_get_common_types_and_unique_names() -> None:
    big = Decimal(2) ** 70
    table = tidied(
        pa.table(
            [
                pa.array([Decimal(3), None], pa.decimal128(38, 0)),
                pa.array([big, Decimal(1)], pa.decimal128(38, 0)),
                pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
                pa.array(["a", "b"]).dictionary_encode(),
            ],
            names=["n", "n", "n", "kind"],
        )
    )
    assert table.to_pydict() == {
        "n": [3, None],
        "n_2": ["1180591620717411303424", "1"],
        "n_3": [1.5, None],
        "kind": ["a", "b"],
    }
    assert str(table.schema.field("n").type) == "int64"


WIDE = pa.table(
    {
        "a": [1, None],
        "f": [0.5, math.inf],
        "t": [datetime.datetime(2026, 11, 29, 12), None],
        "l": [[1, 2], None],
        "b": [b"\x00\xff", None],
        "n": pa.nulls(2),
        "s": ['say "hi", twice', "two\nlines"],
    }
)


@pytest.mark.parametrize(
    "value",
    [
        pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32()),
        pa.array([-(2**62)], pa.timestamp("us")),
        pa.array([[None], [2**31 - 1]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
    ],
)
def test_a_date_outside_pythons_range_is_refused(value: pa.Array) -> None:
    with pytest.raises(Refusal, match="Column when: dates outside the years 1 to 9999 cannot be shown"):
        tidied(pa.table({"when": value}))


def test_rows_are_json() -> None:
    rows = to_rows(WIDE)
    assert json.loads(json.dumps(rows, allow_nan=False)) == [
        {"a": 1, "f": 0.5, "t": "2026-11-29T12:00:00", "l": [1, 2], "b": "00ff", "n": None, "s": 'say "hi", twice'},
        {"a": None, "f": "Infinity", "t": None, "l": None, "b": None, "n": None, "s": "two\nlines"},
    ]


def test_csv_holds_lists_as_json() -> None:
    lines = to_csv(WIDE).decode().split("\n", 1)
    assert lines[0] == '"a","f","t","l","b","n","s"'
    assert lines[1].startswith('1,0.5,2026-11-29 12:00:00.000000,"[1, 2]","00ff",,"say ""hi"", twice"\n')


def test_parquet_and_arrow_come_back_as_they_were() -> None:
    assert pa.parquet.read_table(io.BytesIO(to_parquet(WIDE))).drop(["n"]).equals(WIDE.drop(["n"]))
    assert pa.ipc.open_file(to_arrow(WIDE)).read_all().equals(WIDE)


def test_types_that_parquet_lacks_become_json_text() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([7])])
    assert pa.parquet.read_table(io.BytesIO(to_parquet(pa.table({"u": union})))).to_pylist() == [{"u": "7"}]


def test_a_table_is_printed_with_aligned_columns() -> None:
    table = pa.table({"engine": ["static", None], "tokens": [12, 3456], "text": ["a\nb\x1b[31m", "x" * 80]})
    assert shown(table) == [
        "engine  tokens  text",
        "static      12  a⏎b [31m",
        f"–         3456  {'x' * 59}…",
    ]
    assert shown(table.slice(0, 0)) == ["No rows. Columns: engine, tokens, text"]
    assert shown(pa.table({"a\n\x1b[31m": ["b"]})) == ["a⏎ [31m", "b"]


def test_a_closed_output_pipe_is_no_error(tmp_path: Path) -> None:
    ask_for_much = [sys.executable, "-m", "store", "query", "FROM range(100000)", "--max-rows", "100000"]
    environment = os.environ | {"LAB_HOME": str(tmp_path)}
    asking = subprocess.Popen(
        ask_for_much, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert asking.stdout is not None
    assert asking.stderr is not None
    asking.stdout.readline()
    asking.stdout.close()
    assert asking.stderr.read() == ""
    assert asking.wait(timeout=300) == 1


def query(home: Path, *arguments: str | bytes, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "store", "query", *arguments],
        cwd=ROOT,
        env=os.environ | {"LAB_HOME": str(home)},
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
    )


BY_ENGINE = "SELECT engine, count(*) AS tokens FROM tokens JOIN runs USING (run_id) GROUP BY engine ORDER BY engine"


def test_the_command_with_a_free_store(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for engine in ("static", "continuous"):
        write_sample_run(home / "runs", engine)
    asked = query(home, BY_ENGINE, "--json")
    assert asked.returncode == 0, asked.stderr
    rows = json.loads(asked.stdout)
    assert [row["engine"] for row in rows] == ["continuous", "static"]
    assert rows[0]["tokens"] == rows[1]["tokens"] > 0
    cells = [line.split() for line in query(home, "-", text=BY_ENGINE).stdout.splitlines()]
    assert cells == [["engine", "tokens"], *([row["engine"], str(row["tokens"])] for row in rows)]


def test_the_command_beside_the_app_sees_new_rows(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Store(home) as store:
        recorder = Recorder(store, store.runs_folder)
        recorder.start()
        assert json.loads(query(home, "SELECT count(*) AS n FROM runs", "--json").stdout) == [{"n": 0}]
        folder = write_sample_run(tmp_path / "elsewhere", "static")
        store.ingest.run(folder)
        assert json.loads(query(home, "SELECT run_id FROM runs", "--json").stdout) == [{"run_id": folder.name}]
        recorder.stop()


def test_an_answer_is_written_to_a_file(tmp_path: Path, store: Store) -> None:
    home = tmp_path / "home"
    wrote = query(home, "SELECT 1 AS a", "--csv", str(tmp_path / "a.csv"))
    assert (wrote.returncode, wrote.stdout) == (0, f"rows written: 1, to {tmp_path / 'a.csv'}\n")
    assert (tmp_path / "a.csv").read_text() == '"a"\n1\n'
    assert query(home, "SELECT 1 AS a", "--parquet", str(tmp_path / "a.parquet")).returncode == 0
    assert pa.parquet.read_table(tmp_path / "a.parquet").to_pylist() == [{"a": 1}]


def test_a_truncated_answer_is_reported(tmp_path: Path) -> None:
    ran = query(tmp_path / "home", "FROM range(100)", "--max-rows", "3", "--json")
    assert (ran.returncode, len(json.loads(ran.stdout))) == (0, 3)
    assert ran.stderr == "store: only the first 3 rows; there are more; --max-rows allows more\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("SELECT zzz",), 2, "store: Binder Error: "),
        (("DROP TABLE runs",), 2, "this is DROP"),
        ((";",), 2, "the text has no statement"),
        (("SELECT error('no')",), 1, "no"),
        (("SELECT sleep_ms(9000)", "--timeout", "0.5"), 1, "store: Stopped after 0.5\u00a0s"),
        (("",), 2, "the statement is empty"),
        (("SELECT 1", "--timeout", "0"), 2, "timeout 0: use 0.1 to 60 seconds"),
        (("SELECT 1", "--max-rows", "many"), 2, "--max-rows"),
        (("SELECT 1", "--csv", "/nowhere/at/all.csv"), 2, "no such folder"),
        (("SELECT 1", "--csv", "/tmp"), 2, "/tmp is a folder; name a file"),
        (("SELECT 1", "--parquet", ""), 2, "is a folder; name a file"),
        (("SELECT 1", "--csv", "/proc/a.csv"), 2, "/proc/a.csv: No such file"),
        ((b"SELECT \xff",), 2, "not UTF-8"),
        (("SELECT 'infinity'::DATE AS day",), 1, "Column day: dates outside the years 1 to 9999"),
        (("SELECT error(chr(27) || '[31m')",), 1, "Invalid Input Error:  [31m"),
        (("SELECT 1", "--csv", "a", "--parquet", "b"), 2, "not allowed with"),
        (("SELECT " + "1" * 20_000,), 2, "longer than 20,000 characters"),
        ((), 2, "SQL"),
    ],
)
def test_exit_statuses(tmp_path: Path, arguments: tuple[str | bytes, ...], status: int, message: str) -> None:
    ran = query(tmp_path / "home", *arguments)
    assert (ran.returncode, ran.stdout) == (status, "")
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr
    if status == 2:
        assert ran.stderr.partition("\nat line ")[0].count("\n") <= 1


def test_an_interval_is_written_as_duckdb_writes_it() -> None:
    assert interval_text(0, 0, 1_141_000_000) == "00:00:01.141"
    assert interval_text(1, 2, 0) == "1 month 2 days"
    assert interval_text(0, -1, -(3_600 * 30 * 10**9)) == "-1 day -30:00:00"
    assert interval_text(0, 0, 0) == "00:00:00"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("340282366920938463463374607431768211455::UHUGEINT", "340282366920938463463374607431768211455"),
        ("'101'::BIT", "101"),
        ("[12::BIGNUM]", "[12]"),
    ],
)
def test_a_value_that_arrow_cannot_hold_is_exported_as_exact_text(store: Store, value: str, text: str) -> None:
    path = store.snapshots.publish().path
    table = ask(path, f"SELECT {value} AS x").table
    assert table.to_pydict() == ask(path, f"SELECT ({value})::VARCHAR AS x").table.to_pydict() == {"x": [text]}
    assert to_csv(table).decode() == f'"x"\n"{text}"\n'
    assert pa.parquet.read_table(io.BytesIO(to_parquet(table))).to_pylist() == [{"x": text}]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("170141183460469231731687303715884105727::HUGEINT", "170141183460469231731687303715884105727"),
        ("(-170141183460469231731687303715884105728)::HUGEINT", "-170141183460469231731687303715884105728"),
        ("9223372036854775807::HUGEINT", 9223372036854775807),
        ("340282366920938463463374607431768211455::UHUGEINT", "340282366920938463463374607431768211455"),
        ("5::UHUGEINT", 5),
        ("123456789012345678901234567890::BIGNUM", "123456789012345678901234567890"),
        ("'101'::BIT", "101"),
        ("[340282366920938463463374607431768211455::UHUGEINT]", "[340282366920938463463374607431768211455]"),
        ("12345678901234567.89::DECIMAL(38, 2)", "12345678901234567.89"),
        ("1.10::DECIMAL(5, 2)", 1.1),
        ("TIME '24:00:00'", "24:00:00"),
        ("TIME '12:30:00'", "12:30:00"),
        ("'10:00:00+02'::TIMETZ", "10:00:00+02"),
        ("'nan'::DOUBLE", "NaN"),
        ("'-inf'::DOUBLE", "-Infinity"),
        ("NULL::DOUBLE", None),
    ],
)
def test_no_value_changes_on_its_way_out(store: Store, sql: str, value: object) -> None:
    rows = to_rows(ask(store.snapshots.publish().path, f"SELECT {sql} AS v").table)
    assert json.loads(json.dumps(rows, allow_nan=False)) == [{"v": value}]


def test_csv_guards_formulas_and_leaves_numbers() -> None:
    table = pa.table({"=x": ["=1+1", "+cmd|x", "-5", "@a", "\tb", "fine"], "n": [-1.5, 2, 3, 4, 5, math.nan]})
    assert to_csv(table).decode().splitlines() == [
        '"\'=x","n"', '"\'=1+1",-1.5', '"\'+cmd|x",2', '"-5",3', '"\'@a",4', '"\'\tb",5', '"fine",nan',
    ]  # fmt: skip


def test_a_statement_of_an_unknown_kind_is_refused_as_a_statement(store: Store) -> None:
    with pytest.raises(Refusal, match="this is another statement") as refused:
        ask(store.snapshots.publish().path, "UPDATE EXTENSIONS")
    assert refused.value.reason == "statement"


def test_text_that_is_no_utf8_is_refused_before_a_process_starts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not UTF-8"):
        ask(tmp_path / "none", "SELECT '\ud800'")


@pytest.mark.parametrize(
    ("number", "reason", "text"),
    [
        (signal.SIGSEGV, "broken", "DuckDB crashed on this query; deep nesting can do that"),
        (signal.SIGKILL, "memory", "Stopped by the system"),
        (signal.SIGXCPU, "time", "used up its time on the CPU"),
        (signal.SIGALRM, "time", "Stopped after 5\u00a0s"),
        (signal.SIGXFSZ, "statement", "tried to write a file"),
    ],
)
def test_the_end_of_a_process_is_told_by_its_cause(
    monkeypatch: pytest.MonkeyPatch, number: int, reason: str, text: str
) -> None:
    def start() -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(["sh", "-c", f"ulimit -c 0; kill -{int(number)} $$"], stdin=pipe, stdout=pipe)

    monkeypatch.setattr("store.sandbox.asking._start", start)
    with pytest.raises(Refusal, match=text) as refused:
        ask(Path("/nowhere"), "SELECT 1")
    assert refused.value.reason == reason

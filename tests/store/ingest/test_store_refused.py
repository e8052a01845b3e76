"""Damaged and hostile folders: each is one line in `problems`, nothing of it is taken in, and all others go on."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from engine.runlog.locks import hold
from engine.runlog.reader import RunLogReader
from engine.runlog.schema import LOCK_FILE, RESULT_FILE, RUN_FILE
from engine.runlog.writer import RunLogWriter
from store import Recorder, Store
from store.cli.commands import ingest, verify
from tests.support.runs.sample_runs import without_checksums, write_sample_run

ROW = {"request_id": 0, "prompt_tokens": 16, "arrival_s": 0.0, "lane": 0}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def change(folder: Path, file: str, **values: Any) -> Path:
    """Replace values of a JSON file of a run, as a broken disk or a hostile hand would."""
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(content | values))
    return folder


def problem_of(store: Store, folder: Path) -> str:
    """The folder's line. Nothing of the run is in the store, and a healthy run beside it is."""
    good = write_sample_run(store.runs_folder, run_id="zz-good")
    _, problems = store.ingest.all_in(store.runs_folder)
    assert list(problems) == [folder]
    assert store.runs.list()["run_id"].tolist() == [good.name]
    for table in ("requests", "passes", "tokens", "spans", "ingest_progress"):
        found = store.cursor().execute(f"SELECT DISTINCT run_id FROM {table}").fetchall()
        assert found == [(good.name,)], table
    assert "\n" not in problems[folder]
    assert folder.name in problems[folder]
    return problems[folder]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"created_at": "0001-01-01T00:00:00+14:00"}, "created_at is '0001-01-01T00:00:00+14:00'; it is not a time"),
        ({"created_at": "9999-12-31T23:59:59-14:00"}, "it is not a time in ISO form"),
        ({"created_at": 7}, "created_at is 7; it must be text"),
        ({"config": None}, "config is None; it must be an object"),
        ({"config": [1]}, "config is [1]; it must be an object"),
        ({"config": 5}, "config is 5; it must be an object"),
        ({"config": {"slots": 2**31 - 1}}, "config.slots is 2147483647; it should be less than or equal to 4096"),
        ({"model": 7}, "model is 7; it must be an object"),
        ({"model": {"name": 7}}, "model.name is 7; it must be text"),
        ({"workload": 7}, "workload is 7; it must be an object"),
        ({"device": {"threads": "x"}}, "device.threads is 'x'; it must be a whole number"),
        ({"kv_blocks": 2**40}, "kv_blocks is 1099511627776; it should be less than or equal to 2147483647"),
        ({"simulated": "no"}, "simulated is 'no'; it must be true or false"),
        ({"experiment": {"id": "../up"}}, "experiment.id is '../up'; it must be an id"),
        ({"environment": {"load": float("nan")}}, "nan is not a finite number"),
        ({"anything": 10**30}, "a number has more than 64 bits"),
        ({"anything": "\ud800"}, "is not UTF-8 text"),
        ({"anything": json.loads("[" * 100 + "]" * 100)}, "nested more than 40 deep"),
    ],
)
def test_run_json_is_checked_by_type_and_bound(store: Store, values: dict[str, Any], line: str) -> None:
    folder = change(write_sample_run(store.runs_folder, run_id="0bad"), RUN_FILE, **values)
    assert line in problem_of(store, folder)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"status": "fine"}, "status is 'fine'"),
        ({"totals": {"duration_s": "fast"}}, "totals.duration_s is 'fast'; it must be a number"),
        ({"totals": [1]}, "totals is [1]; it must be an object"),
        ({"ended_at": "0001-01-01T00:00:00+14:00"}, "ended_at is '0001-01-01T00:00:00+14:00'; it is not a time"),
        ({"error": 5}, "error is 5; it must be text"),
        ({"oom": {"asked_bytes": "all"}}, "oom.asked_bytes is 'all'; it must be a whole number"),
        ({"streams": 5}, "the checksums of the streams cannot be read"),
    ],
)
def test_result_json_is_checked_by_type_and_bound(store: Store, values: dict[str, Any], line: str) -> None:
    folder = change(write_sample_run(store.runs_folder, run_id="0bad"), RESULT_FILE, **values)
    assert line in problem_of(store, folder)


@pytest.mark.parametrize(
    ("stream", "row", "line"),
    [
        ("requests", ROW | {"prompt_tokens": 2**31 - 1}, "prompt_tokens is 2,147,483,647; it must be 0 to 100,000,000"),
        ("requests", ROW | {"prompt_tokens": -1}, "prompt_tokens is -1"),
        (
            "requests",
            ROW | {"arrival_s": 1e300},
            "arrival_s is 1e+300; it must be -1,000,000,000,000 to 1,000,000,000,000",
        ),
        ("requests", ROW | {"arrival_s": float("inf")}, "arrival_s is inf"),
        ("requests", ROW | {"lane": 1_500_000}, "lane is 1,500,000; it must be 0 to 4,096"),
        ("requests", ROW | {"state": "asleep"}, "state is 'asleep'; it must be waiting, running, finished, stopped"),
        ("spans", {"span_id": 0, "lane": 2**31 - 1}, "lane is 2,147,483,647"),
        ("spans", {"span_id": 0, "phase": "dream"}, "phase is 'dream'"),
        ("tokens", {"request_id": 0, "token_index": 0, "delivered_s": float("nan")}, "delivered_s is nan"),
        ("passes", {"pass_index": 0, "dead_positions": 2**63 - 1}, "dead_positions is 9,223,372,036,854,775,807"),
        ("passes", {"pass_index": 2**31 - 1}, "pass_index is 2,147,483,647"),
        ("memory", {"time_s": 0.0, "peak_bytes": -1}, "peak_bytes is -1"),
        ("blocks", {"block_id": 2**31 - 1}, "block_id is 2,147,483,647"),
        ("events", {"event": "explode"}, "event is 'explode'; it must be preempt"),
    ],
)
def test_rows_are_checked_by_bound(store: Store, stream: str, row: dict[str, Any], line: str) -> None:
    with RunLogWriter(store.runs_folder / "0bad", run_json()) as log:
        log.append("requests", **ROW)
        log.append(stream, **row)
        log.finish({"status": "completed", "totals": {}})
    assert f"{stream}.arrows: refused: {line}" in problem_of(store, store.runs_folder / "0bad")


def run_json() -> dict[str, Any]:
    return {"run_id": "0bad", "schema_version": 2, "config": {"slots": 2}, "created_at": "2026-01-02T03:04:05+00:00"}


MAKES: dict[str, Callable[[Path], object]] = {
    "a link": lambda path: path.symlink_to("/dev/zero"),
    "a FIFO": os.mkfifo,
    "a socket": lambda path: socket.socket(socket.AF_UNIX).bind(str(path)),
}


@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize("name", ["run.json", "result.json", "tokens.arrows", "events.arrows", "lock"])
def test_devices_and_fifos_neither_hang_nor_fill_the_memory(
    store: Store, tmp_path: Path, kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_sample_run(store.runs_folder, run_id="0bad")
    (folder / name).unlink(missing_ok=True)
    monkeypatch.chdir(folder)  # a socket's path must be short
    MAKES[kind](Path(name))
    line = problem_of(store, folder)
    if name != "events.arrows" or kind != "a link":
        assert "not a plain file" in line or "wrote no such stream" in line


def test_an_experiment_of_devices_is_one_line(store: Store) -> None:
    folder = store.runs_folder / "exp"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "experiment.json")
    _, problems = store.ingest.all_in(store.runs_folder)
    assert "a FIFO, not a plain file" in problems[folder]


def test_any_exception_of_a_folder_is_its_problem(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        write_sample_run(store.runs_folder, run_id=name)
    as_it_was = RunLogReader.run_info

    def fails(reader: RunLogReader) -> Any:
        if reader.folder.name == "b":
            raise ZeroDivisionError("by nothing")
        return as_it_was(reader)

    monkeypatch.setattr(RunLogReader, "run_info", fails)
    folder, line = store.runs_folder / "b", "ZeroDivisionError: by nothing"
    reply = ingest(store, [store.runs_folder])
    assert [run["run_id"] for run in reply["runs"]] == ["a", "c"]
    assert reply["problems"] == [f"{folder}: {line}"]
    recorder = Recorder(store, store.runs_folder)
    recorder.look()
    assert recorder.problems == {folder: f"{folder}: {line}"}
    assert verify(store)["runs"] == [{"run_id": "b", "outcome": "differs", "lines": [f"{folder}: {line}"]}]


def test_a_failure_after_the_folders_is_a_problem_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sample_run(store.runs_folder, run_id="a")
    recorder = Recorder(store, store.runs_folder)

    def settle() -> bool:
        raise OverflowError("too much")

    monkeypatch.setattr(store.predictions, "settle", settle)
    assert recorder.look()
    assert store.runs.has("a")
    assert recorder.version == 1
    assert "OverflowError: too much" in recorder.problems[store.home / "settle"]


@pytest.mark.parametrize("data", [b"", None, "cut"])
def test_a_known_run_whose_stream_is_emptied_keeps_its_rows_and_its_status(store: Store, data: Any) -> None:
    folder = write_sample_run(store.runs_folder, run_id="0bad")
    store.ingest.run(folder)
    tokens = len(store.runs.tokens("0bad"))
    file = folder / "tokens.arrows"
    if data is None:
        file.unlink()
    else:
        file.write_bytes(b"" if data == b"" else file.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"0bad/tokens\.arrows: (cut|missing)"):
        store.ingest.run(folder)
    row = store.runs.get("0bad")
    assert (row["status"], len(store.runs.tokens("0bad"))) == ("completed", tokens)
    assert row["damage"].startswith("tokens.arrows: ")
    assert store.ingest.verify("0bad").outcome == "differs"


def test_a_flipped_bit_is_found_by_verify_although_the_folder_looks_settled(store: Store) -> None:
    folder = write_sample_run(store.runs_folder, run_id="0bad")
    store.ingest.run(folder)
    file = folder / "spans.arrows"
    times, data = file.stat(), bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert store.ingest.all_in(store.runs_folder) == ([], {})
    verdict = store.ingest.verify("0bad")
    assert verdict.outcome == "differs"
    assert verdict.lines[0] == "spans.arrows: damaged: its bytes are not those that the run wrote (checksum)"


def test_a_followed_run_that_ends_damaged_does_not_run_for_ever(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path, run_id="0bad")
    result = (folder / RESULT_FILE).read_bytes()
    (folder / RESULT_FILE).unlink()
    with hold(folder / LOCK_FILE, purpose="run"):
        assert store.ingest.run(folder).status == "running"
    (folder / RESULT_FILE).write_bytes(result)
    (folder / "spans.arrows").write_bytes(b"")
    with pytest.raises(ValueError, match=r"spans\.arrows: cut"):
        store.ingest.run(folder)
    row = store.runs.get("0bad")
    assert (row["status"], row["damage"].partition(":")[0]) == ("completed", "spans.arrows")


def test_a_log_without_checksums_is_taken_in_and_verify_says_so(store: Store) -> None:
    without_checksums(write_sample_run(store.runs_folder, run_id="old"))
    write_sample_run(store.runs_folder, run_id="new")
    reply = verify(store)
    assert (reply["agree"], reply["differ"], reply["without_checksums"]) == (2, 0, ["old"])


def test_a_settled_folder_is_not_read_again_until_it_changes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [write_sample_run(store.runs_folder, run_id=name) for name in ("a", "b")]
    read: list[str] = []
    as_it_was = store.ingest.run
    monkeypatch.setattr(store.ingest, "run", lambda folder: (read.append(folder.name), as_it_was(folder))[1])
    for expected in (["a", "b"], []):
        store.ingest.all_in(store.runs_folder)
        assert read == expected
        read.clear()
    os.utime(folders[1] / "tokens.arrows", ns=(1, 1))
    store.ingest.all_in(store.runs_folder)
    assert read == ["b"]
    read.clear()
    recorder = Recorder(store, store.runs_folder)
    recorder.look()
    assert read == []
    store.trash.restore([store.trash.delete_run("a").entry_id])
    store.cursor().execute("UPDATE runs SET stamp = NULL WHERE run_id = 'b'").fetchall()
    read.clear()
    store.ingest.all_in(store.runs_folder)
    assert read == ["b"]


def test_a_running_run_has_no_stamp(store: Store) -> None:
    folder = write_sample_run(store.runs_folder, run_id="live", status=None)
    with hold(folder / LOCK_FILE, purpose="run"):
        store.ingest.run(folder)
        assert store.ingest.stamps() == {}
    store.ingest.run(folder)
    assert list(store.ingest.stamps()) == [str(folder.resolve())]


SPOILS = (
    "UPDATE requests SET prompt_tokens = 2147483647 WHERE run_id = '0bad'",
    "UPDATE tokens SET delivered_s = 'nan' WHERE run_id = '0bad' AND token_index = 1",
    "UPDATE requests SET arrival_s = 1e300 WHERE run_id = '0bad'",
    "UPDATE spans SET lane = 1500000 WHERE run_id = '0bad'",
    "UPDATE spans SET phase = 'dream' WHERE run_id = '0bad'",
    "UPDATE passes SET computed_positions = 9223372036854775807 WHERE run_id = '0bad'",
    "UPDATE runs SET run_info = json_merge_patch(run_info, '{\"model\": 7}') WHERE run_id = '0bad'",
    "UPDATE runs SET run_info = 'no JSON' WHERE run_id = '0bad'",
    "UPDATE runs SET result = '[]' WHERE run_id = '0bad'",
)


@pytest.mark.parametrize("spoil", SPOILS)
def test_bad_values_in_a_store_are_taken_out_when_it_is_opened(tmp_path: Path, spoil: str) -> None:
    home = tmp_path / "home"
    with Store(home) as store:
        folder = write_sample_run(store.runs_folder, run_id="0bad")
        write_sample_run(store.runs_folder, run_id="good")
        store.ingest.all_in(store.runs_folder)
        store.cursor().execute(spoil).fetchall()
    with Store(home) as store:
        assert store.runs.list()["run_id"].tolist() == ["good"]
        assert list(store.dropped) == [folder.resolve()]
        assert "taken out of the store: " in store.dropped[folder.resolve()]
        store.ingest.all_in(store.runs_folder)  # its log is healthy
        assert store.runs.has("0bad")
        assert store.ingest.verify("0bad").outcome == "agrees"
    with Store(home) as store:
        assert store.dropped == {}


def test_a_refused_run_whose_log_is_gone_stays_in_a_copy_of_the_store(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Store(home) as store:
        folder = write_sample_run(store.runs_folder, run_id="0bad")
        store.ingest.all_in(store.runs_folder)
        store.cursor().execute(SPOILS[0]).fetchall()
    shutil.rmtree(folder)
    with Store(home) as store:
        assert store.runs.list().empty
        line = store.dropped[folder.resolve()]
        assert "taken out of the store (a copy of it is lab.duckdb.backup-refused-1): " in line
    with duckdb.connect(str(home / "lab.duckdb.backup-refused-1"), read_only=True) as copy:
        assert copy.execute("SELECT run_id FROM runs").fetchall() == [("0bad",)]


def test_a_sample_of_the_labs_own_runs_is_never_refused(store: Store) -> None:
    for engine in ("serial", "static", "continuous", "paged", "chunked"):
        write_sample_run(store.runs_folder, engine)
    _, problems = store.ingest.all_in(store.runs_folder)
    assert problems == {}

"""Ingest: a second ingest changes nothing, a growing log is followed, a crashed run keeps its rows."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.core.config import RunConfig, WorkloadConfig
from engine.runlog.reader import RunLogReader
from engine.runlog.schema import STREAMS
from engine.runlog.writer import RunLogWriter
from engine.workload.workload import build_workload
from store import Store
from store.database import TABLES
from tests.support.app_server import ROOT
from tests.support.runs.sample_runs import (
    CHUNKED,
    PREEMPTED,
    play,
    sample_run_info,
    without_checksums,
    write_sample_run,
)

EVERY_TABLE = (*TABLES.values(), "runs", "experiments", "run_summaries", "ingest_progress")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def everything(store: Store) -> dict[str, list[Any]]:
    """Every row of every table."""
    return {table: sorted(store.cursor().execute(f"FROM {table}").fetchall(), key=repr) for table in EVERY_TABLE}


def log_of(folder: Path, stream: str) -> list[dict[str, Any]]:
    reader = RunLogReader(folder)
    table = reader.spans() if stream == "spans" else reader.table(stream)
    return sorted(table.to_pylist(), key=repr)


def stored(store: Store, run_id: str, stream: str) -> list[dict[str, Any]]:
    cursor = store.cursor()
    columns = ", ".join(f'"{name}"' for name in STREAMS[stream].names)
    cursor.execute(f"SELECT {columns} FROM {TABLES[stream]} WHERE run_id = ?", [run_id])
    names = [column[0] for column in cursor.description]
    return sorted((dict(zip(names, row, strict=True)) for row in cursor.fetchall()), key=repr)


@pytest.mark.parametrize(
    "settings",
    [{"engine": "serial"}, {"engine": "static"}, {"engine": "continuous"}, PREEMPTED, CHUNKED],
    ids=["serial", "static", "continuous", "preempted", "chunked"],
)
def test_every_row_of_the_log_is_in_the_store(store: Store, tmp_path: Path, settings: dict[str, Any]) -> None:
    folder = write_sample_run(tmp_path, **settings)
    report = store.ingest.run(folder)
    assert (report.status, report.is_new, report.has_changed) == ("completed", True, True)
    for stream in STREAMS:
        assert stored(store, folder.name, stream) == log_of(folder, stream), stream
        assert len(log_of(folder, stream)) > 0 or (stream in ("blocks", "events") and "num_blocks" not in settings)


def test_ingesting_twice_changes_nothing(store: Store, tmp_path: Path) -> None:
    folders = [write_sample_run(tmp_path, engine) for engine in ("static", "continuous")]
    folders.append(write_sample_run(tmp_path, status=None, stop_after_passes=20, **CHUNKED))
    for folder in folders:
        store.ingest.run(folder)
    before = everything(store)
    for folder in folders:
        report = store.ingest.run(folder)
        assert not report.has_changed
        assert set(report.rows.values()) == {0}
    assert everything(store) == before


def test_a_growing_run_ends_with_the_same_rows_as_one_ingest(store: Store, tmp_path: Path) -> None:
    config = RunConfig(**{name: value for name, value in PREEMPTED.items() if name != "num_blocks"})
    plan = build_workload(config.workload)
    statuses, counts = [], []
    with RunLogWriter(tmp_path / "live", sample_run_info(config, plan, "live", None, time_of_day())) as log:

        def follow() -> None:
            log.flush()
            statuses.append(store.ingest.run(log.folder).status)
            counts.append(len(store.runs.tokens("live")))
            assert store.runs.metrics("live")["output_tokens"] == counts[-1]

        dice = random.Random(0)
        play(log, config, plan, num_blocks=26, on_pass=lambda: follow() if dice.random() < 0.5 else None)
        follow()
        log.finish({"status": "completed", "error": None, "totals": {}, "ended_at": None})
    assert set(statuses) == {"running"}
    assert counts == sorted(counts)
    assert counts[-1] == sum(request.budget_tokens for request in plan.requests)
    assert store.ingest.run(tmp_path / "live").status == "completed"
    grown = everything(store)
    with Store(tmp_path / "other") as other:
        other.ingest.run(tmp_path / "live")
        at_once = everything(other)
    assert grown == at_once
    assert len(grown["events"]) == 3


def time_of_day() -> datetime:
    return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


RUNS_UNTIL_KILLED = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from engine.core.config import RunConfig, WorkloadConfig
from engine.workload.workload import build_workload
from engine.runlog.writer import RunLogWriter
from tests.support.runs.sample_runs import play, sample_run_info
config = RunConfig(engine=sys.argv[2], workload=WorkloadConfig(prompts="p16,p5", requests=4000, budget="8-48"))
plan = build_workload(config.workload)
log = RunLogWriter(Path(sys.argv[1]), sample_run_info(config, plan, "killed", None, datetime.now(UTC)))
print("started", flush=True)
play(log, config, plan, on_pass=lambda: time.sleep(0.001))
"""


@pytest.mark.parametrize(("seed", "engine"), [(0, "static"), (1, "continuous"), (2, "chunked")])
def test_a_run_killed_at_any_moment_keeps_every_token_that_was_logged(
    store: Store, tmp_path: Path, seed: int, engine: str
) -> None:
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", RUNS_UNTIL_KILLED, str(folder), engine]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        deadline = time.monotonic() + 60
        while RunLogReader(folder).table("tokens").num_rows < 100 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert store.ingest.run(folder).status == "running"
        time.sleep(random.Random(seed).random() * 0.4)
        os.kill(process.pid, signal.SIGKILL)
    report = store.ingest.run(folder)
    assert (report.status, report.status_before) == ("crashed", "running")
    assert stored(store, "killed", "tokens") == log_of(folder, "tokens")
    assert stored(store, "killed", "spans") == log_of(folder, "spans")
    passes, spans = store.runs.passes("killed"), store.runs.spans("killed")
    assert len(store.runs.tokens("killed")) >= 100
    assert spans["end_step"].notna().all()
    assert spans["end_s"].max() == passes["end_s"].max()
    assert spans["end_step"].max() == passes["end_step"].max()
    assert set(store.runs.requests("killed")["state"]) <= {"finished", "stopped"}
    assert store.runs.get("killed")["status"] == "crashed"
    assert store.ingest.verify("killed").lines == []


def test_a_torn_log_is_ingested_up_to_the_tear(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path, "continuous", status=None)
    file = folder / "tokens.arrows"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    report = store.ingest.run(folder)
    assert report.status == "crashed"
    assert report.rows["tokens"] == RunLogReader(folder).table("tokens").num_rows
    file.write_bytes(whole)  # it was still being copied
    assert store.ingest.run(folder).has_changed
    assert stored(store, folder.name, "tokens") == log_of(folder, "tokens")


def test_a_folder_is_ingested_while_it_is_copied(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path / "there", "static")
    here = tmp_path / "here"
    here.mkdir()
    for name in ("run.json", "requests.arrows", "spans.arrows"):
        shutil.copy(folder / name, here)
    assert store.ingest.run(here).status == "crashed"
    shutil.copytree(folder, here, dirs_exist_ok=True)
    assert store.ingest.run(here).status == "completed"
    for stream in STREAMS:
        assert stored(store, folder.name, stream) == log_of(folder, stream), stream
    assert store.runs.metrics(folder.name)["dead_fraction"] == pytest.approx(
        json.loads((folder / "result.json").read_text())["totals"]["dead_fraction"]
    )


def test_a_run_from_another_machine_needs_no_other_file(store: Store, tmp_path: Path) -> None:
    folder = without_checksums(write_sample_run(tmp_path, "static", model="/nowhere/models/mine"))
    info = json.loads((folder / "run.json").read_text())
    info["model"]["tokenizer_file"] = "/nowhere/tokenizer.json"
    info["environment"] = {"home": "/nowhere"}
    (folder / "run.json").write_text(json.dumps(info))
    moved = folder.rename(tmp_path / "another name")
    assert store.ingest.run(moved).status == "completed"
    run = store.runs.get(info["run_id"])
    assert (run["folder"], run["tokenizer_file"]) == (str(moved), "/nowhere/tokenizer.json")
    assert store.ingest.verify(info["run_id"]).outcome == "agrees"


def test_a_moved_run_is_followed_and_a_copy_changes_nothing(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path, "static")
    store.ingest.run(folder)
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    assert not store.ingest.run(copy).has_changed
    assert store.runs.get(folder.name)["folder"] == str(folder)
    shutil.rmtree(folder)
    store.ingest.run(copy)
    assert store.runs.get(folder.name)["folder"] == str(copy)


def test_two_runs_with_one_id_are_not_mixed(store: Store, tmp_path: Path) -> None:
    store.ingest.run(write_sample_run(tmp_path / "a", "static", run_id="same"))
    before = everything(store)
    with pytest.raises(ValueError, match="another run with the id same"):
        store.ingest.run(write_sample_run(tmp_path / "b", "continuous", run_id="same"))
    assert everything(store) == before


def test_a_folder_that_names_another_run_does_not_take_its_place(store: Store) -> None:
    runs = store.runs_folder
    write_sample_run(runs, "static", run_id="zz")
    write_sample_run(runs, "continuous", run_id="other")
    (runs / "other/run.json").write_text((runs / "zz/run.json").read_text())
    without_checksums(runs / "other").rename(runs / "aa")  # it is read first
    reports, problems = store.ingest.all_in(runs)
    assert [report.folder for report in reports] == [runs / "zz"]
    assert problems == {runs / "aa": f"{runs}/aa: refused: run.json names another run, which is in {runs}/zz"}
    assert stored(store, "zz", "tokens") == log_of(runs / "zz", "tokens")
    assert store.runs.get("zz")["folder"] == str(runs / "zz")
    assert store.ingest.verify("zz").outcome == "agrees"


def test_a_copy_that_was_made_during_the_run_does_not_end_it(store: Store, tmp_path: Path) -> None:
    whole = write_sample_run(tmp_path, "static")
    copy = Path(shutil.copytree(whole, tmp_path / "copy"))
    (copy / "result.json").unlink()
    store.ingest.run(whole)
    with pytest.raises(ValueError, match=r"copy: refused: run\.json names another run, which is in "):
        store.ingest.run(copy)
    assert store.runs.get(whole.name)["status"] == "completed"


def test_a_copy_under_another_name_comes_in_alone(store: Store) -> None:
    write_sample_run(store.runs_folder, "static", run_id="r1").rename(store.runs_folder / "copy of r1")
    assert store.ingest.all_in(store.runs_folder)[0][0].run_id == "r1"
    assert store.ingest.verify("r1").outcome == "agrees"


def test_one_bad_folder_does_not_stop_the_others(store: Store, tmp_path: Path) -> None:
    good = write_sample_run(tmp_path, "static")
    torn = without_checksums(write_sample_run(tmp_path, "continuous"))
    (torn / "tokens.arrows").write_bytes(b"not an Arrow stream at all")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/run.json").write_text('{"name": "another tool\'s"}')
    (tmp_path / "yet to begin").mkdir()
    (tmp_path / "a file").write_text("")
    reports, problems = store.ingest.all_in(tmp_path)
    assert [report.run_id for report in reports] == [good.name]
    assert set(problems) == {torn, tmp_path / "foreign"}
    assert "tokens.arrows: damaged after byte 0" in problems[torn]
    assert "run_id is None" in problems[tmp_path / "foreign"]
    assert not any("\n" in line for line in problems.values())


def test_a_log_with_rows_without_a_key_is_refused(store: Store, tmp_path: Path) -> None:
    config = RunConfig(engine="static")
    info = sample_run_info(config, build_workload(config.workload), "odd", None, time_of_day())
    with RunLogWriter(tmp_path / "odd", info) as log:
        log.append("tokens", request_id=0, token_index=0)
        log.append("tokens", request_id=None, token_index=1)
        log.finish({"status": "completed", "totals": {}})
    with pytest.raises(ValueError, match="not ingested: .*NOT NULL") as error:
        store.ingest.run(tmp_path / "odd")
    assert "\n" not in str(error.value)
    assert len(store.runs.tokens("odd")) == 0


def test_an_empty_run_is_a_run(store: Store, tmp_path: Path) -> None:
    folder = write_sample_run(tmp_path, "continuous", workload=WorkloadConfig(requests=0, prompts="p4"))
    assert store.ingest.run(folder).status == "completed"
    assert store.runs.metrics(folder.name)["requests"] == 0
    assert store.runs.list()["output_tokens"].tolist() == [0]
    assert store.runs.spans(folder.name).empty

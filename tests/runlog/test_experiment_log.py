"""An experiment's folder: its files, what a kill leaves behind, and resuming."""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.config import RunConfig
from engine.experiments.experiment import Plan, Point, PointRecord, remaining
from engine.runlog.experiment_log import (
    EXPERIMENT_FILE,
    POINTS_FILE,
    ExperimentLog,
    is_experiment_folder,
    record_of_result,
)
from engine.runlog.locks import hold
from engine.runlog.schema import LOCK_FILE


def a_point(key: str, position: int = 0) -> Point:
    values = {"engine": "static", "prompts": "p16", "prompt_tokens": 16, "batch_size": 1, "role": "point"}
    return Point(key=key, position=position, repeat=0, values=values, config=RunConfig())


def a_plan(keys: str = "ab") -> Plan:
    points = tuple(a_point(key, place) for place, key in enumerate(keys))
    return Plan(experiment_id="exp1", kind="sweep", label="a sweep", created_at="2026-11-29T10:00:00Z", points=points)


def done(key: str, run_id: str = "run1") -> PointRecord:
    return PointRecord(key=key, repeat=0, run_id=run_id, status="completed", totals={"ttft_p50_s": 0.25})


def test_a_log_is_read_back_as_written(tmp_path: Path) -> None:
    plan = a_plan()
    with ExperimentLog.create(tmp_path, plan) as log:
        log.start(plan.points[0], "run1")
        log.append(done("a"))
        log.add([a_point("c", 2)])
        log.start(plan.points[1], "run2")
        assert ExperimentLog.is_open(log.folder)
    found = ExperimentLog.read(tmp_path / "exp1")
    assert found.plan == plan.with_points([a_point("c", 2)])
    assert found.records == (done("a"),)
    assert [(attempt.key, attempt.run_id) for attempt in found.open_attempts] == [("b", "run2")]
    assert is_experiment_folder(tmp_path / "exp1")
    assert not ExperimentLog.is_open(tmp_path / "exp1")


def test_the_plan_is_written_before_any_point(tmp_path: Path) -> None:
    with ExperimentLog.create(tmp_path, a_plan()) as log:
        assert json.loads((log.folder / EXPERIMENT_FILE).read_text())["points"][1]["key"] == "b"
        assert ExperimentLog.read(log.folder).records == ()


@pytest.mark.parametrize("torn", ['{"key": "b", "rep', '{"started": {"key"', "\x00"])
def test_a_torn_last_line_is_dropped_and_the_next_one_is_complete(torn: str, tmp_path: Path) -> None:
    with ExperimentLog.create(tmp_path, a_plan()) as log:
        log.append(done("a"))
    with (log.folder / POINTS_FILE).open("a") as file:
        file.write(torn)
    assert ExperimentLog.read(log.folder).records == (done("a"),)
    with ExperimentLog.open(log.folder) as log:
        log.append(done("b"))
    assert ExperimentLog.read(log.folder).records == (done("a"), done("b"))


def left_nothing(folder: Path) -> None:
    """The process died before the run's folder was created."""


def left_a_torn_run(folder: Path) -> None:
    folder.mkdir()
    (folder / "run.json").write_text("{}")


def left_a_finished_run(folder: Path) -> None:
    left_a_torn_run(folder)
    result = {"status": "completed", "error": None, "oom": None, "totals": {"ttft_p50_s": 0.5}, "ended_at": "then"}
    (folder / "result.json").write_text(json.dumps(result))


@pytest.mark.parametrize(
    ("left", "status", "run_id"),
    [
        (left_nothing, "crashed", None),
        (left_a_torn_run, "crashed", "run1"),
        (left_a_finished_run, "completed", "run1"),
    ],
)
def test_an_open_attempt_gets_the_outcome_of_its_run(
    left: Callable[[Path], None], status: str, run_id: str | None, tmp_path: Path
) -> None:
    """A process killed after the run's result and before the experiment's record loses nothing."""
    with ExperimentLog.create(tmp_path, a_plan()) as log:
        log.start(log.plan.points[0], "run1")
    left(tmp_path / "run1")
    with ExperimentLog.open(log.folder) as log:
        assert [(r.key, r.status, r.run_id) for r in log.records] == [("a", status, run_id)]
        assert [p.key for p in remaining(log.plan, log.records)] == (["b"] if status == "completed" else ["a", "b"])
    with ExperimentLog.open(log.folder) as log:
        assert len(log.records) == 1  # recorded once, not at every open


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with ExperimentLog.create(tmp_path, a_plan()) as log, pytest.raises(FileExistsError, match="is in use"):
        ExperimentLog.open(log.folder)
    ExperimentLog.open(log.folder).close()
    with pytest.raises(FileExistsError):
        ExperimentLog.create(tmp_path, a_plan())


def test_a_resume_waits_for_a_run_that_is_still_running(tmp_path: Path) -> None:
    """A worker outlives its app by a moment; its run must not be repeated."""
    with ExperimentLog.create(tmp_path, a_plan()) as log:
        log.start(log.plan.points[0], "run1")
    left_a_torn_run(tmp_path / "run1")
    with (
        hold(tmp_path / "run1" / "lock", purpose="run1"),
        pytest.raises(FileExistsError, match="run1 is still running"),
    ):
        ExperimentLog.open(log.folder, patience_s=0.1)
    with ExperimentLog.open(log.folder) as log:
        assert [r.status for r in log.records] == ["crashed"]


@pytest.mark.parametrize("asked_for_s", [0.02, 0.3])
def test_a_process_that_only_checks_the_lock_does_not_block_a_resume(asked_for_s: float, tmp_path: Path) -> None:
    """A check takes a shared lock for a moment, as the recorder and the pages do; a writer keeps its lock."""
    with ExperimentLog.create(tmp_path, a_plan()) as log:
        pass
    with (log.folder / LOCK_FILE).open() as prober:
        fcntl.flock(prober, fcntl.LOCK_SH)
        leaves = threading.Timer(asked_for_s, fcntl.flock, (prober, fcntl.LOCK_UN))
        leaves.start()
        ExperimentLog.open(log.folder).close()
        leaves.join()


@pytest.mark.parametrize(
    "line",
    ['{"started": {"x": 1}}', '{"started": 1}', "5", '{"added": {"key": "a"}}', '{"key": ["a"]}', "nonsense",
     '{"started": {"key": "a", "repeat": 0, "run_id": "../a"}}'],
)  # fmt: skip
def test_a_damaged_line_is_reported_with_its_folder_and_number(line: str, tmp_path: Path) -> None:
    with ExperimentLog.create(tmp_path, a_plan()) as log:
        log.append(done("a"))
    with (log.folder / POINTS_FILE).open("a") as file:
        file.write(f"{line}\n")
    for read in (ExperimentLog.read, ExperimentLog.open):
        with pytest.raises(ValueError, match="points.jsonl at line 2 cannot be read") as refused:
            read(log.folder)
        assert str(refused.value).startswith(f"{log.folder}: ")
        assert "\n" not in str(refused.value)
    assert not ExperimentLog.is_open(log.folder)


def test_folders_without_an_experiment(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no experiment"):
        ExperimentLog.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        ExperimentLog.read(tmp_path)
    assert not is_experiment_folder(tmp_path)
    (tmp_path / EXPERIMENT_FILE).write_text("{}")
    with pytest.raises(ValueError, match="schema version"):
        ExperimentLog.open(tmp_path)
    (tmp_path / EXPERIMENT_FILE).write_text("no JSON")
    with pytest.raises(ValueError, match="Expecting value"):
        ExperimentLog.read(tmp_path)


def test_a_record_of_a_result_without_totals() -> None:
    """A model that did not fit has no log, so no totals and no time."""
    record = record_of_result("a", 0, None, {"status": "oom", "error": "no", "oom": {"asked_bytes": 3}})
    assert (record.status, record.oom, record.totals) == ("oom", {"asked_bytes": 3}, {})
    assert record.ended_at


def test_nan_in_a_runs_totals_is_none_in_its_record() -> None:
    record = record_of_result("a", 0, "run1", {"status": "completed", "totals": {"x": float("nan"), "n": 3}})
    assert record.totals == {"x": None, "n": 3}

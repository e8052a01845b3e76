"""Experiments in the store: ingested from their folders, joined with their runs, exported, deleted and restored."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from engine.experiments.experiment import Plan, PointRecord
from engine.metrics.metrics import run_metrics
from engine.runlog.experiment_log import ExperimentLog
from engine.runlog.reader import RunLogReader
from store import Recorder, Store
from store.cli.commands import answer
from store.transfer.exporter import export_runs, runs_named
from store.transfer.importer import import_runs
from tests.support.runs.experiments import out_of_memory, run_point, sweep_plan, write_point_run
from tests.support.runs.sample_runs import write_sample_run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def counts(store: Store, experiment_id: str = "sweep1") -> dict[str, Any]:
    rows = store.experiments.list()
    row = rows[rows["experiment_id"] == experiment_id].to_dict("records")[0]
    return {name: row[name] for name in ("points", "done", "completed", "oom", "failed", "stopped", "is_open")}


def test_points_are_pending_until_they_run(store: Store) -> None:
    plan = sweep_plan(repeats=2)
    with ExperimentLog.create(store.runs_folder, plan):
        report = store.ingest.experiment(store.runs_folder / "sweep1")
        assert (report.is_new, report.points, report.settled) == (True, 6, 0)
        assert counts(store) == {
            "points": 6, "done": 0, "completed": 0, "oom": 0, "failed": 0, "stopped": 0, "is_open": True,
        }  # fmt: skip
    points = store.experiments.points("sweep1")
    assert points["status"].tolist() == ["pending"] * 6
    assert points["position"].tolist() == list(range(6))
    assert points["repeat"].tolist() == [0, 0, 0, 1, 1, 1]
    assert points["batch_size"].tolist() == [1, 2, 4, 1, 2, 4]
    assert points["output_tokens_per_s"].isna().all()
    assert Plan.from_dict(store.experiments.plan("sweep1")) == plan
    assert store.experiments.points("unknown").empty
    assert "output_tokens_per_s" in store.experiments.points("unknown")
    with pytest.raises(KeyError, match="no plan of experiment unknown"):
        store.experiments.plan("unknown")


def test_a_point_has_its_record_and_every_metric_of_its_run(store: Store) -> None:
    plan = sweep_plan()
    with ExperimentLog.create(store.runs_folder, plan) as log:
        run_id = run_point(log, plan.points[0])
        out_of_memory(log, plan.points[1])
        log.append(PointRecord(key=plan.points[2].key, repeat=0, run_id=None, status="stopped", error="by a person"))
        store.ingest.all_in(store.runs_folder)
    assert not store.ingest.experiment(store.runs_folder / "sweep1").is_new
    assert counts(store) == {
        "points": 3, "done": 2, "completed": 1, "oom": 1, "failed": 0, "stopped": 1, "is_open": False,
    }  # fmt: skip
    points = store.experiments.points("sweep1").set_index("key")
    first, second, third = (points.loc[point.key] for point in plan.points)
    metrics = store.runs.metrics(run_id)
    assert (first["status"], first["run_id"], first["attempts"]) == ("completed", run_id, 1)
    assert first["prompt_tokens"] == 16  # of each prompt; the run's total is run_prompt_tokens
    assert first["run_prompt_tokens"] == metrics["prompt_tokens"] == 16
    for name in ("output_tokens_per_s", "ttft_p50_s", "duration_s", "slot_steps", "peak_memory_bytes"):
        assert first[name] == pytest.approx(metrics[name]), name
    assert (second["asked_bytes"], second["free_bytes"], second["oom_where"]) == (4_000, 3_000, "prefill")
    assert (second["status"], second["error"], second["run_id"]) == ("oom", "no room", None)
    assert (third["status"], third["error"]) == ("stopped", "by a person")
    assert math.isnan(third["duration_s"])


def test_the_settled_attempt_is_used_and_attempts_are_counted(store: Store) -> None:
    plan = sweep_plan((1,))
    with ExperimentLog.create(store.runs_folder, plan) as log:
        log.append(PointRecord(key=plan.points[0].key, repeat=0, run_id=None, status="crashed"))
        run_id = run_point(log, plan.points[0])
        store.ingest.all_in(store.runs_folder)
    point = store.experiments.points("sweep1").iloc[0]
    assert (point["status"], point["run_id"], point["attempts"]) == ("completed", run_id, 2)


def test_added_points_are_ingested_and_another_plan_is_refused(store: Store) -> None:
    plan, grown = sweep_plan((1,)), sweep_plan((1, 2))
    folder = store.runs_folder / "sweep1"
    with ExperimentLog.create(store.runs_folder, plan) as log:
        store.ingest.experiment(folder)
        log.add(grown.points[1:])
        assert store.ingest.experiment(folder).has_changed
    assert store.experiments.points("sweep1")["batch_size"].tolist() == [1, 2]
    assert store.ingest.experiment(folder).has_changed  # no process works on it now
    assert not store.ingest.experiment(folder).has_changed
    plan = json.loads((folder / "experiment.json").read_text())
    (folder / "experiment.json").write_text(json.dumps(plan | {"label": "another"}))
    with pytest.raises(ValueError, match="the store has another experiment with the id sweep1"):
        store.ingest.experiment(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("experiment.json", b"{"),
        ("experiment.json", b"[]"),
        ("experiment.json", b'{"schema_version": 1}'),
        ("experiment.json", b"[" * 100_000),
        ("points.jsonl", b"nothing\n"),
        ("points.jsonl", b'{"key": 1}\n'),
        ("points.jsonl", b'{"started": {"x": 1}}\n'),
    ],
)
def test_a_damaged_experiment_is_one_line_and_leaves_the_store_as_it_is(
    store: Store, name: str, content: bytes
) -> None:
    with ExperimentLog.create(store.runs_folder, sweep_plan()) as log:
        folder = log.folder
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match="cannot be read") as refused:
        store.ingest.experiment(folder)
    assert "\n" not in str(refused.value)
    reports, problems = store.ingest.all_in(store.runs_folder)
    assert (reports, list(problems)) == ([], [folder])
    assert store.experiments.list().empty


def test_the_recorder_follows_an_experiment_to_its_end(store: Store) -> None:
    recorder = Recorder(store, store.runs_folder)
    plan = sweep_plan((1, 2))
    with ExperimentLog.create(store.runs_folder, plan) as log:
        assert recorder.look()
        live = write_point_run(log, plan.points[0], status=None)
        assert not recorder.look() or counts(store)["done"] == 0
        point = store.experiments.points("sweep1").iloc[0]
        assert (point["status"], point["live_run_id"]) == ("pending", None)  # the run's lock is free: it crashed
        assert store.runs.get(live.name)["status"] == "crashed"
        run_point(log, plan.points[0])
        assert recorder.look()
        assert counts(store)["done"] == 1
        assert counts(store)["is_open"]
    assert recorder.look()
    assert not counts(store)["is_open"]
    assert not recorder.look()
    assert not recorder.problems


def test_pairs_have_their_runs_as_points(store: Store) -> None:
    for engine in ("static", "continuous"):
        pair = {"id": "pair1", "kind": "pair", "label": "two"}
        store.ingest.run(write_sample_run(store.runs_folder, engine, experiment=pair))
    assert counts(store, "pair1")["points"] == counts(store, "pair1")["completed"] == 2
    assert store.experiments.points("pair1").empty
    assert [row["key"] for row in store.experiments.measured_points("pair1")] == ["static", "continuous"]
    with ExperimentLog.create(store.runs_folder, sweep_plan()) as log:
        store.ingest.experiment(log.folder)
    assert store.experiments.list("pair")["experiment_id"].tolist() == ["pair1"]
    assert store.experiments.list("load").empty
    assert store.experiments.list()["has_plan"].tolist() == [False, True]  # newest first


def test_a_runs_record_from_its_rows_gives_the_same_metrics(store: Store) -> None:
    for engine, settings in (("static", {"returns": "whole"}), ("continuous", {})):
        folder = write_sample_run(store.runs_folder, engine, **settings)
        store.ingest.run(folder)
        logged, stored = RunLogReader(folder).record(), store.runs.record(folder.name)
        assert run_metrics(stored) == run_metrics(logged)
        for table in ("requests", "passes", "tokens"):
            assert getattr(stored, table).keys() == getattr(logged, table).keys()
        assert stored.passes["rows"].dtype == np.int32
    with pytest.raises(KeyError, match="no run unknown"):
        store.runs.record("unknown")


def test_an_experiment_outlives_its_runs_and_keeps_their_metrics(store: Store) -> None:
    plan = sweep_plan((1, 2))
    with ExperimentLog.create(store.runs_folder, plan) as log:
        run_ids = [run_point(log, point) for point in plan.points]
        store.ingest.all_in(store.runs_folder)
    before = store.experiments.points("sweep1")
    store.trash.delete_run(run_ids[0])
    after = store.experiments.points("sweep1")
    assert after["has_run"].tolist() == [False, True]
    measured = ["output_tokens_per_s", "ttft_p50_s", "run_prompt_tokens", "slot_steps"]
    pd.testing.assert_frame_equal(after[measured], before[measured])
    assert counts(store)["completed"] == 2


def test_an_experiment_is_deleted_and_restored_with_its_runs(store: Store) -> None:
    plan = sweep_plan((1, 2))
    with ExperimentLog.create(store.runs_folder, plan) as log:
        store.ingest.all_in(store.runs_folder)
        with pytest.raises(ValueError, match="is still running"):
            store.trash.delete_experiment("sweep1")
        for point in plan.points:
            run_point(log, point)
    store.ingest.all_in(store.runs_folder)
    before = store.experiments.points("sweep1")
    done = store.trash.delete_experiment("sweep1")
    assert [entry.kind for entry in done.entries] == ["run", "run", "experiment"]
    assert store.experiments.list().empty
    assert store.runs.list().empty
    assert list(store.runs_folder.iterdir()) == []
    Recorder(store, store.runs_folder).look()
    assert store.experiments.list().empty
    back = store.trash.restore([entry.entry_id for entry in done.entries])
    assert back.refused == ()
    pd.testing.assert_frame_equal(store.experiments.points("sweep1"), before)
    assert store.trash.entries() == []
    with pytest.raises(KeyError, match="no experiment other"):
        store.trash.delete_experiment("other")


def test_an_experiment_is_exported_with_all_of_its_runs(store: Store, tmp_path: Path) -> None:
    plan = sweep_plan((1, 2))
    with ExperimentLog.create(store.runs_folder, plan) as log:
        for point in plan.points:
            run_point(log, point)
    store.ingest.all_in(store.runs_folder)
    run_ids = runs_named(store, ["sweep1"])
    assert len(run_ids) == 2
    export_runs(store, run_ids, tmp_path / "all.zip")
    export_runs(store, run_ids[:1], tmp_path / "part.zip")
    with Store(tmp_path / "other") as other:
        import_runs(other, tmp_path / "part.zip")
        assert other.experiments.points("sweep1").empty  # one run of it, and no plan
        import_runs(other, tmp_path / "all.zip")
        columns = ["key", "status", "run_id", "output_tokens_per_s"]
        there, here = other.experiments.points("sweep1"), store.experiments.points("sweep1")
        pd.testing.assert_frame_equal(there[columns], here[columns])
        assert import_runs(other, tmp_path / "all.zip").new == ()
        (other.runs_folder / "sweep1" / "points.jsonl").write_bytes(b"")
        with pytest.raises(ValueError, match="experiment sweep1 is in the store with other content"):
            import_runs(other, tmp_path / "all.zip")


def test_a_refused_import_leaves_no_experiment_behind(store: Store, tmp_path: Path) -> None:
    plan = sweep_plan((1, 2))
    with ExperimentLog.create(store.runs_folder, plan) as log:
        run_ids = [run_point(log, point) for point in plan.points]
    store.ingest.all_in(store.runs_folder)
    export_runs(store, run_ids, tmp_path / "all.zip")
    with Store(tmp_path / "other") as other:
        (other.runs_folder / run_ids[1]).mkdir(parents=True)  # a folder of the same name exists
        with pytest.raises(ValueError, match="is in the store with other content"):
            import_runs(other, tmp_path / "all.zip")
        assert other.runs.list().empty
        assert other.experiments.list().empty
        assert [path.name for path in other.runs_folder.iterdir()] == [run_ids[1]]


def test_the_command_line_ingests_experiments(store: Store, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    plan = sweep_plan((1, 2))
    with ExperimentLog.create(elsewhere, plan) as log:
        run_point(log, plan.points[0])
    reply = answer(store, {"command": "ingest", "paths": [str(elsewhere)]})
    assert len(reply["runs"]) == 1
    assert reply["experiments"] == [
        {
            "experiment_id": "sweep1", "kind": "sweep", "is_new": True, "has_changed": True, "points": 2, "settled": 1,
            "folder": str(elsewhere / "sweep1"),
        }
    ]  # fmt: skip
    again = answer(store, {"command": "ingest", "paths": [str(elsewhere / "sweep1")]})
    assert (again["runs"], again["experiments"][0]["has_changed"]) == ([], False)
    shutil.rmtree(elsewhere)
    assert counts(store)["completed"] == 1


def test_a_query_can_read_experiments_and_their_points(store: Store) -> None:
    with ExperimentLog.create(store.runs_folder, sweep_plan()) as log:
        out_of_memory(log, log.plan.points[2])
        store.ingest.experiment(log.folder)
    snapshot = store.snapshots.publish()
    with duckdb.connect(str(snapshot.path), read_only=True) as connection:
        rows = connection.execute(
            "SELECT e.kind, p.batch_size, p.status, p.asked_bytes FROM experiment_points p "
            "JOIN experiments e USING (experiment_id) ORDER BY p.position"
        ).fetchall()
    assert rows == [("sweep", 1, None, None), ("sweep", 2, None, None), ("sweep", 4, "oom", 4_000)]

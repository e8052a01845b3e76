"""Predictions in a real store: made before a run, closed at its start, graded after its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.core.config import WorkloadConfig
from engine.core.home import device_lock
from engine.predictions.prediction import Expectation, Question
from engine.runlog.experiment_log import ExperimentLog
from engine.runlog.locks import hold
from engine.runlog.schema import LOCK_FILE, RUN_FILE
from store import Recorder, Store
from store.predictions.predictions import PredictionClosed, PredictionEdited, Subject
from tests.hardware.test_calibrated_cost import DECODES, PREFILLS, calibration
from tests.support.runs.experiments import run_point, sweep_plan
from tests.support.runs.sample_runs import write_sample_run

RUN = Subject(kind="run", subject_id="run1")
THROUGHPUT = Question(measure="metric", metric="output_tokens_per_s")
PAIR = {"id": "pair1", "kind": "pair", "label": "two"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))  # with its own device locks
    with Store(tmp_path / "home") as opened:
        yield opened


def expect(low: float | None = 100.0, high: float | None = 150.0, why: str = "it did last time") -> Expectation:
    return Expectation(low=low, high=high, why=why)


def add(store: Store, run_id: str = "run1", engine: str = "static", **settings: Any) -> Path:
    folder = write_sample_run(store.runs_folder, engine, run_id=run_id, **settings)
    store.ingest.run(folder)
    return folder


def row_of(store: Store, prediction_id: str) -> dict[Any, Any]:
    """One row of the store's predictions."""
    return store.predictions.list().set_index("prediction_id", drop=False).loc[prediction_id].to_dict()


def test_a_prediction_can_be_edited_and_withdrawn_until_the_run_starts(store: Store) -> None:
    kept = store.predictions.add(RUN, THROUGHPUT, expect())
    gone = store.predictions.add(RUN, THROUGHPUT, expect(None, 1.0))
    row = row_of(store, kept)
    assert (row["outcome"], row["label"], row["unit"], row["is_unknown"]) == ("open", "Throughput", "tokens/s", True)
    assert (row["low"], row["high"], row["why"]) == (100.0, 150.0, "it did last time")
    store.predictions.edit(kept, expect(None, 250.0, why=" a faster machine "))
    store.predictions.withdraw(gone)
    rows = store.predictions.list(RUN)
    assert rows["prediction_id"].tolist() == [kept]
    assert rows["low"].isna().all()
    assert (rows["high"].tolist(), rows["why"].tolist()) == ([250.0], ["a faster machine"])
    assert rows["edited_at"].notna().all()
    assert store.predictions.list(Subject(kind="run", subject_id="other")).empty
    for act in (lambda: store.predictions.withdraw(gone), lambda: store.predictions.edit(gone, expect())):
        with pytest.raises(KeyError, match=f"the store has no prediction {gone}"):
            act()


def test_an_edit_elsewhere_is_not_overwritten(store: Store) -> None:
    kept = store.predictions.add(RUN, THROUGHPUT, expect())
    store.predictions.edit(kept, expect(None, 250.0), instead_of=expect())
    for seen in (expect(), expect(None, 250.0, why="so"), expect(100.0, 250.0)):
        with pytest.raises(PredictionEdited, match="this prediction was edited elsewhere"):
            store.predictions.edit(kept, expect(1.0, 2.0), instead_of=seen)
    assert row_of(store, kept)["high"] == 250.0
    store.predictions.edit(kept, expect(1.0, 2.0), instead_of=expect(None, 250.0))
    assert row_of(store, kept)["high"] == 2.0


def refused(store: Store, prediction_id: str, subject: Subject = RUN) -> None:
    """Assert that no prediction can be edited, added or withdrawn, and that none was."""
    before = store.predictions.list().drop(columns=["is_unknown"]).to_dict("records")
    tries = (
        lambda: store.predictions.edit(prediction_id, expect(1.0, 2.0)),
        lambda: store.predictions.withdraw(prediction_id),
        lambda: store.predictions.add(subject, THROUGHPUT, expect()),
    )
    for act in tries:
        with pytest.raises(PredictionClosed, match="has started; its predictions are closed") as error:
            act()
        assert "\n" not in str(error.value)
    after = store.predictions.list().drop(columns=["is_unknown"]).to_dict("records")
    assert str(after) == str(before)


def test_a_prediction_cannot_be_changed_after_the_start(store: Store) -> None:
    prediction_id = store.predictions.add(RUN, THROUGHPUT, expect())
    folder = write_sample_run(store.runs_folder, "static", run_id="run1", status=None)
    refused(store, prediction_id)  # known from the disk, before the ingest
    store.ingest.run(folder)
    refused(store, prediction_id)
    row = row_of(store, prediction_id)
    created_at = json.loads((folder / RUN_FILE).read_text())["created_at"]
    assert row["closed_at"] == datetime.fromisoformat(created_at)
    store.trash.delete_run("run1")
    refused(store, prediction_id)  # also after the run was deleted


def test_a_run_that_starts_during_an_edit_closes_the_prediction(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run starts between the check and the write."""
    prediction_id = store.predictions.add(RUN, THROUGHPUT, expect())
    real = store.predictions._subject_of

    def slow(asked: str) -> Subject:
        subject = real(asked)
        write_sample_run(store.runs_folder, "static", run_id="run1")
        return subject

    monkeypatch.setattr(store.predictions, "_subject_of", slow)
    with pytest.raises(PredictionClosed):
        store.predictions.edit(prediction_id, expect(194.0, 195.0))
    assert row_of(store, prediction_id)["low"] == 100.0


def test_a_prediction_made_after_the_start_gets_no_grade(store: Store, tmp_path: Path) -> None:
    prediction_id = store.predictions.add(RUN, THROUGHPUT, expect(194.0, 195.0))
    earlier = datetime.now(UTC) - timedelta(minutes=1)
    store.ingest.run(write_sample_run(tmp_path / "elsewhere", "static", run_id="run1", created_at=earlier))
    row = row_of(store, prediction_id)
    assert (row["outcome"], row["reason"]) == ("ungraded", "it was written after its subject had started")


@pytest.mark.parametrize(
    ("low", "high", "outcome", "distance", "relative"),
    [
        (100.0, 200.0, "held", 200 - 194.277964, (200 - 194.277964) / 200),
        (100.0, 190.0, "missed", 4.277964, 4.277964 / 190),
        (None, 150.0, "missed", 44.277964, 44.277964 / 150),
        (300.0, None, "missed", 105.722036, 105.722036 / 300),
    ],
)
def test_a_prediction_is_graded_when_the_run_ends(
    store: Store, low: float | None, high: float | None, outcome: str, distance: float, relative: float
) -> None:
    prediction_id = store.predictions.add(RUN, THROUGHPUT, expect(low, high))
    add(store)
    row = row_of(store, prediction_id)
    assert row["outcome"] == outcome
    throughput = store.runs.metrics("run1")["output_tokens_per_s"]
    assert row["measured"] == pytest.approx(throughput) == pytest.approx(194.277964)
    assert row["distance"] == pytest.approx(distance)
    assert row["relative"] == pytest.approx(relative)
    assert row["reason"] is None
    assert (row["run_status"], row["engine"], row["is_unknown"]) == ("completed", "static", False)


def test_an_ungraded_prediction_has_a_reason(store: Store) -> None:
    p99 = store.predictions.add(RUN, Question(measure="metric", metric="ttft_p99_s"), expect(None, 1.0))
    add(store)
    assert row_of(store, p99)["outcome"] == "ungraded"
    assert row_of(store, p99)["reason"] == "a 99th percentile needs 100 samples; there are 8"
    other = Subject(kind="run", subject_id="run2")
    stopped = store.predictions.add(other, THROUGHPUT, expect())
    add(store, "run2", status="stopped")
    assert row_of(store, stopped)["reason"] == "its run was stopped: ended as stopped"


def test_a_pair_is_one_subject_and_waits_for_both(store: Store) -> None:
    pair = Subject(kind="experiment", subject_id="pair1", run_ids=("one", "two"))
    ratio = Question(measure="ratio", metric="output_tokens_per_s", key="continuous", base="static")
    prediction_id = store.predictions.add(pair, ratio, expect(1.2, None))
    add(store, "one", experiment=PAIR)
    refused(store, prediction_id, pair)
    assert row_of(store, prediction_id)["outcome"] == "pending"
    add(store, "two", "continuous", experiment=PAIR)
    row = row_of(store, prediction_id)
    rates = [store.runs.metrics(run_id)["output_tokens_per_s"] for run_id in ("two", "one")]
    assert row["outcome"] == "held"
    assert row["measured"] == pytest.approx(float(rates[0] or 0) / float(rates[1] or 1))
    assert (row["experiment_kind"], row["experiment_label"]) == ("pair", "two")


@pytest.mark.parametrize("status", ["stopped", "failed", None])  # None: its process died
def test_a_pair_that_ended_early_is_never_graded(store: Store, status: str | None) -> None:
    pair = Subject(kind="experiment", subject_id="pair1", run_ids=("one", "two"))
    of_second = Question(measure="metric", metric="output_tokens_per_s", key="continuous")
    prediction_id = store.predictions.add(pair, of_second, expect(1.2, None))
    add(store, "one", experiment=PAIR, status=status)
    row = row_of(store, prediction_id)
    assert (row["outcome"], row["reason"]) == ("ungraded", "no run that it needs was made")


def test_a_prediction_about_an_experiment_waits_for_the_points_it_needs(store: Store) -> None:
    plan = sweep_plan((1, 2, 4))
    subject = Subject(kind="experiment", subject_id="sweep1")
    speedup = Question(measure="speedup", key=plan.points[1].key)
    largest = Question(measure="largest_batch", engine="static", prompts="p16")
    with ExperimentLog.create(store.runs_folder, plan) as log:
        store.ingest.experiment(log.folder)
        first = store.predictions.add(subject, speedup, expect(1.0, 2.0))  # only queued, not started
        second = store.predictions.add(subject, largest, expect(3.0, None))
        log.start(plan.points[0], "a-run")
        refused(store, first, subject)
        run_point(log, plan.points[0], run_id="a-run")
        store.ingest.all_in(store.runs_folder)
        assert row_of(store, first)["reason"] == "1 of 2 runs that it needs have not ended yet"
        run_point(log, plan.points[1])
        store.ingest.all_in(store.runs_folder)
        assert row_of(store, first)["outcome"] == "held"
        assert row_of(store, second)["outcome"] == "pending"
        run_point(log, plan.points[2])
        store.ingest.all_in(store.runs_folder)
    serial, batch = (store.experiments.points("sweep1").iloc[place]["duration_s"] for place in (0, 1))
    assert row_of(store, first)["measured"] == pytest.approx(2 * serial / batch)
    assert (row_of(store, second)["outcome"], row_of(store, second)["measured"]) == ("held", 4.0)


def test_predictions_stay_when_their_run_is_deleted_and_purged(store: Store) -> None:
    prediction_id = store.predictions.add(RUN, THROUGHPUT, expect())
    add(store)
    entry = store.trash.delete_run("run1")
    assert row_of(store, prediction_id)["is_unknown"]
    store.trash.purge([entry.entry_id])
    row = row_of(store, prediction_id)
    assert (row["is_unknown"], row["outcome"]) == (True, "missed")
    assert row["measured"] == pytest.approx(194.277964)
    Recorder(store, store.runs_folder).look()
    assert row_of(store, prediction_id)["outcome"] == "missed"


def test_the_simulator_uses_calibrations_from_before_the_start(store: Store) -> None:
    prediction_id = store.predictions.add(RUN, THROUGHPUT, expect())
    add(store)
    recorder = Recorder(store, store.runs_folder)
    assert store.predictions.simulate()
    row = row_of(store, prediction_id)
    assert row["simulated"] != row["simulated"]  # NaN: nothing was calibrated
    assert row["simulated_note"] == "no calibration of cpu here; run `python -m engine calibrate --model tiny-random`"
    assert not store.predictions.simulate()
    assert not recorder.problems


def test_the_simulated_value_is_that_of_the_calibrated_machine(store: Store) -> None:
    """Hand-computed from the calibration's pass times: 4 prompts of 16 tokens, then 7 decode passes of 4 rows."""
    workload = WorkloadConfig(prompts="p16", requests=4, budget="8")
    prediction_id = store.predictions.add(RUN, Question(measure="metric", metric="duration_s"), expect(0.1, 0.2))
    before = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    after = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    calibrations = store.home / "calibrations"
    calibrations.mkdir()
    machine = calibration(*DECODES, *PREFILLS)
    (calibrations / "then.json").write_text(replace(machine, measured_at=before, device_name="a slow one").to_json())
    (calibrations / "later.json").write_text(replace(machine, measured_at=after, device_name="too late").to_json())
    add(store, workload=workload, model="tiny-random", slots=4)
    assert store.predictions.simulate()
    row = row_of(store, prediction_id)
    prefill_s = 0.020 + 0.001 * 64 + 1e-6 * 4 * 16 * 17 / 2
    decode_s = sum(0.010 + 0.001 * 4 + 1e-5 * 4 * (16 + step) for step in range(1, 8))
    assert row["simulated"] == pytest.approx(prefill_s + decode_s, rel=0.02)
    assert row["simulated_note"] == f"Calibrated on a slow one (cpu), {before}"


def test_the_simulator_waits_while_the_run_or_any_other_is_measured(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    prediction_id = store.predictions.add(RUN, THROUGHPUT, expect())
    folder = write_sample_run(store.runs_folder, "static", run_id="run1", status=None)
    with monkeypatch.context() as patch:
        patch.setattr(
            "store.predictions.simulation.simulated_answer", lambda *arguments: pytest.fail("it computed beside a run")
        )
        with hold(folder / LOCK_FILE, purpose="the run"):
            store.ingest.run(folder)
            assert store.runs.get("run1")["status"] == "running"
            assert row_of(store, prediction_id)["outcome"] == "pending"  # closed, and due but for the running run
            assert not store.predictions.simulate()
        with hold(device_lock("cuda:1"), purpose="a run that the store knows nothing of"):
            assert not store.predictions.simulate()
    assert store.predictions.simulate()  # although the run is not ingested since its end
    assert row_of(store, prediction_id)["simulated_note"].startswith("no calibration of cpu here")


def test_the_simulator_waits_between_the_points_of_an_experiment(store: Store) -> None:
    plan = sweep_plan((1, 2))
    subject = Subject(kind="experiment", subject_id="sweep1")
    with ExperimentLog.create(store.runs_folder, plan) as log:
        store.ingest.experiment(log.folder)
        question = Question(measure="metric", metric="duration_s", key=plan.points[0].key)
        store.predictions.add(subject, question, expect())
        run_point(log, plan.points[0])
        store.ingest.all_in(store.runs_folder)
        assert not store.predictions.simulate()
    assert store.predictions.simulate()


def test_closed_predictions_are_closed_for_other_processes(tmp_path: Path) -> None:
    with Store(tmp_path / "home") as store:
        prediction_id = store.predictions.add(RUN, THROUGHPUT, expect())
        add(store)
    with Store(tmp_path / "home") as store:
        refused(store, prediction_id)
        assert row_of(store, prediction_id)["outcome"] == "missed"


def test_a_subject_needs_a_valid_id() -> None:
    with pytest.raises(ValueError, match="use 1 to 64 letters"):
        Subject(kind="run", subject_id="../elsewhere")

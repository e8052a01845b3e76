"""The state of an experiment after the end of its job, before the store has read its folder again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.launcher.job import Job, JobKind
from engine.runlog.experiment_log import ExperimentLog
from pages.parts.experiments import progress as experiment_progress
from pages.parts.experiments.progress import is_being_closed, state_of
from store import Store
from tests.support.runs.experiments import run_point, sweep_plan

JOB = Job(job_id="job1", kind="sweep", label="a sweep", visitor="ada", experiment_id="sweep1", runs=())


@pytest.fixture
def store(lab_home: Path) -> Iterator[Store]:
    with Store(lab_home) as opened:
        yield opened


def seen_at_work(store: Store, points: int, monkeypatch: pytest.MonkeyPatch, jobs: list[Job]) -> Path:
    """A sweep of two points that the store read before the first; then `points` of them ran and the writer closed."""
    queue = SimpleNamespace(runs_folder=store.runs_folder, jobs=lambda: jobs)
    monkeypatch.setattr(experiment_progress, "lab", lambda: SimpleNamespace(store=store, queue=queue))
    with ExperimentLog.create(store.runs_folder, sweep_plan((1, 2))) as log:
        store.ingest.experiment(log.folder)
        for point in log.plan.points[:points]:
            run_point(log, point)
        assert state_of("sweep1") == "live"
    return log.folder


@pytest.mark.parametrize(("points", "state"), [(1, "interrupted"), (2, "done")])
def test_an_experiment_is_live_until_the_store_has_read_its_end(
    points: int, state: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = seen_at_work(store, points, monkeypatch, [JOB])
    assert state_of("sweep1") == "live"
    assert is_being_closed("sweep1")
    with ExperimentLog.open(folder):
        assert not is_being_closed("sweep1")  # resumed on the command line
    store.ingest.experiment(folder)
    assert state_of("sweep1") == state


def test_the_store_decides_for_an_experiment_of_the_command_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = seen_at_work(store, 1, monkeypatch, [])
    assert state_of("sweep1") == "live"
    assert not is_being_closed("sweep1")
    store.ingest.experiment(folder)
    assert state_of("sweep1") == "interrupted"


@pytest.mark.parametrize(("kind", "words"), [("sweep", "a sweep · point 2 of 2"), ("repeats", "a sweep · run 2 of 2")])
def test_a_point_of_repeats_is_called_a_run(kind: JobKind, words: str) -> None:
    assert experiment_progress._headline(dataclasses.replace(JOB, kind=kind, points_before=2)) == words

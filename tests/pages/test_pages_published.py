"""The published texts on Predictions: the lab's own grade where an experiment asked the same, else why none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core.config import WorkloadConfig
from engine.runlog.experiment_log import ExperimentLog
from pages.parts.shared.lab import lab
from store import Store
from tests.support.page_app import open_page, words
from tests.support.runs.experiments import run_point, sweep_plan
from tests.support.runs.sample_runs import write_sample_run

PAIR = {"id": "pair1", "kind": "pair", "label": "continuous and paged"}


@pytest.fixture
def home(lab_home: Path) -> Iterator[Path]:
    """A LAB_HOME whose app is closed behind the test."""
    yield lab_home
    lab().close()


def test_the_texts_get_the_labs_own_grade_where_it_asked_the_same(home: Path) -> None:
    asked = WorkloadConfig(prompts="p16,p4096", requests=6, budget="2-8")
    with Store(home) as store:
        for engine in ("continuous", "paged"):
            store.ingest.run(write_sample_run(store.runs_folder, engine, experiment=PAIR, workload=asked, slots=2))
        with ExperimentLog.create(store.runs_folder, sweep_plan((1, 2, 4))) as log:
            for point in log.plan.points:
                run_point(log, point)
        store.ingest.all_in(store.runs_folder)
    said = words(open_page("predictions"))
    assert "x, missed, by pair pair1." in said  # of made-up passes, which take paged longer over a long prompt
    assert "held, by sweep" not in said
    assert said.count("no grade. Of the newest sweep: no prompts of 64, 256, 1,024 and 4,096 tokens.") == 2
    assert "not measured by any experiment in this store yet." in said  # there is no load test

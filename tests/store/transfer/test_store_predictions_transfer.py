"""Predictions in exports and imports: with their subjects, closed and graded, checked as untrusted input."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from engine.predictions.prediction import Question
from store import Store
from store.predictions.predictions import Subject
from store.transfer.bundled_predictions import checked_prediction
from store.transfer.exporter import export_runs
from store.transfer.importer import import_runs
from tests.store.predictions.test_store_predictions import PAIR, THROUGHPUT, add, expect


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "home") as opened:
        yield opened


def test_predictions_are_exported_with_their_subjects(store: Store, tmp_path: Path) -> None:
    pair = Subject(kind="experiment", subject_id="pair1", run_ids=("one", "two"))
    ratio = Question(measure="ratio", metric="output_tokens_per_s", key="continuous", base="static")
    ids = [
        store.predictions.add(Subject(kind="run", subject_id="one"), THROUGHPUT, expect()),
        store.predictions.add(pair, ratio, expect(1.2, None)),
        store.predictions.add(Subject(kind="run", subject_id="later"), THROUGHPUT, expect()),
    ]
    add(store, "one", experiment=PAIR)
    add(store, "two", "continuous", experiment=PAIR)
    export_runs(store, ["one", "two"], tmp_path / "pair.zip")
    export_runs(store, ["one"], tmp_path / "one.zip")
    columns = ["prediction_id", "outcome", "measured", "low", "high", "why", "label", "unit", "made_at", "closed_at"]
    with Store(tmp_path / "other") as other:
        import_runs(other, tmp_path / "one.zip")
        assert other.predictions.list()["prediction_id"].tolist() == ids[:1]
        import_runs(other, tmp_path / "pair.zip")
        here = store.predictions.list()
        here = here[here["prediction_id"].isin(ids[:2])].reset_index(drop=True)
        pd.testing.assert_frame_equal(other.predictions.list()[columns], here[columns])
        assert not other.predictions.list()["is_unknown"].any()


TOLD: dict[str, Any] = {
    "prediction_id": "p1", "subject_kind": "run", "subject_id": "run1", "why": "so", "outcome": "held",
    "question": json.dumps(THROUGHPUT.to_dict()), "low": 1.0, "high": None, "measured": 2.0,
    "made_at": "2026-01-02T03:04:05.000+00:00", "closed_at": "2026-01-02T03:05:05.000+00:00",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"prediction_id": "../p"}, "its id or its subject cannot be read"),
        ({"prediction_id": 7}, "a prediction in the file cannot be read"),
        ({"subject_kind": "person"}, "its id or its subject cannot be read"),
        ({"outcome": "open"}, "its outcome is 'open'"),
        ({"outcome": "certain"}, "its outcome is 'certain'"),
        ({"measured": None}, "its outcome is held, but it has no measured value"),
        ({"measured": True}, "a number cannot be read"),
        ({"low": 10**400}, "a prediction in the file cannot be read"),
        ({"low": None}, "^prediction 'p1': give a lowest value, a highest, or both"),
        ({"why": " "}, "^prediction 'p1': give a reason"),
        ({"question": "{"}, "prediction 'p1'"),
        ({"question": "[" * 100_000}, "prediction"),
        ({"question": json.dumps({"measure": "luck"})}, "use one of metric"),
        ({"closed_at": None}, "made_at or closed_at cannot be read"),
        ({"made_at": "0001-01-01T00:00:00+23:00"}, "made_at or closed_at cannot be read"),
    ],
)
def test_an_imported_prediction_is_checked_field_by_field(changes: dict[str, Any], line: str) -> None:
    assert checked_prediction(TOLD)["label"] == "Throughput"
    with pytest.raises(ValueError, match=line) as error:
        checked_prediction(TOLD | changes)
    assert "\n" not in str(error.value)


def test_an_export_without_experiments_and_predictions_has_version_1(store: Store, tmp_path: Path) -> None:
    add(store)
    export_runs(store, ["run1"], tmp_path / "plain.zip")
    with zipfile.ZipFile(tmp_path / "plain.zip") as archive:
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["format_version"] == 1
    assert manifest.keys() == {"format", "format_version", "schema_version", "created_at", "runs"}

"""The experiments and predictions of a bundle on their way in: checked, moved, taken in, and taken back on failure."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from engine.runlog.experiment_log import is_experiment_folder
from store.database import first_row, in_transaction
from store.ingest.experiment_folders import read_experiment
from store.ingest.experiments import forget_experiment
from store.transfer.bundle import BundledExperiment, Manifest
from store.transfer.bundled_predictions import forget_predictions, take_predictions
from store.transfer.exporter import file_hash

if TYPE_CHECKING:
    from store.store import Store


def check_experiment(folder: Path, told: BundledExperiment) -> None:
    """Whether an unpacked experiment can be read, and is the one that it says it is. ValueError in one line."""
    experiment_id = read_experiment(folder).plan.experiment_id
    if experiment_id != told.experiment_id:
        raise ValueError(f"{told.experiment_id}/experiment.json is of experiment {experiment_id}")


class ImportedExperiments:
    """One import's part in experiments and predictions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._moved: list[tuple[str, Path]] = []
        self._predicted: list[str] = []

    def take_in(self, manifest: Manifest, staging: Path) -> None:
        """All that is new. ValueError where another experiment has an id of the bundle."""
        store, cursor = self._store, self._store.cursor()
        for told in manifest.experiments:
            if self._is_known(told):
                continue
            folder = store.runs_folder / told.experiment_id
            (staging / told.experiment_id).rename(folder)
            self._moved.append((told.experiment_id, folder))
            store.ingest_experiment(folder)
        self._predicted = in_transaction(cursor, lambda: take_predictions(cursor, manifest.predictions))

    def take_back(self) -> None:
        """As it was before."""
        cursor = self._store.cursor()
        in_transaction(cursor, lambda: forget_predictions(cursor, self._predicted))
        for experiment_id, folder in self._moved:
            in_transaction(cursor, lambda gone=experiment_id: forget_experiment(cursor, gone))  # type: ignore[misc]
            shutil.rmtree(folder, ignore_errors=True)

    def _is_known(self, told: BundledExperiment) -> bool:
        """Whether the very same experiment is here. ValueError where another one has its id, or one that went on."""
        experiment_id = told.experiment_id
        row = first_row(
            self._store.cursor(), "SELECT folder FROM experiments WHERE experiment_id = ?", [experiment_id]
        )
        folder = Path(row[0]) if row and row[0] else self._store.runs_folder / experiment_id
        if not folder.exists():
            return False
        here = {name: file_hash(folder / name) for name in told.hashes if (folder / name).is_file()}
        if not is_experiment_folder(folder) or here != told.hashes:
            raise ValueError(f"experiment {experiment_id} is here with other content; delete that one first")
        return True

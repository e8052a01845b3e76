"""Ingests new run folders, experiments and calibration files; see the modules beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import duckdb

from engine.hardware.calibration import Calibration
from store.database import Database, carry_out, utc
from store.folders import folders_in, is_run_folder
from store.ingest.experiments import ExperimentReport, ingest_experiment
from store.ingest.run_log import IngestReport, ingest_folder, lose_run
from store.ingest.verify import Verdict, verify_run
from store.predictions.predictions import Predictions
from store.queries.runs import Runs


class Ingest:
    """Ingest into a store. All methods are thread-safe; one thread at a time writes.

    `is_deleted` tells whether the trash has an experiment of an id from another folder than the given one.
    """

    def __init__(
        self, database: Database, runs: Runs, predictions: Predictions, is_deleted: Callable[[str, Path], bool]
    ) -> None:
        self._database = database
        self._runs = runs
        self._predictions = predictions
        self._is_deleted = is_deleted

    def run(self, folder: Path) -> IngestReport:
        """Ingest what is new in one run folder; see `store.ingest.run_log`. ValueError in one line if it is none."""
        runs_folder = self._database.runs_folder.resolve()
        with self._database.writing:
            report = ingest_folder(self._database.cursor(), folder.resolve(), runs_folder)
            if report.status != report.status_before:
                self._predictions.settle()
            return report

    def experiment(self, folder: Path) -> ExperimentReport:
        """Ingest an experiment's folder; see `store.ingest.experiments`. ValueError in one line if it is none."""
        database = self._database
        with database.writing:
            report = ingest_experiment(database.cursor(), folder.resolve(), database.runs_folder, self._is_deleted)
            self._predictions.settle()
            return report

    def all_in(self, folder: Path) -> tuple[list[IngestReport], dict[Path, str]]:
        """Ingest every run and experiment in a folder: a report per run, and one line for each that failed.

        A folder without run.json is skipped: its run has not started.
        """
        reports, problems = [], {}
        found = folders_in(folder)
        for one in found.experiments:
            try:
                self.experiment(one)
            except (ValueError, OSError) as error:
                problems[one] = str(error)
        for one in found.runs:
            try:
                reports.append(self.run(one))
            except (ValueError, OSError) as error:
                problems[one] = str(error)
        return reports, problems

    def follow_running(self) -> bool:
        """Ingest every run whose status is running, from any folder. Returns whether one of them changed.

        A run whose folder is gone counts as crashed.
        """
        cursor = self._database.cursor()
        rows = cursor.execute("SELECT run_id, folder FROM runs WHERE status = 'running'").fetchall()
        has_changed = False
        for run_id, folder in rows:
            if is_run_folder(Path(folder)):
                with contextlib.suppress(ValueError, OSError):  # damage is reported when the runs folder is ingested
                    has_changed |= self.run(Path(folder)).has_changed
            else:
                with self._database.writing:
                    lose_run(cursor, run_id)
                    self._predictions.settle()
                has_changed = True
        return has_changed

    def calibrations(self) -> int:
        """Ingest the new calibration files of this home. Returns how many."""
        with self._database.writing:
            return ingest_calibrations(self._database.cursor(), self._database.home / "calibrations")

    def verify(self, run_id: str) -> Verdict:
        """Compare a run's rows with its run log. KeyError for an unknown run."""
        with self._database.writing:
            return verify_run(self._database.cursor(), self._runs, run_id)


def ingest_calibrations(cursor: duckdb.DuckDBPyConnection, folder: Path) -> int:
    """Insert the new files; a file that is no calibration is skipped. Returns how many are new."""
    if not folder.is_dir():
        return 0
    known = {row[0] for row in cursor.execute("SELECT file FROM calibrations").fetchall()}
    rows = []
    for path in sorted(folder.glob("*.json")):
        if path.name in known:
            continue
        try:
            rows.append(_calibration_row(path))
        except (ValueError, OSError):
            continue
    for row in rows:
        carry_out(cursor, "INSERT INTO calibrations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    return len(rows)


def _calibration_row(path: Path) -> list[object]:
    measured = Calibration.from_json(path.read_text(encoding="utf-8"))
    return [
        path.name,
        measured.device,
        measured.device_name,
        utc(measured.measured_at),
        measured.model,
        measured.dtype,
        measured.read_bytes_per_s,
        measured.copy_bytes_per_s,
        measured.launch_s,
        measured.pass_s,
        measured.to_json(),
    ]

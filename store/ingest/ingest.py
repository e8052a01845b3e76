"""Takes what is new on disk into the store: run folders, experiments, calibration files; see the modules beside it."""

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
    """Ingest into a store. Every method may be called from any thread; one at a time writes.

    `is_deleted` says whether the trash has an experiment of an id from another folder than the one given.
    """

    def __init__(
        self, database: Database, runs: Runs, predictions: Predictions, is_deleted: Callable[[str, Path], bool]
    ) -> None:
        self._database = database
        self._runs = runs
        self._predictions = predictions
        self._is_deleted = is_deleted

    def run(self, folder: Path) -> IngestReport:
        """Take in what is new in one run folder; see `store.ingest.run_log`. ValueError, one line, where it is none."""
        runs_folder = self._database.runs_folder.resolve()
        with self._database.writing:
            report = ingest_folder(self._database.cursor(), folder.resolve(), runs_folder)
            if report.status != report.status_before:
                self._predictions.settle()
            return report

    def experiment(self, folder: Path) -> ExperimentReport:
        """Bring the store up to date with an experiment's folder; see `store.ingest.experiments`. ValueError, one
        line, where it is none."""
        database = self._database
        with database.writing:
            report = ingest_experiment(database.cursor(), folder.resolve(), database.runs_folder, self._is_deleted)
            self._predictions.settle()
            return report

    def all_in(self, folder: Path) -> tuple[list[IngestReport], dict[Path, str]]:
        """Every run and experiment in a folder: a report a run, and one line for each that could not be taken in.

        A folder without run.json is passed over: its run is yet to begin.
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
        """Look again at every run whose status is running, wherever its folder is. Whether one of them changed.

        One whose folder is gone counts as crashed.
        """
        cursor = self._database.cursor()
        rows = cursor.execute("SELECT run_id, folder FROM runs WHERE status = 'running'").fetchall()
        has_changed = False
        for run_id, folder in rows:
            if is_run_folder(Path(folder)):
                with contextlib.suppress(ValueError, OSError):  # a damaged one is reported where it is taken in
                    has_changed |= self.run(Path(folder)).has_changed
            else:
                with self._database.writing:
                    lose_run(cursor, run_id)
                    self._predictions.settle()
                has_changed = True
        return has_changed

    def calibrations(self) -> int:
        """Take in the calibration files of this home that are new. Returns how many there were."""
        with self._database.writing:
            return ingest_calibrations(self._database.cursor(), self._database.home / "calibrations")

    def verify(self, run_id: str) -> Verdict:
        """Hold a run's rows against its run log. KeyError for a run that is not known."""
        with self._database.writing:
            return verify_run(self._database.cursor(), self._runs, run_id)


def ingest_calibrations(cursor: duckdb.DuckDBPyConnection, folder: Path) -> int:
    """Insert the files that are new; a file that is no calibration is passed over. Returns how many were new."""
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

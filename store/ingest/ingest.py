"""Ingests new run folders, experiments and calibration files; see the modules beside it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import duckdb

from engine.core.errors import first_line, shortened
from engine.core.regular_files import read_text
from engine.hardware.calibration import Calibration
from store.database import Database, StoreFull, carry_out, utc
from store.folders import OF_AN_EXPERIMENT, folders_in, is_run_folder, stamp_of
from store.ingest.experiments import ExperimentReport, ingest_experiment
from store.ingest.run_log import IngestReport, ingest_folder, lose_run
from store.ingest.verify import Verdict, verify_run
from store.predictions.predictions import Predictions
from store.queries.runs import Runs

log = logging.getLogger(__name__)


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
        """Ingest what has changed in a folder of runs and experiments: a report per run, a line for each that failed.

        A folder without run.json is skipped: its run has not started. No folder stops the others; StoreFull does.
        """
        reports, problems = [], {}
        found, stamps = folders_in(folder), self.stamps()
        for one in found.experiments:
            try:
                if stamps.get(os.path.realpath(one)) != stamp_of(one, OF_AN_EXPERIMENT):
                    self.experiment(one)
            except Exception as error:
                problems[one] = problem_of(one, error)
        for one in found.runs:
            try:
                if stamps.get(os.path.realpath(one)) != stamp_of(one):
                    reports.append(self.run(one))
            except Exception as error:
                problems[one] = problem_of(one, error)
        return reports, problems

    def stamps(self) -> dict[str, str]:
        """The stamp of each settled folder that the store's rows are from, by the folder."""
        query = "SELECT folder, stamp FROM {} WHERE stamp IS NOT NULL AND folder IS NOT NULL"
        cursor = self._database.cursor()
        return dict(row for table in ("runs", "experiments") for row in cursor.execute(query.format(table)).fetchall())

    def follow_running(self) -> bool:
        """Ingest every run whose status is running, from any folder. Returns whether one of them changed.

        A run whose folder is gone counts as crashed.
        """
        cursor = self._database.cursor()
        rows = cursor.execute("SELECT run_id, folder FROM runs WHERE status = 'running'").fetchall()
        has_changed = False
        for run_id, folder in rows:
            if is_run_folder(Path(folder)):
                try:
                    has_changed |= self.run(Path(folder)).has_changed
                except Exception as error:  # reported when the runs folder is ingested
                    problem_of(Path(folder), error)
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


def problem_of(folder: Path, error: Exception) -> str:
    """Why a folder was not ingested, in one line that names it. StoreFull is raised again: no folder's fault."""
    if isinstance(error, StoreFull):
        raise error
    line = first_line(error)
    if not isinstance(error, ValueError | OSError):
        log.debug("%s", folder, exc_info=error)
        line = f"{type(error).__name__}: {line}"
    return line if f"/{folder.name}" in line else shortened(f"{folder}: {line}")


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
        except Exception as error:
            log.debug("%s", problem_of(path, error))
    for row in rows:
        carry_out(cursor, "INSERT INTO calibrations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    return len(rows)


def _calibration_row(path: Path) -> list[object]:
    measured = Calibration.from_json(read_text(path))
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

"""The store of one LAB_HOME, opened once per process: runs, experiments, predictions and more, one object each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from store.annotations import Annotations
from store.database import Database, in_transaction
from store.folders import sweep_imports
from store.ingest.checks import fit_checks
from store.ingest.ingest import Ingest
from store.ingest.stored_values import drop_refused
from store.predictions.predictions import Predictions
from store.queries.agreement import Agreements
from store.queries.calibrations import Calibrations
from store.queries.downsampled_passes import Passes
from store.queries.experiments import Experiments
from store.queries.history import History
from store.queries.kv_memory import KvMemory
from store.queries.latency_definitions import RunLatencies
from store.queries.memory_runs import MemoryRuns
from store.queries.runs import Runs
from store.saved_queries import SavedQueries
from store.snapshot.snapshot import Snapshots
from store.trash import Trash


class Store(Database):
    """The store. Opening raises StoreHeld if another process has it, StoreFull on a full disk, ValueError if it is no
    store.

    `dropped` has a line for each run that was taken out at this opening, because its stored values cannot be true. A
    store that can only be read (`is_read_only`) stays as it is.

    Each part owns its SQL: `store.runs.list()`, `store.trash.restore(…)`. All methods of the parts are thread-safe.
    """

    def __init__(self, home: Path) -> None:
        self.dropped: Mapping[Path, str] = {}
        super().__init__(home, self._check)
        self.runs = Runs(self)
        self.experiments = Experiments(self)
        self.history = History(self)
        self.kv = KvMemory(self)
        self.passes = Passes(self)
        self.latencies = RunLatencies(self)
        self.agreements = Agreements(self)
        self.memory_runs = MemoryRuns(self)
        self.calibrations = Calibrations(self)
        self.annotations = Annotations(self, self.runs)
        self.predictions = Predictions(self, self.runs, self.experiments)
        self.ingest = Ingest(self, self.runs, self.predictions, self._is_deleted)
        self.trash = Trash(self, self.runs, self.experiments, self.ingest)
        self.snapshots = Snapshots(self)
        self.saved_queries = SavedQueries(self)
        if not self.is_read_only:
            self.trash.sweep()
            sweep_imports(home)
            in_transaction(self.cursor(), lambda: fit_checks(self.cursor()))

    def _check(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.dropped = drop_refused(connection)

    def _is_deleted(self, experiment_id: str, folder: Path) -> bool:
        return self.trash.has_experiment(experiment_id, folder)

"""The store as its owner sees it: one connection to DuckDB, a cursor a thread, one writer at a time.

Opened once a process. Reading never waits for writing: each question sees the last transaction that was finished.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import pandas as pd

from store.annotations import Annotation, annotate, annotation_of
from store.database import FILE, close_cursor, first_row, in_transaction, open_database
from store.folders import folders_in, is_run_folder
from store.ingest.calibrations import ingest_calibrations
from store.ingest.checks import fit_checks, run_checks
from store.ingest.experiments import ExperimentReport, ingest_experiment
from store.ingest.run_log import IngestReport, ingest_folder, lose_run
from store.ingest.verify import Verdict, verify_run
from store.predictions.predictions import Predicting
from store.queries import kv_memory as kv_queries
from store.queries import runs as queries
from store.queries.block_map import BlockMap, Unit, block_map
from store.queries.experiment_questions import ExperimentQuestions
from store.queries.history import Found, RunFilter, facets, find_runs, pulse
from store.saved_queries import Notebook
from store.snapshot.snapshot import Snapshots
from store.transfer.importer import sweep_imports
from store.trash import Trash


class Store(ExperimentQuestions, Predicting):
    """The runs of one LAB_HOME. Opening raises StoreHeld when another process has it, ValueError when it is no store.

    Every method may be called from any thread. Frames have their columns even when a run has no rows yet, or is not
    known: only `run`, `metrics` and `delete_run` raise KeyError then.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.runs_folder = home / "runs"
        self._connection = open_database(home)
        self._own = threading.local()
        self._cursors: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()  # threads that end take theirs
        self.writing = threading.RLock()  # held by whoever changes rows
        self.snapshots = Snapshots(self)
        self.notebook = Notebook(self)
        self.trash = Trash(self)
        self.trash.sweep()
        sweep_imports(home)
        in_transaction(self.cursor(), lambda: fit_checks(self.cursor()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file, after the ingest at hand; questions at hand are cut off. Closing twice does no harm."""
        with self.writing:
            for cursor in list(self._cursors):
                close_cursor(cursor)
            self._connection.close()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """This thread's own cursor: the tables, and the views request_metrics, token_gaps and run_metrics."""
        cursor: duckdb.DuckDBPyConnection | None = getattr(self._own, "cursor", None)
        if cursor is None:
            cursor = self._own.cursor = self._connection.cursor()
            self._cursors.add(cursor)
        return cursor

    # Taking in

    def ingest_folder(self, folder: Path) -> IngestReport:
        """Take in what is new in one run folder; see `store.ingest.run_log`. ValueError where it is no run."""
        with self.writing:
            report = ingest_folder(self.cursor(), folder.resolve(), self.runs_folder.resolve())
            if report.status != report.status_before:
                self.settle_predictions()
            return report

    def ingest_experiment(self, folder: Path) -> ExperimentReport:
        """Bring the store up to date with an experiment's folder; see `store.ingest.experiments`. ValueError."""
        with self.writing:
            report = ingest_experiment(self.cursor(), folder.resolve(), self.runs_folder, self.trash.has_experiment)
            self.settle_predictions()
            return report

    def ingest_new(self, runs_folder: Path) -> tuple[list[IngestReport], dict[Path, str]]:
        """Every run and experiment in a folder: a report a run, and one line for each that could not be taken in.

        A folder without run.json is passed over: its run is yet to begin.
        """
        reports, problems = [], {}
        found = folders_in(runs_folder)
        for folder in found.experiments:
            try:
                self.ingest_experiment(folder)
            except (ValueError, OSError) as error:
                problems[folder] = str(error)
        for folder in found.runs:
            try:
                reports.append(self.ingest_folder(folder))
            except (ValueError, OSError) as error:
                problems[folder] = str(error)
        return reports, problems

    def follow_running(self) -> bool:
        """Look again at every run that is said to be going, wherever its folder is. Whether one of them changed.

        One whose folder is gone has crashed, as far as anybody can tell.
        """
        rows = self.cursor().execute("SELECT run_id, folder FROM runs WHERE status = 'running'").fetchall()
        has_changed = False
        for run_id, folder in rows:
            if is_run_folder(Path(folder)):
                with contextlib.suppress(ValueError, OSError):  # a damaged one is told of where it is taken in
                    has_changed |= self.ingest_folder(Path(folder)).has_changed
            else:
                with self.writing:
                    lose_run(self.cursor(), run_id)
                    self.settle_predictions()
                has_changed = True
        return has_changed

    def ingest_calibrations(self) -> int:
        """Take in the calibration files of this home that are new. Returns how many there were."""
        with self.writing:
            return ingest_calibrations(self.cursor(), self.home / "calibrations")

    # Asking

    def runs(self, *, limit: int | None = 200, offset: int = 0) -> pd.DataFrame:
        """Runs, the newest first. A run that is going has its tokens so far, and no metrics.

        Columns: run_id, created_at, ended_at (UTC), status, error, engine, model, dtype (fp32, bf16, fp16), device,
        device_name, execution, timing, slots, requests (asked for), workload_digest, finished_requests, output_tokens,
        output_tokens_per_s, ttft_p50_s, dead_fraction, duration_s, experiment_id, experiment_kind, experiment_label,
        random_weights, simulated, watched, folder, kv_layout, block_size, max_num_batched_tokens, kv_blocks (missing
        where KV memory is not paged, or prefill not chunked), damage (what of its run log cannot be read, or None).
        """
        return queries.list_runs(self.cursor(), limit=limit, offset=offset, experiment_id=None)

    def count_runs(self) -> int:
        """How many runs there are."""
        row = first_row(self.cursor(), "SELECT count(*) FROM runs")
        return int(row[0]) if row else 0

    def has_run(self, run_id: str) -> bool:
        """Whether the store knows the run."""
        return first_row(self.cursor(), "SELECT 1 FROM runs WHERE run_id = ?", [run_id]) is not None

    def experiment(self, experiment_id: str) -> pd.DataFrame:
        """The runs of an experiment, in the columns of `runs`, the oldest first."""
        frame = queries.list_runs(self.cursor(), limit=None, offset=0, experiment_id=experiment_id)
        return frame.iloc[::-1].reset_index(drop=True)

    def run(self, run_id: str) -> dict[str, Any]:
        """The columns of `runs`, and `info` (run.json), `result` (result.json or None), `tokenizer_file`."""
        return queries.one_run(self.cursor(), run_id)

    def metrics(self, run_id: str) -> dict[str, float | int | None]:
        """Every metric by its name in engine.core.metrics; of a run that is going, as of now."""
        return queries.metrics(self.cursor(), run_id)

    def requests(self, run_id: str) -> pd.DataFrame:
        """A row a request: the run log's columns, and queue_wait_s, ttft_s, tpot_s, e2e_s.

        `output_tokens` counts the tokens so far. What a dead run left waiting or running is `stopped`.
        """
        return queries.ask(self.cursor(), queries.REQUESTS, run_id)

    def passes(self, run_id: str) -> pd.DataFrame:
        """A row a pass: the run log's columns, pass_s, and start_step and end_step on the axis of steps."""
        return queries.ask(self.cursor(), queries.PASSES, run_id)

    def spans(self, run_id: str) -> pd.DataFrame:
        """What each lane held: span_id, lane, slot, request_id, phase, chunk (which of its prefill; missing for one in
        one piece), start_step, end_step, start_s, end_s, prompt_tokens, tokens_so_far (at the span's end).

        Steps are places on the axis of steps, where a step is divided evenly among its passes. A span that is open
        ends at the last pass that was logged.
        """
        return queries.ask(self.cursor(), queries.SPANS, run_id)

    def gaps(self, run_id: str) -> pd.DataFrame:
        """Every gap between a request's tokens: request_id, token_index (of the later one), gap_s, pass_index."""
        return queries.ask(self.cursor(), queries.GAPS, run_id)

    def tokens(self, run_id: str, request_id: int | None = None, *, of: Sequence[int] | None = None) -> pd.DataFrame:
        """Tokens of a run, of one request, or of the requests in `of`: request_id, token_index, token_id, pass_index,
        produced_s, delivered_s (when the batch was returned, where it was returned whole)."""
        return queries.tokens(self.cursor(), run_id, of if request_id is None else [request_id])

    def memory(self, run_id: str) -> pd.DataFrame:
        """Memory samples in order of time: time_s, pass_index, allocated_bytes, peak_bytes, kv_bytes, free_bytes."""
        return queries.ask(self.cursor(), queries.MEMORY, run_id)

    def events(self, run_id: str) -> pd.DataFrame:
        """What befell requests, in order: event (preempt), request_id, lane (the one it left), blocks (given back),
        tokens (to compute anew), pass_index (the pass before which it was), time_s, step (its place on that axis)."""
        return queries.ask(self.cursor(), kv_queries.EVENTS, run_id)

    def blocks(self, run_id: str, *, limit: int = 100_000) -> pd.DataFrame:
        """Who held which block: block_id, request_id, table_index, start_pass, end_pass (exclusive), start_s, end_s.

        The first `limit` holds in order of their begin; `block_map` shows a run of any size. What was not given back
        ends with the last pass that was logged. A block got and given back before the same pass is left out.
        """
        return kv_queries.blocks(self.cursor(), run_id, limit)

    def blocks_at(self, run_id: str, pass_index: int) -> pd.DataFrame:
        """The blocks held during a pass, in order: block_id, request_id, table_index, positions (filled when the pass
        is over; while several prompts are being read in chunks, their last blocks count as full)."""
        return kv_queries.blocks_at(self.cursor(), run_id, pass_index)

    def block_map(
        self,
        run_id: str,
        *,
        max_blocks: int = 128,
        max_bins: int = 400,
        unit: Unit = "step",
        num_blocks: int | None = None,
    ) -> BlockMap:
        """The pool (or its first `num_blocks`) over the run as a grid of at most `max_blocks` x `max_bins` cells.

        A cell of several blocks, or of more than a pass, names one owner: who held most of it; of two who held as much,
        the earlier request. Lost are the others' names, and when within the cell it changed hands: `held`, `owned` and
        `requests` say how much is lost. Binned means keep their largest beside them.
        """
        return block_map(
            self.cursor(), run_id, max_blocks=max_blocks, max_bins=max_bins, unit=unit, num_blocks=num_blocks
        )

    def kv_positions(self, run_ids: Sequence[str]) -> pd.DataFrame:
        """Where token positions went, a row a run in the order asked for, whatever its KV layout.

        As memory, in position-seconds (a pass's positions x its seconds): reserved_position_s, and what it is the sum
        of: used_, padding_, dead_, fragment_, room_position_s. As work, in positions: computed_positions, the sum of
        real_, padding_ and dead_positions. Missing where nobody logged it: before schema 2 all but reserved and used.
        """
        return kv_queries.kv_positions(self.cursor(), run_ids)

    def verify(self, run_id: str) -> Verdict:
        """Hold a run's rows against its run log. KeyError for a run that is not known."""
        with self.writing:
            return verify_run(self.cursor(), self.run(run_id))

    # The history: what people say of runs, what the checks say, what was deleted

    def find_runs(self, wanted: RunFilter, *, limit: int | None = 200, offset: int = 0) -> Found:
        """A page of the runs that fit, pinned ones first, then the newest first; see `store.queries.history`."""
        return find_runs(self.cursor(), wanted, limit=limit, offset=offset)

    def facets(self) -> dict[str, list[str]]:
        """What runs can be filtered by: the values of engine, model, device_name, status, and the tags."""
        return facets(self.cursor())

    def pulse(self) -> tuple[int, ...]:
        """Numbers that are others as soon as the history is: cheap enough to ask for every moment."""
        return pulse(self.cursor())

    def size_bytes(self) -> int:
        """What the store's own file takes on disk, without the run logs."""
        return sum(path.stat().st_size for path in self.home.glob(f"{FILE}*") if path.is_file())

    def checks(self, run_id: str) -> list[dict[str, Any]]:
        """What the checks of validity found, a row a check: check_name, outcome (pass, fail, not applicable), value,
        threshold, finding. Empty for a run that is still going."""
        return run_checks(self.cursor(), run_id)

    def annotation(self, run_id: str) -> Annotation:
        """What people say of a run: its note, its tags, whether it is pinned."""
        return annotation_of(self.cursor(), run_id)

    def annotate(self, run_id: str, annotation: Annotation) -> None:
        """Say this of a run instead. KeyError for one that is not known, ValueError for what is too long."""
        with self.writing:
            if not self.has_run(run_id):
                raise KeyError(f"the store has no run {run_id}")
            in_transaction(self.cursor(), lambda: annotate(self.cursor(), run_id, annotation))

    def delete_run(self, run_id: str) -> None:
        """Move a run into the trash, from where it can be restored. Of one ingested from elsewhere the folder is left.

        KeyError for a run that is not known, ValueError for one that is still going.
        """
        self.trash.delete_one(run_id)

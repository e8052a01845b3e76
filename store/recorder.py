"""Keeps the store up to date with the run logs on disk: a thread finds new folders and follows those that grow.

An ended run is checked again only every few seconds, in case it is still being copied. A folder that cannot be ingested
has one line in `problems` and is tried again when it changes. An experiment is also tried again when another experiment
folder appears or goes, and every few seconds, because it may be a copy of that one.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from engine.runlog.experiment_log import EXPERIMENT_FILE, POINTS_FILE, ExperimentLog
from engine.runlog.schema import RESULT_FILE, RUN_FILE, STREAMS, stream_file
from engine.runlog.writer import END_OF_STREAM
from store.cli.owner import OwnerSocket
from store.folders import Folders, folders_in
from store.store import Store

POLL_S = 0.5
SETTLED_S = 10.0  # an ended run that has not changed for this long is skipped …
SWEEP_S = 10.0  # … except once every SWEEP_S

FILES = (RUN_FILE, RESULT_FILE, *(stream_file(name) for name in STREAMS))
EXPERIMENT_FILES = (EXPERIMENT_FILE, POINTS_FILE)
Signature = tuple[tuple[int, int] | None, ...]

# How far each stream of every run with a result was ingested: a store of thousands of runs does not read them all again
# at start.
INGESTED = """
    SELECT r.folder, map(list(p.stream), list(p.offset_bytes)) AS offsets
    FROM runs r JOIN ingest_progress p ON p.run_id = r.run_id
    WHERE r.status NOT IN ('running', 'crashed') AND r.damage IS NULL
    GROUP BY r.run_id, r.folder
"""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Seen:
    signature: Signature
    since: float
    is_over: bool


class Recorder:
    """Ingests `runs_folder` into `store` as it grows, and serves the command line at the store's socket.

    `version` grows when the store changes. `problems` has a line for each folder that cannot be ingested.
    """

    def __init__(self, store: Store, runs_folder: Path) -> None:
        self.store = store
        self.runs_folder = runs_folder
        self.version = 0
        self.problems: dict[Path, str] = {}
        self._seen: dict[Path, _Seen] = {}
        self._experiments: tuple[Path, ...] = ()  # at the last check
        self._ingested: dict[str, dict[str, int]] | None = None  # as the store was before the first check
        self._swept_at = -SWEEP_S
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._socket = OwnerSocket(store, self._changed)

    def start(self) -> None:
        """Start to follow the folder and to serve the socket."""
        assert self._thread is None, "a recorder starts once"
        self._thread = threading.Thread(target=self._follow, name="recorder", daemon=True)
        self._socket.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current folder and the socket's current requests. Stopping twice does no harm."""
        self._stopping.set()
        self._socket.stop()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> bool:
        """Check once everything that may have changed. Returns whether the store changed."""
        now = time.monotonic()
        sweep = now - self._swept_at >= SWEEP_S
        if sweep:
            self._swept_at = now
            self.store.ingest.calibrations()
        found = folders_in(self.runs_folder)
        folders = (*found.experiments, *found.runs)
        if self._ingested is None:
            self._ingested = _ingested(self.store.cursor())
        self._forget_gone(found)
        if sweep or found.experiments != self._experiments:
            self._retry_refused(found.experiments)
        self._experiments = found.experiments
        has_changed = False
        for folder in folders:
            if self._stopping.is_set():
                break
            if folder in found.experiments:
                has_changed |= self._look_at_experiment(folder, now)
            elif not self._is_settled(folder, now) or sweep:
                has_changed |= self._look_at(folder, now)
        if sweep and not self._stopping.is_set():  # also runs ingested from other folders
            has_changed |= self.store.ingest.follow_running()
            has_changed |= self.store.predictions.settle()
        if has_changed:
            self._changed()
        return has_changed

    def _forget_gone(self, found: Folders) -> None:
        for folder in self._seen.keys() - {*found.experiments, *found.runs}:
            del self._seen[folder]
            self.problems.pop(folder, None)

    def _retry_refused(self, experiments: tuple[Path, ...]) -> None:
        for folder in experiments:
            if folder in self.problems:
                self._seen.pop(folder, None)

    def _is_settled(self, folder: Path, now: float) -> bool:
        seen = self._seen.get(folder)
        return seen is not None and seen.is_over and now - seen.since >= SETTLED_S

    def _look_at(self, folder: Path, now: float) -> bool:
        signature, seen = _signature(folder), self._seen.get(folder)
        is_same = seen is not None and seen.signature == signature
        if is_same and seen is not None and seen.is_over:
            return False
        if seen is None and self._is_ingested(folder, signature):
            self._seen[folder] = _Seen(signature, now - SETTLED_S, is_over=True)
            return False
        since = seen.since if is_same and seen is not None else now
        try:
            report = self.store.ingest.run(folder)
        except (ValueError, OSError) as error:
            if not (folder / RUN_FILE).exists():  # deleted meanwhile
                return False
            self._seen[folder] = _Seen(signature, since, is_over=True)
            return self._has_problem(folder, str(error))
        self.problems.pop(folder, None)
        self._seen[folder] = _Seen(signature, since, is_over=report.status != "running")
        return report.has_changed

    def _look_at_experiment(self, folder: Path, now: float) -> bool:
        """Ingest an experiment if its files or its lock changed since the last check."""
        is_over = not ExperimentLog.is_open(folder)
        signature, seen = _signature(folder, EXPERIMENT_FILES), self._seen.get(folder)
        if seen is not None and seen.signature == signature and seen.is_over == is_over:
            return False
        self._seen[folder] = _Seen(signature, now, is_over)
        try:
            report = self.store.ingest.experiment(folder)
        except (ValueError, OSError) as error:
            return self._has_problem(folder, str(error))
        self.problems.pop(folder, None)
        return report.has_changed

    def _has_problem(self, folder: Path, line: str) -> bool:
        if self.problems.get(folder) == line:
            return False
        log.warning("%s", line)
        self.problems[folder] = line
        return True

    def _is_ingested(self, folder: Path, signature: Signature) -> bool:
        """Whether the store already had all of an ended run when this recorder started."""
        offsets = (self._ingested or {}).get(str(folder.resolve()))
        sizes = {stream: None if file is None else file[0] for stream, file in zip(STREAMS, signature[2:], strict=True)}
        return offsets is not None and signature[1] is not None and _is_whole(offsets, sizes)

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
                if self.store.predictions.simulate():
                    self._changed()
            except Exception:  # the next check may succeed; a dead recorder would show no new runs
                if not self._stopping.is_set():
                    log.exception("the recorder could not check %s", self.runs_folder)
            self._stopping.wait(POLL_S)

    def _changed(self) -> None:
        self.version += 1


def _signature(folder: Path, files: tuple[str, ...] = FILES) -> Signature:
    """The size and modification time of each file of a folder; None for a missing file."""
    found: list[tuple[int, int] | None] = []
    for name in files:
        entry = None
        with contextlib.suppress(OSError):
            entry = (folder / name).stat()
        found.append(None if entry is None else (entry.st_size, entry.st_mtime_ns))
    return tuple(found)


def _ingested(cursor: duckdb.DuckDBPyConnection) -> dict[str, dict[str, int]]:
    """For each run with a result, by folder: how many bytes of each stream are ingested."""
    return {folder: dict(offsets) for folder, offsets in cursor.execute(INGESTED).fetchall()}


def _is_whole(offsets: Mapping[str, int], sizes: Mapping[str, int | None]) -> bool:
    """Whether files of these sizes (None: missing) hold no more rows; a stream's last batch may have an end marker."""
    return all(
        sizes[stream] is None if stream not in offsets else sizes[stream] in _ends(offsets[stream])
        for stream in STREAMS
    )


def _ends(offset: int) -> tuple[int, int]:
    return offset, offset + len(END_OF_STREAM)

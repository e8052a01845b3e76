"""Keeps the store up with the run logs on disk: a thread that looks for new folders and follows those that grow.

A run that is over is looked at again only now and then, in case it was still being copied. What cannot be taken in is
kept as one line in `problems` and tried again when the folder changes; of an experiment also when another's folder
appears or goes, and now and then, since it may be a copy of that one.
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
SETTLED_S = 10.0  # unchanged for so long, a run that is over is left alone …
SWEEP_S = 10.0  # … but for a look this often

FILES = (RUN_FILE, RESULT_FILE, *(stream_file(name) for name in STREAMS))
EXPERIMENT_FILES = (EXPERIMENT_FILE, POINTS_FILE)
Signature = tuple[tuple[int, int] | None, ...]

# How far each stream was taken in, of every run that has ended with a result: so that a store of thousands of runs need
# not read them all when it starts.
READ_SO_FAR = """
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
    """Follows `runs_folder` into `store` and answers the command line's questions at the store's socket.

    `version` grows whenever the store has changed. `problems` has a line for each folder that cannot be taken in.
    """

    def __init__(self, store: Store, runs_folder: Path) -> None:
        self.store = store
        self.runs_folder = runs_folder
        self.version = 0
        self.problems: dict[Path, str] = {}
        self._seen: dict[Path, _Seen] = {}
        self._experiments: tuple[Path, ...] = ()  # at the last look
        self._read_so_far: dict[str, dict[str, int]] | None = None  # as the store was when the first look began
        self._swept_at = -SWEEP_S
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._socket = OwnerSocket(store, self._changed)

    def start(self) -> None:
        """Begin to follow, and to answer."""
        assert self._thread is None, "a recorder is started once"
        self._thread = threading.Thread(target=self._follow, name="recorder", daemon=True)
        self._socket.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop after the folder at hand, and after what the socket was asked for. Stopping twice does no harm."""
        self._stopping.set()
        self._socket.stop()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> bool:
        """One look at all that may have changed. Returns whether the store has."""
        now = time.monotonic()
        sweep = now - self._swept_at >= SWEEP_S
        if sweep:
            self._swept_at = now
            self.store.ingest.calibrations()
        found = folders_in(self.runs_folder)
        folders = (*found.experiments, *found.runs)
        if self._read_so_far is None:
            self._read_so_far = _read_so_far(self.store.cursor())
        self._forget_gone(found)
        if sweep or found.experiments != self._experiments:
            self._look_again_at_refused(found.experiments)
        self._experiments = found.experiments
        has_changed = False
        for folder in folders:
            if self._stopping.is_set():
                break
            if folder in found.experiments:
                has_changed |= self._look_at_experiment(folder, now)
            elif not self._is_settled(folder, now) or sweep:
                has_changed |= self._look_at(folder, now)
        if sweep and not self._stopping.is_set():  # and at those that were ingested from elsewhere
            has_changed |= self.store.ingest.follow_running()
            has_changed |= self.store.predictions.settle()
        if has_changed:
            self._changed()
        return has_changed

    def _forget_gone(self, found: Folders) -> None:
        for folder in self._seen.keys() - {*found.experiments, *found.runs}:
            del self._seen[folder]
            self.problems.pop(folder, None)

    def _look_again_at_refused(self, experiments: tuple[Path, ...]) -> None:
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
        if seen is None and self._is_taken_in(folder, signature):
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
        """Take an experiment in whenever its files or their lock are others than at the last look."""
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

    def _is_taken_in(self, folder: Path, signature: Signature) -> bool:
        """Whether the store had all of a run that has ended before this recorder began: it need not be read."""
        offsets = (self._read_so_far or {}).get(str(folder.resolve()))
        sizes = {stream: None if file is None else file[0] for stream, file in zip(STREAMS, signature[2:], strict=True)}
        return offsets is not None and signature[1] is not None and _is_whole(offsets, sizes)

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
                if self.store.predictions.simulate():
                    self._changed()
            except Exception:  # whatever it was, the next look may go well; a dead recorder shows nothing any more
                if not self._stopping.is_set():
                    log.exception("the recorder could not look at %s", self.runs_folder)
            self._stopping.wait(POLL_S)

    def _changed(self) -> None:
        self.version += 1


def _signature(folder: Path, files: tuple[str, ...] = FILES) -> Signature:
    """The size and time of each of a folder's files; None for one that is not there."""
    found: list[tuple[int, int] | None] = []
    for name in files:
        entry = None
        with contextlib.suppress(OSError):
            entry = (folder / name).stat()
        found.append(None if entry is None else (entry.st_size, entry.st_mtime_ns))
    return tuple(found)


def _read_so_far(cursor: duckdb.DuckDBPyConnection) -> dict[str, dict[str, int]]:
    """By folder, of every run that has ended with a result: how many bytes of each stream have been taken in."""
    return {folder: dict(offsets) for folder, offsets in cursor.execute(READ_SO_FAR).fetchall()}


def _is_whole(offsets: Mapping[str, int], sizes: Mapping[str, int | None]) -> bool:
    """Whether files of these sizes (None: not there) hold nothing more; behind the last batch stands a stream's end."""
    return all(
        sizes[stream] is None if stream not in offsets else sizes[stream] in _ends(offsets[stream])
        for stream in STREAMS
    )


def _ends(offset: int) -> tuple[int, int]:
    return offset, offset + len(END_OF_STREAM)

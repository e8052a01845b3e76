"""Keeps the store up to date with the run logs on disk: a thread finds new folders and follows those that grow.

An ended run is checked again only every few seconds, in case it is still being copied, and not at all at the start if
the store has its stamp. A folder that cannot be ingested, for any reason, has one line in `problems`, stops no other,
and is tried again when it changes. An experiment is also tried again when another experiment
folder appears or goes, and every few seconds, because it may be a copy of that one.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import first_line
from engine.core.regular_files import is_there
from engine.runlog.experiment_log import ExperimentLog
from engine.runlog.schema import RUN_FILE
from store.cli.owner import OwnerSocket
from store.database import FILE, StoreFull
from store.folders import OF_AN_EXPERIMENT, Folders, folders_in, stamp_of
from store.ingest.ingest import problem_of
from store.store import Store

POLL_S = 0.5
SETTLED_S = 10.0  # an ended run that has not changed for this long is skipped …
SWEEP_S = 10.0  # … except once every SWEEP_S

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Seen:
    stamp: str
    since: float
    is_over: bool


class Recorder:
    """Ingests `runs_folder` into `store` as it grows, and serves the command line at the store's socket.

    `version` grows when the store changes. `problems` has a line for each folder that cannot be ingested, and for each
    other failure.
    """

    def __init__(self, store: Store, runs_folder: Path) -> None:
        self.store = store
        self.runs_folder = runs_folder
        self.version = 0
        self.problems: dict[Path, str] = dict(store.dropped)
        self._seen: dict[Path, _Seen] = {}
        self._experiments: tuple[Path, ...] = ()  # at the last check
        self._stamps: dict[str, str] | None = None  # of the folders that were settled before the first check
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
        try:
            has_changed = self._look_at_all()
            has_changed |= self._drop_problem(self.store.home / FILE)
        except StoreFull as error:
            has_changed = self._has_problem(self.store.home / FILE, first_line(error))
        if has_changed:
            self._changed()
        return has_changed

    def _look_at_all(self) -> bool:
        now = time.monotonic()
        sweep = now - self._swept_at >= SWEEP_S
        found = folders_in(self.runs_folder)
        if self._stamps is None:
            self._stamps = self.store.ingest.stamps()
        self._forget_gone(found)
        if sweep or found.experiments != self._experiments:
            self._retry_refused(found.experiments)
        self._experiments = found.experiments
        has_changed = False
        for folder in found.experiments:
            has_changed |= not self._stopping.is_set() and self._look_at_experiment(folder, now)
        for folder in found.runs:
            if not self._stopping.is_set() and (sweep or not self._is_settled(folder, now)):
                has_changed |= self._look_at(folder, now)
        if sweep and not self._stopping.is_set():
            self._swept_at = now
            has_changed |= self._sweep()
        return has_changed

    def _sweep(self) -> bool:
        """What is done once every SWEEP_S: calibrations, running runs from other folders, predictions."""
        ingest, predictions = self.store.ingest, self.store.predictions
        works: tuple[Callable[[], object], ...] = (ingest.calibrations, ingest.follow_running, predictions.settle)
        changes = [self._attempt(work) for work in works]
        return any(changes)

    def _attempt(self, work: Callable[[], object]) -> bool:
        """Whether `work` changed something. Its failure is a problem of the home, and stops nothing else."""
        place = self.store.home / work.__name__
        try:
            done = bool(work())
        except Exception as error:
            return self._has_problem(place, problem_of(self.store.home, error))
        return self._drop_problem(place) or done

    def _forget_gone(self, found: Folders) -> None:
        for folder in self._seen.keys() - {*found.experiments, *found.runs}:
            del self._seen[folder]
            self._drop_problem(folder)

    def _retry_refused(self, experiments: tuple[Path, ...]) -> None:
        for folder in experiments:
            if folder in self.problems:
                self._seen.pop(folder, None)

    def _is_settled(self, folder: Path, now: float) -> bool:
        seen = self._seen.get(folder)
        return seen is not None and seen.is_over and now - seen.since >= SETTLED_S

    def _look_at(self, folder: Path, now: float) -> bool:
        stamp, seen = stamp_of(folder), self._seen.get(folder)
        is_same = seen is not None and seen.stamp == stamp
        if is_same and seen is not None and seen.is_over:
            return False
        if seen is None and (self._stamps or {}).get(os.path.realpath(folder)) == stamp:
            self._seen[folder] = _Seen(stamp, now - SETTLED_S, is_over=True)
            return False
        since = seen.since if is_same and seen is not None else now
        try:
            report = self.store.ingest.run(folder)
        except Exception as error:
            if not is_there(folder / RUN_FILE):  # deleted meanwhile
                return False
            line = problem_of(folder, error)
            self._seen[folder] = _Seen(stamp, since, is_over=True)
            return self._has_problem(folder, line)
        self._drop_problem(folder)
        self._seen[folder] = _Seen(stamp, since, is_over=report.status != "running")
        return report.has_changed

    def _look_at_experiment(self, folder: Path, now: float) -> bool:
        """Ingest an experiment if its files or its lock changed since the last check."""
        try:
            is_over = not ExperimentLog.is_open(folder)
            stamp, seen = stamp_of(folder, OF_AN_EXPERIMENT), self._seen.get(folder)
            if seen is not None and seen.stamp == stamp and seen.is_over == is_over:
                return False
            self._seen[folder] = _Seen(stamp, now, is_over)
            report = self.store.ingest.experiment(folder)
        except Exception as error:
            return self._has_problem(folder, problem_of(folder, error))
        return self._drop_problem(folder) or report.has_changed

    def _has_problem(self, folder: Path, line: str) -> bool:
        if self.problems.get(folder) == line or self._stopping.is_set():  # a store that closes is no folder's problem
            return False
        log.warning("%s", line)
        self.problems[folder] = line
        return True

    def _drop_problem(self, place: Path) -> bool:
        return self.problems.pop(place, None) is not None

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
                if self._attempt(self.store.predictions.simulate):
                    self._changed()
            except StoreFull:
                pass  # `look` reports it
            except Exception:  # the next check may succeed; a dead recorder would show no new runs
                if not self._stopping.is_set():
                    log.exception("the recorder could not check %s", self.runs_folder)
            self._stopping.wait(POLL_S)

    def _changed(self) -> None:
        self.version += 1

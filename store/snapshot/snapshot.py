"""Publishes the snapshot: a copy of the store for reading, made on request by the process that has the store open.

The first snapshot is a copy of the store's file with computed tables added. A later one is a copy of the previous
snapshot, with only the changed runs replaced. It takes about a third more disk space than the store. A new snapshot is
written to another file and then renamed, so readers of the old one are not disturbed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from engine.core.errors import first_line
from engine.core.run_id import current_time
from store.database import FILE, Database, carry_out
from store.snapshot import tables
from store.snapshot.tables import Contents, Part

SNAPSHOT = "snapshot.duckdb"
Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A published snapshot: its path, when it was made (UTC), how long that took, and its numbers of runs and
    tokens."""

    path: Path
    made_at: datetime
    seconds: float
    runs: int
    tokens: int
    state: str

    @property
    def age_s(self) -> float:
        return max(0.0, (current_time() - self.made_at).total_seconds())


class Snapshots:
    """The snapshots of a store. All methods are thread-safe."""

    def __init__(self, database: Database) -> None:
        self.path = database.home / SNAPSHOT
        self._database = database
        self._publishing = threading.Lock()
        self._latest: Snapshot | None = None

    def latest(self) -> Snapshot | None:
        """The current snapshot, of any age; None if there is none, or if another version of the lab made it."""
        if not self.path.exists():
            return None
        if self._latest is None:
            self._latest = _read(self.path)
        return self._latest

    def is_stale(self) -> bool:
        """Whether the store has changed since the snapshot, or there is no snapshot."""
        latest = self.latest()
        return latest is None or latest.state != tables.contents(self._database.cursor()).state

    def publish(self, on_progress: Progress = lambda share, what: None) -> Snapshot:
        """An up-to-date snapshot: the current one, or a new one if the store has changed.

        `on_progress` gets the progress of a new one, from 0 to 1, and the current step. OSError in one line if it
        cannot be made.
        """
        with self._publishing:
            if not self.is_stale():
                latest = self.latest()
                assert latest is not None
                return latest
            new = self.path.with_name(f".{SNAPSHOT}-{os.getpid()}")
            try:
                self._latest = self._make(new, on_progress)
            except duckdb.Error as error:
                raise OSError(f"the snapshot could not be made: {first_line(error)}") from error
            finally:
                for left in self.path.parent.glob(f".{SNAPSHOT}-*"):
                    left.unlink(missing_ok=True)
            return self._latest

    def _make(self, new: Path, on_progress: Progress) -> Snapshot:
        began, latest, cursor = time.perf_counter(), self.latest(), self._database.cursor()
        on_progress(0.0, "copying")
        with self._database.writing:  # no writes while the file is copied; the transaction starts at the same state
            before = None if latest is None else tables.marks(self.path)
            if before is None:
                carry_out(cursor, "CHECKPOINT")
                _copy_store(self._database.home / FILE, new)
            else:
                shutil.copyfile(self.path, new)
            name = str(new).replace("'", "''")
            carry_out(cursor, f"ATTACH '{name}' AS snapshot")
            carry_out(cursor, "BEGIN")
            now = tables.contents(cursor)
        try:
            made = self._fill(cursor, now, before, began, on_progress)
            carry_out(cursor, "COMMIT")
        except BaseException:
            carry_out(cursor, "ROLLBACK")
            raise
        finally:
            carry_out(cursor, "DETACH snapshot")
        os.replace(new, self.path)
        on_progress(1.0, "done")
        return made

    def _fill(
        self,
        cursor: duckdb.DuckDBPyConnection,
        now: Contents,
        before: dict[str, str] | None,
        began: float,
        on_progress: Progress,
    ) -> Snapshot:
        """Bring the copy up to `now`. `before`: the marks of the runs in the copied snapshot; None for a copy of the
        store."""
        if before is None:
            tables.begin(cursor)
            changed = list(now.runs)
        else:
            changed = [run_id for run_id, run in now.runs.items() if before.get(run_id) != run.mark]
            tables.replace_logs(cursor, changed, list(before.keys() - now.runs.keys()))
        tables.fill_small(cursor)
        tables.compute_requests(cursor, changed)
        for part in tables.runs_by_tokens(now, changed):
            on_progress(0.1 + 0.9 * part.share, _progress_text(part))
            tables.compute_gaps(cursor, part)
        tables.fill_run_metrics(cursor)
        made = Snapshot(
            path=self.path,
            made_at=current_time(),
            seconds=time.perf_counter() - began,
            runs=len(now.runs),
            tokens=sum(run.tokens for run in now.runs.values()),
            state=now.state,
        )
        about = (made.made_at.replace(tzinfo=None), made.seconds, made.runs, made.tokens, made.state)
        tables.sign(cursor, about, now)
        return made


def _progress_text(part: Part) -> str:
    return f"computing gaps, {part.tokens_before:,} of {part.tokens_in_all:,} tokens"


def _read(path: Path) -> Snapshot | None:
    about = tables.signature(path)
    if about is None:
        return None
    made_at, seconds, runs, tokens, state = about
    return Snapshot(
        path=path, made_at=made_at.replace(tzinfo=UTC), seconds=seconds, runs=runs, tokens=tokens, state=state
    )


def _copy_store(file: Path, new: Path) -> None:
    """Copy the store's file in another process: the system drops DuckDB's lock, which belongs to this process, when
    this process closes the file."""
    copied = subprocess.run(["cp", "--", str(file), str(new)], capture_output=True, text=True, check=False)
    if copied.returncode != 0:
        raise OSError(f"the snapshot could not be made: {copied.stderr.strip()}")

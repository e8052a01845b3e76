"""The trash: deleted runs and experiments, removed from the store and the runs folder until restored or purged.

`LAB_HOME/trash/<entry>/` holds `entry.json` (what was deleted, and when) and `log`, the deleted folder. A folder
outside the runs folder is not moved. Predictions about deleted runs stay. Each step is one rename or one transaction;
if the process dies between steps, `sweep` completes or undoes the operation.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from engine.core.regular_files import read_text
from engine.core.run_id import new_run_id, utc_now
from engine.runlog.locks import is_held
from engine.runlog.schema import LOCK_FILE
from engine.runlog.writer import write_json
from store.annotations import forget
from store.database import Database, in_transaction
from store.folders import log_bytes
from store.ingest.experiments import forget_experiment
from store.ingest.ingest import Ingest
from store.ingest.run_rows import delete_rows
from store.queries.experiments import Experiments
from store.queries.runs import Runs

ENTRY_FILE = "entry.json"
LOG = "log"
PURGED = ".purged-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One deleted run or experiment. For an experiment `run_id` is its id and `engine` its title.

    `folder` is where its log was. `is_ours`: that was in the runs folder, and the log was moved.
    """

    entry_id: str
    run_id: str
    folder: str
    is_ours: bool
    deleted_at: str
    engine: str
    created_at: str
    log_bytes: int | None
    kind: str = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an operation on several runs: the `entries` that succeeded, and a line for each refusal."""

    entries: tuple[Entry, ...]
    refused: tuple[str, ...]


class Trash:
    """The trash of a store. All methods are thread-safe."""

    def __init__(self, database: Database, runs: Runs, experiments: Experiments, ingest: Ingest) -> None:
        self.folder = database.home / "trash"
        self._database = database
        self._runs = runs
        self._experiments = experiments
        self._ingest = ingest

    def entries(self) -> list[Entry]:
        """All entries, last deleted first. An unreadable entry is left out."""
        found = []
        for path in self._paths():
            with suppress(OSError, ValueError, KeyError, TypeError):
                found.append(_read(path))
        return sorted(found, key=lambda entry: entry.entry_id, reverse=True)

    def has_experiment(self, experiment_id: str, other_than: Path) -> bool:
        """Whether the trash has this experiment from another folder than `other_than`."""
        return any(
            (entry.kind, entry.run_id) == ("experiment", experiment_id) and Path(entry.folder) != other_than
            for entry in self.entries()
        )

    def delete(self, run_ids: Sequence[str]) -> Outcome:
        """Move runs to the trash; a run that cannot be deleted is skipped with a line."""
        entries, refused = [], []
        for run_id in run_ids:
            try:
                entries.append(self.delete_run(run_id))
            except (KeyError, ValueError, OSError) as error:
                refused.append(_line(run_id, error))
        return Outcome(entries=tuple(entries), refused=tuple(refused))

    def delete_run(self, run_id: str) -> Entry:
        """Move a run to the trash. KeyError for an unknown run, ValueError for one that is still running."""
        with self._database.writing:
            run = self._runs.get(run_id)
            folder = Path(run["folder"])
            if is_held(folder / LOCK_FILE):
                raise ValueError(f"run {run_id} is still running; stop it before deleting it")
            entry = self._entry_of(run_id, folder, str(run["engine"]), str(run["info"].get("created_at")))
            return self._move(entry, folder)

    def delete_experiment(self, experiment_id: str) -> Outcome:
        """Move an experiment and all of its runs to the trash. KeyError for an unknown one, ValueError for a running
        one.

        If a run cannot be deleted, the experiment stays too.
        """
        with self._database.writing:
            row = self._experiments.get(experiment_id)
            folder = None if row["folder"] is None else Path(row["folder"])
            if folder is not None and is_held(folder / LOCK_FILE):
                raise ValueError(f"experiment {experiment_id} is still running; stop it before deleting it")
            done = self.delete([str(run_id) for run_id in self._experiments.runs(experiment_id)["run_id"]])
            if done.refused or folder is None:
                return done
            created_at = f"{row['created_at']}+00:00" if row["created_at"] else ""
            entry = self._entry_of(experiment_id, folder, str(row["label"]), created_at, kind="experiment")
            return Outcome(entries=(*done.entries, self._move(entry, folder)), refused=())

    def _move(self, entry: Entry, folder: Path) -> Entry:
        """Remove an entry from both the runs folder and the store, or from neither."""
        place = self.folder / entry.entry_id
        place.mkdir(parents=True)
        write_json(place / ENTRY_FILE, asdict(entry))
        try:
            if entry.is_ours:  # move the folder first, or the recorder would ingest it again
                folder.rename(place / LOG)
            self._delete_rows(entry)
        except BaseException:
            if (place / LOG).exists():
                (place / LOG).rename(folder)
            shutil.rmtree(place, ignore_errors=True)
            raise
        return entry

    def _delete_rows(self, entry: Entry) -> None:
        cursor = self._database.cursor()
        if entry.kind == "experiment":
            in_transaction(cursor, lambda: forget_experiment(cursor, entry.run_id))
        else:
            delete_rows(cursor, entry.run_id, folder=entry.folder)

    def _is_here(self, entry: Entry) -> bool:
        if entry.kind != "experiment":
            return self._runs.has(entry.run_id)
        return self._experiments.has_plan(entry.run_id)

    def restore(self, entry_ids: Sequence[str]) -> Outcome:
        """Move entries back to their folders and ingest them again."""
        entries, refused = [], []
        for entry_id in entry_ids:
            try:
                entries.append(self._restore_one(entry_id))
            except (KeyError, ValueError, OSError) as error:
                refused.append(_line(entry_id, error))
        return Outcome(entries=tuple(entries), refused=tuple(refused))

    def purge(self, entry_ids: Sequence[str]) -> int:
        """Delete entries permanently, with their notes and tags. Returns how many existed."""
        count = 0
        with self._database.writing:
            for entry in [entry for entry in self.entries() if entry.entry_id in entry_ids]:
                aside = self.folder / f"{PURGED}{entry.entry_id}"
                (self.folder / entry.entry_id).rename(aside)
                shutil.rmtree(aside, ignore_errors=True)
                self._delete_annotation(entry.run_id)
                count += 1
        return count

    def sweep(self) -> None:
        """Complete or undo the operations of a process that died."""
        for aside in self.folder.glob(f"{PURGED}*"):
            shutil.rmtree(aside, ignore_errors=True)
        for path in self._paths():
            try:
                entry = _read(path)
            except (OSError, ValueError, KeyError, TypeError):
                if not (path / LOG).exists():
                    shutil.rmtree(path, ignore_errors=True)  # died before entry.json was written
                continue
            if entry.is_ours and not (path / LOG).exists():
                shutil.rmtree(path, ignore_errors=True)  # not moved yet, or already moved back
            elif entry.is_ours and not Path(entry.folder).exists():
                with self._database.writing:
                    self._delete_rows(entry)

    def _restore_one(self, entry_id: str) -> Entry:
        with self._database.writing:
            place = self.folder / entry_id
            if place not in self._paths():
                raise KeyError(f"the trash has no entry {entry_id}: it was restored or deleted permanently")
            entry = _read(place)
            folder = Path(entry.folder)
            if self._is_here(entry) or (entry.is_ours and folder.exists()):
                raise ValueError(f"the store has another copy of {entry.kind} {entry.run_id}; delete that copy first")
            if entry.is_ours:
                folder.parent.mkdir(parents=True, exist_ok=True)
                (place / LOG).rename(folder)
            elif not folder.is_dir():
                raise ValueError(f"{entry.kind} {entry.run_id}: its folder is gone: {folder}")
            shutil.rmtree(place, ignore_errors=True)
            ingest = self._ingest.experiment if entry.kind == "experiment" else self._ingest.run
            ingest(folder)
            return entry

    def _entry_of(self, name: str, folder: Path, title: str, created_at: str, *, kind: str = "run") -> Entry:
        return Entry(
            entry_id=new_run_id(),
            run_id=name,
            folder=str(folder),
            is_ours=folder.parent == self._database.runs_folder.resolve() and folder.is_dir(),
            deleted_at=utc_now(),
            engine=title,
            created_at=created_at,
            log_bytes=log_bytes(folder),
            kind=kind,
        )

    def _delete_annotation(self, run_id: str) -> None:
        """Delete a run's annotation, unless the store or the trash has another copy of the run."""
        if not self._runs.has(run_id) and all(entry.run_id != run_id for entry in self.entries()):
            forget(self._database.cursor(), run_id)

    def _paths(self) -> list[Path]:
        try:
            return [path for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
        except FileNotFoundError:
            return []


def _read(path: Path) -> Entry:
    content = json.loads(read_text(path / ENTRY_FILE))
    content = {"kind": "run"} | content  # older entries have no kind
    return Entry(**{field.name: content[field.name] for field in fields(Entry)} | {"entry_id": path.name})


def _line(what: str, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{what}: {error.strerror or error}"
    return str(error.args[0] if error.args else error)

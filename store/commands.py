"""What `python -m store` does, as plain data in and out: in its own process, or in that of the store's owner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from engine.runlog.schema import RUN_FILE
from store.store import Store, run_folders
from store.transfer import export, take_files
from store.verify import Verdict

COMMANDS = ("ingest", "refresh", "list", "snapshot", "export", "import", "verify")
READING = ("list", "snapshot", "export")  # they change nothing in the store


def answer(store: Store, request: Mapping[str, Any]) -> Any:
    """The answer to a request: `command`, for ingest and import `paths`, for export see `store.transfer`. ValueError
    for anything else."""
    command = request.get("command")
    if command == "refresh":
        return list(refresh(store).values())
    if command == "list":
        return list_runs(store)
    if command == "snapshot":
        return publish(store)
    if command == "verify":
        return verify(store)
    if command == "ingest":
        return ingest(store, [Path(path) for path in request["paths"]])
    if command == "export":
        return export(store, request)
    if command == "import":
        return take_files(store, [Path(path) for path in request["paths"]])
    raise ValueError(f"command {command!r}: use one of {', '.join(COMMANDS)}")


def refresh(store: Store) -> dict[Path, str]:
    """Bring the store up to date with the runs folder: one line for each folder that could not be taken in."""
    _, problems = store.ingest_new(store.runs_folder)
    store.follow_running()
    return problems


def one_line(error: Exception) -> str:
    """What is wrong, without numbers and quotes where it is the file system that says so."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def list_runs(store: Store) -> list[dict[str, Any]]:
    """An object a run, the newest first, in the columns of the store's `runs`; times in ISO form, UTC."""
    frame = store.runs(limit=None)
    return [{str(name): _json(value) for name, value in row.items()} for row in frame.to_dict("records")]


def publish(store: Store) -> dict[str, Any]:
    """The snapshot of the store as it is now: `path`, `made_at` (ISO form, UTC), and how many `runs` and `tokens`."""
    snapshot = store.snapshots.publish()
    return {
        "path": str(snapshot.path.absolute()),
        "made_at": snapshot.made_at.isoformat(),
        "runs": snapshot.runs,
        "tokens": snapshot.tokens,
    }


def ingest(store: Store, paths: list[Path]) -> dict[str, Any]:
    """Take in run folders, or those in the folders given. `runs` has an object a run, `problems` a line a failure."""
    runs: list[dict[str, Any]] = []
    problems: list[str] = []
    for folder in folders_of(paths):
        try:
            report = store.ingest_folder(folder)
        except (ValueError, OSError) as error:
            problems.append(one_line(error))
            continue
        runs.append(
            {
                "run_id": report.run_id,
                "folder": str(folder),
                "status": report.status,
                "is_new": report.is_new,
                "has_changed": report.has_changed,
                "rows": report.rows,
            }
        )
    return {"runs": runs, "problems": problems}


def folders_of(paths: list[Path]) -> list[Path]:
    """The run folders that the paths name or hold. ValueError for a path that does neither."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ValueError(f"{path}: there is no such folder")
        inside = [path] if (path / RUN_FILE).is_file() else run_folders(path)
        if not inside:
            raise ValueError(f"{path}: neither a run folder nor a folder of run folders: there is no {RUN_FILE}")
        found += inside
    return found


def verify(store: Store) -> dict[str, Any]:
    """Every run against its run log: counts of runs that agree and differ, an object for each that does not agree.

    A folder in the runs folder that cannot be taken in differs, too: under its run's id, or its own name.
    """
    problems = refresh(store)
    runs = store.runs(limit=None)
    verdicts = [store.verify(run_id) for run_id in runs["run_id"]]
    differing = {Path(run_folder) for run_folder, v in zip(runs["folder"], verdicts, strict=True) if is_different(v)}
    verdicts += [
        Verdict(run_id=folder.name, outcome="differs", lines=[line])
        for folder, line in problems.items()
        if folder.resolve() not in differing
    ]
    return {
        "ok": not any(map(is_different, verdicts)),
        "agree": sum(verdict.outcome == "agrees" for verdict in verdicts),
        "differ": sum(map(is_different, verdicts)),
        "unchecked": sum(verdict.outcome == "unchecked" for verdict in verdicts),
        "runs": [
            {"run_id": verdict.run_id, "outcome": verdict.outcome, "lines": verdict.lines}
            for verdict in verdicts
            if verdict.outcome != "agrees"
        ],
    }


def is_different(verdict: Verdict) -> bool:
    return verdict.outcome == "differs"


def _json(value: Any) -> Any:
    """A value that JSON has; what is missing is null, a time of day is text."""
    if value is None or pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():  # a count whose column has missing values, too
        return int(value)
    return value

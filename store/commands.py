"""What `python -m store` does, as plain data in and out: in its own process, or in that of the store's owner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from engine.runlog.schema import RUN_FILE
from store.store import Store, run_folders

COMMANDS = ("ingest", "list", "verify")


def answer(store: Store, request: Mapping[str, Any]) -> Any:
    """The answer to a request: `command`, and for ingest `paths`. ValueError for anything else."""
    command = request.get("command")
    if command == "list":
        return list_runs(store)
    if command == "verify":
        return verify(store)
    if command == "ingest":
        return ingest(store, [Path(path) for path in request["paths"]])
    raise ValueError(f"command {command!r}: use one of {', '.join(COMMANDS)}")


def list_runs(store: Store) -> list[dict[str, Any]]:
    """An object a run, the newest first, in the columns of the store's `runs`; times in ISO form, UTC."""
    frame = store.runs(limit=None)
    return [{str(name): _json(value) for name, value in row.items()} for row in frame.to_dict("records")]


def ingest(store: Store, paths: list[Path]) -> dict[str, Any]:
    """Take in run folders, or those in the folders given. `runs` has an object a run, `problems` a line a failure."""
    runs: list[dict[str, Any]] = []
    problems: list[str] = []
    for folder in folders_of(paths):
        try:
            report = store.ingest_folder(folder)
        except ValueError as error:
            problems.append(str(error))
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
    """Every run against its run log: counts of runs that agree and differ, an object for each that does not agree."""
    verdicts = [store.verify(run_id) for run_id in store.runs(limit=None)["run_id"]]
    return {
        "ok": all(verdict.outcome != "differs" for verdict in verdicts),
        "agree": sum(verdict.outcome == "agrees" for verdict in verdicts),
        "differ": sum(verdict.outcome == "differs" for verdict in verdicts),
        "unchecked": sum(verdict.outcome == "unchecked" for verdict in verdicts),
        "runs": [
            {"run_id": verdict.run_id, "outcome": verdict.outcome, "lines": verdict.lines}
            for verdict in verdicts
            if verdict.outcome != "agrees"
        ],
    }


def _json(value: Any) -> Any:
    """A value that JSON has; what is missing is null, a time of day is text."""
    if value is None or pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():  # a count whose column has missing values, too
        return int(value)
    return value

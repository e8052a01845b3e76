"""What `python -m store` does, as plain data in and out: in its own process, or in that of the store's owner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from engine.runlog.experiment_log import is_experiment_folder
from engine.runlog.schema import RUN_FILE
from store.cli.transfer import export, take_files
from store.folders import Folders, folders_in, is_run_folder
from store.ingest.experiments import ExperimentReport
from store.ingest.run_log import IngestReport
from store.ingest.verify import Verdict
from store.store import Store

COMMANDS = ("ingest", "refresh", "list", "snapshot", "export", "import", "verify")
READING = ("list", "snapshot", "export")  # they change nothing in the store


def answer(store: Store, request: Mapping[str, Any]) -> Any:
    """The answer to a request: `command`, for ingest and import `paths`, for export see `store.cli.transfer`.

    ValueError for anything else.
    """
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
    _, problems = store.ingest.all_in(store.runs_folder)
    store.ingest.follow_running()
    store.predictions.settle()
    store.predictions.simulate()
    return problems


def one_line(error: Exception) -> str:
    """What is wrong, without numbers and quotes where it is the file system that says so."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def list_runs(store: Store) -> list[dict[str, Any]]:
    """An object a run, the newest first, in the columns of the store's `runs`; times in ISO form, UTC."""
    frame = store.runs.list(limit=None)
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
    """Take in folders of runs and of experiments, or those in the folders given.

    `runs` has an object a run, `experiments` one an experiment, `problems` a line a failure.
    """
    found = folders_of(paths)
    reply: dict[str, list[Any]] = {"runs": [], "experiments": [], "problems": []}
    for folder in (*found.experiments, *found.runs):
        try:
            if folder in found.experiments:
                told = _told_experiment(store.ingest.experiment(folder))
            else:
                told = _told_run(store.ingest.run(folder))
        except (ValueError, OSError) as error:
            reply["problems"].append(one_line(error))
            continue
        reply["experiments" if folder in found.experiments else "runs"].append(told | {"folder": str(folder)})
    return reply


def _told_run(report: IngestReport) -> dict[str, Any]:
    return {
        "run_id": report.run_id,
        "status": report.status,
        "is_new": report.is_new,
        "has_changed": report.has_changed,
        "rows": report.rows,
    }


def _told_experiment(report: ExperimentReport) -> dict[str, Any]:
    return {
        "experiment_id": report.experiment_id,
        "kind": report.kind,
        "is_new": report.is_new,
        "has_changed": report.has_changed,
        "points": report.points,
        "settled": report.settled,
    }


def folders_of(paths: list[Path]) -> Folders:
    """The folders of runs and experiments that the paths name or hold. ValueError for a path that does neither."""
    runs: list[Path] = []
    experiments: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ValueError(f"{path}: there is no such folder")
        if is_run_folder(path):
            runs.append(path)
        elif is_experiment_folder(path):
            experiments.append(path)
        else:
            inside = folders_in(path)
            if inside == Folders(runs=(), experiments=()):
                raise ValueError(f"{path}: neither a run folder nor a folder of run folders: there is no {RUN_FILE}")
            runs += inside.runs
            experiments += inside.experiments
    return Folders(runs=tuple(runs), experiments=tuple(experiments))


def verify(store: Store) -> dict[str, Any]:
    """Every run against its run log: counts of runs that agree and differ, an object for each that does not agree.

    A folder in the runs folder that cannot be taken in differs, too: under its run's id, or its own name.
    """
    problems = refresh(store)
    runs = store.runs.list(limit=None)
    verdicts = [store.ingest.verify(run_id) for run_id in runs["run_id"]]
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

"""The commands of `python -m store`, with plain data in and out; they run in the process that has the store open."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from engine.runlog.experiment_log import is_experiment_folder
from engine.runlog.schema import RUN_FILE
from store.cli.transfer import export, import_files
from store.database import FILE
from store.folders import Folders, folders_in, is_run_folder
from store.ingest.experiments import ExperimentReport
from store.ingest.ingest import problem_of
from store.ingest.run_log import IngestReport
from store.ingest.verify import Verdict
from store.store import Store

COMMANDS = ("ingest", "refresh", "list", "snapshot", "export", "import", "verify")
READ_ONLY = ("list", "snapshot", "export")


def answer(store: Store, request: Mapping[str, Any]) -> Any:
    """The reply to a request: `command`, and `paths` for ingest and import; for export see `store.cli.transfer`.

    ValueError for an unknown command.
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
        return import_files(store, [Path(path) for path in request["paths"]])
    raise ValueError(f"command {command!r}: use one of {', '.join(COMMANDS)}")


def read_only_answer(store: Store, request: Mapping[str, Any]) -> Any:
    """The reply of a store that can only be read. ValueError for a command that would write to it."""
    command = request["command"]
    if command in ("ingest", "import"):
        raise ValueError(f"{command}: {store.home / FILE} can only be read; set LAB_HOME to a writable folder")
    if command == "verify":
        return _verdicts(store, {})
    if command == "snapshot" and (store.snapshots.latest() is None or store.snapshots.is_stale()):
        return _publish_elsewhere(store)
    return answer(store, request)


def _publish_elsewhere(store: Store) -> dict[str, Any]:
    """A snapshot in a temporary folder, made from a copy of the store. The folder is deleted when this process ends."""
    home = Path(tempfile.mkdtemp(prefix="lab-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for path in store.home.glob(f"{FILE}*"):
        shutil.copyfile(path, home / path.name)
    with Store(home) as copy:
        return publish(copy)


def refresh(store: Store) -> dict[Path, str]:
    """Bring the store up to date with the runs folder. Returns one line for each folder that could not be ingested."""
    _, problems = store.ingest.all_in(store.runs_folder)
    for work in (store.ingest.follow_running, store.predictions.settle, store.predictions.simulate):
        try:
            work()
        except Exception as error:  # one bad row must not hide all others
            problems[store.home / work.__name__] = problem_of(store.home, error)
    gone = {folder: line for folder, line in store.dropped.items() if not folder.exists()}
    return gone | problems


def list_runs(store: Store) -> list[dict[str, Any]]:
    """One object per run, newest first, with the columns of `Runs.list`; times in ISO form, UTC."""
    frame = store.runs.list(limit=None)
    return [{str(name): _json(value) for name, value in row.items()} for row in frame.to_dict("records")]


def publish(store: Store) -> dict[str, Any]:
    """Publish a current snapshot of the store: `path`, `made_at` (ISO form, UTC), and the counts `runs` and
    `tokens`."""
    snapshot = store.snapshots.publish()
    return {
        "path": str(snapshot.path.absolute()),
        "made_at": snapshot.made_at.isoformat(),
        "runs": snapshot.runs,
        "tokens": snapshot.tokens,
    }


def ingest(store: Store, paths: list[Path]) -> dict[str, Any]:
    """Ingest run folders and experiment folders, or the ones inside the given folders.

    `runs` has one object per run, `experiments` one per experiment, `problems` one line per failure.
    """
    found = folders_of(paths)
    reply: dict[str, list[Any]] = {"runs": [], "experiments": [], "problems": []}
    for folder in (*found.experiments, *found.runs):
        try:
            if folder in found.experiments:
                row = _experiment_row(store.ingest.experiment(folder))
            else:
                row = _run_row(store.ingest.run(folder))
        except Exception as error:
            reply["problems"].append(problem_of(folder, error))
            continue
        reply["experiments" if folder in found.experiments else "runs"].append(row | {"folder": str(folder)})
    return reply


def _run_row(report: IngestReport) -> dict[str, Any]:
    return {
        "run_id": report.run_id,
        "status": report.status,
        "is_new": report.is_new,
        "has_changed": report.has_changed,
        "rows": report.rows,
    }


def _experiment_row(report: ExperimentReport) -> dict[str, Any]:
    return {
        "experiment_id": report.experiment_id,
        "kind": report.kind,
        "is_new": report.is_new,
        "has_changed": report.has_changed,
        "points": report.points,
        "settled": report.settled,
    }


def folders_of(paths: list[Path]) -> Folders:
    """The run and experiment folders that the paths are or contain. ValueError for a path that has none."""
    runs: list[Path] = []
    experiments: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ValueError(f"{path}: no such folder")
        if is_run_folder(path):
            runs.append(path)
        elif is_experiment_folder(path):
            experiments.append(path)
        else:
            inside = folders_in(path)
            if inside == Folders(runs=(), experiments=()):
                raise ValueError(f"{path}: no {RUN_FILE} in this folder or in the folders inside it")
            runs += inside.runs
            experiments += inside.experiments
    return Folders(runs=tuple(runs), experiments=tuple(experiments))


def verify(store: Store) -> dict[str, Any]:
    """Compare every run with its run log: counts of runs that agree and differ, one object for each that does not
    agree. `without_checksums` names the compared runs whose logs have none.

    A folder in the runs folder that cannot be ingested differs too, listed by its run id or its own name.
    """
    return _verdicts(store, refresh(store))


def _verdicts(store: Store, problems: Mapping[Path, str]) -> dict[str, Any]:
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
        "without_checksums": [v.run_id for v in verdicts if v.outcome == "agrees" and not v.has_checksums],
        "runs": [
            {"run_id": verdict.run_id, "outcome": verdict.outcome, "lines": verdict.lines}
            for verdict in verdicts
            if verdict.outcome != "agrees"
        ],
    }


def is_different(verdict: Verdict) -> bool:
    return verdict.outcome == "differs"


def _json(value: Any) -> Any:
    """A value for JSON: a missing value is null, a time is text."""
    if value is None or pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():  # a count in a column with missing values
        return int(value)
    return value

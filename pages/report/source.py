"""What a report is made of: runs and experiments by their ids, read from the store.

While the app has the store open, the named runs are read again from their run logs, into a store that lasts as long as
the command.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pages.parts.experiments.stored import read_experiment
from pages.parts.runs.loaded_run import read_run
from pages.parts.shared.links import MAX_RUNS
from pages.report.comparison_report import comparison_report
from pages.report.experiment_report import load_test_report, sweep_report
from pages.report.report import Report
from pages.report.run_report import run_report
from store import Store, StoreHeld
from store.cli.commands import refresh
from store.cli.owner import ask_owner
from store.folders import is_run_folder

OWNER_PATIENCE_S = 3.0
COMPARED = ("pair", "layouts")  # kinds of experiments that are a comparison
EXPERIMENTS = {"sweep": sweep_report, "load": load_test_report}


@contextlib.contextmanager
def open_store(home: Path, names: Sequence[str]) -> Iterator[Store]:
    """A store that has the named runs and experiments, up to date. StoreHeld if its owner does not answer."""
    try:
        store = Store(home)
    except StoreHeld as held:
        rows = _rows_of_owner(home, held)
        with TemporaryDirectory(prefix="report-") as folder, Store(Path(folder)) as copy:
            _ingest(copy, home, names, rows)
            yield copy
        return
    with store:
        refresh(store)
        yield store


def _rows_of_owner(home: Path, held: StoreHeld) -> list[dict[str, Any]]:
    """The owner's list of runs, after it has read what is new."""
    deadline = time.monotonic() + OWNER_PATIENCE_S
    while True:
        try:
            ask_owner(home, {"command": "refresh"})
            rows: list[dict[str, Any]] = ask_owner(home, {"command": "list"})
            return rows
        except ConnectionError:
            if time.monotonic() > deadline:
                raise held from None
            time.sleep(0.1)  # a process that has just opened the store opens its socket last


def _ingest(copy: Store, home: Path, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Read the run logs of the named runs and experiments, and this home's calibrations."""
    for row in rows:
        if row["run_id"] in names or row["experiment_id"] in names:
            folder = Path(str(row["folder"]))
            if is_run_folder(folder):
                copy.ingest.run(folder)
    for name in names:
        plan = home / "runs" / Path(name).name / "experiment.json"
        if plan.is_file():
            copy.ingest.experiment(plan.parent)
    calibrations = home / "calibrations"
    if calibrations.is_dir():
        (copy.home / "calibrations").symlink_to(calibrations.resolve())
        copy.ingest.calibrations()


def report_of(store: Store, names: Sequence[str]) -> Report:
    """The report of a run, of two to four runs, or of an experiment. ValueError, in one line, for anything else."""
    unique = list(dict.fromkeys(names))
    if len(unique) == 1 and not store.runs.has(unique[0]):
        return _experiment_report(store, unique[0])
    if len(unique) > MAX_RUNS:
        raise ValueError(f"{len(unique)} runs: a comparison has at most {MAX_RUNS}; name fewer")
    for name in unique:
        if not store.runs.has(name):
            is_experiment = len(store.experiments.runs(name)) > 0
            raise ValueError(f"{name}: {'name an experiment alone' if is_experiment else _unknown(name)}")
    runs = [read_run(store, name) for name in unique]
    return run_report(store, runs[0]) if len(runs) == 1 else comparison_report(store, runs)


def _experiment_report(store: Store, name: str) -> Report:
    try:
        kind = str(store.experiments.get(name)["kind"])
    except KeyError:
        raise ValueError(_unknown(name)) from None
    if kind in COMPARED:
        run_ids = [str(run_id) for run_id in store.experiments.runs(name)["run_id"]]
        if len(run_ids) > 1:
            return comparison_report(store, [read_run(store, run_id) for run_id in run_ids[:MAX_RUNS]])
        raise ValueError(f"{name}: fewer than two of its runs are left")
    stored = read_experiment(store, name) if kind in EXPERIMENTS else None
    if stored is None:
        raise ValueError(
            f"{name} is an experiment of kind {kind}: name a sweep, a load test, or up to four of its runs"
        )
    return EXPERIMENTS[kind](store, stored)


def _unknown(name: str) -> str:
    return f"the store has no run or experiment {name}; `python -m store list` shows the runs"

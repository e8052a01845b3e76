"""The log of an experiment on disk: its plan, then one line for each event of its points.

`experiment.json` is written once. `points.jsonl` is append-only, and each line is synced to disk before the next run
starts: an attempt that starts (`{"started": …}`), an attempt that ended, an added point (`{"added": …}`). The writer
holds the folder's lock. A killed process leaves at most one torn line, which a reader drops, and one attempt without an
end: the next writer records its outcome from the run's folder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.core.errors import first_line
from engine.core.regular_files import is_there, read_regular, read_text
from engine.core.run_id import utc_now
from engine.experiments.experiment import Plan, Point, PointRecord
from engine.experiments.experiment_check import check_ids, check_plan, require_settings
from engine.runlog.locks import POLL_S, hold, holder, is_held
from engine.runlog.reader import RUN_ID, RUN_ID_RULE, RunLogReader
from engine.runlog.schema import LOCK_FILE, RESULT_FILE
from engine.runlog.writer import write_json

EXPERIMENT_FILE = "experiment.json"
POINTS_FILE = "points.jsonl"
PATIENCE_S = 5.0
LOCK_PATIENCE_S = 0.5  # a process that only checks the lock holds it for a moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt that started."""

    key: str
    repeat: int
    run_id: str

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Parse an attempt. ValueError if it is none."""
        match data:
            case {"key": str(key), "repeat": int(repeat), "run_id": str(run_id)} if RUN_ID.fullmatch(run_id):
                return cls(key=key, repeat=repeat, run_id=run_id)
        raise ValueError("an attempt needs a key, a repeat and a run_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedExperiment:
    """The content of an experiment's folder: the plan with added points, and the records of ended attempts.

    `open_attempts` are running now, or their process ended before they did.
    """

    plan: Plan
    records: tuple[PointRecord, ...]
    open_attempts: tuple[Attempt, ...]


class ExperimentLog:
    """The only writer of an experiment's folder, from `create` or `open` to `close`. Not thread-safe."""

    def __init__(self, folder: Path, plan: Plan, records: Iterable[PointRecord], resources: ExitStack) -> None:
        self.folder = folder
        self.plan = plan
        self.records = list(records)
        self._resources = resources

    @classmethod
    def create(cls, runs_folder: Path, plan: Plan) -> Self:
        """Create the folder of a new experiment. FileExistsError if the id is in use."""
        folder = runs_folder / plan.experiment_id
        folder.mkdir(parents=True)
        with ExitStack() as resources:
            _take_lock(folder, resources)
            write_json(folder / EXPERIMENT_FILE, plan.to_dict())
            return cls(folder, plan, (), resources.pop_all())

    @classmethod
    def open(cls, folder: Path, patience_s: float = PATIENCE_S) -> Self:
        """Resume an experiment: a torn line is cut off, and open attempts get a record of their outcome.

        Waits for a run that is still running, because a worker outlives its app by a moment. FileNotFoundError if the
        folder holds no experiment, ValueError if it cannot be read, FileExistsError if another process works on it.
        """
        if not (folder / EXPERIMENT_FILE).exists():
            raise FileNotFoundError(f"no experiment in {folder}")
        with ExitStack() as resources:
            _take_lock(folder, resources)
            _cut_torn_line(folder / POINTS_FILE)
            logged = cls.read(folder)
            _check_own(folder, logged.plan)
            log = cls(folder, logged.plan, logged.records, resources)
            for attempt in logged.open_attempts:
                log.append(_outcome_of(attempt, folder.parent / attempt.run_id, patience_s))
            log._resources = resources.pop_all()
            return log

    @staticmethod
    def read(folder: Path) -> LoggedExperiment:
        """Read the folder, without taking the lock. FileNotFoundError if it holds no experiment.

        ValueError, in one line that names the folder, if it is damaged.
        """
        with _readable(folder, EXPERIMENT_FILE):
            plan = planned = Plan.from_dict(json.loads(read_text(folder / EXPERIMENT_FILE)))
            check_plan(plan)
        records: list[PointRecord] = []
        open_attempts: dict[tuple[str, int], Attempt] = {}
        first_lines: dict[tuple[str, int], str] = {}
        for number, text in _lines(folder / POINTS_FILE):
            with _readable(folder, f"{POINTS_FILE} at line {number}"):
                line = json.loads(text)
                if not isinstance(line, dict):
                    raise ValueError(f"{line!r:.60} is not an object")
                if "added" in line:
                    plan = plan.with_points([Point.from_dict(line["added"])])
                elif "started" in line:
                    attempt = Attempt.from_dict(line["started"])
                    open_attempts[attempt.key, attempt.repeat] = attempt
                    first_lines.setdefault((attempt.key, attempt.repeat), f"line {number}")
                else:
                    record = _record_of(line)
                    records.append(record)
                    open_attempts.pop(record.point_id, None)
                    first_lines.setdefault(record.point_id, f"line {number}")
        with _readable(folder, POINTS_FILE):
            if plan is not planned:
                check_plan(plan)
            check_ids(plan, first_lines)
        return LoggedExperiment(plan=plan, records=tuple(records), open_attempts=tuple(open_attempts.values()))

    @staticmethod
    def is_open(folder: Path) -> bool:
        """Whether a process works on the experiment now."""
        return is_held(folder / LOCK_FILE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, point: Point, run_id: str) -> None:
        """Record that an attempt at `point` starts as run `run_id`. It ends with the next `append` for this point."""
        self._write({"started": {"key": point.key, "repeat": point.repeat, "run_id": run_id}})

    def append(self, record: PointRecord) -> None:
        """Record that an attempt has ended."""
        self._write(record.to_dict())
        self.records.append(record)

    def add(self, points: Iterable[Point]) -> None:
        """Add points to the plan."""
        before = len(self.plan.points)
        self.plan = self.plan.with_points(points)
        for point in self.plan.points[before:]:
            self._write({"added": point.to_dict()})

    def close(self) -> None:
        """Release the lock. Closing twice does no harm."""
        self._resources.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        with (self.folder / POINTS_FILE).open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def is_experiment_folder(folder: Path) -> bool:
    """Whether a folder holds an experiment rather than a run."""
    return is_there(folder / EXPERIMENT_FILE)


def record_of_result(key: str, repeat: int, run_id: str | None, result: Mapping[str, Any]) -> PointRecord:
    """The record of an attempt from its run's result.json. ValueError for values that a record cannot hold."""
    return PointRecord.from_dict(
        {
            "key": key,
            "repeat": repeat,
            "run_id": run_id,
            "status": str(result["status"]),
            "error": result.get("error"),
            "oom": result.get("oom"),
            "ended_at": result.get("ended_at") or utc_now(),
            "totals": _without_nan(result.get("totals") or {}),
        }
    )


def _without_nan(totals: Any) -> Any:
    """The totals with None for NaN, which JSON lacks."""
    if not isinstance(totals, Mapping):
        return totals
    return {name: None if isinstance(value, float) and isnan(value) else value for name, value in totals.items()}


def _record_of(line: Mapping[str, Any]) -> PointRecord:
    """Parse a record. ValueError if it is none, or if its run_id could lead to another folder."""
    record = PointRecord.from_dict(line)
    if record.run_id is not None and not RUN_ID.fullmatch(record.run_id):
        raise ValueError(f"record: run_id {record.run_id!r:.60}: {RUN_ID_RULE}")
    return record


def _take_lock(folder: Path, resources: ExitStack) -> None:
    path = folder / LOCK_FILE
    deadline_s = time.monotonic() + LOCK_PATIENCE_S

    def is_late() -> bool:
        return time.monotonic() > deadline_s

    try:
        resources.enter_context(hold(path, purpose=f"experiment {folder.name}", should_stop=is_late))
    except InterruptedError:
        raise FileExistsError(f"{folder} is in use by {holder(path) or 'another process'}") from None


def _check_own(folder: Path, plan: Plan) -> None:
    """ValueError for an experiment that can be read but not resumed: a copy under another name, or missing settings."""
    with _readable(folder, EXPERIMENT_FILE):
        require_settings(plan)
    if plan.experiment_id != folder.name:
        original = f"{plan.experiment_id[:80]!r}"
        raise ValueError(f"{folder}: {EXPERIMENT_FILE} is a copy of experiment {original}; resume that one")


def _outcome_of(attempt: Attempt, run_folder: Path, patience_s: float) -> PointRecord:
    """The record of an attempt whose process ended before it recorded the end: the run may still have ended
    normally."""
    deadline_s = time.monotonic() + patience_s
    while is_held(run_folder / LOCK_FILE):
        if time.monotonic() > deadline_s:
            raise FileExistsError(f"run {attempt.run_id} is still running: {holder(run_folder / LOCK_FILE)}")
        time.sleep(POLL_S)
    result = RunLogReader(run_folder).result() if run_folder.is_dir() else None
    if result is None:
        result = {"status": "crashed", "error": "the process ended before the run"}
    run_id = attempt.run_id if run_folder.is_dir() else None
    with _readable(run_folder, RESULT_FILE):
        return record_of_result(attempt.key, attempt.repeat, run_id, result)


def _cut_torn_line(path: Path) -> None:
    """Cut off the bytes after the last newline."""
    if not path.exists():
        return
    data = read_regular(path)
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
            os.fsync(file.fileno())


def _lines(path: Path) -> list[tuple[int, bytes]]:
    """The complete lines that are not blank, each with its line number."""
    if not path.exists():
        return []
    whole, _, _ = read_regular(path).rpartition(b"\n")
    return [(number, line) for number, line in enumerate(whole.splitlines(), 1) if line.strip()]


@contextmanager
def _readable(folder: Path, what: str) -> Iterator[None]:
    """Turn any error in a file's content into a ValueError that names the folder."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{folder}: {what} cannot be read: {first_line(error)}") from error

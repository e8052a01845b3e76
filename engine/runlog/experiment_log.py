"""Keeps an experiment on disk while it runs: the plan first, then a line for everything that happens to its points.

`experiment.json` is written once, whole. `points.jsonl` only grows, a line at a time, each handed to the disk before
the next run starts: an attempt that begins (`{"started": …}`), one that ended, points that were added (`{"added": …}`).
Whoever writes holds the folder's lock. A process that is killed leaves at most one torn line, which a reader drops, and
one attempt without an end: the next writer looks into that run's folder and records what it finds.
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

from engine.core.run_id import utc_now
from engine.experiments.experiment import Plan, Point, PointRecord
from engine.experiments.experiment_check import check_ids, check_plan, require_settings
from engine.runlog.locks import POLL_S, hold, holder, is_held
from engine.runlog.reader import RUN_ID, RunLogReader
from engine.runlog.schema import LOCK_FILE, RESULT_FILE
from engine.runlog.writer import write_json

EXPERIMENT_FILE = "experiment.json"
POINTS_FILE = "points.jsonl"
PATIENCE_S = 5.0
LOCK_PATIENCE_S = 0.5  # somebody who only asks whether the folder is worked on has its lock for a moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt that began."""

    key: str
    repeat: int
    run_id: str

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """ValueError for what is no attempt."""
        match data:
            case {"key": str(key), "repeat": int(repeat), "run_id": str(run_id)} if RUN_ID.fullmatch(run_id):
                return cls(key=key, repeat=repeat, run_id=run_id)
        raise ValueError("an attempt has a key, a repeat and a run_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedExperiment:
    """What an experiment's folder says: its plan, added points included, the attempts that ended, those that did not.

    `open_attempts` are at work now, or were cut off by their process's end.
    """

    plan: Plan
    records: tuple[PointRecord, ...]
    open_attempts: tuple[Attempt, ...]


class ExperimentLog:
    """The one writer of an experiment's folder, from `create` or `open` to `close`. Not safe for several threads."""

    def __init__(self, folder: Path, plan: Plan, records: Iterable[PointRecord], resources: ExitStack) -> None:
        self.folder = folder
        self.plan = plan
        self.records = list(records)
        self._resources = resources

    @classmethod
    def create(cls, runs_folder: Path, plan: Plan) -> Self:
        """Make the folder of a new experiment. FileExistsError when there is one of that id."""
        folder = runs_folder / plan.experiment_id
        folder.mkdir(parents=True)
        with ExitStack() as resources:
            _take_lock(folder, resources)
            write_json(folder / EXPERIMENT_FILE, plan.to_dict())
            return cls(folder, plan, (), resources.pop_all())

    @classmethod
    def open(cls, folder: Path, patience_s: float = PATIENCE_S) -> Self:
        """Go on with an experiment: what is torn is cut off, attempts without an end are recorded as what they became.

        A run that is still at work, since a worker outlives its app by a moment, is waited for. FileNotFoundError when
        the folder holds no experiment, ValueError when it cannot be read, FileExistsError when somebody is at work.
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
                log.append(_what_became(attempt, folder.parent / attempt.run_id, patience_s))
            log._resources = resources.pop_all()
            return log

    @staticmethod
    def read(folder: Path) -> LoggedExperiment:
        """What the folder says now; no lock is taken. FileNotFoundError when it holds no experiment.

        ValueError, one line that names the folder, when it is damaged.
        """
        with _readable(folder, EXPERIMENT_FILE):
            plan = planned = Plan.from_dict(json.loads((folder / EXPERIMENT_FILE).read_text(encoding="utf-8")))
            check_plan(plan)
        records: list[PointRecord] = []
        open_attempts: dict[tuple[str, int], Attempt] = {}
        told: dict[tuple[str, int], str] = {}
        for number, text in _lines(folder / POINTS_FILE):
            with _readable(folder, f"{POINTS_FILE} at line {number}"):
                line = json.loads(text)
                if not isinstance(line, dict):
                    raise ValueError(f"{line!r:.60} is no object")
                if "added" in line:
                    plan = plan.with_points([Point.from_dict(line["added"])])
                elif "started" in line:
                    attempt = Attempt.from_dict(line["started"])
                    open_attempts[attempt.key, attempt.repeat] = attempt
                    told.setdefault((attempt.key, attempt.repeat), f"line {number}")
                else:
                    record = _record_of(line)
                    records.append(record)
                    open_attempts.pop(record.point_id, None)
                    told.setdefault(record.point_id, f"line {number}")
        with _readable(folder, POINTS_FILE):
            if plan is not planned:
                check_plan(plan)
            check_ids(plan, told)
        return LoggedExperiment(plan=plan, records=tuple(records), open_attempts=tuple(open_attempts.values()))

    @staticmethod
    def is_open(folder: Path) -> bool:
        """Whether somebody is at work on the experiment now."""
        return is_held(folder / LOCK_FILE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, point: Point, run_id: str) -> None:
        """An attempt at `point` begins, as run `run_id`. It ends with the next `append` for this point."""
        self._write({"started": {"key": point.key, "repeat": point.repeat, "run_id": run_id}})

    def append(self, record: PointRecord) -> None:
        """An attempt has ended."""
        self._write(record.to_dict())
        self.records.append(record)

    def add(self, points: Iterable[Point]) -> None:
        """Points that the experiment found it needs."""
        before = len(self.plan.points)
        self.plan = self.plan.with_points(points)
        for point in self.plan.points[before:]:
            self._write({"added": point.to_dict()})

    def close(self) -> None:
        """Let go of the lock. Closing twice does no harm."""
        self._resources.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        with (self.folder / POINTS_FILE).open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def is_experiment_folder(folder: Path) -> bool:
    """Whether a folder holds an experiment rather than a run."""
    return (folder / EXPERIMENT_FILE).is_file()


def record_of_result(key: str, repeat: int, run_id: str | None, result: Mapping[str, Any]) -> PointRecord:
    """The record of an attempt from what its run's result.json holds. ValueError for what no record can hold."""
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
    """NaN is no figure, and no JSON either."""
    if not isinstance(totals, Mapping):
        return totals
    return {name: None if isinstance(value, float) and isnan(value) else value for name, value in totals.items()}


def _record_of(line: Mapping[str, Any]) -> PointRecord:
    """ValueError for what is no record, and for one of a run whose id leads anywhere else."""
    record = PointRecord.from_dict(line)
    if record.run_id is not None and not RUN_ID.fullmatch(record.run_id):
        raise ValueError(f"record: run_id {record.run_id!r:.60} is no id: 1 to 64 letters, digits, _ or -")
    return record


def _take_lock(folder: Path, resources: ExitStack) -> None:
    path = folder / LOCK_FILE
    deadline_s = time.monotonic() + LOCK_PATIENCE_S

    def is_late() -> bool:
        return time.monotonic() > deadline_s

    try:
        resources.enter_context(hold(path, purpose=f"experiment {folder.name}", should_stop=is_late))
    except InterruptedError:
        raise FileExistsError(f"{folder} is being worked on by {holder(path) or 'another process'}") from None


def _check_own(folder: Path, plan: Plan) -> None:
    """ValueError for what can be looked at, but not gone on with: a copy under another name, settings that lack."""
    with _readable(folder, EXPERIMENT_FILE):
        require_settings(plan)
    if plan.experiment_id != folder.name:
        told = f"{plan.experiment_id[:80]!r}, a copy of it"
        raise ValueError(f"{folder}: its {EXPERIMENT_FILE} is of experiment {told}; go on with that one")


def _what_became(attempt: Attempt, run_folder: Path, patience_s: float) -> PointRecord:
    """An attempt whose process ended before it could say so: the run may have come to its end all the same."""
    deadline_s = time.monotonic() + patience_s
    while is_held(run_folder / LOCK_FILE):
        if time.monotonic() > deadline_s:
            raise FileExistsError(f"run {attempt.run_id} is still at work: {holder(run_folder / LOCK_FILE)}")
        time.sleep(POLL_S)
    result = RunLogReader(run_folder).result() if run_folder.is_dir() else None
    if result is None:
        result = {"status": "crashed", "error": "its process ended before it did"}
    run_id = attempt.run_id if run_folder.is_dir() else None
    with _readable(run_folder, RESULT_FILE):
        return record_of_result(attempt.key, attempt.repeat, run_id, result)


def _cut_torn_line(path: Path) -> None:
    """Drop what follows the last newline, so that the next line starts at the start of a line."""
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
            os.fsync(file.fileno())


def _lines(path: Path) -> list[tuple[int, bytes]]:
    """Whole lines that are not blank, each with its number."""
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [(number, line) for number, line in enumerate(whole.splitlines(), 1) if line.strip()]


@contextmanager
def _readable(folder: Path, what: str) -> Iterator[None]:
    """Whatever is wrong with a file's content is one ValueError that names the folder."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{folder}: its {what} is not readable: {why}") from error

"""A load test's results from the run logs: for its table, and to choose the next points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.experiments.experiment import Plan, Point, PointRecord
from engine.load.goodput import Limits
from engine.load.load_plan import next_points
from engine.load.load_point import LoadPoint, load_point
from engine.runlog.reader import RunLogReader
from engine.runlog.schema import RUN_FILE


def figures_of(runs_folder: Path, run_id: str, limits: Limits | None = None) -> LoadPoint | None:
    """A run's results under load; None if its folder is gone."""
    folder = runs_folder / run_id
    return load_point(RunLogReader(folder).record(), limits) if (folder / RUN_FILE).is_file() else None


def next_load_points(runs_folder: Path) -> Callable[[Plan, Sequence[PointRecord]], tuple[Point, ...]]:
    """A function that returns the next points of a load test, around each engine's capacity."""

    def capacity_of(record: PointRecord) -> float | None:
        figures = None if record.run_id is None else figures_of(runs_folder, record.run_id)
        return None if figures is None else figures.achieved_per_s

    return lambda plan, records: next_points(plan, records, capacity_of)

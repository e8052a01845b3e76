"""Queries about experiments: the list, the progress of each, and its points with their measured values.

A point's values are the metrics of its run; if the run is gone, those in the experiment's record.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.metrics.metrics import RUN_METRICS
from store.database import SUMMARIES, Database, first_row
from store.queries.frames import frame_of, plain_value
from store.queries.runs import RUNS

# An experiment without a plan, such as a pair, has its runs as points. A new experiment may have only a plan.
EXPERIMENTS = """
    WITH planned AS (
        SELECT
            experiment_id, count(*) AS points, count(*) FILTER (WHERE status IN ('completed', 'oom', 'failed')) AS done,
            count(*) FILTER (WHERE status = 'completed') AS completed, count(*) FILTER (WHERE status = 'oom') AS oom,
            count(*) FILTER (WHERE status = 'failed') AS failed,
            count(*) FILTER (WHERE status IN ('stopped', 'crashed')) AS stopped
        FROM experiment_points GROUP BY experiment_id
    ),
    ran AS (
        SELECT
            experiment_id, count(*) AS points, count(*) FILTER (WHERE status <> 'running') AS done,
            count(*) FILTER (WHERE status = 'completed') AS completed, count(*) FILTER (WHERE status = 'oom') AS oom,
            count(*) FILTER (WHERE status = 'failed') AS failed,
            count(*) FILTER (WHERE status IN ('stopped', 'crashed')) AS stopped
        FROM runs WHERE experiment_id IS NOT NULL GROUP BY experiment_id
    )
    SELECT
        e.experiment_id, e.kind, e.label, e.created_at,
        {counts},
        coalesce(e.is_worked_on, r.done < r.points, false) AS is_open,
        e.plan IS NOT NULL AS has_plan
    FROM experiments e
    LEFT JOIN planned p ON p.experiment_id = e.experiment_id
    LEFT JOIN ran r ON r.experiment_id = e.experiment_id
    WHERE ($kind IS NULL OR e.kind = $kind)
    ORDER BY e.created_at DESC NULLS LAST, e.experiment_id DESC
""".format(
    counts=", ".join(
        f"CASE WHEN e.plan IS NULL THEN coalesce(r.{name}, 0) ELSE coalesce(p.{name}, 0) END AS {name}"
        for name in ("points", "done", "completed", "oom", "failed", "stopped")
    )
)

POINTS = f"""
    WITH live AS (
        SELECT
            max(run_id) AS live_run_id, run_info ->> '$.experiment.key' AS key,
            coalesce((run_info ->> '$.experiment.repeat')::INTEGER, 0) AS repeat
        FROM runs WHERE experiment_id = $experiment_id AND status = 'running' GROUP BY 2, 3
    )
    SELECT
        p.* EXCLUDE (experiment_id, status, totals), coalesce(p.status, 'pending') AS status, live.live_run_id,
        m.run_id IS NOT NULL AS has_run, p.totals,
        m.* EXCLUDE (run_id, prompt_tokens), m.prompt_tokens AS run_prompt_tokens
    FROM experiment_points p
    LEFT JOIN {SUMMARIES} m ON m.run_id = p.run_id
    LEFT JOIN live ON live.key = p.key AND live.repeat = p.repeat
    WHERE p.experiment_id = $experiment_id
    ORDER BY p.position, p.key, p.repeat
"""
RUNS_AS_POINTS = f"""
    SELECT m.* EXCLUDE (run_id), r.run_id, {{key}} AS key, r.engine, r.status, r.error,
        r.run_info -> '$.config' AS config
    FROM runs r LEFT JOIN {SUMMARIES} m ON m.run_id = r.run_id WHERE {{where}}
"""

RENAMED = {"prompt_tokens": "run_prompt_tokens"}  # a point's prompt_tokens is the length of each prompt


class Experiments:
    """The experiments of a store. All methods are thread-safe. A frame without rows still has its columns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, experiment_id: str) -> dict[str, Any]:
        """experiment_id, kind, label, created_at (UTC), folder (its plan's, else None). KeyError for an unknown one."""
        query = "SELECT experiment_id, kind, label, created_at, folder FROM experiments WHERE experiment_id = ?"
        row = first_row(self._database.cursor(), query, [experiment_id])
        if row is None:
            raise KeyError(f"the store has no experiment {experiment_id}")
        return dict(zip(("experiment_id", "kind", "label", "created_at", "folder"), row, strict=True))

    def folder(self, experiment_id: str) -> Path | None:
        """The folder of the experiment's plan; None without a plan, or for an unknown experiment."""
        try:
            place = self.get(experiment_id)["folder"]
        except KeyError:
            return None
        return Path(place) if place else None

    def has_plan(self, experiment_id: str) -> bool:
        """Whether the store has the experiment with a plan."""
        query = "SELECT 1 FROM experiments WHERE experiment_id = ? AND plan IS NOT NULL"
        return first_row(self._database.cursor(), query, [experiment_id]) is not None

    def has_begun(self, experiment_id: str) -> bool:
        """Whether the store knows a run of the experiment, or an attempt at one of its points."""
        query = (
            "SELECT 1 FROM runs WHERE experiment_id = ?1 UNION ALL "
            "SELECT 1 FROM experiment_points WHERE experiment_id = ?1 AND status IS NOT NULL LIMIT 1"
        )
        return first_row(self._database.cursor(), query, [experiment_id]) is not None

    def within(self, run_ids: Sequence[str]) -> dict[str, Path | None]:
        """The experiments whose runs are all among these, by id, with the folder of the plan or None."""
        rows = self._database.cursor().execute(
            "SELECT r.experiment_id, any_value(e.folder) FROM runs r JOIN experiments e USING (experiment_id) "
            "GROUP BY r.experiment_id HAVING bool_and(list_contains(?::VARCHAR[], r.run_id)) ORDER BY r.experiment_id",
            [[*run_ids]],
        )
        return {str(experiment_id): Path(place) if place else None for experiment_id, place in rows.fetchall()}

    def plan(self, experiment_id: str) -> dict[str, Any]:
        """The plan in experiment.json, with the points added later. KeyError if there is none."""
        query = "SELECT plan FROM experiments WHERE experiment_id = ?"
        row = first_row(self._database.cursor(), query, [experiment_id])
        if row is None or row[0] is None:
            raise KeyError(f"the store has no plan of experiment {experiment_id}")
        plan: dict[str, Any] = json.loads(row[0])
        return plan

    def runs(self, experiment_id: str) -> pd.DataFrame:
        """The runs of an experiment, oldest first, with the columns of `Runs.list`."""
        query = f"{RUNS} WHERE r.experiment_id = $experiment_id ORDER BY r.created_at DESC NULLS LAST, r.run_id DESC"
        frame = frame_of(self._database.cursor(), query, {"experiment_id": experiment_id})
        return frame.iloc[::-1].reset_index(drop=True)

    def points(self, experiment_id: str) -> pd.DataFrame:
        """One row per point, in order of position: the plan, the settled record, and every metric of its run.

        Columns: key, repeat, position, engine, prompts, prompt_tokens (of each prompt), batch_size, rate_per_s, role,
        config_label, timing, point_values (JSON), config (JSON), attempts, run_id, error, asked_bytes, free_bytes,
        oom_where, ended_at, status (of the last settled attempt, else of the last one; pending without an attempt),
        live_run_id (its run in progress), has_run (the store has its run), and every metric of a run by its name
        (`run_prompt_tokens` for prompt_tokens). A missing number is NaN, a missing text None.
        """
        frame = frame_of(self._database.cursor(), POINTS, {"experiment_id": experiment_id})
        metrics = [RENAMED.get(metric.name, metric.name) for metric in RUN_METRICS]
        numbers = {
            name: pd.to_numeric(frame[name], errors="coerce").astype("float64") for name in metrics if name in frame
        }
        frame = frame.assign(**numbers)
        for place in frame.index[~frame["has_run"] & frame["totals"].notna()]:
            for name, value in json.loads(str(frame.at[place, "totals"])).items():
                column = RENAMED.get(name, name)
                if column in numbers:
                    frame.at[place, column] = _number(value)
        return frame.drop(columns=["totals"])

    def measured_points(self, experiment_id: str) -> Sequence[dict[str, Any]]:
        """The points as plain rows for `engine.predictions.measure`; a missing value is None.

        An experiment without a plan, such as a pair, gives its runs, with the engine as key.
        """
        points = self.points(experiment_id)
        if points.empty:
            query = RUNS_AS_POINTS.format(key="r.engine", where="r.experiment_id = $id ORDER BY r.created_at")
            points = frame_of(self._database.cursor(), query, {"id": experiment_id})
        return _records(points)

    def run_as_point(self, run_id: str) -> Sequence[dict[str, Any]]:
        """One run as a row of `measured_points`, with an empty key; no rows for an unknown run."""
        query = RUNS_AS_POINTS.format(key="''", where="r.run_id = $id")
        return _records(frame_of(self._database.cursor(), query, {"id": run_id}))

    def list(self, kind: str | None = None) -> pd.DataFrame:
        """Experiments (of one kind, or all), newest first: sweep, load, overhead, repeats, pair, layouts.

        Columns: experiment_id, kind, label, created_at (UTC), points; of them done (settled), completed, oom, failed,
        stopped (stopped or crashed); is_open (running now), has_plan. An experiment without a plan has its runs as
        points.
        """
        return frame_of(self._database.cursor(), EXPERIMENTS, {"kind": kind})


def _number(value: Any) -> float:
    """A total as a number; NaN for anything else, which damaged records may contain."""
    try:
        return np.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _records(rows: pd.DataFrame) -> Sequence[dict[str, Any]]:
    """Rows as plain mappings; a missing value is None."""
    return [{str(name): plain_value(value) for name, value in row.items()} for row in rows.to_dict("records")]

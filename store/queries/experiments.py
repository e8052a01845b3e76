"""What pages ask of experiments: which there are, how far each has come, and its points with what was measured.

Figures of a point are its run's, as the store keeps them; where the run is gone, as the experiment's record has them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from engine.core.metrics import RUN_METRICS
from engine.core.record import RunRecord
from engine.runlog.reader import record_of
from engine.runlog.schema import STREAMS
from store.database import SUMMARIES, TABLES, first_row
from store.queries.runs import frame_of

# An experiment without a plan, a pair, has its runs for points; one that has never had a record may have a plan alone.
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
RENAMED = {"prompt_tokens": "run_prompt_tokens"}  # a point's prompt_tokens are those of each of its prompts


def list_experiments(cursor: duckdb.DuckDBPyConnection, kind: str | None) -> pd.DataFrame:
    """Experiments, the newest first."""
    return frame_of(cursor, EXPERIMENTS, {"kind": kind})


def one_plan(cursor: duckdb.DuckDBPyConnection, experiment_id: str) -> dict[str, Any]:
    """An experiment's plan as its file has it, added points included; KeyError where there is none of that id."""
    row = first_row(cursor, "SELECT plan FROM experiments WHERE experiment_id = ?", [experiment_id])
    if row is None or row[0] is None:
        raise KeyError(f"the store has no plan of an experiment {experiment_id}")
    plan: dict[str, Any] = json.loads(row[0])
    return plan


def point_rows(cursor: duckdb.DuckDBPyConnection, experiment_id: str) -> pd.DataFrame:
    """A row a point of a planned experiment, in order of position; every metric is a number column, NaN where none."""
    frame = frame_of(cursor, POINTS, {"experiment_id": experiment_id})
    metrics = [RENAMED.get(metric.name, metric.name) for metric in RUN_METRICS]
    numbers = {name: pd.to_numeric(frame[name], errors="coerce").astype("float64") for name in metrics if name in frame}
    frame = frame.assign(**numbers)
    for place in frame.index[~frame["has_run"] & frame["totals"].notna()]:
        for name, value in json.loads(str(frame.at[place, "totals"])).items():
            column = RENAMED.get(name, name)
            if column in numbers:
                frame.at[place, column] = _number(value)
    return frame.drop(columns=["totals"])


def _number(value: Any) -> float:
    """A total as a number; NaN where it is none, as a store that took in damaged records may have."""
    try:
        return np.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def run_record(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunRecord:
    """What metrics are computed from, of one run; KeyError for one that is not known."""
    if first_row(cursor, "SELECT 1 FROM runs WHERE run_id = ?", [run_id]) is None:
        raise KeyError(f"the store has no run {run_id}")
    tables = {}
    for stream, order in (
        ("requests", "request_id"),
        ("passes", "pass_index"),
        ("tokens", "request_id, token_index"),
    ):
        names = ", ".join(f'"{name}"' for name in STREAMS[stream].names)
        query = f"SELECT {names} FROM {TABLES[stream]} WHERE run_id = $run_id ORDER BY {order}"
        tables[stream] = cursor.sql(query, params={"run_id": run_id}).to_arrow_table().cast(STREAMS[stream])
    return record_of(**tables)


def run_infos(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """The run.json of each of these runs that the store knows, in no order."""
    rows = cursor.execute("SELECT run_info FROM runs WHERE list_contains(?, run_id)", [list(run_ids)]).fetchall()
    return [json.loads(info) for (info,) in rows]

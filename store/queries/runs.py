"""What pages ask of the store. Each question is one SELECT over one run or a bounded list, answered as a DataFrame.

A number that may be missing is a float with NaN, a text that may be missing an object column with None.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import duckdb
import pandas as pd

from store.database import SUMMARIES

RUNS = f"""
    SELECT
        r.run_id, r.created_at, r.ended_at, r.status, r.error, r.engine, r.model, r.dtype, r.device, r.device_name,
        r.execution, r.timing, r.slots, r.workload_requests AS requests, r.workload_digest,
        coalesce(m.finished_requests, CASE WHEN r.status <> 'running' THEN 0 END) AS finished_requests,
        coalesce(p.rows, 0) AS output_tokens, m.output_tokens_per_s, m.ttft_p50_s, m.dead_fraction, m.duration_s,
        r.experiment_id, e.kind AS experiment_kind, e.label AS experiment_label,
        r.random_weights, r.simulated, r.watched, r.folder, r.kv_layout, r.block_size, r.max_num_batched_tokens,
        r.kv_blocks, r.damage
    FROM runs r
    LEFT JOIN {SUMMARIES} m ON m.run_id = r.run_id
    LEFT JOIN experiments e ON e.experiment_id = r.experiment_id
    LEFT JOIN ingest_progress p ON p.run_id = r.run_id AND p.stream = 'tokens'
"""

REQUESTS = """
    SELECT
        q.* EXCLUDE (run_id, state, output_tokens),
        CASE WHEN r.status <> 'running' AND q.state IN ('waiting', 'running') THEN 'stopped' ELSE q.state END AS state,
        m.output_tokens, m.queue_wait_s, m.ttft_s, m.tpot_s, m.e2e_s
    FROM requests q
    JOIN runs r ON r.run_id = q.run_id
    LEFT JOIN request_metrics m ON m.run_id = q.run_id AND m.request_id = q.request_id
    WHERE q.run_id = $run_id AND r.run_id = $run_id AND m.run_id = $run_id
    ORDER BY q.request_id
"""

# A pass's place on the axis of steps: a step is divided evenly among its passes. The last step of a run that is still
# going has room for the decode pass that follows a prefill, so that what is drawn does not shrink when it comes; of a
# chunked run a step is one pass.
PLACES = """
    SELECT
        pass_index,
        step + (row_number() OVER in_step - 1) / parts AS start_step,
        step + row_number() OVER in_step / parts AS end_step
    FROM (
        SELECT
            p.pass_index, p.step,
            greatest(
                count(*) OVER (PARTITION BY p.step),
                CASE
                    WHEN r.status = 'running' AND p.kind = 'prefill' AND p.step = max(p.step) OVER ()
                        AND r.engine IS DISTINCT FROM 'chunked' THEN 2
                    ELSE 1
                END
            ) AS parts
        FROM passes p JOIN runs r ON r.run_id = p.run_id
        WHERE p.run_id = $run_id AND r.run_id = $run_id
    )
    WINDOW in_step AS (PARTITION BY step ORDER BY pass_index)
"""

PASSES = f"""
    WITH places AS ({PLACES})
    SELECT p.* EXCLUDE (run_id), p.end_s - p.start_s AS pass_s, l.start_step, l.end_step
    FROM passes p JOIN places l ON l.pass_index = p.pass_index
    WHERE p.run_id = $run_id
    ORDER BY p.pass_index
"""

SPANS = f"""
    WITH places AS MATERIALIZED ({PLACES}),
    last AS (SELECT coalesce(max(end_step), 0.0) AS step FROM places),
    finish AS (SELECT max(end_s) AS s FROM passes WHERE run_id = $run_id),
    placed AS (
        SELECT
            s.span_id, s.lane, s.slot, s.request_id, s.phase, s.chunk, s.start_pass,
            coalesce(s.end_pass, 2147483647) AS end_pass,
            coalesce(a.start_step, last.step) AS start_step,
            coalesce(b.start_step, last.step) AS end_step,
            s.start_s, coalesce(s.end_s, greatest(s.start_s, finish.s)) AS end_s
        FROM spans s
        CROSS JOIN last
        CROSS JOIN finish
        LEFT JOIN places a ON a.pass_index = s.start_pass
        LEFT JOIN places b ON b.pass_index = s.end_pass
        WHERE s.run_id = $run_id
    ),
    said AS (SELECT request_id, token_index, pass_index FROM tokens WHERE run_id = $run_id)
    SELECT
        p.span_id, p.lane, p.slot, p.request_id, p.phase, p.chunk, p.start_step, p.end_step, p.start_s, p.end_s,
        q.prompt_tokens,
        CASE WHEN p.request_id IS NOT NULL THEN coalesce(t.token_index + 1, 0) END AS tokens_so_far
    FROM placed p
    LEFT JOIN (SELECT request_id, prompt_tokens FROM requests WHERE run_id = $run_id) q ON q.request_id = p.request_id
    ASOF LEFT JOIN said t ON t.request_id = p.request_id AND p.end_pass > t.pass_index
    WHERE p.end_step > p.start_step OR p.end_s > p.start_s
    ORDER BY p.lane, p.start_pass, p.span_id
"""

GAPS = """
    SELECT request_id, token_index, gap_s, pass_index FROM token_gaps
    WHERE run_id = $run_id ORDER BY request_id, token_index
"""

TOKENS = """
    SELECT
        t.request_id, t.token_index, t.token_id, t.pass_index, t.produced_s,
        coalesce(t.delivered_s, q.returned_s) AS delivered_s
    FROM tokens t
    LEFT JOIN (SELECT request_id, returned_s FROM requests WHERE run_id = $run_id) q ON q.request_id = t.request_id
    WHERE t.run_id = $run_id {of_request}
    ORDER BY t.request_id, t.token_index
"""

MEMORY = "SELECT * EXCLUDE (run_id) FROM memory WHERE run_id = $run_id ORDER BY time_s"


def list_runs(
    cursor: duckdb.DuckDBPyConnection, *, limit: int | None, offset: int, experiment_id: str | None
) -> pd.DataFrame:
    """Runs, the newest first; `limit` None is all of them."""
    where = "" if experiment_id is None else "WHERE r.experiment_id = $experiment_id"
    values: dict[str, Any] = {} if experiment_id is None else {"experiment_id": experiment_id}
    return frame_of(
        cursor,
        f"{RUNS} {where} ORDER BY r.created_at DESC NULLS LAST, r.run_id DESC LIMIT $limit OFFSET $offset",
        {**values, "limit": 2**62 if limit is None else limit, "offset": offset},
    )


def one_run(cursor: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, Any]:
    """A run's row of `list_runs` with `info` (run.json), `result` (result.json or None) and `tokenizer_file`."""
    frame = frame_of(cursor, f"{RUNS} WHERE r.run_id = $run_id", {"run_id": run_id})
    files = cursor.execute("SELECT run_info, result FROM runs WHERE run_id = ?", [run_id]).fetchall()
    if frame.empty or not files:
        raise KeyError(f"the store has no run {run_id}")
    row: dict[str, Any] = {name: plain_value(frame[name].iloc[0]) for name in frame.columns}
    info = json.loads(files[0][0])
    model = info.get("model")
    return {
        **row,
        "info": info,
        "result": json.loads(files[0][1]) if files[0][1] else None,
        "tokenizer_file": model.get("tokenizer_file") if isinstance(model, dict) else None,
    }


def ask(cursor: duckdb.DuckDBPyConnection, query: str, run_id: str) -> pd.DataFrame:
    """One of this module's questions about one run. A run that the store does not know has no rows."""
    return frame_of(cursor, query, {"run_id": run_id})


def tokens(cursor: duckdb.DuckDBPyConnection, run_id: str, request_ids: Sequence[int] | None) -> pd.DataFrame:
    """A run's tokens, or those of some of its requests."""
    if request_ids is None:
        return frame_of(cursor, TOKENS.format(of_request=""), {"run_id": run_id})
    query = TOKENS.format(of_request="AND t.request_id IN (SELECT unnest($request_ids))")
    return frame_of(cursor, query, {"run_id": run_id, "request_ids": [int(i) for i in request_ids]})


def metrics(cursor: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, float | int | None]:
    """Every metric by its glossary name: kept ones of a run that is over, computed now of one that runs."""
    for table in (SUMMARIES, "run_metrics"):
        cursor.execute(f"SELECT * EXCLUDE (run_id) FROM {table} WHERE run_id = ?", [run_id])
        names = [column[0] for column in cursor.description or []]
        rows = cursor.fetchall()
        if rows:
            return dict(zip(names, rows[0], strict=True))
    raise KeyError(f"the store has no run {run_id}")


def frame_of(cursor: duckdb.DuckDBPyConnection, query: str, values: dict[str, Any]) -> pd.DataFrame:
    frame = cursor.execute(query, values).df()
    return frame.assign(**{name: _uniform(frame[name]) for name in frame.columns})


def _uniform(column: Any) -> Any:
    """A column with one kind of missing value for its kind, whether any is missing or not."""
    kind = column.dtype
    if isinstance(kind, pd.StringDtype):
        return column.astype(object).where(column.notna(), None)
    if pd.api.types.is_datetime64_dtype(kind):
        return column.dt.tz_localize("UTC")
    if pd.api.types.is_extension_array_dtype(kind) and pd.api.types.is_integer_dtype(kind):
        return column.astype("float64")
    if pd.api.types.is_extension_array_dtype(kind) and pd.api.types.is_bool_dtype(kind):
        return column.astype(object).where(column.notna(), None)
    return column


def plain_value(value: Any) -> Any:
    """A value of a frame as Python's own; None where it is missing."""
    if value is None or pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value

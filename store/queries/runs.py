"""Queries about runs: the list, one run's rows, its metrics and checks.

Each is one SELECT over one run or a bounded list; most return a DataFrame (see `store.queries.frames`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.core.record import RunRecord
from engine.load.load_point import load_point
from engine.runlog.reader import record_of
from engine.runlog.schema import STREAMS
from engine.validity.validity import CHECKS as VALIDITY_CHECKS
from store.database import CHECKS, SUMMARIES, TABLES, Database, first_row
from store.queries.frames import frame_of, plain_value

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

# Texts are most of the bytes of many requests, so they are read only for the requests that are shown.
REQUEST_NUMBERS = REQUESTS.replace("EXCLUDE (run_id,", "EXCLUDE (prompt_text, output_text, run_id,", 1)
REQUEST_TEXTS = """
    SELECT request_id, prompt_text, output_text FROM requests
    WHERE run_id = $run_id AND request_id IN (SELECT unnest($request_ids)) ORDER BY request_id
"""

# A pass's position on the step axis: a step is divided evenly among its passes. In a live run, the last step leaves
# space for the decode pass after a prefill, so that the drawing does not shrink when that pass comes. In a run with a
# token budget per step (max_num_batched_tokens), a step is one pass.
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
                        AND r.max_num_batched_tokens IS NULL THEN 2
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
    produced AS (SELECT request_id, token_index, pass_index FROM tokens WHERE run_id = $run_id)
    SELECT
        p.span_id, p.lane, p.slot, p.request_id, p.phase, p.chunk, p.start_step, p.end_step, p.start_s, p.end_s,
        q.prompt_tokens,
        CASE WHEN p.request_id IS NOT NULL THEN coalesce(t.token_index + 1, 0) END AS tokens_so_far
    FROM placed p
    LEFT JOIN (SELECT request_id, prompt_tokens FROM requests WHERE run_id = $run_id) q ON q.request_id = p.request_id
    ASOF LEFT JOIN produced t ON t.request_id = p.request_id AND p.end_pass > t.pass_index
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

EVENTS = f"""
    WITH places AS ({PLACES})
    SELECT
        e.* EXCLUDE (run_id, place),
        coalesce(p.start_step, (SELECT max(end_step) FROM places), 0.0) AS step
    FROM (SELECT *, rowid AS place FROM events WHERE run_id = $run_id) e
    LEFT JOIN places p ON p.pass_index = e.pass_index
    ORDER BY e.pass_index, e.place
"""

RUN_CHECKS = f"SELECT check_name, outcome, value, threshold, finding FROM {CHECKS} WHERE run_id = $run_id"


class Runs:
    """The runs of a store. All methods are thread-safe.

    The frame of a run without rows, or of an unknown run, still has its columns; only `get`, `metrics` and `record`
    raise KeyError for an unknown run.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self) -> int:
        """The number of runs."""
        row = first_row(self._database.cursor(), "SELECT count(*) FROM runs")
        return int(row[0]) if row else 0

    def has(self, run_id: str) -> bool:
        """Whether the store knows the run."""
        return first_row(self._database.cursor(), "SELECT 1 FROM runs WHERE run_id = ?", [run_id]) is not None

    def get(self, run_id: str) -> dict[str, Any]:
        """The columns of `list`, and `info` (run.json), `result` (result.json or None), `tokenizer_file`."""
        frame = self._ask(f"{RUNS} WHERE r.run_id = $run_id", run_id)
        files = first_row(self._database.cursor(), "SELECT run_info, result FROM runs WHERE run_id = ?", [run_id])
        if frame.empty or files is None:
            raise _unknown(run_id)
        row: dict[str, Any] = {name: plain_value(frame[name].iloc[0]) for name in frame.columns}
        info = json.loads(files[0])
        model = info.get("model")
        return {
            **row,
            "info": info,
            "result": json.loads(files[1]) if files[1] else None,
            "tokenizer_file": model.get("tokenizer_file") if isinstance(model, dict) else None,
        }

    def infos(self, run_ids: Sequence[str]) -> Sequence[dict[str, Any]]:
        """The run.json of each of these runs that the store knows, in any order."""
        query = "SELECT run_info FROM runs WHERE list_contains(?, run_id)"
        rows = self._database.cursor().execute(query, [list(run_ids)]).fetchall()
        return [json.loads(info) for (info,) in rows]

    def metrics(self, run_id: str) -> dict[str, float | int | None]:
        """Every metric by its name in engine.metrics.metrics: the stored ones of an ended run, computed now for a live
        run. KeyError for an unknown run."""
        cursor = self._database.cursor()
        for table in (SUMMARIES, "run_metrics"):
            cursor.execute(f"SELECT * EXCLUDE (run_id) FROM {table} WHERE run_id = ?", [run_id])
            names = [column[0] for column in cursor.description or []]
            rows = cursor.fetchall()
            if rows:
                return dict(zip(names, rows[0], strict=True))
        raise _unknown(run_id)

    def checks(self, run_id: str) -> Sequence[dict[str, Any]]:
        """The validity checks in their fixed order: check_name, outcome (pass, fail, not applicable), value, threshold,
        finding. Empty for a live run."""
        rows = self._database.cursor().execute(RUN_CHECKS, {"run_id": run_id}).fetchall()
        names = ("check_name", "outcome", "value", "threshold", "finding")
        found = {row[0]: dict(zip(names, row, strict=True)) for row in rows}
        return [found[check.name] for check in VALIDITY_CHECKS if check.name in found]

    def record(self, run_id: str) -> RunRecord:
        """The run's requests, passes and tokens, from which every metric is computed. KeyError for an unknown run."""
        if not self.has(run_id):
            raise _unknown(run_id)
        tables = {}
        for stream, order in (
            ("requests", "request_id"),
            ("passes", "pass_index"),
            ("tokens", "request_id, token_index"),
        ):
            names = ", ".join(f'"{name}"' for name in STREAMS[stream].names)
            query = f"SELECT {names} FROM {TABLES[stream]} WHERE run_id = $run_id ORDER BY {order}"
            rows = self._database.cursor().sql(query, params={"run_id": run_id}).to_arrow_table()
            tables[stream] = rows.cast(STREAMS[stream])
        return record_of(**tables)

    def completion_rate(self, run_id: str) -> float | None:
        """Requests/s completed in the run's steady window; None if the run is gone or has no such window."""
        try:
            return load_point(self.record(run_id)).achieved_per_s
        except KeyError:
            return None

    def requests(self, run_id: str) -> pd.DataFrame:
        """One row per request: the run log's columns, and queue_wait_s, ttft_s, tpot_s, e2e_s.

        `output_tokens` counts the tokens so far. In an ended run, requests left waiting or running are `stopped`.
        """
        return self._ask(REQUESTS, run_id)

    def request_numbers(self, run_id: str) -> pd.DataFrame:
        """The columns of `requests` without prompt_text and output_text."""
        return self._ask(REQUEST_NUMBERS, run_id)

    def request_texts(self, run_id: str, request_ids: Sequence[int]) -> pd.DataFrame:
        """request_id, prompt_text, output_text of some requests, by request id."""
        return self._ask(REQUEST_TEXTS, run_id, request_ids=[int(i) for i in request_ids])

    def passes(self, run_id: str) -> pd.DataFrame:
        """One row per pass: the run log's columns, pass_s, and start_step and end_step on the step axis."""
        return self._ask(PASSES, run_id)

    def spans(self, run_id: str) -> pd.DataFrame:
        """What each lane held: span_id, lane, slot, request_id, phase, chunk (index of the prefill chunk; missing
        without chunked prefill), start_step, end_step, start_s, end_s, prompt_tokens, tokens_so_far (at the span's
        end).

        On the step axis, a step is divided evenly among its passes. An open span ends at the last logged pass.
        """
        return self._ask(SPANS, run_id)

    def gaps(self, run_id: str) -> pd.DataFrame:
        """Every gap between a request's tokens: request_id, token_index (of the later one), gap_s, pass_index."""
        return self._ask(GAPS, run_id)

    def tokens(self, run_id: str, request_id: int | None = None, *, of: Sequence[int] | None = None) -> pd.DataFrame:
        """Tokens of a run, of one request, or of the requests in `of`: request_id, token_index, token_id, pass_index,
        produced_s, delivered_s (in full response mode, when the batch was returned)."""
        request_ids = of if request_id is None else [request_id]
        if request_ids is None:
            return self._ask(TOKENS.format(of_request=""), run_id)
        query = TOKENS.format(of_request="AND t.request_id IN (SELECT unnest($request_ids))")
        return self._ask(query, run_id, request_ids=[int(i) for i in request_ids])

    def memory(self, run_id: str) -> pd.DataFrame:
        """Memory samples by time: time_s, pass_index, allocated_bytes, peak_bytes, kv_bytes, free_bytes."""
        return self._ask(MEMORY, run_id)

    def events(self, run_id: str) -> pd.DataFrame:
        """Events of requests, in order: event (preempt), request_id, lane (the one it left), blocks (freed), tokens (to
        compute again), pass_index (the next pass), time_s, step (its position on the step axis)."""
        return self._ask(EVENTS, run_id)

    def list(self, *, limit: int | None = 200, offset: int = 0) -> pd.DataFrame:
        """Runs, newest first; `limit` None lists all. A live run has its tokens so far and no metrics.

        Columns: run_id, created_at, ended_at (UTC), status, error, engine, model, dtype (fp32, bf16, fp16), device,
        device_name, execution, timing, slots, requests (in the workload), workload_digest, finished_requests,
        output_tokens, output_tokens_per_s, ttft_p50_s, dead_fraction, duration_s, experiment_id, experiment_kind,
        experiment_label, random_weights, simulated, watched, folder, kv_layout, block_size, max_num_batched_tokens,
        kv_blocks (missing if KV memory is not paged, or prefill not chunked), damage (the unreadable part of its run
        log, or None).
        """
        query = f"{RUNS} ORDER BY r.created_at DESC NULLS LAST, r.run_id DESC LIMIT $limit OFFSET $offset"
        values = {"limit": 2**62 if limit is None else limit, "offset": offset}
        return frame_of(self._database.cursor(), query, values)

    def _ask(self, query: str, run_id: str, **values: Any) -> pd.DataFrame:
        return frame_of(self._database.cursor(), query, {"run_id": run_id, **values})


def _unknown(run_id: str) -> KeyError:
    return KeyError(f"the store has no run {run_id}")

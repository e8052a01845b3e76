"""The passes of one or several runs added up by kind and shape, so that a figure of all is as small as one of a few.

The sums are what engine.core.pass_points reckons FLOP and bytes from: exact, since both are linear in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import duckdb
import pandas as pd

from store.queries.runs import frame_of

EXACT_ROWS = 32  # so many rows stand for themselves, more are taken together by quarters of a doubling

By = Literal["shape", "rows", "doublings"]

_ROWS = f"CASE WHEN rows <= {EXACT_ROWS} THEN rows ELSE floor(log2(rows) * 4) + 1000 END"
_KEYS: dict[By, str] = {
    "shape": f"coalesce(masked, false), {_ROWS}, floor(log2(greatest(width, 1)) * 4)",
    "rows": "rows",
    "doublings": "ceil(log2(greatest(rows, 1)))",
}

# A pass that was issued before the one ahead of it had ended began to wait at its start: the device's own time counts.
BINS = """
    WITH read AS (
        SELECT t.run_id, t.pass_index, sum(q.prompt_tokens::BIGINT * q.prompt_tokens) AS squared_lengths
        FROM (
            SELECT run_id, request_id, pass_index FROM tokens WHERE run_id IN ({runs}) AND token_index = 0
        ) t
        JOIN (SELECT run_id, request_id, prompt_tokens FROM requests WHERE run_id IN ({runs})) q
            ON q.run_id = t.run_id AND q.request_id = t.request_id
        GROUP BY t.run_id, t.pass_index
    ),
    mine AS (
        SELECT
            p.*, r.squared_lengths,
            CASE WHEN $is_async THEN coalesce(p.device_s, p.end_s - p.start_s) ELSE p.end_s - p.start_s END AS took_s
        FROM passes p
        LEFT JOIN read r ON r.run_id = p.run_id AND r.pass_index = p.pass_index AND p.kind = 'prefill'
        WHERE p.run_id IN ({runs}) AND p.end_s IS NOT NULL
    )
    SELECT
        kind, bool_or(coalesce(masked, false)) AS masked, count(*) AS passes,
        min(rows) AS rows_from, max(rows) AS rows_to,
        sum(rows)::DOUBLE AS rows, sum(coalesce(chunk_rows, 0))::DOUBLE AS chunk_rows,
        sum(coalesce(tokens, CASE WHEN kind = 'decode' THEN rows ELSE computed_positions END))::DOUBLE AS tokens,
        sum(prompt_tokens)::DOUBLE AS prompt_tokens, sum(computed_positions)::DOUBLE AS computed_positions,
        CASE WHEN count(squared_lengths) = count(*) THEN sum(squared_lengths)::DOUBLE END AS squared_lengths,
        sum(rows::BIGINT * width * width)::DOUBLE AS row_squares, sum(width)::DOUBLE AS width,
        sum(took_s) AS seconds, median(took_s) AS median_s,
        median(issue_s) AS issue_s, median(device_s) AS device_s
    FROM mine GROUP BY kind, {keys} ORDER BY kind, rows_from, min(width), 2
"""


def pass_bins(
    cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str], *, by: By = "shape", is_async: bool = False
) -> pd.DataFrame:
    """A row a kind and bin: by rows and width, by rows alone, or by doublings of rows (1, 2, 3-4, 5-8 …).

    Columns: kind, masked, passes, rows_from, rows_to; the sums rows, chunk_rows, tokens, prompt_tokens,
    computed_positions, squared_lengths (of prefills, where all are known), row_squares (rows x width²), width, seconds;
    the medians median_s, issue_s, device_s. `is_async`: the runs were timed without stops.
    """
    names = [f"run_{place}" for place in range(len(run_ids))]
    query = BINS.format(keys=_KEYS[by], runs=", ".join(f"${name}" for name in names) or "NULL")
    return frame_of(cursor, query, {**dict(zip(names, run_ids, strict=True)), "is_async": is_async})

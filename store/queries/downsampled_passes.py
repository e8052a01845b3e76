"""Forward passes for figures, in bounded size: a downsampled selection of a run's passes, their totals, and bins.

The selection keeps the extremes: in every stretch of the run the longest and shortest pass of each kind, and the passes
with the most and the fewest rows, columns, queued requests and KV positions; also the first and the last pass.

Bins sum the passes of one or several runs by kind and shape. engine.hardware.pass_points computes FLOP and bytes from
these sums, which is exact because both are linear in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import duckdb
import pandas as pd

from store.database import Database, first_row
from store.queries.frames import frame_of
from store.queries.runs import PASSES

MOST = 40_000
STRETCHES = 3000
EXTREMES = ("rows", "live_rows", "width", "queue_depth", "kv_reserved_positions")

_KEPT = ", ".join(f"arg_min(pass_index, {name}), arg_max(pass_index, {name})" for name in EXTREMES)

# A pass's position on the step axis, without numbering all passes: the passes of a step have consecutive indices.
FEW = f"""
    WITH mine AS (SELECT * EXCLUDE (run_id) FROM passes WHERE run_id = $run_id),
    size AS (SELECT max(pass_index) + 1 AS n FROM mine),
    placed AS (SELECT *, pass_index::BIGINT * {STRETCHES} // n AS stretch FROM mine CROSS JOIN size),
    kept AS (
        SELECT unnest([{_KEPT}]) AS pass_index FROM placed GROUP BY stretch
        UNION
        SELECT unnest([arg_min(pass_index, end_s - start_s), arg_max(pass_index, end_s - start_s)])
        FROM placed GROUP BY stretch, kind
        UNION
        SELECT unnest([min(pass_index), max(pass_index)]) FROM mine
    ),
    steps AS (SELECT step, min(pass_index) AS first_pass, count(*) AS parts FROM mine GROUP BY step)
    SELECT
        m.*, m.end_s - m.start_s AS pass_s,
        m.step + (m.pass_index - s.first_pass) / s.parts AS start_step,
        m.step + (m.pass_index - s.first_pass + 1) / s.parts AS end_step
    FROM mine m SEMI JOIN kept k ON k.pass_index = m.pass_index JOIN steps s ON s.step = m.step
    ORDER BY m.pass_index
"""

_PARTS = ("padding", "dead", "fragment", "room")
_HELD = ", ".join(
    # Null if a pass did not log it: a partial sum would look like the total.
    f"CASE WHEN kv_logged_passes = passes THEN kv_{part}_position_s END AS kv_{part}_position_s"
    for part in _PARTS
)
TOTALS = f"""
    SELECT
        coalesce(passes, 0) AS passes, recomputed_tokens, coalesce(captured_passes, 0) AS captured_passes,
        bucket_tokens, bucket_tokens - captured_tokens AS bucket_padding_tokens, {_HELD}
    FROM (SELECT $run_id AS run_id) chosen LEFT JOIN (FROM pass_totals() WHERE run_id = $run_id) USING (run_id)
"""
KINDS = """
    SELECT
        kind, count(*) AS passes, sum(end_s - start_s) AS seconds, median(end_s - start_s) AS median_s,
        max(end_s - start_s) AS longest_s
    FROM passes WHERE run_id = $run_id AND end_s IS NOT NULL GROUP BY kind ORDER BY kind
"""

EXACT_ROWS = 32  # up to here one bin per number of rows; above, four bins per doubling

By = Literal["shape", "rows", "doublings"]

_ROWS = f"CASE WHEN rows <= {EXACT_ROWS} THEN rows ELSE floor(log2(rows) * 4) + 1000 END"
_KEYS: dict[By, str] = {
    "shape": f"coalesce(masked, false), {_ROWS}, floor(log2(greatest(width, 1)) * 4)",
    "rows": "rows",
    "doublings": "ceil(log2(greatest(rows, 1)))",
}

# In async runs a pass is issued before the previous one ends, so its duration includes waiting: use the device's time.
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


class Passes:
    """The passes of a store's runs, in bounded size. All methods are thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def downsampled(self, run_id: str, most: int = MOST) -> pd.DataFrame:
        """As `downsampled_passes`."""
        return downsampled_passes(self._database.cursor(), run_id, most)

    def kinds(self, run_id: str) -> pd.DataFrame:
        """One row per kind of pass: kind, passes, seconds, median_s, longest_s."""
        return frame_of(self._database.cursor(), KINDS, {"run_id": run_id})

    def totals(self, run_id: str) -> dict[str, Any]:
        """The totals over all passes, by metric name; None if not logged.

        passes, recomputed_tokens, captured_passes, bucket_tokens, bucket_padding_tokens, and
        kv_{padding,dead,fragment,room}_position_s.
        """
        cursor = self._database.cursor()
        (row,) = cursor.execute(TOTALS, {"run_id": run_id}).fetchall()
        return dict(zip((column[0] for column in cursor.description or []), row, strict=True))

    def bins(self, run_ids: Sequence[str], *, by: By = "shape", is_async: bool = False) -> pd.DataFrame:
        """One row per kind and bin: by rows and width, by rows only, or by doublings of rows (1, 2, 3-4, 5-8 …).

        Columns: kind, masked, passes, rows_from, rows_to; the sums rows, chunk_rows, tokens, prompt_tokens,
        computed_positions, squared_lengths (of prefills, if all are known), row_squares (rows x width²), width,
        seconds; the medians median_s, issue_s, device_s. `is_async`: the runs used async timing.
        """
        names = [f"run_{place}" for place in range(len(run_ids))]
        query = BINS.format(keys=_KEYS[by], runs=", ".join(f"${name}" for name in names) or "NULL")
        values = {**dict(zip(names, run_ids, strict=True)), "is_async": is_async}
        return frame_of(self._database.cursor(), query, values)


def downsampled_passes(cursor: duckdb.DuckDBPyConnection, run_id: str, most: int = MOST) -> pd.DataFrame:
    """The columns of `Runs.passes`, one row per pass; a run of more than `most` passes gives about 20,000 rows at
    most."""
    counted = first_row(cursor, "SELECT count(*) FROM passes WHERE run_id = ?", [run_id])
    assert counted is not None
    return frame_of(cursor, FEW if counted[0] > most else PASSES, {"run_id": run_id})

"""A run's passes for figures: all of them, or of very many a few that stand for all, and what they all add up to.

Of many, those are kept that a picture would miss: the longest and the shortest of each kind in every stretch of the
run, and where rows, width, queue and KV memory are at their most and their least; the first and the last.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd

from store.database import first_row
from store.queries import PASSES, frame_of

MOST = 40_000
STRETCHES = 3000
EXTREMES = ("rows", "live_rows", "width", "queue_depth", "kv_reserved_positions")

_KEPT = ", ".join(f"arg_min(pass_index, {name}), arg_max(pass_index, {name})" for name in EXTREMES)

# A pass's place on the axis of steps, without numbering all of them: a step's passes follow one another.
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
    # Null where any pass did not log it: part of a sum would be taken for the whole.
    f"CASE WHEN kv_logged_passes = passes THEN kv_{part}_position_s END AS kv_{part}_position_s"
    for part in _PARTS
)
TOTALS = f"""
    SELECT
        coalesce(passes, 0) AS passes, recomputed_tokens, coalesce(captured_passes, 0) AS captured_passes,
        bucket_tokens, bucket_tokens - captured_tokens AS bucket_padding_tokens, {_HELD}
    FROM (SELECT $run_id AS run_id) asked LEFT JOIN (FROM pass_totals() WHERE run_id = $run_id) USING (run_id)
"""
KINDS = """
    SELECT
        kind, count(*) AS passes, sum(end_s - start_s) AS seconds, median(end_s - start_s) AS median_s,
        max(end_s - start_s) AS longest_s
    FROM passes WHERE run_id = $run_id AND end_s IS NOT NULL GROUP BY kind ORDER BY kind
"""


def few_passes(cursor: duckdb.DuckDBPyConnection, run_id: str, most: int = MOST) -> pd.DataFrame:
    """The columns of the store's `passes`, a row a pass; of more than `most` passes about 20,000 rows at most."""
    counted = first_row(cursor, "SELECT count(*) FROM passes WHERE run_id = ?", [run_id])
    assert counted is not None
    return frame_of(cursor, FEW if counted[0] > most else PASSES, {"run_id": run_id})


def pass_kinds(cursor: duckdb.DuckDBPyConnection, run_id: str) -> pd.DataFrame:
    """A row a kind of pass: kind, passes, seconds, median_s, longest_s."""
    return frame_of(cursor, KINDS, {"run_id": run_id})


def pass_totals(cursor: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, Any]:
    """What all passes add up to, by the names of the ledger; None where it was not logged.

    passes, recomputed_tokens, captured_passes, bucket_tokens, bucket_padding_tokens, kv_{padding,dead,fragment,room}_
    position_s.
    """
    (row,) = cursor.execute(TOTALS, {"run_id": run_id}).fetchall()
    return dict(zip((column[0] for column in cursor.description or []), row, strict=True))

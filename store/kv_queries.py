"""What pages ask about KV memory: which request held which block when, what happened to it, what the positions held.

A request's hold on a block is logged as two events, and both may fall before one and the same pass, in either order:
the n-th time that a request got a block goes with the n-th time that it gave that block back, whatever lies between.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pandas as pd

from store.queries import PLACES, frame_of

# A block that was not given back is held until the last pass that was logged. One that was, was needed no longer when
# the pass before ended: the event tells the next pass's begin, which comes late where the engine stood idle between.
INTERVALS = """
    SELECT
        h.block_id, h.request_id, h.table_index, h.start_pass, h.end_pass, h.start_s,
        greatest(h.start_s, coalesce(p.end_s, h.end_s)) AS end_s
    FROM (
        SELECT
            got.block_id, got.request_id, got.table_index,
            got.pass_index AS start_pass,
            greatest(got.pass_index, coalesce(gave.pass_index, last.pass_index + 1, 0)) AS end_pass,
            got.time_s AS start_s, gave.time_s AS end_s
        FROM (
            SELECT *, row_number() OVER (PARTITION BY block_id, request_id ORDER BY pass_index) AS n
            FROM block_events WHERE run_id = $run_id AND allocated
        ) got
        LEFT JOIN (
            SELECT *, row_number() OVER (PARTITION BY block_id, request_id ORDER BY pass_index) AS n
            FROM block_events WHERE run_id = $run_id AND NOT allocated
        ) gave ON gave.block_id = got.block_id AND gave.request_id = got.request_id AND gave.n = got.n
        CROSS JOIN (SELECT max(pass_index) AS pass_index FROM passes WHERE run_id = $run_id) last
    ) h
    LEFT JOIN (SELECT pass_index, end_s FROM passes WHERE run_id = $run_id) p ON p.pass_index = h.end_pass - 1
    WHERE h.end_pass > h.start_pass
"""

BLOCKS = f"{INTERVALS} ORDER BY start_pass, block_id LIMIT $limit"

# A request that has yielded a token since it got its first block has cached all its tokens but the newest. Before that
# it takes blocks as its chunks need them: all but the last are full. Where it is alone in that, what the pass logged as
# used is the others' and the rest its own; else its last block counts as full.
BLOCKS_AT = f"""
    WITH held AS MATERIALIZED (
        SELECT block_id, request_id, table_index, start_pass FROM ({INTERVALS})
        WHERE start_pass <= $pass_index AND end_pass > $pass_index
    ),
    said AS (
        SELECT request_id, count(*) AS tokens, max(pass_index) AS last_pass
        FROM tokens WHERE run_id = $run_id AND pass_index <= $pass_index GROUP BY request_id
    ),
    known AS (
        SELECT
            h.request_id,
            CASE WHEN any_value(s.last_pass) >= min(h.start_pass)
                THEN any_value(q.prompt_tokens) + any_value(s.tokens) - 1 END AS positions
        FROM held h
        LEFT JOIN said s ON s.request_id = h.request_id
        LEFT JOIN (SELECT request_id, prompt_tokens FROM requests WHERE run_id = $run_id) q
            ON q.request_id = h.request_id
        GROUP BY h.request_id
    ),
    filled AS (
        SELECT
            request_id,
            coalesce(
                positions,
                CASE WHEN count(*) FILTER (WHERE positions IS NULL) OVER () = 1
                    THEN (SELECT kv_used_positions FROM passes WHERE run_id = $run_id AND pass_index = $pass_index)
                        - coalesce(sum(positions) OVER (), 0) END,
                2147483647
            ) AS positions
        FROM known
    )
    SELECT
        h.block_id, h.request_id, h.table_index,
        least(greatest(f.positions - h.table_index::BIGINT * r.block_size, 0), r.block_size)::INTEGER AS positions
    FROM held h
    JOIN filled f ON f.request_id = h.request_id
    CROSS JOIN (SELECT block_size FROM runs WHERE run_id = $run_id) r
    ORDER BY h.block_id
"""

EVENTS = f"""
    WITH places AS ({PLACES})
    SELECT
        e.* EXCLUDE (run_id, place),
        coalesce(p.start_step, (SELECT max(end_step) FROM places), 0.0) AS step
    FROM (SELECT *, rowid AS place FROM events WHERE run_id = $run_id) e
    LEFT JOIN places p ON p.pass_index = e.pass_index
    ORDER BY e.pass_index, e.place
"""

# What a position held, weighed by how long; and what a computed position was computed for.
_HELD = ", ".join(
    f"p.kv_{part}_position_s AS {part}_position_s"
    for part in ("reserved", "used", "padding", "dead", "fragment", "room")
)
POSITIONS = f"""
    SELECT
        asked.run_id, {_HELD}, p.computed_positions, p.real_positions, p.padding_positions, p.dead_positions
    FROM (SELECT unnest($run_ids::VARCHAR[]) AS run_id, generate_subscripts($run_ids::VARCHAR[], 1) AS place) asked
    LEFT JOIN (FROM pass_totals() WHERE list_contains($run_ids::VARCHAR[], run_id)) p ON p.run_id = asked.run_id
    ORDER BY asked.place
"""


def blocks(cursor: duckdb.DuckDBPyConnection, run_id: str, limit: int) -> pd.DataFrame:
    """Who held which block from when to when, the earliest first."""
    return frame_of(cursor, BLOCKS, {"run_id": run_id, "limit": limit})


def blocks_at(cursor: duckdb.DuckDBPyConnection, run_id: str, pass_index: int) -> pd.DataFrame:
    """Who held which block during one pass."""
    return frame_of(cursor, BLOCKS_AT, {"run_id": run_id, "pass_index": pass_index})


def kv_positions(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> pd.DataFrame:
    """A row a run, in the order asked for."""
    return frame_of(cursor, POSITIONS, {"run_ids": list(run_ids)})

"""The KV pool over time as a grid of bounded size: blocks down, time across; many blocks or passes share a cell.

The log has one event when a request gets a block and one when it frees it; both may come before the same pass, in
either order. The n-th allocation of a block to a request is matched with the n-th time that the request frees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import duckdb
import pandas as pd

from store.database import first_row
from store.queries.frames import frame_of
from store.queries.runs import PLACES

Unit = Literal["step", "second"]

# A block that was never freed is held until the last logged pass. A freed block counts as held until the end of the
# pass before the event: the event has the start of the next pass, which is later if the engine was idle in between.
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

# Where each pass starts and ends on the axis.
AXIS = {
    "step": f"SELECT pass_index, start_step AS x, end_step AS x_end FROM ({PLACES})",
    "second": "SELECT pass_index, start_s AS x, end_s AS x_end FROM passes WHERE run_id = $run_id",
}

# Blocks of one row that a request got and freed together are grouped before they are cut at the column edges: engines
# allocate and free many blocks at a time. HAVING drops the slivers that rounding leaves at an edge.
CELLS = f"""
    WITH axis AS MATERIALIZED ({{axis}}),
    finish AS (SELECT max(x_end) AS x FROM axis),
    together AS (
        SELECT block_id // $blocks_a_row AS row, request_id, start_pass, end_pass, count(*) AS blocks
        FROM ({INTERVALS})
        WHERE block_id < $num_blocks
        GROUP BY ALL
    ),
    placed AS (
        SELECT t.row, t.request_id, t.blocks, a.x, coalesce(b.x_end, finish.x) AS x_end
        FROM together t
        JOIN axis a ON a.pass_index = t.start_pass
        LEFT JOIN axis b ON b.pass_index = t.end_pass - 1
        CROSS JOIN finish
    ),
    cut AS (
        SELECT *, unnest(range(floor(x / $width)::BIGINT, least(ceil(x_end / $width)::BIGINT, $columns))) AS col
        FROM placed
    ),
    owned AS (
        SELECT
            row, col, request_id,
            sum(blocks * (least(x_end, (col + 1) * $width) - greatest(x, col * $width))) AS held
        FROM cut
        GROUP BY ALL
        HAVING held > 1e-6 * $width
    ),
    cells AS (
        SELECT
            row, col,
            arg_max(request_id, (held, -request_id)) AS request_id,
            count(*) AS requests, max(held) AS by_owner, sum(held) AS by_all,
            (least((row + 1) * $blocks_a_row, $num_blocks) - row * $blocks_a_row) * $width AS size
        FROM owned
        GROUP BY row, col
    )
    SELECT
        row::INTEGER AS row, col::INTEGER AS column, request_id,
        least(by_all / size, 1.0) AS held, least(by_owner / size, 1.0) AS owned, requests
    FROM cells
    ORDER BY row, col
"""

COLUMNS = """
    WITH axis AS ({axis}),
    lost AS (
        SELECT pass_index, count(*) AS preemptions
        FROM events WHERE run_id = $run_id AND event = 'preempt' GROUP BY ALL
    )
    SELECT
        least(floor(a.x / $width + 1e-9), $columns - 1)::INTEGER AS column,
        count(*) AS passes,
        avg(p.kv_reserved_positions) AS reserved_positions,
        max(p.kv_reserved_positions) AS reserved_max_positions,
        avg(p.kv_used_positions) AS used_positions,
        avg(p.kv_fragment_positions) AS fragment_positions,
        max(p.kv_fragment_positions) AS fragment_max_positions,
        sum(p.kv_fragment_positions) / nullif(sum(p.kv_reserved_positions), 0) AS fragment_fraction,
        coalesce(sum(lost.preemptions), 0)::BIGINT AS preemptions
    FROM passes p
    JOIN axis a ON a.pass_index = p.pass_index
    LEFT JOIN lost ON lost.pass_index = p.pass_index
    WHERE p.run_id = $run_id
    GROUP BY 1
    ORDER BY 1
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockMap:
    """A grid of `rows` x `columns` over the first `num_blocks` blocks and the run from 0 to `end` (steps or seconds).

    Row r holds the blocks [r, r + 1) x `blocks_a_row`, possibly fewer in the last row; columns divide the run equally.
    `used_blocks` is one more than the highest block number ever held.

    `cells` has one row per cell that was held (a missing cell was free): row, column, request_id (the request that held
    most of it), held and owned (fraction of blocks x time held by all requests, and by that one; 0 to 1), requests (how
    many requests held part of it).

    `by_column` has one row per column in which a pass started: column, passes, the means reserved_positions,
    used_positions and fragment_positions, the maxima reserved_max_positions and fragment_max_positions,
    fragment_fraction (of the positions reserved in those passes), preemptions.
    """

    num_blocks: int
    used_blocks: int
    blocks_a_row: int
    rows: int
    columns: int
    end: float
    cells: pd.DataFrame
    by_column: pd.DataFrame


def block_map(
    cursor: duckdb.DuckDBPyConnection,
    run_id: str,
    *,
    max_blocks: int,
    max_bins: int,
    unit: Unit,
    num_blocks: int | None,
) -> BlockMap:
    """See `KvMemory.block_map`."""
    assert max_blocks >= 1
    assert max_bins >= 1
    pool_blocks, used_blocks, num_passes, end = _size(cursor, run_id, unit)
    blocks = num_blocks or pool_blocks or used_blocks
    blocks_a_row = max(-(-blocks // max_blocks), 1)
    columns = min(num_passes, max_bins)
    places = {"run_id": run_id, "columns": columns, "width": end / columns if columns else 1.0}
    pool = {"num_blocks": blocks, "blocks_a_row": blocks_a_row}
    return BlockMap(
        num_blocks=blocks,
        used_blocks=used_blocks,
        blocks_a_row=blocks_a_row,
        rows=-(-blocks // blocks_a_row),
        columns=columns,
        end=end,
        cells=frame_of(cursor, CELLS.format(axis=AXIS[unit]), {**places, **pool}),
        by_column=frame_of(cursor, COLUMNS.format(axis=AXIS[unit]), places),
    )


def _size(cursor: duckdb.DuckDBPyConnection, run_id: str, unit: Unit) -> tuple[int, int, int, float]:
    """The pool's blocks (0: unknown), one more than the highest block held, the number of passes, the end of the
    axis."""
    row = first_row(
        cursor,
        f"""
        SELECT
            coalesce((SELECT kv_blocks FROM runs WHERE run_id = $run_id), 0),
            coalesce((SELECT max(block_id) + 1 FROM block_events WHERE run_id = $run_id), 0),
            count(*), coalesce(max(x_end), 0.0)
        FROM ({AXIS[unit]})
        """,
        {"run_id": run_id},
    )
    assert row is not None
    return int(row[0]), int(row[1]), int(row[2]), float(row[3])

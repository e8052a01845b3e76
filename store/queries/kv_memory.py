"""KV memory of runs: which request held which block and when, and what the positions held."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from store.database import Database
from store.queries.block_map import INTERVALS, BlockMap, Unit, block_map
from store.queries.frames import frame_of

BLOCKS = f"{INTERVALS} ORDER BY start_pass, block_id LIMIT $limit"

# A request with an output token since its first block has all its tokens but the newest in the cache. Before that,
# blocks are allocated for each prompt chunk, and all but the last are full. If only one request is in that state, its
# positions are the pass's used positions minus those of the others; otherwise its last block counts as full.
BLOCKS_AT = f"""
    WITH held AS MATERIALIZED (
        SELECT block_id, request_id, table_index, start_pass FROM ({INTERVALS})
        WHERE start_pass <= $pass_index AND end_pass > $pass_index
    ),
    produced AS (
        SELECT request_id, count(*) AS tokens, max(pass_index) AS last_pass
        FROM tokens WHERE run_id = $run_id AND pass_index <= $pass_index GROUP BY request_id
    ),
    known AS (
        SELECT
            h.request_id,
            CASE WHEN any_value(s.last_pass) >= min(h.start_pass)
                THEN any_value(q.prompt_tokens) + any_value(s.tokens) - 1 END AS positions
        FROM held h
        LEFT JOIN produced s ON s.request_id = h.request_id
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

# What the reserved positions held, weighted by time, and what the computed positions were for.
_HELD = ", ".join(
    f"p.kv_{part}_position_s AS {part}_position_s"
    for part in ("reserved", "used", "padding", "dead", "fragment", "room")
)
POSITIONS = f"""
    SELECT
        chosen.run_id, {_HELD}, p.computed_positions, p.real_positions, p.padding_positions, p.dead_positions
    FROM (SELECT unnest($run_ids::VARCHAR[]) AS run_id, generate_subscripts($run_ids::VARCHAR[], 1) AS place) chosen
    LEFT JOIN (FROM pass_totals() WHERE list_contains($run_ids::VARCHAR[], run_id)) p ON p.run_id = chosen.run_id
    ORDER BY chosen.place
"""


class KvMemory:
    """The KV memory of runs. All methods are thread-safe; an unknown run has no rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def blocks(self, run_id: str, *, limit: int = 100_000) -> pd.DataFrame:
        """Which request held which block: block_id, request_id, table_index, start_pass, end_pass (exclusive), start_s,
        end_s.

        The first `limit` rows in order of start; `block_map` shows a run of any size. A block that was never freed ends
        with the last logged pass. A block that was allocated and freed before the same pass is left out.
        """
        return frame_of(self._database.cursor(), BLOCKS, {"run_id": run_id, "limit": limit})

    def blocks_at(self, run_id: str, pass_index: int) -> pd.DataFrame:
        """The blocks held during a pass, in order: block_id, request_id, table_index, positions (filled after the pass;
        while several prompts are in chunked prefill, their last blocks count as full)."""
        return frame_of(self._database.cursor(), BLOCKS_AT, {"run_id": run_id, "pass_index": pass_index})

    def block_map(
        self,
        run_id: str,
        *,
        max_blocks: int = 128,
        max_bins: int = 400,
        unit: Unit = "step",
        num_blocks: int | None = None,
    ) -> BlockMap:
        """The pool (or its first `num_blocks`) over the run as a grid of at most `max_blocks` x `max_bins` cells.

        A cell of several blocks or passes has one owner: the request that held most of it, the earlier one in a tie.
        `held`, `owned` and `requests` show how much of the cell other requests held. Means have their maximum beside
        them.
        """
        return block_map(
            self._database.cursor(), run_id, max_blocks=max_blocks, max_bins=max_bins, unit=unit, num_blocks=num_blocks
        )

    def positions(self, run_ids: Sequence[str]) -> pd.DataFrame:
        """What token positions were used for, one row per run in the given order, for any KV layout.

        Memory, in position-seconds (a pass's positions x its seconds): reserved_position_s, which is the sum of used_,
        padding_, dead_, fragment_ and room_position_s. Work, in positions: computed_positions, which is the sum of
        real_, padding_ and dead_positions. Values not logged are missing; before schema 2 all but reserved and used.
        """
        return frame_of(self._database.cursor(), POSITIONS, {"run_ids": list(run_ids)})

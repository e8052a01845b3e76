"""Takes all rows of a run out of the store, in one transaction."""

from __future__ import annotations

import duckdb

from store.database import SUMMARIES, TABLES, carry_out, in_transaction
from store.ingest.checks import CHECKS_TABLE

OF_A_RUN = (*TABLES.values(), "ingest_progress", SUMMARIES, CHECKS_TABLE, "runs")


def delete_rows(cursor: duckdb.DuckDBPyConnection, run_id: str, *, folder: str | None = None) -> None:
    """Delete a run's rows, and its experiment when it was the last of it and there is no plan; what people said stays.

    With `folder`, only if that is where the store has the run's log.
    """
    if folder is not None and not cursor.execute(
        "SELECT 1 FROM runs WHERE run_id = ? AND folder = ?", [run_id, folder]
    ).fetchall():
        return

    def work() -> None:
        for table in OF_A_RUN:
            carry_out(cursor, f"DELETE FROM {table} WHERE run_id = ?", [run_id])
        carry_out(
            cursor,
            "DELETE FROM experiments WHERE plan IS NULL AND experiment_id NOT IN "
            "(SELECT experiment_id FROM runs WHERE experiment_id IS NOT NULL)",
        )

    in_transaction(cursor, work)

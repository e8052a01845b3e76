"""The table of all runs: one row a run, its ending and badges in words, figures that sort. Pure, no widgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pages.parts.badges import badge_text
from pages.parts.run_words import when

COLUMNS = {
    "created_at": "when",
    "engine": "engine",
    "badges": "status",
    "requests": "requests",
    "output_tokens": "new tokens",
    "output_tokens_per_s": "tokens/s",
    "ttft_p50_s": "first token p50, s",
    "dead_percent": "dead, %",
    "duration_s": "duration, s",
    "slots": "slots",
    "model": "model",
    "dtype": "dtype",
    "device_name": "device",
    "run_id": "run",
}


def history_table(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` as the store's `runs`; the same order."""
    table = rows.assign(
        created_at=[when(value) for value in rows["created_at"]],
        badges=[badge_text(row) for row in rows.to_dict("records")],
        dead_percent=pd.to_numeric(rows["dead_fraction"]) * 100,
        open=[f"/run?run_id={run_id}" for run_id in rows["run_id"]],
    )
    return table[["open", *COLUMNS]].rename(columns=COLUMNS)


def kept_apart(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The ids that may be deleted, and those that may not because they still run."""
    running = [str(row["run_id"]) for row in rows if row["status"] == "running"]
    return [str(row["run_id"]) for row in rows if str(row["run_id"]) not in running], running


def named(rows: Sequence[Mapping[str, Any]], limit: int = 5) -> list[str]:
    """Runs in words for a question: `static, 2026-11-29 14:31:07 (run …)`; of many, the first few and a count."""
    lines = [f"{row['engine']}, {when(row['created_at'])}, run {row['run_id']}" for row in rows[:limit]]
    return lines if len(rows) <= limit else [*lines, f"and {len(rows) - limit} more"]

"""The table of all runs: one row a run, its ending and badges in words, figures that sort. Pure, no widgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pages.parts.badges import badge_text
from pages.parts.run_words import when
from pages.parts.validity_words import lost_words, marks

COLUMNS = {
    "pinned": "pinned",
    "created_at": "when",
    "engine": "engine",
    "badges": "status",
    "validity": "badges",
    "said": "note and tags",
    "requests": "requests",
    "output_tokens": "new tokens",
    "output_tokens_per_s": "tokens/s",
    "ttft_p50_s": "first token p50, s",
    "dead_percent": "dead, %",
    "duration_s": "duration, s",
    "lost_badges": "badges lost",
    "slots": "slots",
    "model": "model",
    "dtype": "dtype",
    "device_name": "device",
    "log_mib": "on disk, MiB",
    "run_id": "run",
}


def history_table(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` as the store's `find_runs`; the same order."""
    table = rows.assign(
        created_at=[when(value) for value in rows["created_at"]],
        badges=[badge_text(row) for row in rows.to_dict("records")],
        said=[said(note, tags) for note, tags in zip(rows["note"], rows["tags"], strict=True)],
        dead_percent=pd.to_numeric(rows["dead_fraction"]) * 100,
        validity=[marks(earned, lost) for earned, lost in zip(rows["earned"], rows["lost"], strict=True)],
        lost_badges=[lost_words(lost) for lost in rows["lost"]],
        log_mib=pd.to_numeric(rows["log_bytes"]) / 2**20,
        open=[f"/run?run_id={run_id}" for run_id in rows["run_id"]],
    )
    return table[["open", *COLUMNS]].rename(columns=COLUMNS)


def said(note: str, tags: str) -> str:
    """`[baseline, cpu] the one with the long tail`."""
    return " ".join(filter(None, (f"[{tags}]" if tags else "", " ".join(note.split()))))


def kept_apart(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The ids that may be deleted, and those that may not because they still run."""
    running = [str(row["run_id"]) for row in rows if row["status"] == "running"]
    return [str(row["run_id"]) for row in rows if str(row["run_id"]) not in running], running

"""The table of all runs: one row a run, its ending and badges in words, figures that sort. Pure, no widgets.

What tells runs apart at a glance comes first: how each ended, of which model and engine, how fast. The rest is to the
right, behind the edge of a narrow window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from engine.core.units import MIB
from pages.parts.experiments.description import experiment_name
from pages.parts.runs.badges import badge_text
from pages.parts.runs.run_text import when
from pages.parts.runs.validity import lost_text, marks
from pages.parts.shared.links import EXPERIMENT_PAGES, run_link

COLUMNS = {
    "badges": "status",
    "model": "model",
    "engine": "engine",
    "output_tokens_per_s": "tokens/s",
    "ttft_p50_s": "first token p50, s",
    "experiment": "experiment",
    "created_at": "when",
    "pinned": "pinned",
    "said": "note and tags",
    "validity": "badges",
    "requests": "requests",
    "slots": "slots",
    "output_tokens": "new tokens",
    "dead_percent": "dead, %",
    "duration_s": "duration, s",
    "lost_badges": "caveats",
    "dtype": "dtype",
    "device_name": "device",
    "log_mib": "on disk, MiB",
    "run_id": "run",
}
ID_END = 4  # letters of an experiment's id behind its name: two alike differ there
NAME_BEHIND = "#(.+)$"  # of an experiment's address: what is shown of it


def history_table(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` as `History.find` has them; the same order."""
    table = rows.assign(
        created_at=[when(value) for value in rows["created_at"]],
        badges=[badge_text(row) for row in rows.to_dict("records")],
        said=[said(note, tags) for note, tags in zip(rows["note"], rows["tags"], strict=True)],
        dead_percent=pd.to_numeric(rows["dead_fraction"]) * 100,
        validity=[marks(earned, lost) for earned, lost in zip(rows["earned"], rows["lost"], strict=True)],
        lost_badges=[lost_text(lost) for lost in rows["lost"]],
        experiment=[experiment_address(row) for row in rows.to_dict("records")],
        log_mib=pd.to_numeric(rows["log_bytes"]) / MIB,
        open=[run_link(run_id) for run_id in rows["run_id"]],
    )
    return table[["open", *COLUMNS]].rename(columns=COLUMNS)


def experiment_address(row: Mapping[str, Any]) -> str:
    """Where a run's experiment is shown, its name and its id's end behind a `#`: its page, or its runs where its kind
    has none.

    Empty for a run that belongs to no experiment.
    """
    experiment_id, kind = row.get("experiment_id"), row.get("experiment_kind")
    if not isinstance(experiment_id, str):
        return ""
    page = Path(EXPERIMENT_PAGES[kind]).stem if kind in EXPERIMENT_PAGES else "history"
    name = experiment_name(kind, row.get("experiment_label"))
    name = f"{name} · …{experiment_id[-ID_END:]}" if name else experiment_id
    return f"/{page}?experiment={quote(experiment_id, safe='')}#{quote(name, safe='')}"


def said(note: str, tags: str) -> str:
    """`[baseline, cpu] the one with the long tail`."""
    return " ".join(filter(None, (f"[{tags}]" if tags else "", " ".join(note.split()))))


def kept_apart(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The ids that may be deleted, and those that may not because they still run."""
    running = [str(row["run_id"]) for row in rows if row["status"] == "running"]
    return [str(row["run_id"]) for row in rows if str(row["run_id"]) not in running], running

"""History's table: a row per run, the most telling columns first (status, model, engine, throughput). No widgets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from engine.core.units import MIB
from pages.figures.frames import records
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
    "ttft_p50_s": "TTFT p50, s",
    "experiment": "experiment",
    "created_at": "when",
    "pinned": "pinned",
    "annotation": "note and tags",
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
ID_END = 4  # last letters of an experiment's id, shown after its name: two of one name differ there
NAME_IN_ADDRESS = "#(.+)$"  # the part of an experiment's address that is shown


def history_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `rows`, which are as from History.find, in the same order."""
    table = rows.assign(
        created_at=[when(value) for value in rows["created_at"]],
        badges=[badge_text(row) for row in records(rows)],
        annotation=[annotation_text(note, tags) for note, tags in zip(rows["note"], rows["tags"], strict=True)],
        dead_percent=pd.to_numeric(rows["dead_fraction"]) * 100,
        validity=[marks(earned, lost) for earned, lost in zip(rows["earned"], rows["lost"], strict=True)],
        lost_badges=[lost_text(lost) for lost in rows["lost"]],
        experiment=[experiment_address(row) for row in records(rows)],
        log_mib=pd.to_numeric(rows["log_bytes"]) / MIB,
        open=[run_link(run_id) for run_id in rows["run_id"]],
    )
    return table[["open", *COLUMNS]].rename(columns=COLUMNS)


def experiment_address(row: Mapping[str, Any]) -> str:
    """The address of a run's experiment, followed by `#` and its name: its page, or its runs in History if its kind has
    no page. Empty for a run without an experiment.
    """
    experiment_id, kind = row.get("experiment_id"), row.get("experiment_kind")
    if not isinstance(experiment_id, str):
        return ""
    page = Path(EXPERIMENT_PAGES[kind]).stem if kind in EXPERIMENT_PAGES else "history"
    name = experiment_name(kind, row.get("experiment_label"))
    name = f"{name} · …{experiment_id[-ID_END:]}" if name else experiment_id
    return f"/{page}?experiment={quote(experiment_id, safe='')}#{quote(name, safe='')}"


def annotation_text(note: str, tags: str) -> str:
    """`[baseline, cpu] the one with the long tail`."""
    return " ".join(filter(None, (f"[{tags}]" if tags else "", " ".join(note.split()))))

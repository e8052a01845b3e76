"""Takes calibration files into the store, each once: what `python -m engine calibrate` measured on this machine."""

from __future__ import annotations

from pathlib import Path

import duckdb

from engine.core.hardware import Calibration
from store.database import carry_out
from store.ingest.run_rows import utc


def ingest_calibrations(cursor: duckdb.DuckDBPyConnection, folder: Path) -> int:
    """Insert the files that are new; a file that is no calibration is passed over. Returns how many were new."""
    if not folder.is_dir():
        return 0
    known = {row[0] for row in cursor.execute("SELECT file FROM calibrations").fetchall()}
    rows = []
    for path in sorted(folder.glob("*.json")):
        if path.name in known:
            continue
        try:
            rows.append(_row(path))
        except (ValueError, OSError):
            continue
    for row in rows:
        carry_out(cursor, "INSERT INTO calibrations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    return len(rows)


def _row(path: Path) -> list[object]:
    measured = Calibration.from_json(path.read_text(encoding="utf-8"))
    return [
        path.name,
        measured.device,
        measured.device_name,
        utc(measured.measured_at),
        measured.model,
        measured.dtype,
        measured.read_bytes_per_s,
        measured.copy_bytes_per_s,
        measured.launch_s,
        measured.pass_s,
        measured.to_json(),
    ]

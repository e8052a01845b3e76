"""The calibrations of a store: what `engine calibrate` measured, also on other machines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from store.database import Database, first_row

MOST = 200
NEWEST = f"SELECT file, measured_at FROM calibrations ORDER BY measured_at DESC, file DESC LIMIT {MOST}"


class Calibrations:
    """The calibrations of a store. All methods are thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest(self) -> Sequence[tuple[str, datetime]]:
        """File and time of the newest calibrations, the newest first."""
        return self._database.cursor().execute(NEWEST).fetchall()

    def text(self, file: str) -> str:
        """The JSON text of a calibration. KeyError for an unknown file."""
        query = "SELECT calibration FROM calibrations WHERE file = ?"
        row = first_row(self._database.cursor(), query, [file])
        if row is None:
            raise KeyError(f"the store has no calibration {file}")
        return str(row[0])

"""Records of runs from one mapping per row, for records made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.core.record import PASS_COLUMNS, REQUEST_COLUMNS, TOKEN_COLUMNS, Column, RunRecord, Table

Rows = Sequence[Mapping[str, Any]]


def record_of_rows(*, requests: Rows = (), passes: Rows = (), tokens: Rows = ()) -> RunRecord:
    """A record with the columns that metrics need. Absent keys are missing values."""
    return RunRecord(
        requests=_columns(requests, REQUEST_COLUMNS),
        passes=_columns(passes, PASS_COLUMNS),
        tokens=_columns(tokens, TOKEN_COLUMNS),
    )


def _columns(rows: Rows, types: Mapping[str, Any]) -> Table:
    return {name: _column([row.get(name) for row in rows], dtype) for name, dtype in types.items()}


def _column(values: list[Any], dtype: Any) -> Column:
    missing = {np.float64: np.nan, object: None}.get(dtype, -1)
    return np.array([missing if value is None else value for value in values], dtype=dtype)

"""A query result as a DataFrame, with one kind of missing value per column type.

A column of numbers with missing values is float with NaN; a column of texts is object with None.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd


def frame_of(cursor: duckdb.DuckDBPyConnection, query: str, values: dict[str, Any]) -> pd.DataFrame:
    """The rows of one SELECT."""
    frame = cursor.execute(query, values).df()
    return frame.assign(**{name: _uniform(frame[name]) for name in frame.columns})


def _uniform(column: Any) -> Any:
    """A column with the same type whether a value is missing or not."""
    kind = column.dtype
    if isinstance(kind, pd.StringDtype):
        return column.astype(object).where(column.notna(), None)
    if pd.api.types.is_datetime64_dtype(kind):
        return column.dt.tz_localize("UTC")
    if pd.api.types.is_extension_array_dtype(kind) and pd.api.types.is_integer_dtype(kind):
        return column.astype("float64")
    if pd.api.types.is_extension_array_dtype(kind) and pd.api.types.is_bool_dtype(kind):
        return column.astype(object).where(column.notna(), None)
    return column


def plain_value(value: Any) -> Any:
    """A value of a frame as a plain Python value; None if it is missing."""
    if value is None or pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value

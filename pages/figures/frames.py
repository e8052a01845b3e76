"""DataFrames as plain Python values."""

from __future__ import annotations

from typing import Any, cast

import pandas as pd


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A dictionary per row, keyed by column name. All column names are strings."""
    return cast("list[dict[str, Any]]", frame.to_dict("records"))

"""A run's requests without their texts, and the texts of those that are shown: of many requests, texts are the most."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pandas as pd

from store.queries.runs import REQUESTS, frame_of

NUMBERS = REQUESTS.replace("EXCLUDE (run_id,", "EXCLUDE (prompt_text, output_text, run_id,", 1)
TEXTS = """
    SELECT request_id, prompt_text, output_text FROM requests
    WHERE run_id = $run_id AND request_id IN (SELECT unnest($request_ids)) ORDER BY request_id
"""


def request_numbers(cursor: duckdb.DuckDBPyConnection, run_id: str) -> pd.DataFrame:
    """The columns of the store's `requests` but prompt_text and output_text."""
    return frame_of(cursor, NUMBERS, {"run_id": run_id})


def request_texts(cursor: duckdb.DuckDBPyConnection, run_id: str, request_ids: Sequence[int]) -> pd.DataFrame:
    """request_id, prompt_text, output_text of some requests, by request id."""
    return frame_of(cursor, TEXTS, {"run_id": run_id, "request_ids": [int(i) for i in request_ids]})

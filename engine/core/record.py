"""A finished run as columns of numbers. All metrics are computed from these.

Three tables with the run log's names and types: `requests` (one row a request), `passes` and `tokens`. A missing value
is NaN in a float column, -1 in an integer column and None in a text column. Rows are in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Column = np.ndarray[Any, np.dtype[Any]]
Table = dict[str, Column]

REQUEST_COLUMNS = {
    "request_id": np.int32,
    "state": object,
    "prompt_tokens": np.int32,
    "arrival_s": np.float64,
    "admitted_s": np.float64,
    "returned_s": np.float64,
    "preemptions": np.int32,
}
PASS_COLUMNS = {
    "kind": object,
    "step": np.int32,
    "start_s": np.float64,
    "end_s": np.float64,
    "issue_s": np.float64,
    "device_s": np.float64,
    "rows": np.int32,
    "live_rows": np.int32,
    "prompt_tokens": np.int32,
    "computed_positions": np.int64,
    "padding_positions": np.int64,
    "dead_positions": np.int64,
    "kv_reserved_positions": np.int64,
    "kv_used_positions": np.int64,
    "kv_padding_positions": np.int64,
    "kv_dead_positions": np.int64,
    "kv_fragment_positions": np.int64,
    "tokens": np.int32,
    "bucket_tokens": np.int32,
    "recomputed_tokens": np.int32,
}
TOKEN_COLUMNS = {"request_id": np.int32, "token_index": np.int32, "delivered_s": np.float64}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunRecord:
    """One run's tables. A table may have more columns than metrics need; its columns are equally long."""

    requests: Table
    passes: Table
    tokens: Table

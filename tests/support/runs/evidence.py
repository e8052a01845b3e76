"""A run that earns every badge, made by hand, and ways to spoil it: what the checks of validity are tested on.

Forty requests come an eighth of a second apart, are seen at once, and stay a quarter of a second each: two at a time.
Decode passes of two rows follow each other every sixteenth of a second without a pause, from 0 to 5.125 s. Every time
is exact in binary, so that moments that are meant to be one moment are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.core.record import RunRecord
from engine.validity.check import Evidence

COUNT, GAP_S, STAY_S, PASS_S, PASSES = 40, 0.125, 0.25, 0.0625, 82

INFO: Mapping[str, Any] = {
    "config": {"warmups": 1, "slots": 2},
    "workload": {"requests": COUNT, "arrival": "constant:8"},
    "model": {"random_weights": False},
    "device": {"kind": "cpu"},
    "environment": {"load_average_1min": 1.0, "cpu_count": 2},
    "simulated": False,
}
RESULT: Mapping[str, Any] = {"status": "completed", "warm_up": {"prompt_tokens": [16], "rows": 0}}


def requests(**columns: Any) -> dict[str, Any]:
    """The requests' columns; `columns` replace some."""
    arrival_s = np.arange(COUNT) * GAP_S
    return {
        "request_id": np.arange(COUNT, dtype=np.int32),
        "state": np.full(COUNT, "finished", dtype=object),
        "prompt_tokens": np.full(COUNT, 16, np.int32),
        "asked_prompt_tokens": np.full(COUNT, 16, np.int32),
        "arrival_s": arrival_s,
        "submitted_s": arrival_s,
        "admitted_s": arrival_s,
        "finished_s": arrival_s + STAY_S,
        "preemptions": np.zeros(COUNT, np.int32),
    } | columns


def passes(**columns: Any) -> dict[str, Any]:
    """The passes' columns; `columns` replace some."""
    index = np.arange(PASSES, dtype=np.int32)
    return {
        "pass_index": index,
        "step": index,
        "kind": np.full(PASSES, "decode", dtype=object),
        "start_s": index * PASS_S,
        "end_s": (index + 1) * PASS_S,
        "issue_s": np.full(PASSES, np.nan),
        "rows": np.full(PASSES, 2, np.int32),
        "width": np.full(PASSES, 20, np.int32),
        "recomputed_tokens": np.zeros(PASSES, np.int32),
    } | columns


def evidence(
    *,
    requests: Mapping[str, Any] = requests(),
    passes: Mapping[str, Any] = passes(),
    info: Mapping[str, Any] | None = None,
    result: Mapping[str, Any] | None = None,
    watched: bool = False,
) -> Evidence:
    """The run; `info` and `result` replace whole parts of its files."""
    return Evidence(
        record=RunRecord(requests=dict(requests), passes=dict(passes), tokens={}),
        info={**INFO, **(info or {})},
        result={**RESULT, **(result or {})},
        watched=watched,
    )

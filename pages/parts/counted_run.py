"""A run counted anew: its metrics, its requests' values and its latencies by other definitions than the lab's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from engine.core.definitions import Definitions
from engine.core.distribution import Distribution
from engine.core.latency import latency_metrics
from engine.core.metric import Value
from pages.parts.lab import lab
from pages.parts.run_data import RunData
from store.queries.latency_definitions import counted_requests, distributions

KEPT = 16
REQUEST_VALUES = ("queue_wait_s", "ttft_s", "tpot_s", "e2e_s")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recount:
    """What other definitions change of one run."""

    metrics: Mapping[str, Value]
    requests: pd.DataFrame
    latencies: Mapping[str, Distribution]


def counted(run: RunData, definitions: Definitions) -> RunData:
    """The same run by these definitions; figures, tables and tiles follow by themselves."""
    if definitions == run.definitions:
        return run
    version = -1 if run.status != "running" else lab().recorder.version
    found = _recount(str(lab().home), run.run_id, run.status, version, definitions)
    return replace(
        run,
        definitions=definitions,
        metrics=recounted_metrics(run.metrics, found.metrics),
        requests=_with_values(run.requests, found.requests),
        latencies=found.latencies,
    )


def recounted_metrics(metrics: Mapping[str, Value], counted: Mapping[str, Value]) -> dict[str, Value]:
    """All metrics in their order, those of latencies as counted, and what follows from them."""
    found = {**metrics, **counted}
    if "itl_max_over_p50" in found:
        worst, median = counted["itl_max_s"], counted["itl_p50_s"]
        found["itl_max_over_p50"] = worst / median if worst is not None and median and worst != median else None
        if worst is not None and worst == median:
            found["itl_max_over_p50"] = 1.0
    return found


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _recount(home: str, run_id: str, status: str, version: int, definitions: Definitions) -> Recount:
    """Kept by what may change, as a run's own data is."""
    cursor = lab().store.cursor()
    latencies = distributions(cursor, run_id, definitions)
    return Recount(
        metrics=latency_metrics(latencies, definitions),
        requests=counted_requests(cursor, run_id, definitions),
        latencies=latencies,
    )


def _with_values(requests: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """The requests with their values as counted; of a request that has come in between, none."""
    values = counted.set_index("request_id").reindex(requests["request_id"])
    return requests.assign(**{name: values[name].to_numpy(dtype=float) for name in REQUEST_VALUES})

"""A run as the Run and Compare pages use it, read from the store once and cached.

An ended run does not change; a running one is read again whenever the store has more of it. The cache holds a few runs
and is shared by all visitors. A run with very many gaps or passes is downsampled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from engine.core.config import RunConfig
from engine.metrics.definitions import Definitions
from engine.metrics.distribution import Distribution
from engine.metrics.metric import Value
from pages.figures.frames import records
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from store import Store

KEPT_RUNS = 8
RECENT = 60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedRun:
    """One run: its row of the store's `runs`, its run.json (`info`), and the frames its figures are drawn from.

    All visitors share the frames: do not change them. `requests` has no texts; `events` are preemptions.
    `metrics`, `requests` and `latencies` (by the keys of engine.metrics.latency) follow `definitions`. `passes` is
    downsampled for a run with very many; `pass_totals` and `pass_kinds` cover all passes.
    """

    run_id: str
    row: Mapping[str, Any]
    info: Mapping[str, Any]
    config: RunConfig
    metrics: Mapping[str, Value]
    spans: pd.DataFrame
    passes: pd.DataFrame
    pass_totals: Mapping[str, Any]
    pass_kinds: pd.DataFrame
    requests: pd.DataFrame
    latencies: Mapping[str, Distribution]
    events: pd.DataFrame
    definitions: Definitions = Definitions()

    @property
    def kv_blocks(self) -> int | None:
        """The number of blocks in its pool; None where it was not logged."""
        blocks = self.info.get("kv_blocks")
        return int(blocks) if blocks else None

    @property
    def status(self) -> str:
        return str(self.row["status"])

    @property
    def error(self) -> str | None:
        """The message that the run ended with, if any."""
        return self.row.get("error") or None

    @property
    def oom(self) -> Mapping[str, Any] | None:
        """The allocation that failed; None for a run that did not run out of memory."""
        return (self.row.get("result") or {}).get("oom") or None

    @property
    def num_requests(self) -> int:
        """The number of requests in the workload, arrived or not."""
        return int(self.info.get("workload", {}).get("requests", len(self.requests)))

    def waste_row(self, series: str) -> dict[str, Any]:
        """Its row of the waste figures, named `series`: its metrics and its totals over all passes."""
        known = {name: value for name, value in self.metrics.items() if value is not None}
        return {"series": series, **self.pass_totals, **known}


def recent_rows() -> list[dict[str, Any]]:
    """The newest runs, the newest first, as rows of the store's `runs`."""
    return records(lab().store.runs.list(limit=RECENT))


def find_row(run_id: str) -> dict[str, Any] | None:
    """The run's row of the store's `runs`; None where there is no such run."""
    try:
        return lab().store.runs.get(run_id)
    except KeyError:
        return None


def load_run(run_id: str) -> LoadedRun | None:
    """The run as the store has it now; None where there is no such run."""
    row = find_row(run_id)
    if row is None:
        return None
    is_over = row["status"] != "running"
    version = -1 if is_over else lab().recorder.version
    try:
        return _read(str(lab().home), run_id, str(row["status"]), version)
    except ValueError as error:  # recorded by a version with other engines or settings
        line = f"This version cannot read the settings of run {plain(run_id)}: {plain(str(error))}."
        st.error(line, icon=":material/error:")
        st.stop()


def companions_of(run: LoadedRun) -> tuple[str, ...]:
    """The runs of its comparison that still exist, itself included; empty for a run that was not made for one.

    Of two runs this one comes first; more are in the order in which they ran.
    """
    experiment = run.row.get("experiment_id")
    if not experiment or run.row.get("experiment_kind") not in ("pair", "layouts"):
        return ()
    rows = lab().store.experiments.runs(str(experiment)).sort_values("created_at")
    run_ids = [str(run_id) for run_id in rows["run_id"]]
    if len(run_ids) == 2:
        run_ids.sort(key=lambda run_id: run_id != run.run_id)
    return tuple(run_ids) if len(run_ids) > 1 else ()


@st.cache_resource(max_entries=KEPT_RUNS, show_spinner=False)
def _read(home: str, run_id: str, status: str, version: int) -> LoadedRun:
    """The cache key is what may change: the status and, for a running run, the store's version. `home` separates
    stores."""
    return read_run(lab().store, run_id)


def read_run(store: Store, run_id: str) -> LoadedRun:
    """The run as the store has it. KeyError for an unknown run, ValueError for settings of another version."""
    row = store.runs.get(run_id)
    info = row["info"]
    return LoadedRun(
        run_id=run_id,
        row=row,
        info=info,
        config=RunConfig.from_dict(info["config"]),
        metrics=store.runs.metrics(run_id),
        spans=store.runs.spans(run_id),
        passes=store.passes.downsampled(run_id),
        pass_totals=store.passes.totals(run_id),
        pass_kinds=store.passes.kinds(run_id),
        requests=store.runs.request_numbers(run_id),
        latencies=store.latencies.distributions(run_id),
        events=store.runs.events(run_id),
    )

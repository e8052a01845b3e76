"""What the Run and Compare pages show of a run, read from the store once and kept for as long as it stays the same.

A run that has ended does not change; one that is still going is read anew whenever the store has more of it. A handful
of runs is kept for all visitors; of the gaps between tokens, few points that stand for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from engine.core.config import RunConfig
from engine.core.presets import PRESETS
from engine.metrics.definitions import Definitions
from engine.metrics.distribution import Distribution
from engine.metrics.metric import Value
from pages.parts.runs.comparable import setting_of
from pages.parts.runs.compared import Compared
from pages.parts.runs.execution import ledger_row
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from store.queries.downsampled_passes import downsampled_passes, pass_kinds, pass_totals
from store.queries.latency_definitions import distributions

KEPT_RUNS = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunData:
    """One run: its row as in the store's `runs`, its run.json, and the frames that its figures are drawn from.

    Frames are shared by all visitors; nothing may change them. `requests` are without texts; `events` are what befell
    them: preemptions.
    `metrics`, `requests` and `latencies` (by the keys of engine.metrics.latency) are counted by `definitions`. Of very
    many passes, `passes` are a few that stand for all; `pass_totals` and `pass_kinds` are of all.
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
    def is_paged(self) -> bool:
        """Whether its KV memory is in blocks."""
        return PRESETS[self.config.engine].has_blocks

    @property
    def kv_blocks(self) -> int | None:
        """How many blocks its pool has, where that was logged."""
        blocks = self.info.get("kv_blocks")
        return int(blocks) if blocks else None

    def ledger(self, series: str) -> dict[str, Any]:
        """Its row of the ledgers, under a name there."""
        if len(self.passes) == self.pass_totals["passes"]:
            return ledger_row(series, self.metrics, self.passes)
        seconds = self.pass_kinds.set_index("kind")["seconds"]
        mixed = {"mixed_s": seconds["mixed"]} if "mixed" in seconds else {}
        known = {name: value for name, value in self.metrics.items() if value is not None}
        return ledger_row(series, {**mixed, **self.pass_totals, **known}, self.passes.head(0))

    @property
    def status(self) -> str:
        return str(self.row["status"])

    @property
    def error(self) -> str | None:
        """The message that the run ended with, if any."""
        return self.row.get("error") or None

    @property
    def oom(self) -> Mapping[str, Any] | None:
        """What an allocation asked for and could not have; None for any other ending."""
        return (self.row.get("result") or {}).get("oom") or None

    @property
    def num_requests(self) -> int:
        """As many as the workload holds, whether they have arrived or not."""
        return int(self.info.get("workload", {}).get("requests", len(self.requests)))

    def as_compared(self, name: str) -> Compared:
        """The run as a comparison sees it, under a name of its own there."""
        return Compared(
            name=name,
            status=self.status,
            arrival=self.config.workload.arrival,
            requests=self.num_requests,
            metrics=self.metrics,
            setting=setting_of(self.info),
        )


def find_row(run_id: str) -> dict[str, Any] | None:
    """The run's row as in the store's `runs`, or None when there is no such run."""
    try:
        return lab().store.runs.get(run_id)
    except KeyError:
        return None


def load_run(run_id: str) -> RunData | None:
    """The run as the store has it now, or None when there is no such run."""
    row = find_row(run_id)
    if row is None:
        return None
    is_over = row["status"] != "running"
    version = -1 if is_over else lab().recorder.version
    try:
        return _read(str(lab().home), run_id, str(row["status"]), version)
    except ValueError as error:  # made by a lab that knows other engines or settings than this one
        line = f"The settings of run {plain(run_id)} cannot be read here: {plain(str(error))}."
        st.error(line, icon=":material/error:")
        st.stop()


def companions_of(run: RunData) -> tuple[str, ...]:
    """The runs that this one was made to be compared with and that are still there, itself among them; else none.

    Of a pair this run comes first; of more, they stand as they were run.
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
def _read(home: str, run_id: str, status: str, version: int) -> RunData:
    """Kept by what may change: a run's status and, while it is live, the store's version. `home` tells stores apart."""
    store = lab().store
    cursor = store.cursor()
    row = store.runs.get(run_id)
    info = row["info"]
    return RunData(
        run_id=run_id,
        row=row,
        info=info,
        config=RunConfig.from_dict(info["config"]),
        metrics=store.runs.metrics(run_id),
        spans=store.runs.spans(run_id),
        passes=downsampled_passes(cursor, run_id),
        pass_totals=pass_totals(cursor, run_id),
        pass_kinds=pass_kinds(cursor, run_id),
        requests=store.runs.request_numbers(run_id),
        latencies=distributions(cursor, run_id, Definitions()),
        events=store.runs.events(run_id),
    )

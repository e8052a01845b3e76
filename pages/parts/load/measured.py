"""The results of a load test: a table of its points, and the queue over each run.

The figures of a completed run are calculated once and kept, because they never change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from engine.load.goodput import Limits
from engine.load.load_point import LoadPoint, load_point
from engine.load.load_report import row_report
from engine.load.load_table import LoadTable, load_samples, load_table
from engine.load.occupancy import Occupancy, number_over_time
from pages.figures.frames import records
from pages.parts.experiments.stored import StoredExperiment, is_any_on_disk, stored_experiment
from pages.parts.shared.lab import lab
from store import Store

KEPT_RUNS = 2000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredLoad(StoredExperiment):
    """One load test. `rows` has the rows of `table` as a frame, with the columns of `row_report`."""

    table: LoadTable
    rows: pd.DataFrame

    @property
    def is_being_read(self) -> bool:
        """Whether a run has completed that the store has not read to its end."""
        missing = [
            sample.run_id
            for row in self.table.rows
            for sample in row.samples
            if sample.status == "completed" and sample.point is None and sample.run_id is not None
        ]
        return is_any_on_disk(missing)

    @property
    def rates(self) -> list[float]:
        """The planned rates, in rising order."""
        return sorted(float(rate) for rate in self.settings.get("rates_per_s") or ())


def load_load(experiment_id: str, limits: Limits | None = None) -> MeasuredLoad | None:
    """The load test as the store has it now; None without a plan, ValueError for a damaged one.

    `limits` affect only goodput.
    """
    limits = limits or Limits()
    return measured_load(stored_experiment(experiment_id), lambda run_id: figures_of(run_id, limits))


def measured_load(stored: StoredExperiment | None, figures: Callable[[str], LoadPoint | None]) -> MeasuredLoad | None:
    """The load test of a stored experiment. `figures` gives those of a run; None for a run that is not complete."""
    if stored is None:
        return None
    samples = load_samples(records(stored.points), figures)
    table = load_table(stored.settings.get("engines") or (), samples)
    return MeasuredLoad.of(stored, table=table, rows=pd.DataFrame([row_report(row) for row in table.rows]))


def figures_of(run_id: str, limits: Limits) -> LoadPoint | None:
    """The figures of a completed run; None if the store does not have all of it."""
    with contextlib.suppress(KeyError):
        return _figures(str(lab().home), run_id, limits.ttft_s, limits.tpot_s)
    return None


@st.cache_data(max_entries=KEPT_RUNS, show_spinner=False)
def _figures(home: str, run_id: str, ttft_limit_s: float | None, tpot_limit_s: float | None) -> LoadPoint:
    return read_figures(lab().store, run_id, Limits(ttft_s=ttft_limit_s, tpot_s=tpot_limit_s))


def read_figures(store: Store, run_id: str, limits: Limits) -> LoadPoint:
    """The figures of a completed run. KeyError for a run that the store has not read to its end."""
    _require_whole(store, run_id)
    return load_point(store.runs.record(run_id), limits)


def waiting_of(run_id: str) -> pd.DataFrame | None:
    """The number of waiting requests over a run, in columns time_s and queue_depth; None for a deleted run."""
    with contextlib.suppress(KeyError):
        return _waiting(str(lab().home), run_id)
    return None


@st.cache_data(max_entries=KEPT_RUNS, show_spinner=False)
def _waiting(home: str, run_id: str) -> pd.DataFrame:
    return read_waiting(lab().store, run_id)


def read_waiting(store: Store, run_id: str) -> pd.DataFrame:
    """As `waiting_of`, from any store. KeyError for a run that the store has not read to its end."""
    _require_whole(store, run_id)
    occupancy = Occupancy.of(store.runs.record(run_id))
    time_s, number = number_over_time(occupancy.arrival_s, occupancy.admitted_s)
    frame = pd.DataFrame({"time_s": [0.0, *time_s, occupancy.end_s], "queue_depth": [0.0, *number, 0.0]})
    return frame.sort_values("time_s", kind="stable", ignore_index=True)


def _require_whole(store: Store, run_id: str) -> None:
    """KeyError for a run that the store has not read to its end, because its figures are kept."""
    if store.runs.get(run_id)["status"] != "completed":
        raise KeyError(run_id)

"""The passes of runs for the Roofline page: their sums by shape and rows, and the shape of their model.

The sums of ended runs are kept for all visitors. The runs of an experiment form one series if they have the same model,
dtype, device, execution and timing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from engine.hardware.pass_points import LEAST_SAMPLES, PassPoint, pass_points
from engine.hardware.roofline import ModelShape, shape_of_run
from pages.figures.frames import records
from pages.parts.runs.loaded_run import find_row
from pages.parts.runs.run_text import dtype_name
from pages.parts.shared.lab import lab
from store.queries.downsampled_passes import By

KEPT = 32
MAX_MEMBERS = 200
MANY_ROWS = 6  # frequent numbers of rows that suffice to find a bend


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredPasses:
    """One series: a run, or the runs of an experiment. `rows` are the store's rows of the runs.

    `bins` are by shape, `groups` by doublings of rows, `by_rows` by rows: see store.queries.downsampled_passes.
    """

    name: str
    rows: tuple[Mapping[str, Any], ...]
    shape: ModelShape
    bins: pd.DataFrame
    groups: pd.DataFrame
    by_rows: pd.DataFrame

    @property
    def row(self) -> Mapping[str, Any]:
        return self.rows[0]

    @property
    def dtype(self) -> str:
        return dtype_name(self.row["info"]["model"])

    @property
    def device(self) -> Mapping[str, Any]:
        return self.row["info"].get("device") or {}

    @property
    def is_graph(self) -> bool:
        return self.row.get("execution") == "graph"

    @property
    def points(self) -> tuple[PassPoint, ...]:
        return pass_points(records(self.bins), self.shape)

    @property
    def decode_seconds(self) -> dict[int, float]:
        """The median decode pass by rows, for frequent numbers of rows; by doublings of rows if few are frequent."""
        exact = _often(self.by_rows)
        return exact if len(exact) >= MANY_ROWS else _often(self.groups) | exact

    @property
    def rare_rows(self) -> tuple[int, ...]:
        """The numbers of rows of decode passes that are too few for `decode_seconds`, in rising order."""
        decode = self.by_rows[self.by_rows["kind"] == "decode"]
        rare = decode[decode["passes"] < LEAST_SAMPLES]
        rows = (rare["rows"] / rare["passes"]).round().astype(int)
        return tuple(sorted(set(rows.tolist()) - self.decode_seconds.keys()))

    @property
    def decode_width(self) -> int | None:
        """The mean width of decode passes; None without any."""
        mine = self.bins[self.bins["kind"] == "decode"]
        return None if mine.empty else max(1, round(float(mine["width"].sum() / mine["passes"].sum())))


def _often(bins: pd.DataFrame) -> dict[int, float]:
    """The median decode pass by mean rows, of bins with enough passes; the largest bin for equal rows."""
    mine = bins[(bins["kind"] == "decode") & (bins["passes"] >= LEAST_SAMPLES)].sort_values("passes")
    rows = (mine["rows"] / mine["passes"]).round().astype(int)
    return {int(size): float(seconds) for size, seconds in zip(rows, mine["median_s"], strict=True)}


def measured_run(run_id: str, name: str) -> MeasuredPasses | None:
    """One run; None if it does not exist. ValueError if it does not record its model's shape."""
    row = find_row(run_id)
    return None if row is None else _measured(name, [row])


def measured_experiment(rows: Sequence[Mapping[str, Any]], name: str) -> MeasuredPasses:
    """The runs that match the first, as one series. ValueError if the first does not record its model's shape."""
    assert rows
    return _measured(name, [row for row in rows if likeness(row) == likeness(rows[0])][:MAX_MEMBERS])


def likeness(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the runs of a series have in common: model, dtype, weight width, device, execution and timing."""
    info = row["info"]
    model, device = info.get("model") or {}, info.get("device") or {}
    widths = dtype_name(model), model.get("weight_bits")
    return model.get("name"), *widths, device.get("name"), info.get("execution"), info.get("timing")


def _measured(name: str, rows: Sequence[Mapping[str, Any]]) -> MeasuredPasses:
    shape = shape_of_run(rows[0]["info"].get("model") or {})
    has_ended = all(row["status"] != "running" for row in rows)
    version = -1 if has_ended else lab().recorder.version
    run_ids = tuple(str(row["run_id"]) for row in rows)
    is_async = rows[0].get("timing") == "async"
    bins, groups, by_rows = _read(str(lab().home), run_ids, version, is_async)
    return MeasuredPasses(name=name, rows=tuple(rows), shape=shape, bins=bins, groups=groups, by_rows=by_rows)


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _read(
    home: str, run_ids: tuple[str, ...], version: int, is_async: bool
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Cached by run ids, version and `home`, which identifies the store."""
    passes = lab().store.passes
    by: tuple[By, ...] = ("shape", "doublings", "rows")
    bins, groups, by_rows = (passes.bins(run_ids, by=kind, is_async=is_async) for kind in by)
    return bins, groups, by_rows

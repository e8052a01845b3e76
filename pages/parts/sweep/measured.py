"""The results of a sweep: a table of its points, and the ceilings of the machine that ran them.

Rows are those of `engine.experiments.sweep_table`, medians over repeats. The table adds the lowest and highest of the
repeats, for whiskers, and the series of each point in the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core.config import RunConfig
from engine.core.format import quantity
from engine.experiments.sweep_table import SweepRow, sweep_rows
from engine.hardware.calibration import Calibration
from engine.hardware.roofline import Ceilings, ModelShape, shape_of_run
from pages.figures.frames import records
from pages.parts.experiments.stored import StoredExperiment, stored_experiment
from pages.parts.runs.run_text import dtype_name
from pages.parts.shared.machines import calibrated_machine, calibration_for, calibrations
from pages.parts.shared.markdown import plain

REPEATED = {
    "tpot_s": "tpot_p50_s",
    "ttft_s": "ttft_p50_s",
    "peak_memory_bytes": "peak_memory_bytes",
    "output_tokens_per_s": "output_tokens_per_s",
}
HOW = "Run `.venv/bin/python -m engine calibrate` on that machine to measure them."
PLACE = ["engine", "prompts", "batch_size", "role"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepMachine:
    """The ceilings for a sweep: from the newest calibration of its device, or as given to the sweep.

    `note` says where `ceilings` are from, or how to get them if they are None. `shape` is the model's, None if the
    run does not record it.
    """

    ceilings: Ceilings | None = None
    shape: ModelShape | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredSweep(StoredExperiment):
    """One sweep; `table` has the `rows` as a frame."""

    rows: tuple[SweepRow, ...]
    table: pd.DataFrame
    machine: SweepMachine

    @property
    def config(self) -> RunConfig | None:
        """The configuration of a point with the sweep's own budget: a ragged one if there is any."""
        ragged = [point for point in self.planned if point["values"].get("role") == "ragged"]
        first = next(iter([*ragged, *self.planned]), None)
        return None if first is None else RunConfig.from_dict(first["config"])

    @property
    def grid(self) -> pd.DataFrame:
        """The rows of the grid: uniform batches."""
        return self.table[self.table["role"] == "point"]

    @property
    def ragged(self) -> pd.DataFrame:
        """Ragged batches and their controls."""
        return self.table[self.table["role"].isin(["ragged", "control"])]


def load_sweep(experiment_id: str) -> MeasuredSweep | None:
    """The sweep as the store has it now; None without a plan, ValueError for a damaged one."""
    return measured_sweep(stored_experiment(experiment_id), calibrations)


def measured_sweep(stored: StoredExperiment | None, known: Callable[[], list[Calibration]]) -> MeasuredSweep | None:
    """The sweep of a stored experiment. `known` gives the store's calibrations, the newest first."""
    if stored is None:
        return None
    machine = machine_for(stored.settings, stored.info, known) if stored.info else SweepMachine()
    rows = sweep_rows(records(stored.points), machine.ceilings, machine.shape)
    return MeasuredSweep.of(stored, rows=tuple(rows), table=sweep_frame(rows, stored.points), machine=machine)


def sweep_frame(rows: list[SweepRow], points: pd.DataFrame) -> pd.DataFrame:
    """The rows as a frame, with `series`, `generated_tokens` a request, and `_low` and `_high` of repeats."""
    frame = pd.DataFrame([row.to_dict() for row in rows], columns=list(SweepRow.__dataclass_fields__))
    if frame.empty:
        return frame.assign(series=[])
    several = frame["engine"].nunique() > 1
    frame = frame.assign(series=frame["engine"] + " " + frame["prompts"] if several else frame["prompts"])
    texts = {"engine", "prompts", "role", "status", "oom_where", "error", "run_ids", "series"}
    numbers = {str(name): pd.to_numeric(frame[name]).astype(float) for name in frame if name not in texts}
    frame = frame.assign(**numbers)
    frame["batch_size"] = frame["batch_size"].astype(int)
    return frame.merge(_extremes(points), on=PLACE, how="left").merge(_generated(points), on=PLACE, how="left")


def _generated(points: pd.DataFrame) -> pd.DataFrame:
    """Output tokens per request of each completed point."""
    done = points[points["status"] == "completed"]
    done = done.assign(generated_tokens=done["output_tokens"] / done["requests"])
    found = done.groupby(PLACE, as_index=False).agg(generated_tokens=("generated_tokens", "median"))
    found["batch_size"] = found["batch_size"].astype(int)
    return found


def _extremes(points: pd.DataFrame) -> pd.DataFrame:
    """The lowest and highest of several completed repeats."""
    done = points[points["status"] == "completed"]
    groups = done.groupby(PLACE)
    several = groups["key"].transform("size") > 1 if len(done) else pd.Series(dtype=bool)
    kept = done[several] if len(done) else done
    named = {
        f"{name}_{end}": (column, how)
        for name, column in REPEATED.items()
        for end, how in (("low", "min"), ("high", "max"))
    }
    found = kept.groupby(PLACE, as_index=False).agg(**named)
    found["batch_size"] = found["batch_size"].astype(int)
    return found


def machine_for(
    settings: Mapping[str, Any], info: Mapping[str, Any], known: Callable[[], list[Calibration]]
) -> SweepMachine:
    """The ceilings for runs like `info` (a run.json), of a machine that is `known`; those in the sweep's settings come
    first."""
    device, model = info.get("device") or {}, info.get("model") or {}
    try:
        shape = shape_of_run(model)
    except ValueError as error:
        return SweepMachine(note=f"{plain(str(error))}.")
    if settings.get("flop_per_s") and settings.get("bytes_per_s"):
        given = Ceilings(
            read_bytes_per_s=float(settings["bytes_per_s"]),
            flop_per_s=float(settings["flop_per_s"]),
            launch_s=0,
            kernels_per_pass=shape.kernels_per_pass,
        )
        return SweepMachine(ceilings=given, shape=shape, note=f"Ceilings as given to the sweep: {rates(given)}.")
    newest = calibration_for(device, known(), shape.name)
    if newest is None:
        name = plain(str(device.get("name")))
        return SweepMachine(shape=shape, note=f"The ceilings of {name} are not known. {HOW}")
    dtype = dtype_name(model)
    machine = calibrated_machine(newest, shape, dtype)
    if machine is None:
        return SweepMachine(shape=shape, note=f"The newest calibration has no {plain(dtype)} matmul rate. {HOW}")
    return SweepMachine(
        ceilings=machine.ceilings, shape=shape, note=f"{machine.source}: ceilings of {rates(machine.ceilings)}."
    )


def rates(ceilings: Ceilings) -> str:
    """`1.23 TFLOP/s and 34.5 GB/s, balance point 35.7 FLOP/byte`. TFLOP are 10^12, GB 10^9."""
    return (
        f"{quantity(ceilings.flop_per_s / 1e12, 'TFLOP/s')} and {quantity(ceilings.read_bytes_per_s / 1e9, 'GB/s')}, "
        f"balance point {quantity(ceilings.balance_flop_per_byte, 'FLOP/byte')}"
    )


def balance_of(ceilings: Ceilings | None) -> float | None:
    """The FLOP/byte at which reading and computing take equally long."""
    return None if ceilings is None else ceilings.balance_flop_per_byte

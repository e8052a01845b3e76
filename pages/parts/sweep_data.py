"""What the Sweep page shows of an experiment: its points as the store has them, and the table that they make.

Rows are `engine.core.sweep_table`'s: medians over repeats. Beside them stand the lowest and the highest of the repeats,
for whiskers, and the name of the series that a point belongs to in the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core.config import RunConfig
from engine.core.experiment import ENDED
from engine.core.roofline import Ceilings
from engine.core.sweep_table import SweepRow, sweep_rows
from pages.parts.experiment_data import info_of, stored_plan
from pages.parts.lab import lab
from pages.parts.sweep_ceilings import Measured, ceilings_for

REPEATED = {
    "tpot_s": "tpot_p50_s",
    "ttft_s": "ttft_p50_s",
    "peak_memory_bytes": "peak_memory_bytes",
    "output_tokens_per_s": "output_tokens_per_s",
}
PLACE = ["engine", "prompts", "batch_size", "role"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweepData:
    """One sweep. `points` are the store's, a row a repeat; `rows` the table's, `table` the same as a frame.

    `config` is that of a point whose budget is as it was asked for: a ragged one if there is any. `info`
    is the run.json of one of its runs, empty where none has begun.
    """

    experiment_id: str
    settings: Mapping[str, Any]
    config: RunConfig | None
    points: pd.DataFrame
    rows: tuple[SweepRow, ...]
    table: pd.DataFrame
    measured: Measured
    info: Mapping[str, Any]

    @property
    def grid(self) -> pd.DataFrame:
        """The rows of the grid: uniform batches."""
        return self.table[self.table["role"] == "point"]

    @property
    def ragged(self) -> pd.DataFrame:
        """Ragged batches and their controls."""
        return self.table[self.table["role"].isin(["ragged", "control"])]

    @property
    def has_results(self) -> bool:
        """Whether a point has ended, well or not; one that was cut off says nothing."""
        return bool(self.points["status"].isin(ENDED).any())


def load_sweep(experiment_id: str) -> SweepData | None:
    """The sweep as the store has it now; None where it has no plan of it, ValueError where that is damaged."""
    plan = stored_plan(experiment_id)
    if plan is None:
        return None
    points = lab().store.experiments.points(experiment_id)
    settings = plan.get("settings") or {}
    info = info_of(points)
    measured = ceilings_for(settings, info) if info else Measured()
    rows = sweep_rows(points.to_dict("records"), measured.ceilings, measured.shape)
    return SweepData(
        experiment_id=experiment_id,
        settings=settings,
        config=_config(plan),
        points=points,
        rows=tuple(rows),
        table=sweep_frame(rows, points),
        measured=measured,
        info=info,
    )


def _config(plan: Mapping[str, Any]) -> RunConfig | None:
    planned = plan.get("points") or []
    ragged = [point for point in planned if point["values"].get("role") == "ragged"]
    first = next(iter([*ragged, *planned]), None)
    return None if first is None else RunConfig.from_dict(first["config"])


def sweep_frame(rows: list[SweepRow], points: pd.DataFrame) -> pd.DataFrame:
    """The rows as a frame, with `series`, `generated_tokens` a request, and `_low` and `_high` of repeated measures."""
    frame = pd.DataFrame([row.to_dict() for row in rows], columns=list(SweepRow.__dataclass_fields__))
    if frame.empty:
        return frame.assign(series=[])
    several = frame["engine"].nunique() > 1
    frame = frame.assign(series=frame["engine"] + " " + frame["prompts"] if several else frame["prompts"])
    texts = {"engine", "prompts", "role", "status", "oom_where", "error", "run_ids", "series"}
    numbers = {name: pd.to_numeric(frame[name]).astype(float) for name in frame if name not in texts}
    frame = frame.assign(**numbers)
    frame["batch_size"] = frame["batch_size"].astype(int)
    return frame.merge(_extremes(points), on=PLACE, how="left").merge(_generated(points), on=PLACE, how="left")


def _generated(points: pd.DataFrame) -> pd.DataFrame:
    """Output tokens a request of each completed point, its repeats being alike."""
    done = points[points["status"] == "completed"]
    done = done.assign(generated_tokens=done["output_tokens"] / done["requests"])
    found = done.groupby(PLACE, as_index=False).agg(generated_tokens=("generated_tokens", "median"))
    found["batch_size"] = found["batch_size"].astype(int)
    return found


def _extremes(points: pd.DataFrame) -> pd.DataFrame:
    """The lowest and the highest over completed repeats, where there is more than one."""
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


def balance_of(ceilings: Ceilings | None) -> float | None:
    """FLOP a byte at which reading and computing take as long as each other."""
    return None if ceilings is None else ceilings.balance_flop_per_byte

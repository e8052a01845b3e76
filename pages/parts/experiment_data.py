"""What the pages of experiments read alike: the plan, the run.json of one run, and whether the store lags behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from engine.core.busy_machine import busy_words_of, load_of
from engine.core.experiment import Plan
from engine.core.experiment_check import check_plan
from engine.runlog.schema import RUN_FILE
from pages.parts.lab import lab


def stored_plan(experiment_id: str) -> Mapping[str, Any] | None:
    """An experiment's plan as the store has it; None where it has none of it.

    ValueError, one line, for one that an earlier version of the lab took in damaged.
    """
    try:
        plan: Mapping[str, Any] = lab().store.experiments.plan(experiment_id)
    except KeyError:
        return None
    check_plan(Plan.from_dict(plan))
    return plan


def info_of(points: pd.DataFrame) -> Mapping[str, Any]:
    """The run.json of a run of an experiment, a completed one if there is any; empty where none has begun.

    `points` are the store's, a row a repeat.
    """
    if points.empty:
        return {}
    ran = points[points["has_run"].astype(bool)]
    ranked = pd.concat([ran[ran["status"] == "completed"], ran])
    for run_id in ranked["run_id"].head(2):
        with contextlib.suppress(KeyError):  # deleted since
            info: Mapping[str, Any] = lab().store.runs.get(str(run_id))["info"]
            return info
    return {}


def busy_line_of(points: pd.DataFrame) -> str:
    """How many of an experiment's runs began on a busy machine; empty where none did. `points` as for `info_of`."""
    if points.empty:
        return ""
    run_ids = points[points["has_run"].astype(bool)]["run_id"].astype(str).tolist()
    return busy_words_of(load_of(info) for info in lab().store.runs.infos(run_ids))


def is_any_on_disk(run_ids: Iterable[str]) -> bool:
    """Whether one of these runs, which the store does not have to their end, has a folder that it will read."""
    return any((lab().home / "runs" / run_id / RUN_FILE).is_file() for run_id in run_ids)

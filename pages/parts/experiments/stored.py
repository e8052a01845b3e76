"""An experiment as the store has it: its plan, its points, and the run.json of one run.

Each kind of experiment has a subclass of `StoredExperiment` with the results that its page shows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import pandas as pd

from engine.core.config import RunConfig
from engine.experiments.experiment import ENDED, Plan
from engine.experiments.experiment_check import check_plan
from engine.runlog.schema import RUN_FILE
from engine.validity.machine_checks import busy_machine_text, load_of
from pages.parts.shared.lab import lab
from store import Store


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredExperiment:
    """One experiment. `planned` are the points of its plan, `points` the store's, a row per repeat.

    `info` is the run.json of one of its runs, empty before the first.
    """

    experiment_id: str
    settings: Mapping[str, Any]
    planned: Sequence[Mapping[str, Any]]
    points: pd.DataFrame
    info: Mapping[str, Any]

    @classmethod
    def of(cls, stored: StoredExperiment, **own: Any) -> Self:
        """The experiment as a subclass, with the subclass's `own` fields added or replaced."""
        shared = {field.name: getattr(stored, field.name) for field in fields(StoredExperiment)}
        return cls(**{**shared, **own})

    @property
    def config(self) -> RunConfig | None:
        """The configuration of the first point; None for an empty plan."""
        return RunConfig.from_dict(self.planned[0]["config"]) if self.planned else None

    @property
    def has_results(self) -> bool:
        """Whether a point has ended, completed or failed; an interrupted point does not count."""
        return bool(self.points["status"].isin(ENDED).any()) if len(self.points) else False

    @property
    def is_being_read(self) -> bool:
        """Whether a run has ended that the store has not read yet. Kinds that need their runs override this."""
        return False


def stored_experiment(experiment_id: str) -> StoredExperiment | None:
    """The experiment as the store has it now; None without a plan, ValueError for a damaged one."""
    return read_experiment(lab().store, experiment_id)


def read_experiment(store: Store, experiment_id: str) -> StoredExperiment | None:
    """As `stored_experiment`, from any store."""
    plan = read_plan(store, experiment_id)
    if plan is None:
        return None
    points = store.experiments.points(experiment_id)
    return StoredExperiment(
        experiment_id=experiment_id,
        settings=plan.get("settings") or {},
        planned=plan.get("points") or [],
        points=points,
        info=read_info(store, points),
    )


def read_plan(store: Store, experiment_id: str) -> Mapping[str, Any] | None:
    """An experiment's plan; None if the store has none. ValueError, in one line, for a damaged plan."""
    try:
        plan: Mapping[str, Any] = store.experiments.plan(experiment_id)
    except KeyError:
        return None
    check_plan(Plan.from_dict(plan))
    return plan


def read_info(store: Store, points: pd.DataFrame) -> Mapping[str, Any]:
    """The run.json of one of an experiment's runs, a completed one if possible; empty before the first.

    `points` are the store's, a row per repeat.
    """
    if points.empty:
        return {}
    ran = points[points["has_run"].astype(bool)]
    ranked = pd.concat([ran[ran["status"] == "completed"], ran])
    for run_id in ranked["run_id"].head(2):
        with contextlib.suppress(KeyError):  # deleted since
            info: Mapping[str, Any] = store.runs.get(str(run_id))["info"]
            return info
    return {}


def busy_line_of(store: Store, points: pd.DataFrame) -> str:
    """How many of an experiment's runs began on a busy machine; empty for none. `points` as for `read_info`."""
    if points.empty:
        return ""
    run_ids = points[points["has_run"].astype(bool)]["run_id"].astype(str).tolist()
    return busy_machine_text(load_of(info) for info in store.runs.infos(run_ids))


def is_any_on_disk(run_ids: Iterable[str]) -> bool:
    """Whether one of these runs has a folder on disk, which the store will read."""
    return any((lab().home / "runs" / run_id / RUN_FILE).is_file() for run_id in run_ids)

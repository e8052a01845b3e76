"""What the Repeats page shows of an experiment: its points as the store has them, by engine and by repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core.config import RunConfig
from engine.core.experiment import ENDED
from engine.core.repeats_table import keys_of
from pages.parts.bench_fields import FIELDS, Number, query_of
from pages.parts.experiment_data import info_of, is_any_on_disk, stored_plan
from pages.parts.lab import lab


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RepeatsData:
    """One experiment of repeats. `points` are the store's, a row a run, with the `series` that it belongs to.

    `rows` are the points as flat rows. `names` are what the keys are called, in the order of running: the first is the
    base of ratios. `configs` has each key's configuration. `info` is the run.json of one of its runs, empty where none
    has begun.
    """

    experiment_id: str
    names: Mapping[str, str]
    configs: Mapping[str, RunConfig]
    points: pd.DataFrame
    rows: Sequence[Mapping[str, Any]]
    info: Mapping[str, Any]

    @property
    def repeats(self) -> int:
        """How many times each engine is to run."""
        return 1 + int(self.points["repeat"].max()) if len(self.points) else 0

    @property
    def has_results(self) -> bool:
        """Whether a run has ended, well or not; one that was cut off says nothing."""
        return bool(self.points["status"].isin(ENDED).any()) if len(self.points) else False

    @property
    def has_completed(self) -> bool:
        """Whether a run has completed, so that there are figures."""
        return bool((self.points["status"] == "completed").any())

    @property
    def is_being_read(self) -> bool:
        """Whether a run has ended that the store has yet to read to its end: the way to it comes in a moment."""
        ended = self.points[self.points["status"].isin(ENDED) & ~self.points["has_run"].astype(bool)]
        return is_any_on_disk(ended["run_id"].dropna().astype(str))


def load_repeats(experiment_id: str) -> RepeatsData | None:
    """The experiment as the store has it now; None where it has no plan of it, ValueError where that is damaged."""
    plan = stored_plan(experiment_id)
    if plan is None:
        return None
    planned = plan.get("points") or []
    names = names_of(planned)
    configs = {point["key"]: point["config"] for point in reversed(planned)}
    points = lab().store.experiments.points(experiment_id)
    points = points.assign(series=[names[key] for key in points["key"]])
    return RepeatsData(
        experiment_id=experiment_id,
        names=names,
        configs={key: RunConfig.from_dict(configs[key]) for key in names},
        points=points,
        rows=points.to_dict("records"),
        info=info_of(points),
    )


def names_of(planned: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What each key is called, in the order of running: its engine; where two keys have the same engine, the key."""
    keys = keys_of(planned)
    engines = {str(point["key"]): str(point["config"]["engine"]) for point in planned}
    is_plain = len(set(engines.values())) == len(keys)
    return {key: engines[key] if is_plain else key for key in keys}


def bench_link(data: RepeatsData) -> dict[str, str]:
    """The query parameters that bring Bench to the same settings: engines, what only static reads, and repeats."""
    configs = list(data.configs.values())
    link = {name: text for config in reversed(configs) for name, text in query_of(config).items()}
    engine = configs[0].engine
    link = {name: text for name, text in link.items() if name != "engine"}
    if engine != FIELDS["engine"].default:
        link["engine"] = engine
    if len(configs) == 2:
        link |= {name: config.engine for name, config in zip(("first", "second"), configs, strict=True)}
    field = FIELDS["repeats"]
    assert isinstance(field, Number)
    return link | {"repeats": str(min(data.repeats, int(field.high)))}

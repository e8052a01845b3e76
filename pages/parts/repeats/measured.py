"""Repeats as they were measured: the runs of each engine, by repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.config import RunConfig
from engine.experiments.experiment import ENDED
from engine.experiments.repeats import keys_of
from pages.parts.experiments.stored import StoredExperiment, is_any_on_disk, stored_experiment
from pages.parts.shared.fields import FIELDS, Number, query_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredRepeats(StoredExperiment):
    """One experiment of repeats. `points` also have the `series` that a run belongs to; `rows` are the same, flat.

    `names` are what the keys are called, in the order of running: the first is the base of ratios. `configs` has each
    key's configuration.
    """

    names: Mapping[str, str]
    configs: Mapping[str, RunConfig]
    rows: Sequence[Mapping[str, Any]]

    @property
    def repeats(self) -> int:
        """How many times each engine is to run."""
        return 1 + int(self.points["repeat"].max()) if len(self.points) else 0

    @property
    def has_completed(self) -> bool:
        """Whether a run has completed, so that there are figures."""
        return bool((self.points["status"] == "completed").any())

    @property
    def is_being_read(self) -> bool:
        """Whether a run has ended that the store has yet to read to its end: the way to it comes in a moment."""
        ended = self.points[self.points["status"].isin(ENDED) & ~self.points["has_run"].astype(bool)]
        return is_any_on_disk(ended["run_id"].dropna().astype(str))


def load_repeats(experiment_id: str) -> MeasuredRepeats | None:
    """The experiment as the store has it now; None where it has no plan of it, ValueError where that is damaged."""
    stored = stored_experiment(experiment_id)
    if stored is None:
        return None
    names = names_of(stored.planned)
    configs = {point["key"]: point["config"] for point in reversed(stored.planned)}
    points = stored.points.assign(series=[names[key] for key in stored.points["key"]])
    return MeasuredRepeats.of(
        stored,
        names=names,
        configs={key: RunConfig.from_dict(configs[key]) for key in names},
        points=points,
        rows=points.to_dict("records"),
    )


def names_of(planned: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What each key is called, in the order of running: its engine; where two keys have the same engine, the key."""
    keys = keys_of(planned)
    engines = {str(point["key"]): str(point["config"]["engine"]) for point in planned}
    is_plain = len(set(engines.values())) == len(keys)
    return {key: engines[key] if is_plain else key for key in keys}


def bench_link(data: MeasuredRepeats) -> dict[str, str]:
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

"""The results of a repeats experiment: the runs of each engine, by repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.config import RunConfig
from engine.experiments.experiment import ENDED
from engine.experiments.repeats import keys_of
from pages.figures.frames import records
from pages.parts.experiments.stored import StoredExperiment, is_any_on_disk, stored_experiment
from pages.parts.shared.fields import FIELDS, Number, query_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredRepeats(StoredExperiment):
    """One repeats experiment. `points` has the `series` of each run as a column; `rows` are the same as dictionaries.

    `names` are the names of the keys in running order; the first is the base of ratios. `configs` are their
    configurations.
    """

    names: Mapping[str, str]
    configs: Mapping[str, RunConfig]
    rows: Sequence[Mapping[str, Any]]

    @property
    def repeats(self) -> int:
        """How often each engine runs."""
        return 1 + int(self.points["repeat"].max()) if len(self.points) else 0

    @property
    def has_completed(self) -> bool:
        """Whether a run has completed."""
        return bool((self.points["status"] == "completed").any())

    @property
    def is_being_read(self) -> bool:
        """Whether a run has ended that the store has not read to its end."""
        ended = self.points[self.points["status"].isin(ENDED) & ~self.points["has_run"].astype(bool)]
        return is_any_on_disk(ended["run_id"].dropna().astype(str))


def load_repeats(experiment_id: str) -> MeasuredRepeats | None:
    """The experiment as the store has it now; None without a plan, ValueError for a damaged one."""
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
        rows=records(points),
    )


def names_of(planned: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The name of each key in running order: its engine, or the key itself if two keys have the same engine."""
    keys = keys_of(planned)
    engines = {str(point["key"]): str(point["config"]["engine"]) for point in planned}
    is_plain = len(set(engines.values())) == len(keys)
    return {key: engines[key] if is_plain else key for key in keys}


def bench_link(data: MeasuredRepeats) -> dict[str, str]:
    """The query parameters that set Bench to the same engines, settings and repeats."""
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

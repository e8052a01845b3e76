"""What a comparison needs to know of a run: a name of its own, how it ended, its metrics, its setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.core.config import RunConfig
from engine.core.format import count, exact, plural
from engine.metrics.metric import Value
from engine.metrics.metrics import RUN_METRICS
from pages.parts.runs.comparable import Setting

METRIC_BY_NAME = {metric.name: metric for metric in RUN_METRICS}
STATUS_WORDS = {
    "running": "is still running",
    "stopped": "was stopped",
    "oom": "ran out of memory",
    "failed": "failed",
    "crashed": "crashed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One run of a comparison. `metrics` by the glossary's names; None where a run has no such value."""

    name: str
    status: str
    arrival: str
    requests: int
    metrics: Mapping[str, Value]
    setting: Setting

    @property
    def is_complete(self) -> bool:
        return self.status == "completed"

    def metric(self, name: str) -> Value:
        """A metric's value; None where the run has none."""
        return self.metrics.get(name)

    @property
    def end_text(self) -> str:
        """`ran out of memory after 3 of 8 requests`."""
        finished = int(self.metrics.get("finished_requests") or 0)
        words = STATUS_WORDS.get(self.status, f"ended as {self.status}")
        return f"{words} after {count(finished)} of {plural(self.requests, 'request')}"


def run_names(configs: Sequence[RunConfig]) -> tuple[str, ...]:
    """A name for each run: its engine, then what tells it from another run of that engine, at last a number."""
    names = [config.engine for config in configs]
    for differs in _TELLERS:
        for engine in {name for name in names if names.count(name) > 1}:
            places = [i for i, name in enumerate(names) if name == engine]
            words = [differs(configs[i]) for i in places]
            if len(set(words)) > 1:
                for i, word in zip(places, words, strict=True):
                    names[i] += f", {word}"
    return tuple(_numbered(names, i) for i in range(len(names)))


def _numbered(names: Sequence[str], place: int) -> str:
    same = [i for i, name in enumerate(names) if name == names[place]]
    return names[place] if len(same) == 1 else f"{names[place]}, run {same.index(place) + 1}"


_TELLERS: tuple[Callable[[RunConfig], str], ...] = (
    lambda config: plural(config.num_slots, "slot"),
    lambda config: f"form {config.form}",
    lambda config: "returned whole" if config.returns == "whole" else "streamed",
    lambda config: config.execution,
    lambda config: config.timing,
    lambda config: f"blocks of {config.block_size}",
    lambda config: f"{plural(config.max_num_batched_tokens, 'token')} a step",
    lambda config: "pool uncapped" if config.pool_gib is None else f"pool {exact(config.pool_gib, 'GiB')}",
    lambda config: config.model,
    lambda config: config.dtype,
    lambda config: config.device,
    lambda config: f"{plural(config.workload.requests, 'request')}, budget {config.workload.budget}",
    lambda config: config.workload.arrival,
    lambda config: f"temperature {config.sampling.temperature:g}",
    lambda config: f"seed {config.workload.seed}",
)

"""One run of a comparison: what its differences and its finding are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.metrics.metric import Value
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.runs.run_text import ending_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """`name` is distinct in its comparison. `metrics` are by the glossary's names; None where a run has no value."""

    name: str
    status: str
    arrival: str
    requests: int
    metrics: Mapping[str, Value]
    is_simulated: bool = False

    @classmethod
    def of(cls, name: str, run: LoadedRun) -> ComparedRun:
        return cls(
            name=name,
            status=run.status,
            arrival=run.config.workload.arrival,
            requests=run.num_requests,
            metrics=run.metrics,
            is_simulated=bool(run.info.get("simulated")),
        )

    @property
    def is_complete(self) -> bool:
        return self.status == "completed"

    def metric(self, name: str) -> Value:
        """A metric's value; None where the run has none."""
        return self.metrics.get(name)

    @property
    def ending(self) -> str:
        """`ran out of memory after 3 of 8 requests`."""
        return ending_text(self.status, int(self.metrics.get("finished_requests") or 0), self.requests)

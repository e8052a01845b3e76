"""Static batching: a batch is formed once and runs until its slowest request ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from engine.core.form_rule import FormRule
from engine.core.kv_layout import EngineSettings, KVLayout
from engine.core.passes import Move
from engine.core.request import Request
from engine.core.schedulers.scheduler import Scheduler


class StaticScheduler(Scheduler):
    """Forms a batch by the rule `form` when the last one has left. Ended rows stay and are computed as dead rows."""

    def __init__(self, requests: Sequence[Request], slots: int, layout: KVLayout, form: FormRule) -> None:
        super().__init__(requests, slots, layout)
        self.form = form

    @classmethod
    def for_run(cls, config: EngineSettings, requests: Sequence[Request], layout: KVLayout) -> Self:
        return cls(requests, config.num_slots, layout, config.form)

    def num_admissible(self, now_s: float) -> int:
        if self.running or not self.waiting:
            return 0
        ready = min(len(self.waiting), self.slots)
        if self.form.rule == "arrived" or ready == self.slots or not self.pending:
            return ready
        return ready if now_s >= self._timeout_s() else 0

    def wake_s(self, now_s: float) -> float | None:
        next_arrival_s = super().wake_s(now_s)
        if not self.waiting or next_arrival_s is None:
            return next_arrival_s
        return min(next_arrival_s, self._timeout_s())

    def evict(self, ended: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[Move, ...]]:
        if any(r.finish_reason is None for r in self.running):
            return (), ()
        released = tuple(self.running)
        self.running.clear()
        self.layout.release_all()
        return released, ()

    def _timeout_s(self) -> float:
        """When the oldest waiting request times out; infinity for a batch that must be full."""
        if self.form.timeout_s is None:
            return float("inf")
        return self.waiting[0].spec.arrival_s + self.form.timeout_s

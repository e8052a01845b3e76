"""Continuous batching: requests join and leave at every step (Orca's iteration-level scheduling; Yu et al., OSDI 2022).

The serial engine is this policy with one slot.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.passes import Move
from engine.core.request import Request
from engine.core.schedulers.scheduler import Scheduler


class ContinuousScheduler(Scheduler):
    """Admits when a slot is free and evicts at once. The last live rows move into freed slots, each at most once."""

    def num_admissible(self, now_s: float) -> int:
        return min(len(self.waiting), self.slots - len(self.running))

    def evict(self, ended: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[Move, ...]]:
        num_live = len(self.running) - len(ended)
        holes = [r.slot for r in ended if r.slot is not None and r.slot < num_live]
        movers = [r for r in reversed(self.running[num_live:]) if r.finish_reason is None]
        moves = []
        for target, request in zip(holes, movers, strict=True):
            assert request.slot is not None
            moves.append(Move(request=request, source=request.slot, target=target))
            self.running[target] = request
            request.slot = target
        del self.running[num_live:]
        return tuple(ended), tuple(moves)

"""A clock that counts forward passes: the cost of a machine on which every pass takes one unit of time.

A simulation by this clock is the plan of a run: its schedule in passes, the same on every machine as long as all
requests arrive at the start.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.hardware.roofline import PassStats


@dataclass(frozen=True, slots=True)
class PassClock:
    """A `CostModel`: pass n takes from n to n + 1."""

    host_s: float = 0.0

    def pass_s(self, stats: PassStats) -> float:
        return 1.0

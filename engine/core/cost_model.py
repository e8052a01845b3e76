"""What a pass costs by the roofline alone: the largest of reading, computing and launching, nothing added up."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.roofline import Ceilings, ModelShape, PassFacts, pass_bytes, pass_flop

GRAPH_LAUNCHES = 1  # a captured pass is one launch, however many kernels it holds


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineCost:
    """Seconds of a pass of `shape` under `ceilings`. `launches` is 1 for a captured pass, else the eager kernels."""

    shape: ModelShape
    ceilings: Ceilings
    launches: int

    @property
    def host_s(self) -> float:
        return self.ceilings.host_s

    @property
    def issue_s(self) -> float:
        """The host's time to issue one pass."""
        return self.launches * self.ceilings.launch_s

    def device_s(self, facts: PassFacts) -> float:
        """The device's time, were everything issued in time: reading or computing, whichever takes longer."""
        ceilings = self.ceilings
        read_s = pass_bytes(self.shape, facts, masked_kv_reads=ceilings.masked_kv_reads) / ceilings.read_bytes_per_s
        return max(read_s, pass_flop(self.shape, facts) / ceilings.flop_per_s)

    def pass_s(self, facts: PassFacts) -> float:
        return max(self.device_s(facts), self.issue_s)


def roofline_cost(shape: ModelShape, ceilings: Ceilings, execution: str) -> RooflineCost:
    """The cost of `eager` or `graph` execution."""
    launches = GRAPH_LAUNCHES if execution == "graph" else ceilings.kernels_per_pass
    return RooflineCost(shape=shape, ceilings=ceilings, launches=launches)

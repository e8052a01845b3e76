"""What runs are ranked by, and how their speeds are put in words.

Where all requests come at once that is throughput. With arrivals over time throughput is what was offered, so it is the
median time to a complete answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.core.format import count, duration, number, quantity
from pages.parts.compared import Compared
from pages.parts.comparison import is_tie


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One measure for all runs of a comparison."""

    measure: Literal["output_tokens_per_s", "e2e_p50_s"]

    @classmethod
    def of(cls, runs: Sequence[Compared]) -> Speed:
        """The measure that suits the runs: complete answers as soon as one of them had arrivals over time."""
        over_time = any(run.arrival != "closed" for run in runs) and all(run.metric("e2e_p50_s") for run in runs)
        return cls(measure="e2e_p50_s" if over_time else "output_tokens_per_s")

    def value(self, run: Compared) -> float:
        """Larger is faster. Every run that is ranked has a value above 0."""
        value = float(run.metric(self.measure) or 0.0)
        assert value > 0
        return value if self.measure == "output_tokens_per_s" else 1.0 / value

    def ranked(self, runs: Sequence[Compared]) -> list[Compared]:
        """The fastest first."""
        return sorted(runs, key=self.value, reverse=True)

    def is_close(self, a: Compared, b: Compared) -> bool:
        """Whether the two were equally fast as far as one measurement can tell."""
        return is_tie(self.value(a), self.value(b))

    def times(self, fast: Compared, slow: Compared) -> str:
        """`1.50 times`."""
        return f"{number(self.value(fast) / self.value(slow))} times"

    def figure(self, run: Compared) -> str:
        """`60.0 tokens/s`."""
        if self.measure == "e2e_p50_s":
            return f"half of the answers complete within {duration(run.metric('e2e_p50_s'))}"
        return quantity(run.metric("output_tokens_per_s"), "tokens/s")

    def figures(self, a: Compared, b: Compared) -> str:
        """`60.0 against 40.0 tokens/s`, with both counts of tokens where they differ."""
        if self.measure == "e2e_p50_s":
            waits = f"{duration(a.metric('e2e_p50_s'))} against {duration(b.metric('e2e_p50_s'))}"
            return f"half of the answers were complete within {waits}"
        mine, its = (run.metric("output_tokens_per_s") for run in (a, b))
        rates = f"{number(mine)} against {quantity(its, 'tokens/s')}"
        if a.metric("output_tokens") == b.metric("output_tokens"):
            return rates
        return f"{rates} (over {count(a.metric('output_tokens'))} and {count(b.metric('output_tokens'))} tokens)"

"""Does the queue grow? A rule for a single run, stated so that it can be argued with.

What is looked at are the requests that were left behind: those that waited when the engine last filled its slots and
got none. It is the queue without the saw-tooth of engines that admit in batches, whose queue fills while a batch runs
and empties when the next one forms; below capacity nobody is left behind for long.

The time from the end of the ramp to the last arrival (all of it, where the ramp takes more than half) is cut into ten
equal parts, a straight line is fitted to the mean number left behind in each, and the queue grows when

- the line rises at all, by the one-sided test of its slope at 5 % (Student's t of 8 degrees of freedom: 1.86), the
  standard error widened by the factor sqrt((1 + r) / (1 - r)) for residuals that follow each other with correlation r;
- and it rises by one request at least from end to end, so that no hair is called a trend.

It grows as well when the engine never caught up: somebody was left behind in each of the ten parts, in the last of them
at least a twentieth of all requests, and the line does not fall beyond chance. The queue of a trace that comes in
bursts has grown so before the ramp was over, and lies on no line. And it grows when, at the last arrival, more than
half of all requests wait, and more than ever ran at once: an engine that is swamped may not have looked at its queue
once by then.

What the rule does not know: with few requests drawn at random (poisson) the queue of that very trace may grow though
the engine would keep up for ever. Evenly spaced requests leave that chance out. On simulated servers whose slots the
requests fill six times or more, evenly spaced at 0.9 times the capacity, it saw growth in none of 300 runs, and at 1.1
times in 296; drawn at random in 18 at 0.7 times, 63 at 0.9, 221 at 1.1, 288 at 1.3 and 300 at twice the capacity
(`python -m benchmarks.queue_rule`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.load.occupancy import Occupancy, most_at_once
from engine.load.steady_window import ramp_end_s
from engine.metrics.latency import Floats

PARTS = 10
CRITICAL_T = 1.86  # one-sided 5 % of Student's t with PARTS - 2 degrees of freedom
LEAST_RISE = 1.0
ENOUGH_BATCHES = 6  # of full slots: with fewer requests a queue has no time to show
BEHIND_SHARE = 0.05  # of all requests, left behind at the end by an engine that never caught up
LEAST_REQUESTS = 10
MOST_CORRELATION = 0.9
RULE = (
    "The queue grows when a straight line through the mean number left behind in ten equal parts of the time from the "
    "ramp's end to the last arrival rises by one request at least, its slope beyond chance at 5 % (one-sided t test, "
    "widened for correlated parts); or when somebody is left behind in every part, a twentieth of all requests in the "
    "last, and the line does not fall beyond chance; or when most requests, and more than ever ran at once, still wait "
    "at the last arrival."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueGrowth:
    """`slope_per_s`: requests by which the queue grows a second; `rise`: by how many from `begin_s` to `end_s`.

    `t` is the slope over its (widened) standard error, infinite where all parts lie on the line. `left_behind` is the
    mean number in the last part; `is_behind`: the engine never caught up.
    """

    begin_s: float
    end_s: float
    slope_per_s: float
    rise: float
    t: float
    left_behind: float
    is_behind: bool
    is_swamped: bool

    @property
    def grows(self) -> bool:
        return self.is_swamped or self.is_behind or self.rises

    @property
    def rises(self) -> bool:
        """Whether the line alone says that it grows."""
        return self.t > CRITICAL_T and self.rise >= LEAST_RISE


def queue_growth(occupancy: Occupancy) -> QueueGrowth | None:
    """None where there is nothing to judge: fewer than ten requests, or all there at once."""
    if len(occupancy) < LEAST_REQUESTS:
        return None
    first_s, last_s = float(occupancy.arrival_s.min()), float(occupancy.arrival_s.max())
    if last_s <= first_s:
        return None
    begin_s = ramp_end_s(occupancy)
    if begin_s > (first_s + last_s) / 2:
        begin_s = first_s
    edges = np.linspace(begin_s, last_s, PARTS + 1)
    behind = left_behind(occupancy, edges)
    slope, t = line_through(behind, (edges[1:] + edges[:-1]) / 2)
    return QueueGrowth(
        begin_s=begin_s,
        end_s=last_s,
        slope_per_s=slope,
        rise=slope * (last_s - begin_s),
        t=t,
        left_behind=float(behind[-1]),
        is_behind=bool(behind.min() > 0 and behind[-1] >= BEHIND_SHARE * len(occupancy) and t >= -CRITICAL_T),
        is_swamped=_is_swamped(occupancy, last_s),
    )


def left_behind(occupancy: Occupancy, edges_s: Floats) -> Floats:
    """The mean number left behind between each two neighboring edges.

    It changes at admissions alone: those who had come by then and got no slot count until the next admission.
    """
    looked_s = np.unique(occupancy.admitted_s[occupancy.admitted_s < occupancy.end_s])
    came = np.searchsorted(np.sort(occupancy.arrival_s), looked_s, side="right")
    taken = np.searchsorted(np.sort(occupancy.admitted_s), looked_s, side="right")
    until_s = np.append(looked_s[1:], math.inf)
    means = []
    for since_s, end_s in zip(edges_s[:-1], edges_s[1:], strict=True):
        held_s = np.maximum(np.minimum(until_s, end_s) - np.maximum(looked_s, since_s), 0.0)
        means.append(float((held_s * (came - taken)).sum() / (end_s - since_s)))
    return np.array(means)


def line_through(values: Floats, places: Floats) -> tuple[float, float]:
    """The slope of the least-squares line, and the slope over its standard error, widened for correlated residuals."""
    centered = places - places.mean()
    spread = float((centered**2).sum())
    slope = float((centered * values).sum()) / spread
    residual = values - values.mean() - slope * centered
    square = float((residual**2).sum())
    if square <= 1e-18 * max(1.0, float((values**2).sum())):
        return slope, math.copysign(math.inf, slope) if slope else 0.0
    error = math.sqrt(square / (len(values) - 2) / spread)
    correlation = min(max(float((residual[1:] * residual[:-1]).sum()) / square, 0.0), MOST_CORRELATION)
    return slope, slope / (error * math.sqrt((1 + correlation) / (1 - correlation)))


def _is_swamped(occupancy: Occupancy, last_arrival_s: float) -> bool:
    waiting = occupancy.num_waiting(last_arrival_s)
    return waiting > len(occupancy) / 2 and waiting > most_at_once(occupancy.admitted_s, occupancy.left_s)[0]

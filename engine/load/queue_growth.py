"""Whether the queue of a run grows: an explicit rule for a single run.

The rule looks at the backlog: requests that were waiting when the engine last filled its slots and got none. Unlike the
queue itself, the backlog has no saw-tooth for engines that admit in batches, whose queue fills while a batch runs and
empties when the next one forms. Below capacity the backlog never lasts.

The time from the end of the ramp to the last arrival (all of it if the ramp takes more than half) is cut into ten equal
parts, and a straight line is fitted to the mean backlog of each part. The queue grows in three cases:

- Rising backlog: the slope is above zero in a one-sided t test at 5 % (8 degrees of freedom: t > 1.86), and the line
  rises by at least one request from end to end, so that noise is not called a trend. The standard error is widened by
  sqrt((1 + r) / (1 - r)) for neighboring residuals with correlation r.
- Never caught up: there is a backlog in each of the ten parts, in the last one at least 5 % of all requests, and the
  line does not fall significantly. This covers traces with bursts, whose queue grew before the ramp was over.
- Swamped: at the last arrival more than half of all requests wait, and more than ever ran at once. Such an engine may
  not have filled its slots even once by then.

Limit of the rule: with few requests at random times (poisson) the queue of that trace may grow although the engine
would keep up in the long run. Evenly spaced requests avoid this. On simulated servers with at least six times as many
requests as slots, the rule found growth in 0 of 300 evenly spaced runs at 0.9 times the capacity and in 296 at 1.1
times; with random arrivals in 18 at 0.7 times, 63 at 0.9, 221 at 1.1, 288 at 1.3 and 300 at twice the capacity
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
MIN_RISE = 1.0
ENOUGH_BATCHES = 6  # of full slots: with fewer requests a queue has no time to show
BACKLOG_SHARE = 0.05  # of all requests, in the backlog at the end, for an engine that never caught up
MIN_REQUESTS = 10
MAX_CORRELATION = 0.9
RULE = (
    "A straight line is fitted to the mean backlog in ten equal parts of the time from the ramp's end to the last "
    "arrival. The queue grows if the line rises by at least one request with a slope above zero (one-sided t test at "
    "5 %, widened for correlated parts); or if there is a backlog in every part, at least 5 % of all requests in the "
    "last one, and the line does not fall significantly; or if at the last arrival most requests still wait, and more "
    "than ever ran at once."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueGrowth:
    """`slope_per_s` is the growth of the backlog in requests/s, `rise` its growth from `begin_s` to `end_s`.

    `t` is the slope divided by its (widened) standard error, infinite if all parts are on the line. `backlog` is the
    mean backlog of the last part; `is_behind`: the engine never caught up.
    """

    begin_s: float
    end_s: float
    slope_per_s: float
    rise: float
    t: float
    backlog: float
    is_behind: bool
    is_swamped: bool

    @property
    def grows(self) -> bool:
        return self.is_swamped or self.is_behind or self.rises

    @property
    def rises(self) -> bool:
        """Whether the backlog rises by the fitted line."""
        return self.t > CRITICAL_T and self.rise >= MIN_RISE


def queue_growth(occupancy: Occupancy) -> QueueGrowth | None:
    """None if there is nothing to judge: fewer than ten requests, or all arrived at once."""
    if len(occupancy) < MIN_REQUESTS:
        return None
    first_s, last_s = float(occupancy.arrival_s.min()), float(occupancy.arrival_s.max())
    if last_s <= first_s:
        return None
    begin_s = ramp_end_s(occupancy)
    if begin_s > (first_s + last_s) / 2:
        begin_s = first_s
    edges = np.linspace(begin_s, last_s, PARTS + 1)
    backlog = mean_backlog(occupancy, edges)
    slope, t = line_through(backlog, (edges[1:] + edges[:-1]) / 2)
    return QueueGrowth(
        begin_s=begin_s,
        end_s=last_s,
        slope_per_s=slope,
        rise=slope * (last_s - begin_s),
        t=t,
        backlog=float(backlog[-1]),
        is_behind=bool(backlog.min() > 0 and backlog[-1] >= BACKLOG_SHARE * len(occupancy) and t >= -CRITICAL_T),
        is_swamped=_is_swamped(occupancy, last_s),
    )


def mean_backlog(occupancy: Occupancy, edges_s: Floats) -> Floats:
    """The mean backlog between neighboring edges.

    The backlog changes only at admissions: requests that had arrived by then without a slot count until the next one.
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
    correlation = min(max(float((residual[1:] * residual[:-1]).sum()) / square, 0.0), MAX_CORRELATION)
    return slope, slope / (error * math.sqrt((1 + correlation) / (1 - correlation)))


def _is_swamped(occupancy: Occupancy, last_arrival_s: float) -> bool:
    waiting = occupancy.num_waiting(last_arrival_s)
    return waiting > len(occupancy) / 2 and waiting > most_at_once(occupancy.admitted_s, occupancy.left_s)[0]

"""The numbers of one run under load: offered and achieved rate, latencies, whether the queue grew, Little's law.

Rates are counted in the steady window (`steady_window`). Latencies cover all requests and start at the intended
arrival. Little's law (J. D. C. Little, 1961) checks the recorded times and the steady state: the mean number in the
system is the arrival rate times the mean time in the system. 0.5 requests/s that stay 26 s each keep 13 in the system.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.core.record import RunRecord
from engine.load.goodput import Goodput, Limits, goodput
from engine.load.occupancy import Occupancy, mean_number, often_at_once
from engine.load.queue_growth import ENOUGH_BATCHES, QueueGrowth, queue_growth
from engine.load.steady_window import FOR_LONG, SteadyWindow, served_within, steady_window
from engine.metrics.distribution import percentile
from engine.metrics.latency import Floats, latencies
from engine.validity.load_checks import LITTLE_REQUESTS, LITTLE_TOLERANCE
from engine.workload.arrivals import offered_rate

LEAST_ACHIEVED = 0.5  # of the offered rate, for an engine that keeps up


@dataclass(frozen=True, slots=True, kw_only=True)
class LittlesLaw:
    """Little's law between the ramp's end and the last arrival, over the `n` requests that arrived in between.

    `mean_number` is counted over time; `expected_number` is arrival rate x mean time in the system; `ratio` is
    counted / expected.
    """

    n: int
    arrivals_per_s: float
    mean_stay_s: float
    mean_number: float

    @property
    def expected_number(self) -> float:
        return self.arrivals_per_s * self.mean_stay_s

    @property
    def ratio(self) -> float:
        return self.mean_number / self.expected_number

    @property
    def holds(self) -> bool:
        return abs(self.ratio - 1) <= LITTLE_TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """A run's numbers under load; None where a number does not exist.

    `most_running` is the largest number that ran at once for a tenth of the run: the slots of a full engine.
    `offered_per_s` is the rate of the actual trace, None if all requests arrived at once. `achieved_per_s` and
    `output_tokens_per_s` are counted in `window`; requests across its edges count in part. `waiting_mean` is the mean
    number of requests without a slot in the window. Percentiles are over `queue_wait_n` and `ttft_n` requests.
    `decode_pass_p50_s` shows how fast the machine was.
    """

    requests: int
    finished: int
    most_running: int
    offered_per_s: float | None
    window: SteadyWindow | None
    achieved_per_s: float | None
    output_tokens_per_s: float | None
    waiting_mean: float | None
    queue_wait_p50_s: float | None
    queue_wait_n: int
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    ttft_n: int
    decode_pass_p50_s: float | None
    growth: QueueGrowth | None
    little: LittlesLaw | None
    goodput: Goodput | None

    @property
    def grows(self) -> bool | None:
        """Whether the queue grows; None if the run is too short to judge or all requests arrived at once.

        A queue that did not grow says nothing in a short run, or where less than half of the offered rate was achieved.
        """
        if self.growth is None or self.growth.grows:
            return None if self.growth is None else True
        is_behind = (
            self.achieved_per_s is not None
            and self.offered_per_s is not None
            and self.achieved_per_s < LEAST_ACHIEVED * self.offered_per_s
        )
        return None if self.is_short or is_behind else False

    @property
    def is_short(self) -> bool:
        """Whether the requests are too few for a queue to show: they fill the running rows less than six times."""
        return self.requests < ENOUGH_BATCHES * self.most_running


def load_point(record: RunRecord, limits: Limits | None = None) -> LoadPoint:
    """The numbers of a run under load."""
    occupancy = Occupancy.of(record)
    window = steady_window(occupancy)
    served = None if window is None else served_within(record, occupancy, window)
    requests = latencies(record).requests
    waits_s, ttfts_s = requests["queue_wait_s"], requests["ttft_s"]
    return LoadPoint(
        requests=len(occupancy),
        finished=int(occupancy.served.sum()),
        most_running=often_at_once(occupancy.admitted_s, occupancy.left_s, FOR_LONG)[0],
        offered_per_s=offered_rate(occupancy.arrival_s),
        window=window,
        achieved_per_s=None if served is None else served.requests_per_s(),
        output_tokens_per_s=None if served is None else served.tokens_per_s(),
        waiting_mean=None if window is None else _mean_waiting(occupancy, window),
        queue_wait_p50_s=percentile(waits_s, 50),
        queue_wait_n=int(np.count_nonzero(~np.isnan(waits_s))),
        ttft_p50_s=percentile(ttfts_s, 50),
        ttft_p95_s=percentile(ttfts_s, 95),
        ttft_n=int(np.count_nonzero(~np.isnan(ttfts_s))),
        decode_pass_p50_s=percentile(_decode_passes_s(record), 50),
        growth=queue_growth(occupancy),
        little=littles_law(occupancy, window),
        goodput=goodput(record, limits or Limits(), occupancy, served),
    )


def littles_law(occupancy: Occupancy, window: SteadyWindow | None) -> LittlesLaw | None:
    """None if too few requests arrived in the steady part, or all arrived at once and there is no rate."""
    if window is None or window.coming_until_s <= window.begin_s:
        return None
    since_s, until_s = window.begin_s, window.coming_until_s
    inside = (occupancy.arrival_s > since_s) & (occupancy.arrival_s <= until_s)
    if inside.sum() < LITTLE_REQUESTS:
        return None
    return LittlesLaw(
        n=int(inside.sum()),
        arrivals_per_s=float(inside.sum()) / (until_s - since_s),
        mean_stay_s=float(occupancy.in_system_s[inside].mean()),
        mean_number=mean_number(occupancy.arrival_s, occupancy.left_s, since_s, until_s),
    )


def _decode_passes_s(record: RunRecord) -> Floats:
    passes = record.passes
    seconds: Floats = (passes["end_s"] - passes["start_s"])[passes["kind"] == "decode"]
    return seconds


def _mean_waiting(occupancy: Occupancy, window: SteadyWindow) -> float:
    return mean_number(occupancy.arrival_s, occupancy.admitted_s, window.begin_s, window.end_s)

"""The steady part of a run: between the ramp, in which slots fill, and the tail, in which they empty.

Ramp and tail understate an engine's rate, by an amount that depends on the length of the run, so rates are counted in
the window between them. It begins when the ramp is over: either as many requests run as ever do for a tenth of the run
(in a run that fills its slots), or one mean time in the system has passed since the first arrival (in a run that never
fills them), whichever comes first. It ends with the last admission: until then every free slot is taken again.

A request across an edge counts with the share of its tokens inside the window. If only whole requests counted, all
answers in progress at the end would be lost, and short runs would look slow.

The badge "steady window long enough" (`load_checks`) checks something else: whether requests arrived for long enough
after the first time in the system to call the load steady at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.core.record import RunRecord
from engine.load.occupancy import Occupancy, often_at_once
from engine.metrics.latency import Floats, deliveries

FOR_LONG = (
    0.1  # ignores moments: an engine that runs ahead admits before the last tokens of leaving requests are delivered
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyWindow:
    """Seconds on the run's clock. `coming_until_s` is the last arrival; after it the queue can only shrink."""

    begin_s: float
    end_s: float
    coming_until_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s


def steady_window(occupancy: Occupancy) -> SteadyWindow | None:
    """The window of a run; None if the ramp is not over before the last admission, so that all is ramp and tail."""
    if not len(occupancy) or not occupancy.served.any():
        return None
    begin_s, end_s = ramp_end_s(occupancy), float(occupancy.admitted_s.max())
    if end_s <= begin_s:
        return None
    return SteadyWindow(begin_s=begin_s, end_s=end_s, coming_until_s=float(occupancy.arrival_s.max()))


def ramp_end_s(occupancy: Occupancy) -> float:
    """When as many requests run as ever do for long, or one mean time in the system after the first arrival."""
    _, full_s = often_at_once(occupancy.admitted_s, occupancy.left_s, FOR_LONG)
    return min(full_s, float(occupancy.arrival_s.min() + occupancy.in_system_s.mean()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """Tokens delivered inside a window and their share of the answer, one entry per request as in Occupancy."""

    window: SteadyWindow
    tokens: Floats
    share: Floats

    def requests_per_s(self, of: Floats | float = 1.0) -> float:
        """Requests served per second; `of` weighs each request (1 or 0 to count only some)."""
        return float((self.share * of).sum()) / self.window.length_s

    def tokens_per_s(self, of: Floats | float = 1.0) -> float:
        return float((self.tokens * of).sum()) / self.window.length_s


def served_within(record: RunRecord, occupancy: Occupancy, window: SteadyWindow) -> Served:
    """Tokens delivered after the window's begin, up to its end. The share of an unfinished request is 0."""
    token_requests, delivered_s = deliveries(record)
    inside = (delivered_s > window.begin_s) & (delivered_s <= window.end_s)
    first = np.searchsorted(token_requests, occupancy.request_id, side="left")
    last = np.searchsorted(token_requests, occupancy.request_id, side="right")
    before = np.concatenate([[0], np.cumsum(inside)])
    tokens = (before[last] - before[first]).astype(np.float64)
    share = np.where(occupancy.served, tokens / np.maximum(last - first, 1), 0.0)
    return Served(window=window, tokens=tokens, share=share)

"""The steady part of a run: between its ramp, in which slots fill, and its tail, in which they empty.

Ramp and tail understate what an engine can do, and by how much depends on how long the run happened to be. So rates are
counted in the window between them. It begins when the ramp is over: as many requests run as ever do for long (for a
tenth of the run), or one mean stay has gone by since the first arrival, whichever comes first (the one in a run that
fills its slots, the other in one that never does). It ends with the last admission: until then a slot that falls free
has somebody to take it.

A request that spans an edge counts with the share of its tokens that came inside: an engine that has just finished six
of eight answers to nine tenths has done more than none. Counted whole, the answers that are under way at the end would
all be lost, and short runs would look slow.

The badge "steady window long enough" (`load_checks`) asks something else: whether requests came for long enough after
the first stay to speak of a steady state at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.core.record import RunRecord
from engine.load.occupancy import Occupancy, often_at_once
from engine.metrics.latency import Floats, deliveries

FOR_LONG = 0.1  # an engine that runs ahead admits before the last tokens of those who leave have been handed over


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyWindow:
    """Seconds on the run's clock. `coming_until_s`: the last arrival; from then on the queue can only shrink."""

    begin_s: float
    end_s: float
    coming_until_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s


def steady_window(occupancy: Occupancy) -> SteadyWindow | None:
    """The window of a run; None where the ramp is not over before the last request is admitted: all ramp and tail."""
    if not len(occupancy) or not occupancy.served.any():
        return None
    begin_s, end_s = ramp_end_s(occupancy), float(occupancy.admitted_s.max())
    if end_s <= begin_s:
        return None
    return SteadyWindow(begin_s=begin_s, end_s=end_s, coming_until_s=float(occupancy.arrival_s.max()))


def ramp_end_s(occupancy: Occupancy) -> float:
    """When as many requests run as ever do for long, or one mean stay after the first arrival, whichever is first."""
    _, full_s = often_at_once(occupancy.admitted_s, occupancy.left_s, FOR_LONG)
    return min(full_s, float(occupancy.arrival_s.min() + occupancy.in_system_s.mean()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """What every request got inside a window, one place a request as in Occupancy: tokens, the share of its answer."""

    window: SteadyWindow
    tokens: Floats
    share: Floats

    def requests_per_s(self, of: Floats | float = 1.0) -> float:
        """Requests served a second; `of` weighs each, 1 or 0 to count some alone."""
        return float((self.share * of).sum()) / self.window.length_s

    def tokens_per_s(self, of: Floats | float = 1.0) -> float:
        return float((self.tokens * of).sum()) / self.window.length_s


def served_within(record: RunRecord, occupancy: Occupancy, window: SteadyWindow) -> Served:
    """Tokens delivered after the window's begin, up to its end. The share of a request that never finished is 0."""
    token_requests, delivered_s = deliveries(record)
    inside = (delivered_s > window.begin_s) & (delivered_s <= window.end_s)
    first = np.searchsorted(token_requests, occupancy.request_id, side="left")
    last = np.searchsorted(token_requests, occupancy.request_id, side="right")
    before = np.concatenate([[0], np.cumsum(inside)])
    tokens = (before[last] - before[first]).astype(np.float64)
    share = np.where(occupancy.served, tokens / np.maximum(last - first, 1), 0.0)
    return Served(window=window, tokens=tokens, share=share)

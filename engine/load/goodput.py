"""Goodput: the requests an engine serves within latency limits (a service level objective, SLO).

A limit applies to the time to first token (TTFT), the time per output token (TPOT), or both. A request meets a limit if
its own value does not exceed it. An unfinished request meets none, so failures lower the share. A request without a
TPOT (a single token, or the full response at once) meets the TPOT limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.core.option import Bounds, check_options, option
from engine.core.record import RunRecord
from engine.load.occupancy import Occupancy
from engine.load.steady_window import Served
from engine.metrics.latency import latencies

_SECONDS = Bounds(low=0, whole=False, above=True, says="use seconds above 0, for example 0.5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Latency limits in seconds; None for no limit. ValueError unless a limit is above 0."""

    ttft_s: float | None = option(
        None,
        label="TTFT limit, s",
        help="goodput: maximum time to first token",
        flags=("--ttft-limit-s",),
        takes=_SECONDS,
        metavar="S",
        group="load",
    )
    tpot_s: float | None = option(
        None,
        label="TPOT limit, s",
        help="goodput: maximum time per output token",
        flags=("--tpot-limit-s",),
        takes=_SECONDS,
        metavar="S",
        group="load",
    )

    def __post_init__(self) -> None:
        check_options(self)

    def __bool__(self) -> bool:
        return self.ttft_s is not None or self.tpot_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """Shares are of all `n` requests; rates are counted in the steady window, None without one.

    `ttft_share` and `tpot_share` are the shares within each limit by itself, None if that limit is not set.
    """

    n: int
    share: float
    ttft_share: float | None
    tpot_share: float | None
    requests_per_s: float | None
    tokens_per_s: float | None


def goodput(record: RunRecord, limits: Limits, occupancy: Occupancy, served: Served | None) -> Goodput | None:
    """None without limits or requests. `served` is what the steady window delivered, if there is one."""
    if not limits or not len(occupancy):
        return None
    requests = latencies(record).requests
    in_ttft = occupancy.served & _keeps(requests["ttft_s"], limits.ttft_s)
    in_tpot = occupancy.served & (_keeps(requests["tpot_s"], limits.tpot_s) | np.isnan(requests["tpot_s"]))
    good = (in_ttft & in_tpot).astype(np.float64)
    return Goodput(
        n=len(occupancy),
        share=float(good.mean()),
        ttft_share=None if limits.ttft_s is None else float(in_ttft.mean()),
        tpot_share=None if limits.tpot_s is None else float(in_tpot.mean()),
        requests_per_s=None if served is None else served.requests_per_s(good),
        tokens_per_s=None if served is None else served.tokens_per_s(good),
    )


def _keeps(values_s: NDArray[np.float64], limit_s: float | None) -> NDArray[np.bool_]:
    return np.ones(len(values_s), np.bool_) if limit_s is None else values_s <= limit_s

"""The findings of a load test as sentences, for the command line and the page.

The sentences are neutral about engines: where two perform alike, the text says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.core.format import count, counted, duration, exact, is_missing, number, percent, quantity
from engine.load.load_plan import ABOVE, BELOW
from engine.load.load_point import LittlesLaw, LoadPoint
from engine.load.load_report import GOODPUT
from engine.load.load_table import ALIKE, Capacity, LoadRow, LoadTable, SaturationPoint
from engine.load.queue_growth import ENOUGH_BATCHES, QueueGrowth

LEAST_RISE = 0.01  # requests; a smaller change of the backlog is none
SPEED_TOLERANCE = 0.15  # decode passes that differ by less count as equally fast
ROLE_NAMES = {
    "saturation": "all at once",
    "below": f"{exact(BELOW)} x capacity",
    "above": f"{exact(ABOVE)} x capacity",
}  # rates without a number
QUEUES = {True: "grows", False: "does not grow", None: "unknown"}  # by whether a row's queue grows
MIN_LITTLE_REQUESTS = 20  # arrivals between the ramp's end and the last arrival, needed to check Little's law


def rate_text(role: str, rate_per_s: float | None) -> str:
    """A rate in a table: `2/s`; `all at once`; `0.9 x capacity`."""
    if role in ROLE_NAMES or rate_per_s is None or is_missing(rate_per_s):
        return ROLE_NAMES.get(role, role)
    return f"{exact(rate_per_s, digits=4)}/s"


def capacity_text(capacity: Capacity) -> str:
    """The completion rate when all requests arrive at once, and whether the runs around it confirm it."""
    rate = capacity.requests_per_s
    spread = f" (median of {rate.n} runs, {number(rate.low)} to {number(rate.high)})" if rate.n > 1 else ""
    return (
        f"{capacity.engine}: capacity {quantity(rate.median, 'requests/s')}, {number(capacity.tokens_per_s)} output "
        f"tokens/s, when all requests arrive at once{spread}. {confirmation_text(capacity)}"
    )


def confirmation_text(capacity: Capacity) -> str:
    """Whether the runs just below and just above the capacity confirm it."""
    if capacity.refuted_by is not None:
        row = capacity.refuted_by
        served = quantity(row.median(lambda point: point.achieved_per_s) or 0.0, "requests/s")
        return (
            f"Not confirmed: the capacity is too low, since {served} were served at {_rate(row.rate_per_s)}. The run "
            f"with all requests at once was too short, or the machine was slower then; repeat it."
            f"{_speed_text(capacity)}"
        )
    around = ((BELOW, capacity.below), (ABOVE, capacity.above))
    missing = [f"{exact(share)} times" for share, row in around if row is None or row.grows is None]
    if missing:
        return (
            f"Not confirmed: the run at {' and '.join(missing)} the capacity is missing or too short to judge."
            f"{_size_text(capacity)}"
        )
    if capacity.is_confirmed:
        return (
            f"Confirmed: with evenly spaced requests the queue does not grow at {exact(BELOW)} times the capacity and "
            f"grows at {exact(ABOVE)} times.{_speed_text(capacity)}"
        )
    wrong = []
    if capacity.below is not None and capacity.below.grows:
        wrong.append(f"the queue already grows at {exact(BELOW)} times the capacity{_served(capacity.below)}")
    if capacity.above is not None and not capacity.above.grows:
        wrong.append(f"the queue does not grow at {exact(ABOVE)} times the capacity{_served(capacity.above)}")
    return (
        f"Not confirmed: with evenly spaced requests {' and '.join(wrong)}."
        f"{_size_text(capacity)}{_speed_text(capacity)}"
    )


def _size_text(capacity: Capacity) -> str:
    """A warning where there were too few requests to judge whether a queue grows."""
    if capacity.requests >= ENOUGH_BATCHES * capacity.most_running:
        return ""
    return (
        f" {capacity.requests:,} requests are too few for an engine that ran {capacity.most_running:,} at once: use "
        f"at least {ENOUGH_BATCHES} times as many requests as slots."
    )


def _speed_text(capacity: Capacity) -> str:
    """A warning where decode passes took another time in the runs around the capacity than at saturation."""
    base_s = capacity.decode_pass_s
    around = [row.median(lambda point: point.decode_pass_p50_s) for row in (capacity.below, capacity.above) if row]
    ratios = [pass_s / base_s for pass_s in around if pass_s and base_s]
    ratio = max(ratios, key=lambda ratio: abs(ratio - 1), default=1.0)
    if base_s is None or abs(ratio - 1) <= SPEED_TOLERANCE:
        return ""
    times = f"{number(ratio)} times as long" if ratio > 1 else f"{number(1 / ratio)} times as fast"
    return (
        f" The machine was not equally fast: decode passes took {duration(base_s)} with all requests at once and "
        f"{duration(ratio * base_s)} in these runs ({times})."
    )


def _served(row: LoadRow) -> str:
    rate = row.median(lambda point: point.achieved_per_s)
    return "" if rate is None else f", where {quantity(rate, 'requests/s')} were served"


def saturation_text(saturation: SaturationPoint) -> str:
    """The rates between which the queue begins to grow, and the median queue wait at both."""
    engine, held_per_s, lost_per_s = saturation.engine, saturation.held_per_s, saturation.lost_per_s
    held_wait_s, lost_wait_s = saturation.held_wait_s, saturation.lost_wait_s
    if lost_per_s is None:
        return f"{engine}: saturation point above {_rate(held_per_s)}; the queue grew at no rate."
    if held_per_s is None:
        wait = "" if lost_wait_s is None else f", with a median queue wait of {duration(lost_wait_s)}"
        return f"{engine}: saturation point below {_rate(lost_per_s)}; the queue grew even there{wait}."
    text = (
        f"{engine}: saturation point between {_rate(held_per_s)} (queue steady) and {_rate(lost_per_s)} (queue grows)"
    )
    if held_wait_s is None or lost_wait_s is None:
        return f"{text}."
    times = f" ({number(saturation.wait_ratio)} times)" if saturation.wait_ratio else ""
    return f"{text}; the median queue wait rises from {duration(held_wait_s)} to {duration(lost_wait_s)}{times}."


def ratio_sentence(table: LoadTable) -> str:
    """Each capacity as a multiple of the first engine's; empty with fewer than two capacities."""
    base = table.capacity(table.engines[0]) if table.engines else None
    others = [(engine, table.capacity_ratio(engine)) for engine in table.engines[1:]]
    known = [(engine, ratio) for engine, ratio in others if ratio is not None]
    if base is None or not known:
        return ""
    sentences = [_against(engine, ratio, base.engine) for engine, ratio in known]
    compared = [capacity for engine in (base.engine, *(e for e, _ in known)) if (capacity := table.capacity(engine))]
    unsure = [capacity.engine for capacity in compared if not capacity.is_confirmed]
    if len(unsure) == 2 and len(compared) == 2:
        sentences.append("Not conclusive: neither capacity was confirmed.")
    elif unsure:
        sentences.append(f"Not conclusive: the capacity of {' and of '.join(unsure)} was not confirmed.")
    return " ".join(sentences)


def _against(engine: str, ratio: float, base: str) -> str:
    if abs(ratio - 1) < ALIKE:
        return f"{engine}'s capacity is {number(ratio)} times {base}'s: about the same."
    return f"{engine}'s capacity is {number(ratio)} times {base}'s."


def wait_text(rows: Sequence[LoadRow]) -> str:
    """The median queue wait of each engine at one rate; empty with fewer than two engines."""
    waits = [(row.engine, row.median(lambda point: point.queue_wait_p50_s)) for row in rows]
    known = [(engine, wait_s) for engine, wait_s in waits if wait_s is not None]
    if len(known) < 2:
        return ""
    by_engine = ", ".join(f"{duration(wait_s)} with {engine}" for engine, wait_s in known)
    shortest, longest = min(wait_s for _, wait_s in known), max(wait_s for _, wait_s in known)
    times = f" ({number(longest / shortest)} times)" if shortest > 0 and longest > shortest else ""
    return f"Median queue wait at {_rate(rows[0].rate_per_s)}: {by_engine}{times}."


def ttft_text(rows: Sequence[LoadRow]) -> str:
    """TTFT p95 at the lowest and the highest rate; empty where it is unknown. `rows` are one engine's, rates rising."""
    values = [(row, row.median(lambda point: point.ttft_p95_s)) for row in rows]
    known = [(row, p95_s) for row, p95_s in values if p95_s is not None]
    if not known:
        return ""
    first, last = known[0], known[-1]
    text = f"{first[0].engine}: TTFT p95 {duration(first[1])} at {_rate(first[0].rate_per_s)}"
    return text + (f", {duration(last[1])} at {_rate(last[0].rate_per_s)}." if len(known) > 1 else ".")


def growth_text(engine: str, growth: QueueGrowth | None) -> str:
    """Whether one run's queue grows by the rule of `queue_growth`, with its numbers."""
    if growth is None:
        return f"{engine}: too few arrivals over time to tell whether the queue grows."
    period = f"from {duration(growth.begin_s)} to {duration(growth.end_s)}"
    if growth.is_swamped:
        return f"{engine}: queue grows; most requests still waited at the last arrival, at {duration(growth.end_s)}."
    change = _backlog_text(growth, period)
    if growth.grows and not growth.rises:
        return (
            f"{engine}: queue grows; the engine never caught up {period}, and {counted(growth.backlog)} requests "
            f"were in the backlog at the end."
        )
    if growth.grows:
        slope = quantity(growth.slope_per_s, "requests/s")
        return f"{engine}: queue grows by {slope}, {change}{_t_text(growth.t)}."
    return f"{engine}: queue does not grow, {change}."


def queue_text(engine: str, point: LoadPoint) -> str:
    """Whether the queue grew in one run, or why its records cannot tell."""
    if point.growth is None or point.grows is not None:
        return growth_text(engine, point.growth)
    if point.is_short:
        return (
            f"{engine}: {count(point.requests)} requests are too few to tell whether the queue grows; use at least "
            f"{ENOUGH_BATCHES} times as many as run at once."
        )
    achieved, offered = number(point.achieved_per_s), quantity(point.offered_per_s, "requests/s")
    return f"{engine}: unclear whether the queue grows, since {achieved} of {offered} were achieved."


def _backlog_text(growth: QueueGrowth, period: str) -> str:
    """`5 more requests in the backlog from 1.00 s to 9.00 s`."""
    if abs(growth.rise) < LEAST_RISE:
        return f"the backlog stayed the same {period}"
    return f"{counted(abs(growth.rise))} {'more' if growth.rise >= 0 else 'fewer'} requests in the backlog {period}"


def _t_text(t: float) -> str:
    return f" (t = {number(t)})" if math.isfinite(t) else ""


def little_text(engine: str, rate_per_s: float | None, little: LittlesLaw) -> str:
    """Little's law with one run's numbers: arrival rate x mean time in the system = mean number in the system."""
    if little.n < MIN_LITTLE_REQUESTS:
        return (
            f"{engine} at {_rate(rate_per_s)}: too few requests to check Little's law "
            f"({little.n} arrivals in the steady part; needs {MIN_LITTLE_REQUESTS})."
        )
    off = little.ratio - 1
    found = "as counted" if abs(off) < 0.005 else f"counted: {number(little.mean_number)}, {_off(off)}"
    text = (
        f"{engine} at {_rate(rate_per_s)}: {quantity(little.arrivals_per_s, 'requests/s')} after the ramp x "
        f"{duration(little.mean_stay_s)} in the system = {number(little.expected_number)} requests in the system; "
        f"{found}."
    )
    return text if little.holds else f"{text} Arrivals and completions had different rates: no steady state."


def _off(off: float) -> str:
    return f"{percent(abs(off))} {'more' if off > 0 else 'fewer'}"


def goodput_text(row: LoadRow) -> str:
    """The share of requests within the limits at one rate, and within each limit by itself."""
    share, rate = row.median(GOODPUT["goodput_share"]), row.median(GOODPUT["goodput_requests_per_s"])
    if share is None:
        return ""
    served = "" if rate is None else f", {quantity(rate, 'requests/s')}"
    ttft_share, tpot_share = row.median(GOODPUT["ttft_share"]), row.median(GOODPUT["tpot_share"])
    each = [
        f"{percent(found)} within the {name} limit"
        for name, found in (("TTFT", ttft_share), ("TPOT", tpot_share))
        if found is not None
    ]
    by_limit = f" ({', '.join(each)})" if len(each) > 1 else ""
    return f"{row.engine} at {_rate(row.rate_per_s)}: {percent(share)} of requests within the limits{served}{by_limit}."


def _rate(rate_per_s: float | None) -> str:
    """`2 requests/s`; saturation has no rate."""
    if rate_per_s is None:
        return "no rate (all at once)"
    return exact(rate_per_s, f"request{'' if rate_per_s == 1 else 's'}/s", digits=4)

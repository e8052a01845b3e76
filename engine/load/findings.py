"""What a load test found, in sentences made of its own figures: for the command line and for the page alike.

Nothing here knows which engine ought to win; where two do alike, that is what is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.core.format import counted, duration, exact, number, percent, quantity
from engine.load.load_plan import ABOVE, BELOW
from engine.load.load_point import Little
from engine.load.load_report import GOODPUT
from engine.load.load_table import ALIKE, Capacity, Knee, LoadRow, LoadTable
from engine.load.queue_growth import ENOUGH_BATCHES, QueueGrowth

SAME_PACE = 0.15  # decode passes that differ by less are taken for the same machine's
LITTLE_TOLD = 20  # requests between the ramp's end and the last arrival, from which Little's law is told in words


def capacity_text(capacity: Capacity) -> str:
    """What the engine completes when there is always somebody waiting, and whether the runs around it agree."""
    rate = capacity.requests_per_s
    spread = f", the median of {rate.n} runs from {number(rate.low)} to {number(rate.high)}" if rate.n > 1 else ""
    return (
        f"{capacity.engine}: capacity {quantity(rate.median, 'requests/s')}, {number(capacity.tokens_per_s)} output "
        f"tokens/s, with all requests there from the start{spread}. {confirmation_text(capacity)}"
    )


def confirmation_text(capacity: Capacity) -> str:
    """What the runs just below and just above a capacity say of it."""
    if capacity.refuted_by is not None:
        row = capacity.refuted_by
        served = quantity(row.median(lambda point: point.achieved_per_s) or 0.0, "requests/s")
        return (
            f"Not confirmed: it is too low, at {_rate(row.rate_per_s)} {served} were served. The machine "
            f"was slower in the run with all requests at once, or that run too short; repeat it.{_pace_text(capacity)}"
        )
    around = ((BELOW, capacity.below), (ABOVE, capacity.above))
    missing = [f"{exact(share)} times" for share, row in around if row is None or row.grows is None]
    if missing:
        return f"Not confirmed yet: the run at {' and at '.join(missing)} it is missing, or too small to tell."
    if capacity.is_confirmed:
        said = f"Confirmed: evenly spaced, the queue does not grow at {exact(BELOW)} times it and grows at "
        said += f"{exact(ABOVE)} times."
        return said + _pace_text(capacity)
    wrong = []
    if capacity.below is not None and capacity.below.grows:
        wrong.append(f"the queue grows at {exact(BELOW)} times it already{_served(capacity.below)}")
    if capacity.above is not None and not capacity.above.grows:
        wrong.append(f"the queue does not grow at {exact(ABOVE)} times it yet{_served(capacity.above)}")
    return f"Not confirmed: evenly spaced, {' and '.join(wrong)}.{_size_text(capacity)}{_pace_text(capacity)}"


def _size_text(capacity: Capacity) -> str:
    """Whether there were too few requests for the rule of growing queues to be relied on."""
    if capacity.requests >= ENOUGH_BATCHES * capacity.most_running:
        return ""
    return (
        f" {capacity.requests:,} requests are few for an engine that ran {capacity.most_running:,} at once: use "
        f"{ENOUGH_BATCHES} times as many as there are slots, or more; of fewer a queue tells little."
    )


def _pace_text(capacity: Capacity) -> str:
    """Whether the machine was as fast in the runs around a capacity as in that which it was read from."""
    base_s = capacity.decode_pass_s
    around = [row.median(lambda point: point.decode_pass_p50_s) for row in (capacity.below, capacity.above) if row]
    paces = [pass_s / base_s for pass_s in around if pass_s is not None and base_s]
    pace = max(paces, key=lambda pace: abs(pace - 1), default=1.0)
    if base_s is None or abs(pace - 1) <= SAME_PACE:
        return ""
    return (
        f" Decode passes took {duration(pace * base_s)} around it and {duration(base_s)} with all requests at once, "
        f"{number(pace)} times: the machine was not equally fast."
    )


def _served(row: LoadRow) -> str:
    rate = row.median(lambda point: point.achieved_per_s)
    return "" if rate is None else f", where {quantity(rate, 'requests/s')} are served"


def knee_text(knee: Knee) -> str:
    """Between which rates the queue begins to grow, and what that does to the median wait."""
    if knee.lost_per_s is None:
        return f"{knee.engine}: the queue grew at no rate, up to {_rate(knee.held_per_s)}: the knee lies above."
    if knee.held_per_s is None:
        wait = "" if knee.lost_wait_s is None else f", where the median wait is {duration(knee.lost_wait_s)}"
        return f"{knee.engine}: the queue grew at {_rate(knee.lost_per_s)} already{wait}: the knee lies below."
    said = (
        f"{knee.engine}: the queue does not grow at {_rate(knee.held_per_s)} and grows at "
        f"{_rate(knee.lost_per_s)}: the knee lies between."
    )
    if knee.held_wait_s is None or knee.lost_wait_s is None:
        return said
    said += f" The median wait goes from {duration(knee.held_wait_s)} to {duration(knee.lost_wait_s)}"
    return said + (f", {number(knee.wait_ratio)} times." if knee.wait_ratio else ".")


def ratio_sentence(table: LoadTable) -> str:
    """Capacities against the first engine's; empty where there are no two to compare."""
    base = table.capacity(table.engines[0]) if table.engines else None
    others = [(engine, table.capacity_ratio(engine)) for engine in table.engines[1:]]
    known = [(engine, ratio) for engine, ratio in others if ratio is not None]
    if base is None or not known:
        return ""
    parts = [_against(engine, ratio, base.engine) for engine, ratio in known]
    compared = [capacity for engine in (base.engine, *(e for e, _ in known)) if (capacity := table.capacity(engine))]
    unsure = [capacity.engine for capacity in compared if not capacity.is_confirmed]
    if unsure:
        parts.append(f"That is no finding yet: the capacity of {' and of '.join(unsure)} is not confirmed.")
    return " ".join(parts)


def _against(engine: str, ratio: float, base: str) -> str:
    if abs(ratio - 1) < ALIKE:
        return f"{engine}'s capacity is {number(ratio)} times {base}'s: about the same."
    return f"{engine}'s capacity is {number(ratio)} times {base}'s."


def wait_text(rows: Sequence[LoadRow]) -> str:
    """What the median request waits with each engine at one rate; empty where fewer than two engines tell."""
    told = [(row.engine, row.median(lambda point: point.queue_wait_p50_s)) for row in rows]
    known = [(engine, wait_s) for engine, wait_s in told if wait_s is not None]
    if len(known) < 2:
        return ""
    said = ", ".join(f"{duration(wait_s)} with {engine}" for engine, wait_s in known)
    shortest, longest = min(wait_s for _, wait_s in known), max(wait_s for _, wait_s in known)
    times = f": {number(longest / shortest)} times as long" if shortest > 0 and longest > shortest else ""
    return f"At {_rate(rows[0].rate_per_s)} the median request waits {said}{times}."


def ttft_text(rows: Sequence[LoadRow]) -> str:
    """How an engine's 95th percentile to the first token grows from the lowest to the highest rate; empty if unknown.

    `rows` are one engine's at rising rates.
    """
    told = [(row, row.median(lambda point: point.ttft_p95_s)) for row in rows]
    known = [(row, p95_s) for row, p95_s in told if p95_s is not None]
    if not known:
        return ""
    first, last = known[0], known[-1]
    said = f"{first[0].engine}: TTFT p95 {duration(first[1])} at {_rate(first[0].rate_per_s)}"
    return said + (f", {duration(last[1])} at {_rate(last[0].rate_per_s)}." if len(known) > 1 else ".")


def growth_text(engine: str, growth: QueueGrowth | None) -> str:
    """What the rule says of one run's queue, with its figures."""
    if growth is None:
        return f"{engine}: too few requests came over time to tell whether its queue grows."
    over = f"from {duration(growth.begin_s)} to {duration(growth.end_s)}"
    if growth.is_swamped:
        last = duration(growth.end_s)
        return f"{engine}: its queue grows; most requests still waited when the last one came, at {last}."
    change = f"{counted(abs(growth.rise))} requests {'more' if growth.rise >= 0 else 'fewer'} left behind {over}"
    if growth.grows and not growth.rises:
        left = f"{counted(growth.left_behind)} requests were left behind at last"
        return f"{engine}: its queue grows; the engine never caught up {over}, and {left}."
    if growth.grows:
        pace = f"{number(growth.slope_per_s)} requests a second"
        return f"{engine}: its queue grows by {pace}, {change}{_sureness(growth.t)}."
    return f"{engine}: its queue does not grow, {change}."


def _sureness(t: float) -> str:
    return f" (t = {number(t)})" if math.isfinite(t) else ""


def little_text(engine: str, rate_per_s: float | None, little: Little) -> str:
    """Little's law with the run's own figures: why so few requests a second keep so many in the system."""
    if little.n < LITTLE_TOLD:
        return (
            f"{engine} at {_rate(rate_per_s)}: {little.n} requests came between the ramp's end and the last arrival, "
            f"too few for Little's law (told from {LITTLE_TOLD})."
        )
    off = little.ratio - 1
    counted = "as counted" if abs(off) < 0.005 else f"counted were {number(little.mean_number)}, {_off(off)}"
    said = (
        f"{engine} at {_rate(rate_per_s)}: {quantity(little.arrivals_per_s, 'requests/s')} from the ramp's end on x "
        f"{duration(little.mean_stay_s)} each in the system = {number(little.expected_number)} there at a time; "
        f"{counted}."
    )
    return said if little.holds else f"{said} They came and left at different rates: this load was in no steady state."


def _off(off: float) -> str:
    return f"{percent(abs(off))} {'more' if off > 0 else 'fewer'}"


def goodput_text(row: LoadRow) -> str:
    """What an engine serves within the limits at a rate, and what each limit alone lets through."""
    share, rate = row.median(GOODPUT["goodput_share"]), row.median(GOODPUT["goodput_requests_per_s"])
    if share is None:
        return ""
    served = "" if rate is None else f", {quantity(rate, 'requests/s')}"
    ttft_share, tpot_share = row.median(GOODPUT["ttft_share"]), row.median(GOODPUT["tpot_share"])
    alone = [
        f"{percent(found)} keep the limit on {name}"
        for name, found in (("the first token", ttft_share), ("the pauses", tpot_share))
        if found is not None
    ]
    apart = f" ({', '.join(alone)})" if len(alone) > 1 else ""
    return f"{row.engine} at {_rate(row.rate_per_s)}: {percent(share)} of requests within the limits{served}{apart}."


def _rate(rate_per_s: float | None) -> str:
    """`2 requests/s`; saturation has no rate."""
    if rate_per_s is None:
        return "no rate (all at once)"
    return exact(rate_per_s, f"request{'' if rate_per_s == 1 else 's'}/s", digits=4)

"""Checks of the load: were the requests offered as asked, was there a steady state, does its bookkeeping agree?

Little's law (J. D. C. Little, 1961): in a steady state the mean number in a system is the rate at which requests come
times the mean time that each stays, whatever the order of service. "In the engine" is from the moment when the engine
saw a request (submitted) until its last token was produced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.core.format import duration, exact, number, percent
from engine.validity.check import Check, Evidence, Floats, Verdict, failed, judged, not_applicable
from engine.workload.arrivals import ConstantArrival, GammaArrival, PoissonArrival, offered_rate, parse_arrival

RATE_TOLERANCE = 0.05
CHANCE = 3.0  # standard errors by which a drawn rate may miss the asked one
STEADY_SHARE = 0.5
STEADY_STAYS = 5.0
LITTLE_TOLERANCE = 0.20
LITTLE_REQUESTS = 10

OpenArrival = ConstantArrival | PoissonArrival | GammaArrival


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of a run, on its clock, and the mean stay of a request in the engine (nan for a closed load)."""

    begin_s: float
    end_s: float
    stay_s: float

    @property
    def length_s(self) -> float:
        return max(0.0, self.end_s - self.begin_s)


def open_arrival(run: Evidence) -> OpenArrival | None:
    """How requests were to come over time; None where all were there from the start, or the run does not tell."""
    try:
        law = parse_arrival(str(run.part("workload").get("arrival")))
    except ValueError:
        return None
    return law if isinstance(law, OpenArrival) else None


def judge_offered_rate(run: Evidence) -> Verdict:
    """Was the engine given the requests at the rate that the run is named by?"""
    law = open_arrival(run)
    if law is None:
        return not_applicable("All requests were there from the start: no rate was asked for.")
    arrival_s, submitted_s = run.request_s("arrival_s"), run.request_s("submitted_s")
    expected = run.part("workload").get("requests")
    if run.is_complete and isinstance(expected, int) and len(arrival_s) < expected:
        text = f"Only {len(arrival_s):,} of {expected:,} requests were ever given to the engine."
        return failed(text, len(arrival_s) / expected, 1.0)
    drawn, given = offered_rate(arrival_s), offered_rate(submitted_s)
    if drawn is None or given is None or np.isnan(arrival_s + submitted_s).any():
        return not_applicable("Fewer than two requests came at different times: there is no rate.")
    asked, chance = law.rate, CHANCE * _variation(law) / np.sqrt(len(arrival_s) - 1)
    text = (
        f"{exact(asked, digits=4)} requests a second were asked for, {number(drawn)} were drawn, "
        f"and the engine was given {number(given)}"
    )
    if abs(drawn / asked - 1) > RATE_TOLERANCE + chance:
        return failed(f"{text}: the draw misses what was asked for by more than chance.", drawn / asked, 1.0)
    late_s = float(np.ptp(submitted_s) - np.ptp(arrival_s))
    allowed_s = max(RATE_TOLERANCE * float(np.ptp(arrival_s)), longest_step_s(run))
    if abs(late_s) <= allowed_s:
        return judged(True, f"{text}.", given / drawn, 1 - RATE_TOLERANCE)
    how = f"{duration(abs(late_s))} {'later' if late_s > 0 else 'earlier'} than intended"
    return failed(
        f"{text}: from the first request on, the last one came {how}.",
        given / drawn,
        1 - RATE_TOLERANCE,
    )


def judge_steady_window(run: Evidence) -> Verdict:
    """Is the part of the run that is neither ramp nor tail long enough to stand for the whole?"""
    window = steady_window(run)
    if window is None:
        return not_applicable("No request finished: there is nothing to be steady.")
    if np.isnan(window.stay_s):
        share = window.length_s / max(run.end_s - _first_s(run), 1e-12)
        rest = "" if share > 1 - 1e-9 else "; the rest is ramp and tail, with slots to spare"
        text = (
            f"The engine was as full as it ever was from {duration(window.begin_s)} to {duration(window.end_s)}: "
            f"{percent(share)} of the run{rest}."
        )
        return judged(share >= STEADY_SHARE, text, share, STEADY_SHARE)
    stays = window.length_s / max(window.stay_s, 1e-12)
    text = f"A request stayed {duration(window.stay_s)} on average. "
    if stays > 0:
        text += (
            f"From one stay after the first request to the last one's coming there are {duration(window.length_s)}, "
            f"{number(stays)} stays."
        )
    else:
        text += "The last request came before one stay was over."
    return judged(stays >= STEADY_STAYS, text, stays, STEADY_STAYS)


def judge_littles_law(run: Evidence) -> Verdict:
    """Does the mean number in the engine equal the rate times the mean stay?"""
    if open_arrival(run) is None:
        return not_applicable("All requests were there from the start: there is no rate to multiply.")
    window = steady_window(run)
    if window is None or window.length_s < STEADY_STAYS * window.stay_s:
        return not_applicable("There is no steady window that is long enough for it.")
    submitted_s, finished_s = run.request_s("submitted_s"), _until(run, "finished_s")
    inside = (submitted_s > window.begin_s) & (submitted_s <= window.end_s)
    if inside.sum() < LITTLE_REQUESTS:
        return not_applicable(f"Fewer than {LITTLE_REQUESTS} requests came in the steady window.")
    rate = inside.sum() / window.length_s
    stay_s = float(np.mean((finished_s - submitted_s)[inside]))
    present_s = np.clip(finished_s, window.begin_s, window.end_s) - np.clip(submitted_s, window.begin_s, window.end_s)
    mean_number = float(present_s.sum()) / window.length_s
    off = mean_number / (rate * stay_s) - 1
    text = (
        f"{number(rate)} requests a second times {duration(stay_s)} in the engine make {number(rate * stay_s)} there "
        f"at a time; counted were {number(mean_number)}, {percent(abs(off))} {'more' if off > 0 else 'less'}."
    )
    if abs(off) > LITTLE_TOLERANCE:
        text += " Requests came and left at different rates: this load was in no steady state."
    return judged(abs(off) <= LITTLE_TOLERANCE, text, abs(off), LITTLE_TOLERANCE)


def steady_window(run: Evidence) -> Window | None:
    """Closed: while as many requests ran as ever did. Open: from one mean stay after the first request to the last."""
    finished = ~np.isnan(run.request_s("finished_s"))
    if not finished.any():
        return None
    if open_arrival(run) is None:
        admitted = ~np.isnan(run.request_s("admitted_s"))
        begin_s, end_s = _fullest(run.request_s("admitted_s")[admitted], _until(run, "finished_s")[admitted])
        return Window(begin_s=begin_s, end_s=end_s, stay_s=float("nan"))
    submitted_s = run.request_s("submitted_s")
    stay_s = float(np.mean((run.request_s("finished_s") - submitted_s)[finished]))
    return Window(begin_s=float(submitted_s.min()) + stay_s, end_s=float(submitted_s.max()), stay_s=stay_s)


def longest_step_s(run: Evidence) -> float:
    """The longest that the engine did not look for new requests: its longest step; 0 without passes."""
    steps = run.record.passes["step"]
    if not len(steps):
        return 0.0
    _, place = np.unique(steps, return_inverse=True)
    begin_s, end_s = np.full(place.max() + 1, np.inf), np.full(place.max() + 1, -np.inf)
    np.minimum.at(begin_s, place, run.pass_s("start_s"))
    np.maximum.at(end_s, place, run.pass_s("end_s"))
    return float((end_s - begin_s).max())


def _fullest(begin_s: Floats, end_s: Floats) -> tuple[float, float]:
    """From the first to the last moment at which as many intervals overlap as ever do."""
    times_s = np.concatenate([end_s, begin_s])
    changes = np.concatenate([-np.ones(len(end_s)), np.ones(len(begin_s))])
    order = np.argsort(times_s, kind="stable")  # of one moment's changes the endings come first
    number, times_s = np.cumsum(changes[order]), times_s[order]
    full = np.flatnonzero(number == number.max())
    return float(times_s[full[0]]), float(times_s[min(full[-1] + 1, len(times_s) - 1)])


def _until(run: Evidence, name: str) -> Floats:
    """A column of moments, the run's end where the moment never came."""
    moments_s = run.request_s(name)
    return np.where(np.isnan(moments_s), run.end_s, moments_s)


def _first_s(run: Evidence) -> float:
    return float(np.nanmin(run.request_s("arrival_s")))


def _variation(law: OpenArrival) -> float:
    """The coefficient of variation of the gaps."""
    match law:
        case GammaArrival():
            return law.cv
        case PoissonArrival():
            return 1.0
        case ConstantArrival():
            return 0.0


LOAD_CHECKS = (
    Check(
        name="offered_rate",
        label="offered rate met",
        fault="offered rate missed",
        meaning="The engine was given its requests at the rate that the run is named by. A load that is offered too "
        "slowly, by a late sleep or a busy loop, makes every engine look better than it is. Whether the engine could "
        "keep up is another question, and no fault of the run.",
        limit=f"From the first request to the last it took as long as was intended, within "
        f"{exact(100 * RATE_TOLERANCE, '%')} or one step of the engine; the rate that was drawn lies within "
        f"{exact(100 * RATE_TOLERANCE, '%')} and {exact(CHANCE)} standard errors of the one asked for.",
        unit="share of the drawn rate",
        judge=judge_offered_rate,
    ),
    Check(
        name="littles_law",
        label="Little's law holds",
        fault="Little's law does not hold",
        meaning="In a steady state the mean number of requests in the engine is their rate times the mean time each "
        "stays: that is why half a request a second can keep 13 in flight. Where it does not hold, requests piled up "
        "or drained, and the figures depend on how long the run happened to last.",
        limit=f"In the steady window the two differ by {exact(100 * LITTLE_TOLERANCE, '%')} at most; at least "
        f"{LITTLE_REQUESTS} requests came in it.",
        unit="relative difference",
        judge=judge_littles_law,
    ),
    Check(
        name="steady_window",
        label="steady window long enough",
        fault="steady window too short",
        meaning="While a run ramps up and while its last requests drain, slots stand empty: both understate what the "
        "engine can do. Only a run whose steady part is long says something about a server that never stops.",
        limit=f"All requests at once: as many run as ever do for at least {exact(100 * STEADY_SHARE, '%')} of the run. "
        f"Requests that come over time: they go on coming for at least {exact(STEADY_STAYS)} mean stays after the "
        "first stay.",
        unit="share of the run, or mean stays",
        judge=judge_steady_window,
    ),
)

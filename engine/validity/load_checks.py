"""Checks of the load: offered rate, steady window, Little's law.

Little's law (J. D. C. Little, 1961): in a steady state the mean number of requests in a system is their arrival rate
times their mean time in it, whatever the order of service. A request is in the engine from its submission until its
last token is produced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.core.format import duration, exact, number, percent, quantity
from engine.validity.check import Check, Evidence, Floats, Verdict, failed, judged, not_applicable
from engine.workload.arrivals import ConstantArrival, GammaArrival, PoissonArrival, offered_rate, parse_arrival

RATE_TOLERANCE = 0.05
CHANCE = 3.0  # standard errors by which a drawn rate may differ from the requested one
STEADY_SHARE = 0.5
STEADY_RESIDENCES = 5.0
LITTLE_TOLERANCE = 0.20
LITTLE_REQUESTS = 10

OpenArrival = ConstantArrival | PoissonArrival | GammaArrival


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of a run, on its clock, and the mean residence time of a request (nan for a closed load)."""

    begin_s: float
    end_s: float
    residence_s: float

    @property
    def length_s(self) -> float:
        return max(0.0, self.end_s - self.begin_s)


def open_arrival(run: Evidence) -> OpenArrival | None:
    """The law of arrivals; None if all requests arrive at once, or the run does not record it."""
    try:
        law = parse_arrival(str(run.part("workload").get("arrival")))
    except ValueError:
        return None
    return law if isinstance(law, OpenArrival) else None


def judge_offered_rate(run: Evidence) -> Verdict:
    """Check that requests reached the engine at the requested rate."""
    law = open_arrival(run)
    if law is None:
        return not_applicable("All requests arrive at once, so no rate was requested.")
    arrival_s, submitted_s = run.request_s("arrival_s"), run.request_s("submitted_s")
    expected = run.part("workload").get("requests")
    if run.is_complete and isinstance(expected, int) and len(arrival_s) < expected:
        text = f"Only {len(arrival_s):,} of {expected:,} requests reached the engine."
        return failed(text, len(arrival_s) / expected, 1.0)
    drawn, given = offered_rate(arrival_s), offered_rate(submitted_s)
    if drawn is None or given is None or np.isnan(arrival_s + submitted_s).any():
        return not_applicable("Fewer than two requests arrived at different times, so there is no rate.")
    asked, chance = law.rate, CHANCE * _variation(law) / np.sqrt(len(arrival_s) - 1)
    text = (
        f"{exact(asked, 'requests/s', digits=4)} were requested, {number(drawn)} drawn, "
        f"and {number(given)} submitted to the engine"
    )
    if abs(drawn / asked - 1) > RATE_TOLERANCE + chance:
        return failed(f"{text}: the drawn rate differs from the requested one by more than chance.", drawn / asked, 1.0)
    late_s = float(np.ptp(submitted_s) - np.ptp(arrival_s))
    allowed_s = max(RATE_TOLERANCE * float(np.ptp(arrival_s)), longest_step_s(run))
    if abs(late_s) <= allowed_s:
        return judged(True, f"{text}.", given / drawn, 1 - RATE_TOLERANCE)
    how = f"{duration(abs(late_s))} {'later' if late_s > 0 else 'earlier'} than intended"
    return failed(
        f"{text}: the last request came {how}, counted from the first.",
        given / drawn,
        1 - RATE_TOLERANCE,
    )


def judge_steady_window(run: Evidence) -> Verdict:
    """Check that the part between ramp and tail is long enough to represent the run."""
    window = steady_window(run)
    if window is None:
        return not_applicable("No request finished, so there is no steady window.")
    if np.isnan(window.residence_s):
        share = window.length_s / max(run.end_s - _first_s(run), 1e-12)
        rest = "" if share > 1 - 1e-9 else "; the rest is ramp and tail"
        text = (
            f"The number of running requests was at its maximum from {duration(window.begin_s)} to "
            f"{duration(window.end_s)}: {percent(share)} of the run{rest}."
        )
        return judged(share >= STEADY_SHARE, text, share, STEADY_SHARE)
    residences = window.length_s / max(window.residence_s, 1e-12)
    text = f"A request was in the engine for {duration(window.residence_s)} on average; "
    if residences > 0:
        text += f"the steady window of {duration(window.length_s)} is {number(residences)} times as long."
    else:
        text += "the last request arrived before that time had passed, so there is no steady window."
    return judged(residences >= STEADY_RESIDENCES, text, residences, STEADY_RESIDENCES)


def judge_littles_law(run: Evidence) -> Verdict:
    """Check that the mean number of requests in the engine is their rate times their mean time in it."""
    if open_arrival(run) is None:
        return not_applicable("All requests arrive at once, so there is no arrival rate.")
    window = steady_window(run)
    if window is None or window.length_s < STEADY_RESIDENCES * window.residence_s:
        return not_applicable("The steady window is too short to check Little's law.")
    submitted_s, finished_s = run.request_s("submitted_s"), _until(run, "finished_s")
    inside = (submitted_s > window.begin_s) & (submitted_s <= window.end_s)
    if inside.sum() < LITTLE_REQUESTS:
        return not_applicable(
            f"The steady window has too few requests to check Little's law (needs {LITTLE_REQUESTS})."
        )
    rate = inside.sum() / window.length_s
    residence_s = float(np.mean((finished_s - submitted_s)[inside]))
    present_s = np.clip(finished_s, window.begin_s, window.end_s) - np.clip(submitted_s, window.begin_s, window.end_s)
    mean_number = float(present_s.sum()) / window.length_s
    off = mean_number / (rate * residence_s) - 1
    text = (
        f"{quantity(rate, 'requests/s')} times {duration(residence_s)} in the engine predict "
        f"{number(rate * residence_s)} requests at a time; {number(mean_number)} were counted, {percent(abs(off))} "
        f"{'more' if off > 0 else 'less'}."
    )
    if abs(off) > LITTLE_TOLERANCE:
        text += " Requests arrived and left at different rates, so there was no steady state."
    return judged(abs(off) <= LITTLE_TOLERANCE, text, abs(off), LITTLE_TOLERANCE)


def steady_window(run: Evidence) -> Window | None:
    """Closed: while the most requests ran. Open: from one mean residence time after the first arrival to the last."""
    finished = ~np.isnan(run.request_s("finished_s"))
    if not finished.any():
        return None
    if open_arrival(run) is None:
        admitted = ~np.isnan(run.request_s("admitted_s"))
        begin_s, end_s = _fullest(run.request_s("admitted_s")[admitted], _until(run, "finished_s")[admitted])
        return Window(begin_s=begin_s, end_s=end_s, residence_s=float("nan"))
    submitted_s = run.request_s("submitted_s")
    residence_s = float(np.mean((run.request_s("finished_s") - submitted_s)[finished]))
    return Window(
        begin_s=float(submitted_s.min()) + residence_s, end_s=float(submitted_s.max()), residence_s=residence_s
    )


def longest_step_s(run: Evidence) -> float:
    """The longest time between two checks for new requests: the longest step; 0 without passes."""
    steps = run.record.passes["step"]
    if not len(steps):
        return 0.0
    _, place = np.unique(steps, return_inverse=True)
    begin_s, end_s = np.full(place.max() + 1, np.inf), np.full(place.max() + 1, -np.inf)
    np.minimum.at(begin_s, place, run.pass_s("start_s"))
    np.maximum.at(end_s, place, run.pass_s("end_s"))
    return float((end_s - begin_s).max())


def _fullest(begin_s: Floats, end_s: Floats) -> tuple[float, float]:
    """From the first to the last moment at which the most intervals overlap."""
    times_s = np.concatenate([end_s, begin_s])
    changes = np.concatenate([-np.ones(len(end_s)), np.ones(len(begin_s))])
    order = np.argsort(times_s, kind="stable")  # at equal times, ends come before begins
    number, times_s = np.cumsum(changes[order]), times_s[order]
    full = np.flatnonzero(number == number.max())
    return float(times_s[full[0]]), float(times_s[min(full[-1] + 1, len(times_s) - 1)])


def _until(run: Evidence, name: str) -> Floats:
    """A column of times, with the run's end where a time is missing."""
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
        meaning="Requests reached the engine at the requested rate. A load that is offered too slowly makes every "
        "engine look better than it is. Whether the engine kept up is not part of this check.",
        limit=f"The time from the first request to the last is as intended, within "
        f"{exact(100 * RATE_TOLERANCE, '%')} or one step of the engine. The drawn rate is within "
        f"{exact(100 * RATE_TOLERANCE, '%')} plus {exact(CHANCE)} standard errors of the requested one.",
        unit="share of the drawn rate",
        judge=judge_offered_rate,
    ),
    Check(
        name="littles_law",
        label="Little's law holds",
        fault="Little's law does not hold",
        meaning="In a steady state the mean number of requests in the engine is their arrival rate times their mean "
        "time in it. If this does not hold, requests piled up or drained, and the figures depend on the length of the "
        "run.",
        limit=f"In the steady window the two differ by at most {exact(100 * LITTLE_TOLERANCE, '%')}. Needs at least "
        f"{LITTLE_REQUESTS} requests in the window.",
        unit="relative difference",
        judge=judge_littles_law,
    ),
    Check(
        name="steady_window",
        label="steady window long enough",
        fault="steady window too short",
        meaning="While a run ramps up and while its last requests drain, slots are empty, which understates the "
        "engine's speed. Only a run with a long steady window represents a server that runs all the time.",
        limit=f"All requests at once: the most requests run for at least {exact(100 * STEADY_SHARE, '%')} of the run. "
        f"Arrivals over time: they continue for at least {exact(STEADY_RESIDENCES)} mean residence times "
        "in the engine, counted after the first.",
        unit="share of the run, or mean residence times",
        judge=judge_steady_window,
    ),
)

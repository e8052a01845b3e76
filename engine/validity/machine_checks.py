"""Checks of the machine: warm-up, a host that keeps up, steady clocks. Also whether it was busy when runs began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.format import duration, exact, number, percent
from engine.core.presets import logged_slots
from engine.validity.check import Check, Evidence, Floats, Verdict, counts, failed, judged, not_applicable, passed

LATE_S = 0.010
BETWEEN_SHARE = 0.10
ISSUE_SHARE = 0.90
BUSY_LOAD = 1.5  # per core; above 1, because a run and the one before it each use every core
DRIFT = 0.10
CLOCK_SHARE = 0.80
LIKE_PASSES = 5  # passes of one shape needed in each half of the run
SHAPE_RATIO = 1.25  # widths with a smaller ratio count as one shape

NO_MACHINE = "A simulated run uses no machine."


def judge_warm_up(run: Evidence) -> Verdict:
    """Check that the warm-up ran every shape that was measured."""
    if run.is_simulated:
        return not_applicable(NO_MACHINE)
    if run.part("config").get("warmups") == 0:
        return failed("No warm-up ran, so the first passes include one-time work.", 0.0, 1.0)
    warmed = run.result.get("warm_up")
    if not isinstance(warmed, Mapping):
        return not_applicable("The run log does not record the warm-up.")
    measured = np.unique(counts(run.record.requests, "prompt_tokens"))
    if not len(measured):
        return not_applicable("No request was measured.")
    listed = warmed.get("prompt_tokens")
    known = [n for n in listed if isinstance(n, int)] if isinstance(listed, list) else []
    missing = np.setdiff1d(measured, np.array(known, np.int64))
    lengths = ", ".join(f"{length:,}" for length in missing[:5])
    covered = len(measured) - len(missing)
    if len(missing):
        text = f"{len(missing):,} of {len(measured):,} prompt lengths had no warm-up: {lengths} tokens."
        return failed(text, covered / len(measured), 1.0)
    text = f"The warm-up covered every prompt length ({len(measured):,} in total)"
    if run.part("device").get("kind") != "cuda":
        return passed(f"{text}.", 1.0, 1.0)
    batch, largest = warmed.get("rows"), int(max(run.record.passes["rows"], default=0))
    rows = batch if isinstance(batch, int) else 0
    if rows < largest:
        text = f"The warm-up ran batches of up to {rows:,} rows, the run up to {largest:,}."
        return failed(text, rows / largest, 1.0)
    return passed(f"{text}, in batches of up to {rows:,} rows.", 1.0, 1.0)


def judge_host(run: Evidence) -> Verdict:
    """Check that the CPU saw requests in time, issued passes in time, and had no other work."""
    if run.is_simulated:
        return not_applicable(NO_MACHINE)
    if not run.pass_s("start_s").size:
        return not_applicable("No pass was logged.")
    faults: list[tuple[float, str]] = []
    fine: list[tuple[float, str]] = []
    for measured, limit, describe in (
        (host_lag_s(run), LATE_S, _late_text),
        (between_share(run), BETWEEN_SHARE, _between_text),
        (issue_share(run), ISSUE_SHARE, _issue_text),
        (load_per_core(run), BUSY_LOAD, _load_text),
    ):
        if measured is not None:
            (faults if measured > limit else fine).append((measured / limit, describe(measured)))
    if not faults and not fine:
        return not_applicable("The run log does not record how busy the host was.")
    groups = (("Over the limit", faults), ("Within the limits", fine))
    text = " ".join(f"{heading}: {'; '.join(line for _, line in lines)}." for heading, lines in groups if lines)
    worst = max(ratio for ratio, _ in [*faults, *fine])
    return judged(not faults, text, worst, 1.0)


def judge_clocks(run: Evidence) -> Verdict:
    """Check that passes of the same shape took as long at the end of the run as at the start."""
    if run.is_simulated:
        return not_applicable(NO_MACHINE)
    clock = clock_share(run)
    clock_text = "" if clock is None else f" At the end the GPU's clock was at {percent(clock)} of its maximum."
    if clock is not None and clock < CLOCK_SHARE:
        return failed(f"The GPU was throttled.{clock_text}", clock, CLOCK_SHARE)
    drift, alike = drift_of_like_passes(run)
    if drift is None:
        text = "Too few passes of the same shape ran in both halves of the run."
        return not_applicable(text) if clock is None else passed(text + clock_text, clock, CLOCK_SHARE)
    text = (
        f"{alike:,} passes have a shape that ran in both halves of the run; those of the second half took "
        f"{percent(abs(drift))} {'longer' if drift > 0 else 'less time'}.{clock_text}"
    )
    return judged(abs(drift) <= DRIFT, text, abs(drift), DRIFT)


def host_lag_s(run: Evidence) -> float | None:
    """95th percentile of how long a request was not seen although a slot was free and no step was running.

    None if every request found all slots taken: it then waited for a slot, not for the host.
    """
    arrival_s, submitted_s = run.request_s("arrival_s"), run.request_s("submitted_s")
    others = _running(run, arrival_s) - (run.request_s("admitted_s") <= arrival_s)
    counted = ~np.isnan(submitted_s) & (others < _slots(run))
    if not counted.any():
        return None
    begin_s, end_s = _steps(run)
    place = np.searchsorted(begin_s, arrival_s, side="right") - 1
    seen_from_s = np.where(place >= 0, np.maximum(arrival_s, end_s[np.maximum(place, 0)]), arrival_s)
    return float(np.percentile(np.maximum(0.0, submitted_s - seen_from_s)[counted], 95))


def between_share(run: Evidence) -> float | None:
    """The share of time between passes while admitted requests were running. None with fewer than two passes."""
    order = np.argsort(run.pass_s("start_s"))
    start_s, end_s = run.pass_s("start_s")[order], run.pass_s("end_s")[order]
    if len(start_s) < 2:
        return None
    gap_s = np.maximum(0.0, start_s[1:] - end_s[:-1])
    idle_s = float(gap_s[_running(run, end_s[:-1]) > 0].sum())
    return idle_s / max(idle_s + float((end_s - start_s).sum()), 1e-12)


def issue_share(run: Evidence) -> float | None:
    """The share of pass time that the CPU needed to issue the passes. None on a CPU device."""
    issue_s = run.pass_s("issue_s")
    known = ~np.isnan(issue_s)
    pass_s = (run.pass_s("end_s") - run.pass_s("start_s"))[known]
    return float(issue_s[known].sum() / pass_s.sum()) if pass_s.sum() > 0 else None


def load_per_core(run: Evidence) -> float | None:
    """The load average per core when the run began; None if it was not logged."""
    environment = run.part("environment")
    load, cores = environment.get("load_average_1min"), environment.get("cpu_count")
    if isinstance(load, int | float) and isinstance(cores, int) and cores > 0:
        return float(load) / cores
    return None


def drift_of_like_passes(run: Evidence) -> tuple[float | None, int]:
    """How much longer passes of the same shape took in the second half of the run, as a share; the number of passes.

    Passes have the same shape if they have the same kind and rows, and widths and tokens within a quarter. The medians
    of both halves are compared for each shape with enough passes; shapes are weighted by their passes.
    """
    start_s = run.pass_s("start_s")
    if not start_s.size:
        return None, 0
    pass_s = run.pass_s("end_s") - start_s
    is_late = start_s > (start_s.min() + run.end_s) / 2
    drifts, weights = [], []
    for alike in _by_shape(run):
        early, late = pass_s[alike[~is_late[alike]]], pass_s[alike[is_late[alike]]]
        if min(len(early), len(late)) >= LIKE_PASSES and np.median(early) > 0:
            drifts.append(float(np.median(late) / np.median(early)) - 1)
            weights.append(len(alike))
    return (float(np.average(drifts, weights=weights)), sum(weights)) if drifts else (None, 0)


def clock_share(run: Evidence) -> float | None:
    """The GPU's clock at the run's end as a share of its maximum; None if it was not logged."""
    clocks = run.result.get("clocks")
    if not isinstance(clocks, Mapping):
        return None
    now, highest = (_megahertz(clocks, name) for name in ("clocks.sm", "clocks.max.sm"))
    return now / highest if now is not None and highest else None


def _running(run: Evidence, at_s: Floats) -> NDArray[np.int64]:
    """How many requests run at each time."""
    admitted_s, finished_s = (np.sort(run.request_s(name)) for name in ("admitted_s", "finished_s"))  # NaN sorts last
    return np.searchsorted(admitted_s, at_s, side="right") - np.searchsorted(finished_s, at_s, side="right")


def _slots(run: Evidence) -> int:
    slots = logged_slots(run.info.get("engine"), run.part("config").get("slots"))
    return slots if isinstance(slots, int) else 1


def _late_text(late_s: float) -> str:
    return f"requests were seen {duration(late_s)} late (95th percentile)"


def _between_text(share: float) -> str:
    return f"{percent(share)} of the time was between passes while requests were running"


def _issue_text(share: float) -> str:
    return f"issuing passes took {percent(share)} of pass time"


def _load_text(load: float) -> str:
    return f"the load average was {number(load)} per core when the run began"


def _megahertz(clocks: Mapping[str, Any], name: str) -> float | None:
    """`1980 MHz` as a number."""
    try:
        return float(str(clocks.get(name)).split()[0])
    except (ValueError, IndexError):
        return None


def _by_shape(run: Evidence) -> list[NDArray[np.int64]]:
    """The indices of the passes of each shape: kind, rows, and roughly the same tokens and width."""
    passes = run.record.passes
    kind = np.unique(np.asarray(passes["kind"], dtype=str), return_inverse=True)[1].astype(np.int64)
    tokens, width = (
        np.floor(np.log(np.maximum(numbers, 1)) / np.log(SHAPE_RATIO)).astype(np.int64)
        for numbers in (passes.get("tokens", passes["rows"]), passes["width"])
    )
    shape = (((kind << 24) + passes["rows"] << 8) + tokens << 8) + width
    order = np.argsort(shape, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(shape[order])) + 1)


def _steps(run: Evidence) -> tuple[Floats, Floats]:
    """When each step began and ended, in order."""
    steps, first = np.unique(run.record.passes["step"], return_index=True)
    order = np.argsort(run.record.passes["step"], kind="stable")
    last = np.append(np.searchsorted(run.record.passes["step"][order], steps[1:]), len(order)) - 1
    begin_s, end_s = run.pass_s("start_s")[first], run.pass_s("end_s")[order][last]
    by_time = np.argsort(begin_s)
    return begin_s[by_time], end_s[by_time]


MACHINE_CHECKS = (
    Check(
        name="warm_up",
        label="warm-up complete",
        fault="warm-up incomplete",
        meaning="The first pass of a shape loads kernels, selects algorithms and fills caches. If it is measured, the "
        "engine looks slower than it is.",
        limit="The warm-up prefilled every prompt length; on a GPU it also ran a batch as large as the run's largest.",
        unit="share of the prompt lengths",
        judge=judge_warm_up,
    ),
    Check(
        name="host",
        label="host kept up",
        fault="host may have slowed it",
        meaning="Times describe the engine and the device only if the CPU sees requests when they arrive, issues "
        "passes faster than they run, and has no other work. A run that waits for its host measures the host.",
        limit=f"While a slot is free, requests are seen within {exact(1e3 * LATE_S, 'ms')} (95th percentile); "
        f"at most {exact(100 * BETWEEN_SHARE, '%')} of the time is between passes while requests run; issuing "
        f"takes at most {exact(100 * ISSUE_SHARE, '%')} of pass time; the load average is at most {exact(BUSY_LOAD)} "
        "per core when the run begins. What was not logged is not judged.",
        unit="multiple of the limit, the worst",
        judge=judge_host,
    ),
    Check(
        name="steady_clocks",
        label="clocks steady",
        fault="speed drifted",
        meaning="A processor that heats up or is shared slows down, so later passes look slower. Passes of the same "
        "shape should take as long at the end as at the start.",
        limit="Passes of the same kind, number of rows and nearly the same width take as long in the second half as in "
        f"the first, within {exact(100 * DRIFT, '%')} (medians of at least {LIKE_PASSES} passes each). A GPU whose "
        f"clock was logged ends at {exact(100 * CLOCK_SHARE, '%')} of its maximum or more.",
        unit="relative difference",
        judge=judge_clocks,
    ),
)


def load_of(run_info: Mapping[str, Any]) -> tuple[float, int] | None:
    """The load average when a run began and the machine's cores, from its run.json; None if it has neither."""
    environment = run_info.get("environment")
    if not isinstance(environment, Mapping):
        return None
    load, cores = environment.get("load_average_1min"), environment.get("cpu_count")
    if not isinstance(load, int | float) or not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
        return None
    return float(load), cores


def busy_machine_text(loads: Iterable[tuple[float, int] | None]) -> str:
    """How many of the runs with a known load began on a busy machine, and the highest load; empty if none did."""
    known = [load for load in loads if load is not None]
    busy = [(load, cores) for load, cores in known if load > BUSY_LOAD * cores]
    if not busy:
        return ""
    highest, cores = max(busy)
    return (
        f"The machine was busy when {len(busy)} of {len(known)} runs began "
        f"(load up to {number(highest)} on {cores} cores): timings may include other processes' work."
    )

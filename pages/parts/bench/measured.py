"""The measured run of a plan: the newest completed run of this visitor with exactly the settings that are planned.

Its timeline is drawn in the plan's unit, so that both have one axis: in forward passes, or in seconds where requests
arrive over time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from engine.core.config import RunConfig
from engine.core.format import count, duration, plural
from engine.launcher.job import JobRun
from pages.figures.timeline.preemptions import preemptions_of
from pages.figures.timeline.queue import queue_from_passes
from pages.figures.timeline.spans import Unit
from pages.parts.bench.plan import Plan
from pages.parts.shared.lab import lab, visitor
from pages.parts.shared.markdown import listed

KEPT_RUNS = 32
NOT_AS_PLANNED = "Not as planned"
ENDS = ("start_step", "end_step")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredTimeline:
    """A measured run. `spans`, `queue` and `preemptions` are frames for `slot_timeline` in `unit`."""

    run_id: str
    unit: Unit
    num_passes: int
    duration_s: float | None
    ttft_p50_s: float | None
    spans: pd.DataFrame
    queue: pd.DataFrame
    preemptions: pd.DataFrame


def measured_runs(configs: Sequence[RunConfig]) -> dict[str, JobRun]:
    """By engine, the newest completed run with these settings that this visitor started and the store has in full."""
    found: dict[str, JobRun] = {}
    mine = visitor()
    for job in lab().queue.jobs():
        if job.visitor != mine:
            continue
        for run in job.runs:
            is_measured = run.status == "completed" and run.has_log and run.target is None
            if is_measured and run.config in configs and is_read(run.run_id):
                found[run.config.engine] = run
    return found


def is_read(run_id: str) -> bool:
    """Whether the store has read the end of a run. False for a run in the trash."""
    try:
        return bool(lab().store.runs.get(run_id)["status"] != "running")
    except KeyError:
        return False


@st.cache_resource(max_entries=KEPT_RUNS, show_spinner=False)
def measured(home: str, run_id: str, unit: Unit) -> MeasuredTimeline:
    """The run's timeline. `home` separates stores. KeyError for an unknown run."""
    runs = lab().store.runs
    metrics = runs.metrics(run_id)
    passes = runs.passes(run_id)
    spans, events = runs.spans(run_id), runs.events(run_id)
    preemptions = preemptions_of(events)
    if unit == "pass":
        spans = in_passes(spans, passes)
        preemptions = preemptions.assign(step=preemptions["pass_index"].astype(float))
        passes = passes.assign(step=passes["pass_index"], start_step=passes["pass_index"].astype(float))
    return MeasuredTimeline(
        run_id=run_id,
        unit=unit,
        num_passes=len(passes),
        duration_s=metrics["duration_s"],
        ttft_p50_s=metrics["ttft_p50_s"],
        spans=spans,
        queue=queue_from_passes(passes),
        preemptions=preemptions,
    )


def in_passes(spans: pd.DataFrame, passes: pd.DataFrame) -> pd.DataFrame:
    """Spans on the axis of forward passes: pass n begins at n. Both frames have the store's step axis."""
    begins = passes["start_step"].to_numpy(dtype=float)
    half = 0.5 * float(np.diff(begins).min()) if len(begins) > 1 else 0.0  # steps are fractions: equal to rounding
    places = {name: np.searchsorted(begins, spans[name].to_numpy(dtype=float) - half) for name in ENDS}
    return spans.assign(**{name: place.astype(float) for name, place in places.items()})


def measured_text(known: Sequence[tuple[RunConfig, Plan]], runs: Mapping[str, MeasuredTimeline]) -> str:
    """`Measured as planned: static 87 forward passes in 9.81 s, continuous 74 in 8.12 s.`

    Of engines whose plan differs from the run, both numbers. Only exact plans of all requests can be wrong: the others
    say what they are.
    """
    plans = {config.engine: plan for config, plan in known}
    parts: list[str] = []
    differ: list[str] = []
    for engine, run in runs.items():
        noun = plural(run.num_passes, "forward pass", "forward passes") if not parts else count(run.num_passes)
        parts.append(f"{engine} {noun} in {duration(run.duration_s)}")
        plan = plans.get(engine)
        if plan is not None and is_comparable(plan) and plan.num_passes != run.num_passes:
            differ.append(f"{engine} planned {count(plan.num_passes or 0)}, measured {count(run.num_passes)}")
    if differ:
        return f"{NOT_AS_PLANNED}: {listed(differ)}. Measured: {', '.join(parts)}."
    compared = [engine for engine in runs if engine in plans and is_comparable(plans[engine])]
    return f"{'Measured as planned' if compared else 'Measured'}: {', '.join(parts)}."


def is_comparable(plan: Plan) -> bool:
    """Whether the plan counts the passes of all requests, so that a run must have as many."""
    return plan.is_known and not plan.is_sampled and plan.basis == "exact"

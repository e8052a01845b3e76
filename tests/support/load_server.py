"""A server whose rate is known: the real schedulers under a clock of the test's own, the run told as a record.

`decode_only` makes prompts free and every decode pass one second long: a continuous engine is then `slots` servers that
each need budget - 1 seconds a request, and its capacity is slots / (mean budget - 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.core.config import RunConfig
from engine.core.passes import PassKind, PlannedPass
from engine.core.presets import make_scheduler
from engine.core.record import RunRecord
from tests.support.runs.record_rows import record_of_rows
from tests.support.schedule import requests


def decode_only(planned: PlannedPass) -> float:
    return 0.0 if planned.kind is PassKind.PREFILL else 1.0


def serve(
    engine: str,
    slots: int,
    budgets: Sequence[int],
    arrivals_s: Sequence[float],
    pass_s: Callable[[PlannedPass], float] = lambda planned: 1.0,
) -> RunRecord:
    """Serve one request a budget to the end; every pass takes what `pass_s` says."""
    made = requests(budgets, arrivals_s=arrivals_s)
    scheduler = make_scheduler(RunConfig(engine=engine, slots=slots), made)
    tokens: list[dict[str, Any]] = []
    passes: list[dict[str, Any]] = []
    now_s = 0.0
    while not scheduler.is_done:
        scheduler.submit_arrived(now_s)
        scheduler.admit(now_s)
        if not scheduler.running:
            now_s = scheduler.wake_s(now_s) or now_s
            continue
        for kind in scheduler.kinds:
            planned = scheduler.plan(kind)
            if planned is None:
                continue
            begun_s, now_s = now_s, now_s + pass_s(planned)
            passes.append({"kind": kind.value, "start_s": begun_s, "end_s": now_s})
            tokens += [
                {"request_id": r.request_id, "token_index": r.num_scheduled, "delivered_s": now_s}
                for r in planned.live_requests
            ]
            scheduler.complete(planned)
    rows = [
        {"request_id": r.request_id, "state": "finished", "arrival_s": r.spec.arrival_s, "admitted_s": r.admitted_s}
        for r in made
    ]
    return record_of_rows(requests=rows, passes=passes, tokens=tokens)

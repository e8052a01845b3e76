"""What the real recorder logs of the real schedulers, with a clock easy to follow: pass k runs from k to k + 1."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.config import RunConfig
from engine.core.passes import PassKind, PassTiming, PlannedPass
from engine.core.presets import make_scheduler
from engine.core.recorder import Recorder
from tests.support.schedule import requests


class Rows:
    """A run log in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def append(self, stream: str, **row: Any) -> None:
        self.rows.setdefault(stream, []).append(row)

    def extend(self, stream: str, columns: Mapping[str, Sequence[Any]]) -> None:
        for values in zip(*columns.values(), strict=True):
            self.append(stream, **dict(zip(columns, values, strict=True)))

    def merged(self, stream: str, key: str) -> list[dict[str, Any]]:
        """Later rows' values over earlier ones'."""
        whole: dict[int, dict[str, Any]] = {}
        for row in self.rows[stream]:
            whole.setdefault(row[key], {}).update({k: v for k, v in row.items() if v is not None})
        return list(whole.values())

    def column(self, stream: str, name: str) -> list[Any]:
        return [row[name] for row in self.rows[stream]]

    def lane(self, lane: int) -> list[tuple[str, int | None, int, int]]:
        """The spans of a lane: phase, request, first pass, and the pass before which it ended."""
        spans = [s for s in self.merged("spans", "span_id") if s["lane"] == lane]
        return [(s["phase"], s.get("request_id"), s["start_pass"], s["end_pass"]) for s in spans]

    def chunks(self, request_id: int) -> list[int | None]:
        """The numbers of a request's prefill spans."""
        spans = self.merged("spans", "span_id")
        return [s.get("chunk") for s in spans if s["phase"] == "prefill" and s["request_id"] == request_id]


def record(
    config: RunConfig,
    budgets: Sequence[int],
    *,
    prompts: Sequence[int] | None = None,
    arrivals_s: Sequence[float] | None = None,
    num_blocks: int | None = None,
    lag: int = 0,
    **more: Any,
) -> Rows:
    """Run to the end; idle time jumps to the next arrival. Prompts of 3 tokens unless told otherwise.

    `lag` is the number of passes that are issued before one is recorded. `more` is the recorder's.
    """
    made = requests(budgets, prompts=prompts or [3] * len(budgets), arrivals_s=arrivals_s)
    scheduler = make_scheduler(config, made, num_blocks)
    rows = Rows()
    recorder = Recorder(rows, config.num_slots, **more)
    in_flight: deque[tuple[Any, ...]] = deque()
    now_s = 0.0
    while not scheduler.is_done:
        recorder.submitted(scheduler.submit_arrived(now_s), {})
        recorder.admitted(scheduler.admit(now_s))
        if not scheduler.running:
            wake_s = scheduler.wake_s(now_s)
            assert wake_s is not None
            now_s = wake_s
            continue
        for kind in scheduler.kinds:
            planned = scheduler.plan(kind)
            if planned is not None:
                slots = prefilled_slots(planned)
                outcome = scheduler.complete(planned)
                in_flight.append((planned, outcome, second(now_s), [7] * len(planned.live), slots))
                now_s += 1
            while len(in_flight) > lag:
                recorder.passed(*in_flight.popleft())
    while in_flight:
        recorder.passed(*in_flight.popleft())
    recorder.close(now_s)
    return rows


def prefilled_slots(planned: PlannedPass) -> list[int | None]:
    """As the engine tells them: of the chunks, or of a prefill's rows."""
    if planned.kind is PassKind.DECODE:
        return []
    return [c.request.slot for c in planned.chunks] or [r.slot for r in planned.rows]


def second(now_s: float) -> PassTiming:
    return PassTiming(
        start_s=now_s, end_s=now_s + 1, issue_s=None, device_s=1.0, produced_s=now_s + 1, delivered_s=now_s + 1
    )

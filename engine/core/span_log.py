"""Spans: what each lane holds from one pass to another. A lane is a request's row in the timeline.

A span is prefill, decode, dead (still computed after its request ended) or empty. A request keeps its lane from
admission until it leaves or is preempted; its physical slot may change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.core.passes import Chunk, PassKind, PassOutcome, PassTiming, PlannedPass
from engine.core.request import Request

IDLE_GAP_S = 0.010  # a shorter vacancy between two passes is not logged as an empty span


class Sink(Protocol):
    """Receives log rows: the run log's writer, or lists in memory."""

    def append(self, stream: str, **row: Any) -> None: ...

    def extend(self, stream: str, columns: Mapping[str, Sequence[Any]]) -> None: ...


@dataclass(slots=True)
class _OpenSpan:
    span_id: int
    phase: str
    slot: int | None


class SpanLog:
    """Keeps the open span of every lane. A span is logged when it opens and again when it closes."""

    def __init__(self, sink: Sink, num_lanes: int) -> None:
        self.sink = sink
        self.num_lanes = num_lanes
        self.num_spans = 0
        self.open: dict[int, _OpenSpan] = {}
        self.vacant_since_s = dict.fromkeys(range(num_lanes), 0.0)
        self._vacant = set(range(num_lanes))
        self._assigned: dict[Request, deque[int]] = {}  # lanes assigned at admission, before the first prefill
        self._lanes: dict[Request, int] = {}
        self._chunks: dict[Request, int] = {}  # chunk numbers of requests prefilled in chunks

    def assign_lane(self, request: Request, lane: int) -> None:
        """`request` was admitted to `lane`, where it is drawn from its next prefill on.

        Passes from before a preemption may still be running, in which it had another lane.
        """
        self._assigned.setdefault(request, deque()).append(lane)

    def lane_of(self, request: Request) -> int:
        """The lane in which the request is drawn, or was drawn last."""
        return self._lanes[request]

    def begin_pass(self, planned: PlannedPass, timing: PassTiming, slots: Sequence[int]) -> None:
        if planned.chunks:
            for chunk, slot in zip(planned.chunks, slots, strict=True):
                self._begin_chunk(chunk, slot, planned.index, timing.start_s)
        elif planned.kind is PassKind.PREFILL:
            for request, slot in zip(planned.rows, slots, strict=True):
                self._begin_prefill(request, slot, planned.index, timing.start_s, None)
        for lane in sorted(self._vacant):
            self._open(lane, "empty", None, planned.index, self.vacant_since_s[lane], None)

    def end_pass(self, planned: PlannedPass, outcome: PassOutcome, timing: PassTiming) -> None:
        following = planned.index + 1
        leaving = {*outcome.released, *outcome.ended}
        for request in _prefilled(planned):
            if request not in leaving:
                self._turn(request, "decode", following, timing.end_s)
        released = set(outcome.released)
        for request in outcome.ended:
            if request not in released and self._lanes[request] in self.open:
                self._turn(request, "dead", following, timing.end_s)
        for request in outcome.released:
            self.vacate(self._lanes[request], following, timing.end_s)
        for move in outcome.moves:
            phase = self.open[self._lanes[move.request]].phase
            self._turn(move.request, phase, following, timing.end_s, move.target)

    def vacate(self, lane: int, at_pass: int, now_s: float) -> None:
        """Close the lane's span: its request has left."""
        if lane in self.open:
            self._close(lane, at_pass, now_s)
        self.vacant_since_s[lane] = now_s

    def _begin_chunk(self, chunk: Chunk, slot: int, at_pass: int, now_s: float) -> None:
        """Open a chunk's span. Chunks are numbered from 0; a prefill in one piece has no number."""
        request = chunk.request
        if chunk.start == 0:
            self._chunks[request] = 0
            self._begin_prefill(request, slot, at_pass, now_s, None if chunk.is_last else 0)
            return
        self._chunks[request] += 1
        lane = self._lanes[request]
        self._close(lane, at_pass, now_s)
        self._open(lane, "prefill", request, at_pass, now_s, slot, self._chunks[request])

    def _begin_prefill(self, request: Request, slot: int, at_pass: int, now_s: float, chunk: int | None) -> None:
        lane = self._lanes[request] = self._assigned[request].popleft()
        self._fill(lane, at_pass, now_s)
        self._open(lane, "prefill", request, at_pass, now_s, slot, chunk)

    def close_all(self, end_pass: int, now_s: float) -> None:
        for lane in list(self.open):
            self._close(lane, end_pass, now_s)

    def _fill(self, lane: int, at_pass: int, now_s: float) -> None:
        """Close the lane's empty span, or log one afterward if the engine was idle between two passes."""
        if lane in self.open:
            self._close(lane, at_pass, now_s)
        elif now_s - self.vacant_since_s[lane] >= IDLE_GAP_S:
            self._open(lane, "empty", None, at_pass, self.vacant_since_s[lane], None)
            self._close(lane, at_pass, now_s)

    def _turn(self, request: Request, phase: str, at_pass: int, now_s: float, slot: int | None = None) -> None:
        lane = self._lanes[request]
        before = self.open[lane].slot
        self._close(lane, at_pass, now_s)
        self._open(lane, phase, request, at_pass, now_s, before if slot is None else slot)

    def _open(
        self,
        lane: int,
        phase: str,
        request: Request | None,
        at_pass: int,
        now_s: float,
        slot: int | None,
        chunk: int | None = None,
    ) -> None:
        span = _OpenSpan(self.num_spans, phase, slot)
        self.num_spans += 1
        self.open[lane] = span
        self._vacant.discard(lane)
        self.sink.append(
            "spans",
            span_id=span.span_id,
            lane=lane,
            slot=slot,
            request_id=None if request is None else request.request_id,
            phase=phase,
            chunk=chunk,
            start_pass=at_pass,
            start_s=now_s,
        )

    def _close(self, lane: int, end_pass: int, now_s: float) -> None:
        span = self.open.pop(lane)
        self._vacant.add(lane)
        self.sink.append("spans", span_id=span.span_id, end_pass=end_pass, end_s=now_s)


def _prefilled(planned: PlannedPass) -> tuple[Request, ...]:
    """The requests whose prefill ends with this pass."""
    if planned.chunks:
        return tuple(c.request for c in planned.chunks if c.is_last)
    return planned.rows if planned.kind is PassKind.PREFILL else ()

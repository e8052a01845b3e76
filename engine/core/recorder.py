"""Turns what an engine does into rows of the run log, in the order in which it happened.

The recorder sees requests and passes, never tensors; a simulator can drive it as well. Lanes are followed here: a lane
is a request's row in the drawing, fixed at admission, while its physical slot may change under it. A lane's spans tell
what it held from one pass to another: prefill, decode, dead, empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.core.passes import PassKind, PassOutcome, PassTiming, PlannedPass
from engine.core.request import ExactPrompt, Request, RequestState

IDLE_GAP_S = 0.010  # a vacant lane shows as empty between two passes only if the engine was really idle that long


class Sink(Protocol):
    """Where rows go: the run log's writer, or a list in memory."""

    def append(self, stream: str, **row: Any) -> None: ...

    def extend(self, stream: str, columns: Mapping[str, Sequence[Any]]) -> None: ...


@dataclass(slots=True)
class _OpenSpan:
    span_id: int
    phase: str
    slot: int | None


class Recorder:
    """Logs one run over `num_lanes` lanes. `returns_whole`: results are handed over at the batch's end only."""

    def __init__(
        self,
        sink: Sink,
        num_lanes: int,
        *,
        returns_whole: bool = False,
        decode: Callable[[list[int]], str] | None = None,
    ) -> None:
        self.sink = sink
        self.returns_whole = returns_whole
        self.decode = decode or (lambda ids: "")
        self.num_output_tokens = 0
        self.num_finished = 0
        self.last_pass = -1
        self._spans = _SpanLog(sink, num_lanes)
        self._unfinished: dict[int, Request] = {}

    def submitted(self, requests: Iterable[Request], prompt_texts: Mapping[int, str]) -> None:
        """The engine has seen these requests arrive."""
        for request in requests:
            spec = request.spec
            self._unfinished[request.request_id] = request
            self.sink.append(
                "requests",
                request_id=request.request_id,
                state=RequestState.WAITING.value,
                label=spec.prompt.label,
                prompt_tokens=request.num_prompt_tokens,
                asked_prompt_tokens=spec.prompt.tokens if isinstance(spec.prompt, ExactPrompt) else None,
                budget_tokens=spec.budget_tokens,
                ignore_eos=spec.ignore_eos,
                arrival_s=spec.arrival_s,
                submitted_s=request.submitted_s,
                prompt_text=prompt_texts.get(request.request_id),
            )

    def admitted(self, newcomers: Iterable[Request]) -> None:
        for request in newcomers:
            self.sink.append(
                "requests",
                request_id=request.request_id,
                state=RequestState.RUNNING.value,
                admitted_s=request.admitted_s,
                lane=request.lane,
            )

    def passed(
        self,
        planned: PlannedPass,
        outcome: PassOutcome,
        timing: PassTiming,
        token_ids: Sequence[int],
        slots: Sequence[int],
    ) -> None:
        """One pass is over. `token_ids` and `slots` follow `planned.live`: each live row's token and physical slot."""
        self.last_pass = planned.index
        self._log_pass(planned, timing)
        self._spans.begin_pass(planned, timing, slots)
        self._log_tokens(planned, timing, token_ids)
        for request in outcome.ended:
            self._log_finished(request, timing.produced_s)
        if self.returns_whole:
            for request in outcome.released:
                self.sink.append("requests", request_id=request.request_id, returned_s=timing.delivered_s)
        self._spans.end_pass(planned, outcome, timing)

    def close(self, now_s: float) -> None:
        """The run ends here: close what is open, and mark the requests that did not get to their end."""
        for request in self._unfinished.values():
            request.state = RequestState.STOPPED
            self.sink.append(
                "requests",
                request_id=request.request_id,
                state=RequestState.STOPPED.value,
                output_tokens=len(request.output_ids),
                output_text=self.decode(request.output_ids),
            )
        self._unfinished.clear()
        self._spans.close_all(self.last_pass + 1, now_s)

    def _log_pass(self, planned: PlannedPass, timing: PassTiming) -> None:
        shape = planned.shape
        self.sink.append(
            "passes",
            pass_index=planned.index,
            step=planned.step,
            kind=planned.kind.value,
            start_s=timing.start_s,
            end_s=timing.end_s,
            issue_s=timing.issue_s,
            device_s=timing.device_s,
            rows=len(planned.rows),
            live_rows=len(planned.live),
            chunk_rows=len(planned.partial_chunks),
            tokens=planned.tokens,
            bucket_tokens=timing.bucket_tokens,
            recomputed_tokens=sum(c.recomputed for c in planned.chunks),
            width=shape.width,
            masked=shape.masked,
            prompt_tokens=planned.prompt_tokens,
            queue_depth=planned.queue_depth,
            computed_positions=shape.computed_positions,
            padding_positions=shape.padding_positions,
            dead_positions=shape.dead_positions,
            kv_reserved_positions=planned.kv.reserved,
            kv_used_positions=planned.kv.used,
            kv_padding_positions=planned.kv.padding,
            kv_dead_positions=planned.kv.dead,
            kv_fragment_positions=planned.kv.fragment,
        )

    def _log_tokens(self, planned: PlannedPass, timing: PassTiming, token_ids: Sequence[int]) -> None:
        requests = planned.live_requests
        count = len(requests)
        delivered_s = None if self.returns_whole else timing.delivered_s
        self.sink.extend(
            "tokens",
            {
                "request_id": [r.request_id for r in requests],
                "token_index": [len(r.output_ids) for r in requests],
                "token_id": token_ids,
                "pass_index": [planned.index] * count,
                "produced_s": [timing.produced_s] * count,
                "delivered_s": [delivered_s] * count,
            },
        )
        for request, token_id in zip(requests, token_ids, strict=True):
            request.output_ids.append(token_id)
        self.num_output_tokens += count

    def _log_finished(self, request: Request, now_s: float) -> None:
        request.state = RequestState.FINISHED
        request.finished_s = now_s
        self._unfinished.pop(request.request_id, None)
        self.num_finished += 1
        assert request.finish_reason is not None
        self.sink.append(
            "requests",
            request_id=request.request_id,
            state=RequestState.FINISHED.value,
            finished_s=now_s,
            output_tokens=len(request.output_ids),
            finish_reason=request.finish_reason.value,
            output_text=self.decode(request.output_ids),
        )


class _SpanLog:
    """The open span of every lane, logged when it opens and again when it closes."""

    def __init__(self, sink: Sink, num_lanes: int) -> None:
        self.sink = sink
        self.num_lanes = num_lanes
        self.num_spans = 0
        self.open: dict[int, _OpenSpan] = {}
        self.vacant_since_s = dict.fromkeys(range(num_lanes), 0.0)

    def begin_pass(self, planned: PlannedPass, timing: PassTiming, slots: Sequence[int]) -> None:
        if planned.kind is PassKind.PREFILL:
            for request, slot in zip(planned.rows, slots, strict=True):
                assert request.lane is not None
                self._fill(request.lane, planned.index, timing.start_s)
                self._open(request.lane, "prefill", request, planned.index, timing.start_s, slot)
        for lane in range(self.num_lanes):
            if lane not in self.open:
                self._open(lane, "empty", None, planned.index, self.vacant_since_s[lane], None)

    def end_pass(self, planned: PlannedPass, outcome: PassOutcome, timing: PassTiming) -> None:
        following = planned.index + 1
        released = set(outcome.released)
        if planned.kind is PassKind.PREFILL:
            for request in planned.rows:
                if request not in released and request not in outcome.ended:
                    self._turn(request, "decode", following, timing.end_s)
        for request in outcome.ended:
            if request not in released:
                self._turn(request, "dead", following, timing.end_s)
        for request in outcome.released:
            assert request.lane is not None
            self._close(request.lane, following, timing.end_s)
            self.vacant_since_s[request.lane] = timing.end_s
        for move in outcome.moves:
            assert move.request.lane is not None
            phase = self.open[move.request.lane].phase
            self._turn(move.request, phase, following, timing.end_s, move.target)

    def close_all(self, end_pass: int, now_s: float) -> None:
        for lane in list(self.open):
            self._close(lane, end_pass, now_s)

    def _fill(self, lane: int, at_pass: int, now_s: float) -> None:
        """End a lane's emptiness, or log it after the fact where the whole engine stood idle between two passes."""
        if lane in self.open:
            self._close(lane, at_pass, now_s)
        elif now_s - self.vacant_since_s[lane] >= IDLE_GAP_S:
            self._open(lane, "empty", None, at_pass, self.vacant_since_s[lane], None)
            self._close(lane, at_pass, now_s)

    def _turn(self, request: Request, phase: str, at_pass: int, now_s: float, slot: int | None = None) -> None:
        assert request.lane is not None
        before = self.open[request.lane].slot
        self._close(request.lane, at_pass, now_s)
        self._open(request.lane, phase, request, at_pass, now_s, before if slot is None else slot)

    def _open(
        self, lane: int, phase: str, request: Request | None, at_pass: int, now_s: float, slot: int | None
    ) -> None:
        span = _OpenSpan(self.num_spans, phase, slot)
        self.num_spans += 1
        self.open[lane] = span
        self.sink.append(
            "spans",
            span_id=span.span_id,
            lane=lane,
            slot=slot,
            request_id=None if request is None else request.request_id,
            phase=phase,
            start_pass=at_pass,
            start_s=now_s,
        )

    def _close(self, lane: int, end_pass: int, now_s: float) -> None:
        span = self.open.pop(lane)
        self.sink.append("spans", span_id=span.span_id, end_pass=end_pass, end_s=now_s)

"""Records what an engine does as rows of the run log, in order.

The recorder sees requests and passes, never tensors, so the simulator uses it too. It tracks lanes: a lane is a
request's row in the timeline, fixed at admission, while its physical slot may change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from engine.core.passes import BlockEvent, PassOutcome, PassTiming, PlannedPass
from engine.core.request import ExactPrompt, Request, RequestState
from engine.core.span_log import Sink, SpanLog

__all__ = ["Recorder", "Sink"]


class Recorder:
    """Logs one run over `num_lanes` lanes. `returns_whole`: answers are delivered only when their batch ends.

    `logs_tokens` is False for the simulator, which derives token times itself.
    """

    def __init__(
        self,
        sink: Sink,
        num_lanes: int,
        *,
        returns_whole: bool = False,
        decode: Callable[[list[int]], str] | None = None,
        logs_tokens: bool = True,
    ) -> None:
        self.sink = sink
        self.returns_whole = returns_whole
        self.logs_tokens = logs_tokens
        self.decode = decode or (lambda ids: "")
        self.num_output_tokens = 0
        self.num_finished = 0
        self.last_pass = -1
        self._spans = SpanLog(sink, num_lanes)
        self._unfinished: dict[int, Request] = {}
        self._preemptions: dict[Request, int] = {}
        self._live_rows = _LiveRows((), ())

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
                preemptions=0,
                prompt_text=prompt_texts.get(request.request_id),
            )

    def admitted(self, requests: Iterable[Request]) -> None:
        """These requests were assigned a lane.

        A request that returns after a preemption is logged with the pass that recomputes it, because the pass that
        preempted it may still run and must be logged first.
        """
        for request in requests:
            assert request.lane is not None
            self._spans.assign_lane(request, request.lane)
            if not request.num_preemptions:
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
        """One pass has ended. `token_ids` are in the order of `planned.live`; `slots` are the physical slots of the
        requests that it prefilled (`planned.prefilled_slots`)."""
        self.last_pass = planned.index
        self._log_preemptions(planned, timing)
        self.log_blocks(planned.block_events, planned.index, timing.start_s)
        self._log_pass(planned, timing)
        self._spans.begin_pass(planned, timing, slots)
        self._log_returns(planned)
        self._log_tokens(planned, timing, token_ids)
        for request in outcome.ended:
            self._log_finished(request, timing.produced_s)
        if self.returns_whole:
            for request in outcome.released:
                self.sink.append("requests", request_id=request.request_id, returned_s=timing.delivered_s)
        self._spans.end_pass(planned, outcome, timing)

    def passed_again(self, rows: Sequence[Request], count: int, last_pass: int) -> None:
        """The simulator has run `count` more decode passes of these live rows and logged their passes and tokens."""
        self.last_pass = last_pass
        self.num_output_tokens += count * len(rows)
        unknown = [0] * count
        for request in rows:
            request.output_ids += unknown

    def close(self, now_s: float) -> None:
        """End the run: close open spans and mark unfinished requests as stopped."""
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

    def _log_preemptions(self, planned: PlannedPass, timing: PassTiming) -> None:
        for preemption in planned.preemptions:
            request = preemption.request
            self._preemptions[request] = self._preemptions.get(request, 0) + 1
            self.sink.append(
                "events",
                event="preempt",
                request_id=request.request_id,
                lane=preemption.lane,
                blocks=preemption.blocks,
                tokens=preemption.tokens,
                pass_index=planned.index,
                time_s=timing.start_s,
            )
            # If its last token turned out to be EOS, the request has finished and does not wait.
            waits = request.request_id in self._unfinished
            self.sink.append(
                "requests",
                request_id=request.request_id,
                state=RequestState.WAITING.value if waits else None,
                preemptions=self._preemptions[request],
            )
            self._spans.vacate(preemption.lane, planned.index, timing.start_s)

    def _log_returns(self, planned: PlannedPass) -> None:
        """Log requests that run again after a preemption. Their first admission time is kept."""
        for chunk in planned.chunks:
            if chunk.start == 0 and chunk.request in self._preemptions:
                self.sink.append(
                    "requests",
                    request_id=chunk.request.request_id,
                    state=RequestState.RUNNING.value,
                    lane=self._spans.lane_of(chunk.request),
                )

    def log_blocks(self, events: Sequence[BlockEvent], pass_index: int, start_s: float) -> None:
        """Log the blocks allocated and freed before this pass."""
        if not events:
            return
        self.sink.extend(
            "blocks",
            {
                "block_id": [e.block_id for e in events],
                "request_id": [e.request_id for e in events],
                "table_index": [e.table_index for e in events],
                "allocated": [e.allocated for e in events],
                "pass_index": [pass_index] * len(events),
                "time_s": [start_s] * len(events),
            },
        )

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
        if not self._live_rows.match(planned):
            self._live_rows = _LiveRows(planned.rows, planned.live)
        outputs = self._live_rows.outputs
        if self.logs_tokens:
            self._log_token_rows(planned, timing, token_ids)
        for output_ids, token_id in zip(outputs, token_ids, strict=True):
            output_ids.append(token_id)
        self.num_output_tokens += len(outputs)

    def _log_token_rows(self, planned: PlannedPass, timing: PassTiming, token_ids: Sequence[int]) -> None:
        count = len(token_ids)
        delivered_s = None if self.returns_whole else timing.delivered_s
        self.sink.extend(
            "tokens",
            {
                "request_id": self._live_rows.request_ids,
                "token_index": list(map(len, self._live_rows.outputs)),
                "token_id": token_ids,
                "pass_index": [planned.index] * count,
                "produced_s": [timing.produced_s] * count,
                "delivered_s": [delivered_s] * count,
            },
        )

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


class _LiveRows:
    """Ids and outputs of a pass's live rows, reused while passes run the same rows."""

    def __init__(self, rows: tuple[Request, ...], live: tuple[int, ...]) -> None:
        self.rows = rows
        self.live = live
        self.request_ids = [rows[i].request_id for i in live]
        self.outputs = [rows[i].output_ids for i in live]

    def match(self, planned: PlannedPass) -> bool:
        return planned.rows is self.rows and planned.live is self.live

"""The base of every policy: a step admits requests, plans its passes, counts their tokens, evicts what has ended.

    submit_arrived   pending -> waiting    requests whose arrival time has come
    admit            waiting -> running    assign a slot and a lane, reserve KV blocks
    plan, complete                         the prefill of the admitted requests, then one decode pass over all rows
    evict            running -> out        requests that have ended and may leave

Each policy is a subclass in its own file: static_scheduler, continuous_scheduler, paged_scheduler, chunked_scheduler.
It defines at least how many requests to admit (`num_admissible`) and which to release (`evict`). The scheduler knows
requests and a clock. It knows no torch, no KV memory, and of a token only whether it ended the sequence. The real
engine and the simulator drive the same object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import ClassVar, NamedTuple, Self

from engine.core.kv_layout import EngineSettings, KVLayout
from engine.core.passes import Move, PassKind, PassOutcome, PlannedPass
from engine.core.request import FinishReason, Request, RequestState


class DecodeRows(NamedTuple):
    """The rows of a decode pass in slot order, and the indices of those that still run."""

    rows: tuple[Request, ...]
    live: tuple[int, ...]


class Scheduler(ABC):
    """Moves requests from `pending` (not arrived) through `waiting` and `running` to the end.

    `running[i]` occupies physical slot i. Times are seconds on the run's clock. `kinds` are the passes of a step, in
    the order in which they are planned and run.

    A decode pass over hundreds of rows takes a few milliseconds, so planning must be cheap. Besides counting one token
    a row, it does constant work: the tuple of rows is reused until a request joins or leaves, and the requests that
    reach their budget in a pass are looked up by the pass's number.
    """

    kinds: ClassVar[tuple[PassKind, ...]] = (PassKind.PREFILL, PassKind.DECODE)

    def __init__(self, requests: Sequence[Request], slots: int, layout: KVLayout) -> None:
        assert slots >= 1
        self.slots = slots
        self.layout = layout
        self.pending = deque(sorted(requests, key=lambda r: (r.spec.arrival_s, r.request_id)))
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.step = -1
        self.num_passes = 0
        self.num_decodes = 0
        self.num_used = 0  # positions that the running requests have computed
        self.spent_with: defaultdict[int, list[Request]] = defaultdict(list)  # by their last decode pass
        self._admitted: tuple[Request, ...] = ()  # in the current step
        self._free_lanes = list(range(slots))  # a heap: the lowest free lane is assigned next
        self._decode_rows: DecodeRows | None = None  # None after a request joined or left

    @classmethod
    def for_run(cls, config: EngineSettings, requests: Sequence[Request], layout: KVLayout) -> Self:
        """The scheduler of a run. A policy reads its own options from `config` here."""
        return cls(requests, config.num_slots, layout)

    @property
    def is_done(self) -> bool:
        return not (self.pending or self.waiting or self.running)

    def submit_arrived(self, now_s: float) -> list[Request]:
        """Move the requests that have arrived by `now_s` into the queue, in order of arrival."""
        submitted = []
        while self.pending and self.pending[0].spec.arrival_s <= now_s:
            request = self.pending.popleft()
            request.submitted_s = now_s
            self.waiting.append(request)
            submitted.append(request)
        return submitted

    def wake_s(self, now_s: float) -> float | None:
        """When an idle engine checks again: at the next arrival. None when no more requests arrive."""
        return self.pending[0].spec.arrival_s if self.pending else None

    @abstractmethod
    def num_admissible(self, now_s: float) -> int:
        """How many waiting requests to admit now, if KV memory allows."""

    def admit(self, now_s: float) -> tuple[Request, ...]:
        """Begin a step: assign slots and lanes to waiting requests. Returns the admitted requests in slot order."""
        admitted = []
        for _ in range(self.num_admissible(now_s)):
            if not self._reserve_blocks(self.waiting[0]):
                break
            admitted.append(self._assign_slot(self.waiting.popleft(), now_s))
        if admitted:
            self.layout.admit(admitted)
        self._admitted = tuple(admitted)
        self._begin_step()
        return self._admitted

    def _reserve_blocks(self, request: Request) -> bool:
        """Reserve the KV blocks that a request needs. Returns False, and reserves none, if too few are free."""
        return True

    def _assign_slot(self, request: Request, now_s: float) -> Request:
        request.state = RequestState.RUNNING
        if request.admitted_s is None:
            request.admitted_s = now_s
        request.slot = len(self.running)
        request.lane = heappop(self._free_lanes)
        self.running.append(request)
        self._decode_rows = None
        return request

    def _begin_step(self) -> None:
        if self.running:
            self.step += 1

    def plan(self, kind: PassKind) -> PlannedPass | None:
        """The prefill of the admitted requests, or the decode pass over all rows; None if there is nothing to run."""
        is_prefill = kind is PassKind.PREFILL
        rows, live = (self._admitted, tuple(range(len(self._admitted)))) if is_prefill else self.decode_rows()
        if not live:
            return None
        prompt_tokens = sum(r.num_prompt_tokens for r in rows) if is_prefill else 0
        shape = self.layout.shape(kind, rows, live)
        return PlannedPass(
            index=self._next_index(),
            step=self.step,
            kind=kind,
            rows=rows,
            live=live,
            shape=shape,
            prompt_tokens=prompt_tokens,
            queue_depth=len(self.waiting),
            tokens=shape.computed_positions if is_prefill else len(rows),
            kv=self.layout.held(self.running, self.num_used + (prompt_tokens if is_prefill else len(live))),
        )

    def decode_rows(self) -> DecodeRows:
        """The rows of the next decode pass."""
        if self._decode_rows is None:
            live = tuple(i for i, r in enumerate(self.running) if r.finish_reason is None)
            self._decode_rows = DecodeRows(tuple(self.running), live)
        return self._decode_rows

    def _next_index(self) -> int:
        self.num_passes += 1
        return self.num_passes - 1

    def complete(self, planned: PlannedPass, at_eos: Collection[int] = ()) -> PassOutcome:
        """Count the pass's tokens, end requests that reached their budget or EOS, and release those that may leave.

        `at_eos` holds the indices in `planned.rows` whose token ended the sequence.
        """
        self.num_used = planned.kv.used
        spent = self._count_decoded(planned) + self._count_prefilled(planned)
        if not spent and not at_eos:
            return PassOutcome(ended=(), released=(), moves=())
        ended = [planned.rows[i] for i in at_eos if not planned.rows[i].spec.ignore_eos]
        for request in ended:
            request.finish_reason = FinishReason.EOS
        for request in spent:
            if request.finish_reason is None:
                request.finish_reason = FinishReason.BUDGET
                ended.append(request)
        return self._end(ended)

    def _count_decoded(self, planned: PlannedPass) -> list[Request]:
        """Count one token for each live decode row. Returns the requests that have reached their budget."""
        count = planned.num_decode_rows
        if not count:
            return []
        rows = planned.rows
        for request in rows[:count] if len(planned.live) == len(rows) else planned.live_requests:
            request.num_scheduled += 1
            request.num_computed_tokens += 1
        self.num_decodes += 1
        # A request preempted after it was listed may have tokens left; one that has ended already is skipped later.
        due = self.spent_with.pop(self.num_decodes, ())
        return [r for r in due if r.num_scheduled >= r.spec.budget_tokens]

    def _count_prefilled(self, planned: PlannedPass) -> list[Request]:
        """Count the token that each completed prefill yields. Returns the requests that have reached their budget."""
        spent = []
        for request in planned.rows[planned.num_decode_rows :]:
            request.num_computed_tokens = request.num_tokens
            request.num_scheduled += 1
            left = request.spec.budget_tokens - request.num_scheduled
            if left:
                self.spent_with[self.num_decodes + left].append(request)
            else:
                spent.append(request)
        return spent

    def end_late(self, requests: Sequence[Request], issued: Collection[Request]) -> PassOutcome:
        """End requests whose last token turns out, after the next pass was planned, to be EOS.

        `issued` are those that the next pass has already run again: that token is discarded and no longer counted. A
        request that has left because that pass spent its budget only has its finish reason changed.
        """
        for request in issued:
            request.num_scheduled -= 1
        ended = [r for r in requests if r.finish_reason is None]
        for request in requests:
            request.finish_reason = FinishReason.EOS
        outcome = self._end(ended)
        return PassOutcome(ended=tuple(requests), released=outcome.released, moves=outcome.moves)

    def _end(self, ended: list[Request]) -> PassOutcome:
        if not ended:
            return PassOutcome(ended=(), released=(), moves=())
        ended.sort(key=attrgetter("slot"))
        self.num_used -= sum(r.num_computed_tokens for r in ended)
        self._decode_rows = None
        released, moves = self.evict(ended)
        self._free_lanes_of(released)
        return PassOutcome(ended=tuple(ended), released=released, moves=moves)

    @abstractmethod
    def evict(self, ended: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[Move, ...]]:
        """Release the requests that may leave after `ended` (in slot order) have ended.

        Returns the released requests and the rows that moved to keep live rows in front.
        """

    def _free_lanes_of(self, released: Iterable[Request]) -> None:
        for request in released:
            assert request.lane is not None
            heappush(self._free_lanes, request.lane)

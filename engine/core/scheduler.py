"""What every policy shares: a step admits requests, plans its passes, counts their tokens, and evicts what has ended.

    submit_arrived   pending -> waiting                                          the clock says who has arrived
    admit            waiting -> running: a slot, a lane, and reserved KV          `num_admissible`, `_reserve_blocks`
    plan, complete   the prefill of the admitted requests, then one decode pass over all rows
    evict            running -> out: what ended and may leave                    `evict`

A policy is a subclass, a file each: static_scheduler, continuous_scheduler, paged_scheduler, chunked_scheduler. It says
at least how many requests join (`num_admissible`) and which leave (`evict`). The scheduler knows requests and a clock:
no torch, no KV memory, no tokens beyond "was it the end of the sequence". The real engine and the simulator drive the
same object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import ClassVar, NamedTuple, Self

from engine.core.config import RunConfig
from engine.core.kv_layout import KVLayout
from engine.core.passes import Move, PassKind, PassOutcome, PlannedPass
from engine.core.request import FinishReason, Request, RequestState


class DecodeRows(NamedTuple):
    """The rows of a decode pass in slot order, and the places of those that still run."""

    rows: tuple[Request, ...]
    live: tuple[int, ...]


class Scheduler(ABC):
    """Requests on their way from `pending` (not arrived) through `waiting` and `running` to the end.

    `running[i]` occupies physical slot i. Times are seconds on the run's clock. `kinds` are the passes of a step, in
    the order in which they are planned and run.

    A decode pass has a few milliseconds for hundreds of rows, so planning one does constant work beside counting each
    row's token: the rows stay one tuple until a request comes or goes, and which requests spend their budget in a pass
    is looked up by the pass's number.
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
        self.spent_with: defaultdict[int, list[Request]] = defaultdict(list)  # by the number of their last decode pass
        self._admitted: tuple[Request, ...] = ()  # in this step
        self._free_lanes = list(range(slots))  # a heap: the lowest free lane is the next to be taken
        self._decode_rows: DecodeRows | None = None  # None: a request has come or gone

    @classmethod
    def for_run(cls, config: RunConfig, requests: Sequence[Request], layout: KVLayout) -> Self:
        """The scheduler of a run. A policy with options of its own takes them from `config` here."""
        return cls(requests, config.num_slots, layout)

    @property
    def is_done(self) -> bool:
        return not (self.pending or self.waiting or self.running)

    def submit_arrived(self, now_s: float) -> list[Request]:
        """Move every request whose intended arrival has come into the queue, in order of arrival."""
        submitted = []
        while self.pending and self.pending[0].spec.arrival_s <= now_s:
            request = self.pending.popleft()
            request.submitted_s = now_s
            self.waiting.append(request)
            submitted.append(request)
        return submitted

    def wake_s(self, now_s: float) -> float | None:
        """When an idle engine has to look again: the next arrival. None when nothing more will come."""
        return self.pending[0].spec.arrival_s if self.pending else None

    @abstractmethod
    def num_admissible(self, now_s: float) -> int:
        """How many of the waiting requests join now, if there is KV memory for them."""

    def admit(self, now_s: float) -> tuple[Request, ...]:
        """Begin a step: give waiting requests their slot and lane. Returns the admitted requests, in slot order."""
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
        """Reserve what an admitted request needs beside its slot; False, and nothing reserved, if it is not free."""
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
        """What the next decode pass runs."""
        if self._decode_rows is None:
            live = tuple(i for i, r in enumerate(self.running) if r.finish_reason is None)
            self._decode_rows = DecodeRows(tuple(self.running), live)
        return self._decode_rows

    def _next_index(self) -> int:
        self.num_passes += 1
        return self.num_passes - 1

    def complete(self, planned: PlannedPass, at_eos: Collection[int] = ()) -> PassOutcome:
        """Count the pass's tokens, end requests that are spent or reached EOS, and release those that may leave.

        `at_eos` holds the places in `planned.rows` whose token was the end of the sequence.
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
        """One more token for each live row that decodes. Returns those that have reached their budget."""
        count = planned.num_decode_rows
        if not count:
            return []
        rows = planned.rows
        for request in rows[:count] if len(planned.live) == len(rows) else planned.live_requests:
            request.num_scheduled += 1
            request.num_computed_tokens += 1
        self.num_decodes += 1
        # The list may hold a request that was preempted since: it is behind, or other passes have spent its budget.
        due = self.spent_with.pop(self.num_decodes, ())
        return [r for r in due if r.num_scheduled >= r.spec.budget_tokens]

    def _count_prefilled(self, planned: PlannedPass) -> list[Request]:
        """The first token (after a preemption the next) of each row whose prefill is complete. Returns the spent."""
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
        """The last token of these requests was the end of the sequence, which is known only now.

        `issued` are those of them that the pass after it runs once more: its token is discarded and taken back. Those
        that have left already, their budget spent with that pass, only get their reason.
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
        """Take out the requests that may leave, now that `ended` (in slot order) have come to their end.

        Returns them and the rows that moved to keep the live ones in front.
        """

    def _free_lanes_of(self, released: Iterable[Request]) -> None:
        for request in released:
            assert request.lane is not None
            heappush(self._free_lanes, request.lane)

"""The policies: which requests are admitted, which rows run in a pass, and who leaves when.

One step reads admit -> prefill the newcomers -> one decode pass over the rows -> evict, for every policy. A policy is
a subclass that says whom to admit and what to release. Continuous batching follows Orca's iteration-level scheduling
(Yu et al., OSDI 2022); static batching is what it replaced. The scheduler knows requests and a clock: no torch, no KV
memory, no tokens beyond "was it the end of the sequence". The real engine and a simulator drive the same object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import ClassVar

from engine.core.config import FormRule
from engine.core.kv_layout import KVLayout
from engine.core.passes import Move, PassKind, PassOutcome, PlannedPass
from engine.core.request import FinishReason, Request, RequestState


class Scheduler(ABC):
    """Requests on their way from `pending` (not arrived) through `waiting` and `running` to the end.

    `running[i]` occupies physical slot i. Times are seconds on the run's clock. `kinds` are the passes of a step, in
    the order in which they are planned and run.
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
        self._newcomers: tuple[Request, ...] = ()
        self._num_passes = 0
        self._free_lanes = list(range(slots))  # a heap: the lowest free lane is the next to be taken
        self._used = 0  # positions that the requests which still run have computed
        # A decode pass has a few milliseconds for hundreds of rows. So nothing but their counters is touched row by
        # row: whose budget is spent is looked up by the number of the pass, and rows stay the same tuple for as long
        # as nobody comes or goes.
        self._num_decodes = 0
        self._spent_with: defaultdict[int, list[Request]] = defaultdict(list)
        self._decoding: tuple[tuple[Request, ...], tuple[int, ...]] | None = None

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

    @abstractmethod
    def num_admissible(self, now_s: float) -> int:
        """How many of the waiting requests join now."""

    def admit(self, now_s: float) -> tuple[Request, ...]:
        """Begin a step: give waiting requests their slot and lane. Returns the newcomers, in slot order."""
        newcomers = []
        for _ in range(self.num_admissible(now_s)):
            if not self._take_room(self.waiting[0]):
                break
            newcomers.append(self._seat(self.waiting.popleft(), now_s))
        if newcomers:
            self.layout.admit(newcomers)
        self._newcomers = tuple(newcomers)
        self._begin_step()
        return self._newcomers

    def _take_room(self, request: Request) -> bool:
        """Take what a newcomer needs beside its slot; False, and nothing taken, when it is not to be had now."""
        return True

    def _seat(self, request: Request, now_s: float) -> Request:
        request.state = RequestState.RUNNING
        if request.admitted_s is None:
            request.admitted_s = now_s
        request.slot = len(self.running)
        request.lane = heappop(self._free_lanes)
        self.running.append(request)
        self._decoding = None
        return request

    def _begin_step(self) -> None:
        if self.running:
            self.step += 1

    def wake_s(self, now_s: float) -> float | None:
        """When an idle engine has to look again: the next arrival. None when nothing more will come."""
        return self.pending[0].spec.arrival_s if self.pending else None

    def plan(self, kind: PassKind) -> PlannedPass | None:
        """The prefill of this step's newcomers, or the decode pass over all rows; None when there is nothing to run."""
        is_prefill = kind is PassKind.PREFILL
        rows, live = (self._newcomers, tuple(range(len(self._newcomers)))) if is_prefill else self._decode_rows()
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
            kv=self.layout.held(self.running, self._used + (prompt_tokens if is_prefill else len(live))),
        )

    # A simulator runs through decode passes that differ in nothing but their width without planning each of them.
    def passes_alike(self) -> int:
        """How many decode passes to come run the same rows before the one that is somebody's last; see `repeat`."""
        rows, live = self._decode_rows()
        return min((rows[i].spec.budget_tokens - rows[i].num_scheduled for i in live), default=1) - 1

    def would_admit(self, now_s: float) -> bool:
        """Whether a step that began now could admit somebody."""
        return self.num_admissible(now_s) > 0

    def repeat(self) -> bool:
        """Count one more step with just the last one's decode pass, all but the rows' own counters (`catch_up`).
        False, and nothing done, where that cannot be."""
        self.step += 1
        self._num_passes += 1
        self._num_decodes += 1
        self._spent_with.pop(self._num_decodes, None)  # of requests that were preempted since
        self._used += len(self._decode_rows()[1])
        return True

    def catch_up(self, count: int) -> None:
        """Count the tokens of `count` repeated passes for each row."""
        rows, live = self._decode_rows()
        for i in live:
            rows[i].num_scheduled += count
            rows[i].num_computed += count

    def _decode_rows(self) -> tuple[tuple[Request, ...], tuple[int, ...]]:
        """The rows of a decode pass, and the places of those that still run."""
        if self._decoding is None:
            live = tuple(i for i, r in enumerate(self.running) if r.finish_reason is None)
            self._decoding = tuple(self.running), live
        return self._decoding

    def _next_index(self) -> int:
        self._num_passes += 1
        return self._num_passes - 1

    def complete(self, planned: PlannedPass, at_eos: Collection[int] = ()) -> PassOutcome:
        """Count the pass's tokens, end requests that are spent or said EOS, and release those that may leave.

        `at_eos` holds the places in `planned.rows` whose token was the end of the sequence.
        """
        self._used = planned.kv.used
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
            request.num_computed += 1
        self._num_decodes += 1
        # A request that was preempted since is looked up here too: it is behind, or has said as much by other passes.
        due = self._spent_with.pop(self._num_decodes, ())
        return [r for r in due if r.num_scheduled >= r.spec.budget_tokens]

    def _count_prefilled(self, planned: PlannedPass) -> list[Request]:
        """The first token, or after a preemption the next, of each row whose prefill is whole now."""
        spent = []
        for request in planned.rows[planned.num_decode_rows :]:
            request.num_computed = request.num_tokens
            request.num_scheduled += 1
            left = request.spec.budget_tokens - request.num_scheduled
            if left:
                self._spent_with[self._num_decodes + left].append(request)
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
        self._used -= sum(r.num_computed for r in ended)
        self._decoding = None
        released, moves = self.evict(ended)
        self._release(released)
        return PassOutcome(ended=tuple(ended), released=released, moves=moves)

    @abstractmethod
    def evict(self, ended: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[Move, ...]]:
        """Take out the requests that may leave, now that `ended` (in slot order) have come to their end.

        Returns them and the rows that moved to keep the live ones in front.
        """

    def _release(self, released: Iterable[Request]) -> None:
        for request in released:
            assert request.lane is not None
            heappush(self._free_lanes, request.lane)


class ContinuousScheduler(Scheduler):
    """Admit whenever a slot is free; evict at once; the last live rows move into the freed slots, each at most once."""

    def num_admissible(self, now_s: float) -> int:
        return min(len(self.waiting), self.slots - len(self.running))

    def evict(self, ended: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[Move, ...]]:
        num_live = len(self.running) - len(ended)
        holes = [r.slot for r in ended if r.slot is not None and r.slot < num_live]
        movers = [r for r in reversed(self.running[num_live:]) if r.finish_reason is None]
        moves = []
        for target, request in zip(holes, movers, strict=True):
            assert request.slot is not None
            moves.append(Move(request=request, source=request.slot, target=target))
            self.running[target] = request
            request.slot = target
        del self.running[num_live:]
        return tuple(ended), tuple(moves)


class StaticScheduler(Scheduler):
    """A batch is formed once and runs to its slowest member; ended rows stay and are computed as dead rows."""

    def __init__(self, requests: Sequence[Request], slots: int, layout: KVLayout, form: FormRule) -> None:
        super().__init__(requests, slots, layout)
        self.form = form

    def num_admissible(self, now_s: float) -> int:
        if self.running or not self.waiting:
            return 0
        ready = min(len(self.waiting), self.slots)
        if self.form.rule == "arrived" or ready == self.slots or not self.pending:
            return ready
        return ready if now_s >= self._timeout_s() else 0

    def wake_s(self, now_s: float) -> float | None:
        next_arrival_s = super().wake_s(now_s)
        if not self.waiting or next_arrival_s is None:
            return next_arrival_s
        return min(next_arrival_s, self._timeout_s())

    def evict(self, ended: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[Move, ...]]:
        if any(r.finish_reason is None for r in self.running):
            return (), ()
        released = tuple(self.running)
        self.running.clear()
        self.layout.release_all()
        return released, ()

    def _timeout_s(self) -> float:
        """When the oldest waiting request has waited long enough; never, for a batch that must be full."""
        if self.form.timeout_s is None:
            return float("inf")
        return self.waiting[0].spec.arrival_s + self.form.timeout_s

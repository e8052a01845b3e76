"""The policies: which requests are admitted, which rows run in a pass, and who leaves when.

One step reads admit -> prefill the newcomers -> one decode pass over the rows -> evict, for every policy. A policy is
a subclass that says whom to admit and what to release. Continuous batching follows Orca's iteration-level scheduling
(Yu et al., OSDI 2022); static batching is what it replaced. The scheduler knows requests and a clock: no torch, no KV
memory, no tokens beyond "was it the end of the sequence". The real engine and a simulator drive the same object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Sequence
from typing import ClassVar

from engine.core.config import FormRule
from engine.core.kv_layout import KVLayout, decode_length
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
        self._free_lanes = set(range(slots))

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
        newcomers = [self.waiting.popleft() for _ in range(self.num_admissible(now_s))]
        for request in newcomers:
            request.state = RequestState.RUNNING
            request.admitted_s = now_s
            request.slot = len(self.running)
            request.lane = min(self._free_lanes)
            self._free_lanes.remove(request.lane)
            self.running.append(request)
        if newcomers:
            self.layout.admit(newcomers)
        if self.running:
            self.step += 1
        self._newcomers = tuple(newcomers)
        return self._newcomers

    def wake_s(self, now_s: float) -> float | None:
        """When an idle engine has to look again: the next arrival. None when nothing more will come."""
        return self.pending[0].spec.arrival_s if self.pending else None

    def plan(self, kind: PassKind) -> PlannedPass | None:
        """The prefill of this step's newcomers, or the decode pass over all rows; None when there is nothing to run."""
        rows = self._newcomers if kind is PassKind.PREFILL else tuple(self.running)
        live = tuple(i for i, r in enumerate(rows) if r.finish_reason is None)
        if not live:
            return None
        index, self._num_passes = self._num_passes, self._num_passes + 1
        return PlannedPass(
            index=index,
            step=self.step,
            kind=kind,
            rows=rows,
            live=live,
            shape=self.layout.shape(kind, rows, live),
            prompt_tokens=sum(r.num_prompt_tokens for r in rows) if kind is PassKind.PREFILL else 0,
            queue_depth=len(self.waiting),
            tokens=sum(r.num_prompt_tokens for r in rows) if kind is PassKind.PREFILL else len(rows),
            kv=self.layout.held(self.running, self._kv_used(kind)),
        )

    def _kv_used(self, kind: PassKind) -> int:
        """Positions that running requests have filled after this pass. In a prefill, those that run already wait with
        their newest token not yet cached: the next decode pass writes it."""
        live = [r for r in self.running if r.finish_reason is None]
        waiting = sum(r.num_scheduled > 0 for r in live) if kind is PassKind.PREFILL else 0
        return sum(decode_length(r) for r in live) - waiting

    def complete(self, planned: PlannedPass, at_eos: Collection[int] = ()) -> PassOutcome:
        """Count the pass's tokens, end requests that are spent or said EOS, and release those that may leave.

        `at_eos` holds the places in `planned.rows` whose token was the end of the sequence.
        """
        ended = []
        for i in planned.live:
            request = planned.rows[i]
            request.num_scheduled += 1
            if i in at_eos and not request.spec.ignore_eos:
                request.finish_reason = FinishReason.EOS
            elif request.num_scheduled >= request.spec.budget_tokens:
                request.finish_reason = FinishReason.BUDGET
            if request.finish_reason is not None:
                ended.append(request)
        released, moves = self.evict() if ended else ((), ())
        return PassOutcome(ended=tuple(ended), released=released, moves=moves)

    @abstractmethod
    def evict(self) -> tuple[tuple[Request, ...], tuple[Move, ...]]:
        """Take out the requests that may leave. Returns them and the rows that moved to keep the live ones in front."""

    def _release(self, request: Request) -> None:
        assert request.lane is not None
        self._free_lanes.add(request.lane)


class ContinuousScheduler(Scheduler):
    """Admit whenever a slot is free; evict at once; the last live rows move into the freed slots, each at most once."""

    def num_admissible(self, now_s: float) -> int:
        return min(len(self.waiting), self.slots - len(self.running))

    def evict(self) -> tuple[tuple[Request, ...], tuple[Move, ...]]:
        released = tuple(r for r in self.running if r.finish_reason is not None)
        num_live = len(self.running) - len(released)
        holes = [slot for slot in range(num_live) if self.running[slot].finish_reason is not None]
        movers = [r for r in reversed(self.running[num_live:]) if r.finish_reason is None]
        moves = []
        for target, request in zip(holes, movers, strict=True):
            assert request.slot is not None
            moves.append(Move(request=request, source=request.slot, target=target))
            self.running[target] = request
            request.slot = target
        del self.running[num_live:]
        for request in released:
            self._release(request)
        return released, tuple(moves)


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

    def evict(self) -> tuple[tuple[Request, ...], tuple[Move, ...]]:
        if any(r.finish_reason is None for r in self.running):
            return (), ()
        released = tuple(self.running)
        self.running.clear()
        self.layout.release_all()
        for request in released:
            self._release(request)
        return released, ()

    def _timeout_s(self) -> float:
        """When the oldest waiting request has waited long enough; never, for a batch that must be full."""
        if self.form.timeout_s is None:
            return float("inf")
        return self.waiting[0].spec.arrival_s + self.form.timeout_s

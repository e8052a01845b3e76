"""The engine's loop, one for every policy and layout: admit -> run -> sample -> record -> evict, until all is done.

The scheduler decides, the runner computes, the timing measures, the recorder logs. The loop does not know which engine
it runs. If passes are issued before earlier tokens are known, an end of sequence (EOS) is found one pass late; what the
pass in flight computes for that row is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from engine.core.passes import Move, PassKind, PassOutcome, PlannedPass
from engine.core.recorder import Recorder
from engine.core.request import Request
from engine.core.schedulers.scheduler import Scheduler
from engine.runtime.model_runner import ModelRunner
from engine.runtime.passes_in_flight import InFlight, Landed, RunClock, Timing


class Engine:
    """Runs a workload to its end, or stops within one pass once `should_stop` is true.

    `eos_ids` end a request that does not ignore EOS. `check` may reject a pass before it is issued. `on_pass` is called
    after every recorded pass with the run's time.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        runner: ModelRunner,
        recorder: Recorder,
        clock: RunClock,
        timing: Timing,
        *,
        eos_ids: frozenset[int] = frozenset(),
        prompt_texts: Mapping[int, str] | None = None,
        on_pass: Callable[[float], None] = lambda now_s: None,
        check: Callable[[PlannedPass], None] | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.runner = runner
        self.recorder = recorder
        self.clock = clock
        self.timing = timing
        self.eos_ids = eos_ids
        self.prompt_texts = prompt_texts or {}
        self.on_pass = on_pass
        self.check = check
        self.current_pass: PlannedPass | None = None  # the pass being issued, for out-of-memory messages
        self._needs_tokens = any(not r.spec.ignore_eos for r in scheduler.pending)

    def run(self, should_stop: Callable[[], bool]) -> bool:
        """True if every request ended, False if stopped. Passes in flight are recorded either way."""
        while not self.scheduler.is_done and not should_stop():
            self.step(should_stop)
        self.record(wait=True)
        return self.scheduler.is_done

    def step(self, should_stop: Callable[[], bool]) -> None:
        now_s = self.clock.now_s()
        self.recorder.submitted(self.scheduler.submit_arrived(now_s), self.prompt_texts)
        self.recorder.admitted(self.scheduler.admit(now_s))
        if not self.scheduler.running:
            self.record(wait=True)
            wake_s = self.scheduler.wake_s(now_s)
            assert wake_s is not None, "no request runs or will arrive, yet the engine is not done"
            self.clock.wait_until(wake_s, should_stop)
            return
        for kind in self.scheduler.kinds:
            planned = self.scheduler.plan(kind)
            if planned is not None:
                self._run_pass(planned)
            if should_stop():
                return

    def _run_pass(self, planned: PlannedPass) -> None:
        self.current_pass = planned
        if self.check is not None:
            self.check(planned)
        # A preempted request is recomputed from its tokens. They have landed: a later pass ran in its place.
        assert all(c.request.num_scheduled == len(c.request.output_ids) for c in planned.chunks)
        start_s = self.clock.now_s()
        self.timing.begin()
        tokens = self.runner.run(planned)
        flight = InFlight(
            planned=planned,
            slots=planned.prefilled_slots,
            start_s=start_s,
            issued_s=self.clock.now_s(),
            tokens=tokens,
            bucket_tokens=self.runner.bucket_tokens,
        )
        self.timing.launched(flight)
        if self._needs_tokens and not self.timing.runs_ahead:
            self._finish_knowing_tokens(flight)
        else:
            flight.outcome = self._complete(planned, ())
            self.record(wait=False)

    def _finish_knowing_tokens(self, flight: InFlight) -> None:
        """Tokens decide which requests end, and the pass is over, so its outcome is known at once."""
        for landed in self.timing.landed(wait=True):
            planned = landed.flight.planned
            at_eos = [i for i, token in zip(planned.live, landed.token_ids, strict=True) if token in self.eos_ids]
            flight.outcome = self._complete(planned, at_eos)
            self._log(landed)

    def _complete(self, planned: PlannedPass, at_eos: list[int] | tuple[()]) -> PassOutcome:
        outcome = self.scheduler.complete(planned, at_eos)
        self._follow(outcome)
        return outcome

    def _follow(self, outcome: PassOutcome) -> None:
        self.runner.move(outcome.moves)
        if not self.scheduler.running:
            self.runner.release_all()

    def record(self, *, wait: bool) -> None:
        """Log the finished passes; with `wait`, all issued passes."""
        for landed in self.timing.landed(wait=wait):
            if self._needs_tokens:
                self._end_late(landed)
            self._log(landed)

    def _end_late(self, landed: Landed) -> None:
        """End the requests whose EOS just landed, while the next pass may already include them.

        What that pass computes for them is discarded: they become its dead rows.
        """
        flight = landed.flight
        live = zip(flight.planned.live_requests, landed.token_ids, strict=True)
        ended = [r for r, token in live if token in self.eos_ids and not r.spec.ignore_eos]
        if not ended:
            return
        assert flight.outcome is not None
        following = next(iter(self.timing.in_flight), None)
        if following is None:
            late = self.scheduler.end_late(ended, issued=())
            flight.outcome = merge_outcomes(flight.outcome, ended=ended, released=late.released, moves=late.moves)
        else:
            issued = [r for r in ended if r in following.planned.live_requests]
            late = self.scheduler.end_late(ended, issued=issued)
            flight.outcome = merge_outcomes(flight.outcome, ended=ended)
            discard(following, issued, late)
        self._follow(late)

    def _log(self, landed: Landed) -> None:
        flight = landed.flight
        assert flight.outcome is not None
        self.recorder.passed(flight.planned, flight.outcome, landed.timing, landed.token_ids, flight.slots)
        self.on_pass(landed.timing.delivered_s)


def merge_outcomes(
    outcome: PassOutcome,
    *,
    ended: Sequence[Request] = (),
    released: Sequence[Request] = (),
    moves: Sequence[Move] = (),
) -> PassOutcome:
    """`outcome` plus what became known later; no request ends or is released twice."""
    return PassOutcome(
        ended=_joined(outcome.ended, ended),
        released=_joined(outcome.released, released),
        moves=(*outcome.moves, *moves),
    )


def discard(flight: InFlight, ended: Sequence[Request], late: PassOutcome) -> None:
    """Mark the rows of `ended` as dead rows of the pass in flight; they are released when it ends."""
    assert flight.outcome is not None
    flight.planned = without(flight.planned, ended)
    outcome = replace(flight.outcome, ended=tuple(r for r in flight.outcome.ended if r not in ended))
    flight.outcome = merge_outcomes(outcome, released=late.released, moves=late.moves)


def without(planned: PlannedPass, ended: Sequence[Request]) -> PlannedPass:
    """`planned` with the rows of `ended` dead: their computed positions and KV positions count as waste."""
    dead = set(ended)
    live = tuple(i for i in planned.live if planned.rows[i] not in dead)
    lengths = [r.num_prompt_tokens + len(r.output_ids) for r in ended]  # without the EOS, which has not landed yet
    positions = sum(lengths) + len(lengths)
    is_padded = planned.kind is PassKind.DECODE and planned.shape.masked
    padding = len(lengths) * planned.shape.width - positions if is_padded else 0
    shape = replace(
        planned.shape,
        padding_positions=planned.shape.padding_positions - padding,
        dead_positions=planned.shape.dead_positions + positions + padding,
    )
    kv = replace(planned.kv, used=planned.kv.used - positions, dead=planned.kv.dead + positions)
    return replace(planned, live=live, shape=shape, kv=kv)


def _joined(first: Sequence[Request], second: Sequence[Request]) -> tuple[Request, ...]:
    return (*first, *(r for r in second if r not in first))

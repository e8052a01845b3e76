"""Plays a scheduler with a clock of its own, one second a pass, and writes down its step table.

Requests are called a, b, c … by their ids. A line of the table reads `step kind rows`, as in `3 D aBc`: the decode pass
of step 3 over the rows a, b and c in slot order, b being dead. In chunked passes pieces follow the rows that decode:
`c4+3` are three tokens of c from its fifth on, `c4+3.` those after which it yields its token. `3 ! c`: c was preempted
before the pass of the next line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.core.passes import KVHeld, PassKind, PassOutcome, PlannedPass
from engine.core.request import Request, RequestSpec, TextPrompt
from engine.core.schedulers.scheduler import Scheduler


@dataclass(slots=True, kw_only=True)
class Played:
    """`moves` reads `d 3>0`. `admitted` and `ended` map a name to its second."""

    table: list[str] = field(default_factory=list)
    moves: list[str] = field(default_factory=list)
    passes: list[PlannedPass] = field(default_factory=list)
    admitted: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    lanes: dict[str, int] = field(default_factory=dict)

    @property
    def slot_steps(self) -> int:
        return sum(len(planned.rows) for planned in self.passes)

    @property
    def useful_slot_steps(self) -> int:
        return sum(len(planned.live) for planned in self.passes)


def requests(
    budgets: Sequence[int],
    *,
    prompts: Sequence[int] | None = None,
    arrivals_s: Sequence[float] | None = None,
    ignore_eos: bool = True,
) -> list[Request]:
    """One request a budget; prompts of 4 tokens and arrivals at 0 unless told otherwise."""
    made = []
    for i, budget in enumerate(budgets):
        spec = RequestSpec(
            request_id=i,
            prompt=TextPrompt(text="x"),
            budget_tokens=budget,
            ignore_eos=ignore_eos,
            arrival_s=arrivals_s[i] if arrivals_s else 0.0,
            sampling_seed=i,
        )
        made.append(Request(spec=spec, prompt_ids=[1] * (prompts[i] if prompts else 4)))
    return made


def name(request: Request) -> str:
    return chr(ord("a") + request.request_id)


def play(
    scheduler: Scheduler,
    *,
    eos: Mapping[str, int] | None = None,
    late: bool = False,
    max_passes: int = 10_000,
    watch: Callable[[PlannedPass], None] = lambda planned: None,
) -> Played:
    """Run to the end. `eos` says with which of its tokens, from 1 on, a request ends its sequence.

    `late`: that is known only when the pass after it has been issued. `watch` sees each pass before it is completed.
    """
    played, now_s = Played(), 0.0
    ahead = _Ahead(scheduler, played, eos or {}, late=late)
    while not scheduler.is_done:
        assert len(played.passes) < max_passes, "the scheduler does not come to an end"
        scheduler.submit_arrived(now_s)
        for request in scheduler.admit(now_s):
            assert request.lane is not None
            played.admitted.setdefault(name(request), now_s)
            played.lanes[name(request)] = request.lane
        if not scheduler.running:
            wake_s = scheduler.wake_s(now_s)
            assert wake_s is not None
            assert wake_s > now_s
            now_s = wake_s
            continue
        for kind in scheduler.kinds:
            planned = scheduler.plan(kind)
            if planned is not None:
                now_s += 1.0
                watch(planned)
                ahead.run(planned, now_s)
        if not scheduler.running:
            ahead.land(None, now_s)
    return played


class _Ahead:
    """Completes passes, at once or as a loop that runs one pass ahead of what it knows of their tokens."""

    def __init__(self, scheduler: Scheduler, played: Played, eos: Mapping[str, int], *, late: bool) -> None:
        self.scheduler, self.played, self.eos, self.late = scheduler, played, eos, late
        self.in_flight: tuple[PlannedPass, list[Request]] | None = None

    def run(self, planned: PlannedPass, now_s: float) -> None:
        _write_down(planned, self.played, chunked=self.scheduler.kinds == (PassKind.MIXED,))
        at_eos = [i for i in planned.live if self.eos.get(name(planned.rows[i])) == planned.rows[i].num_scheduled + 1]
        ends = [planned.rows[i] for i in at_eos]
        self._note(self.scheduler.complete(planned, [] if self.late else at_eos), now_s)
        if self.late:
            self.land(planned, now_s)
            self.in_flight = planned, ends

    def land(self, following: PlannedPass | None, now_s: float) -> None:
        """The tokens of the pass in flight are known now; `following` has been issued since."""
        if self.in_flight is not None and self.in_flight[1]:
            ends = self.in_flight[1]
            issued = [] if following is None else [r for r in ends if r in following.live_requests]
            self._note(self.scheduler.end_late(ends, issued), now_s)
        self.in_flight = None

    def _note(self, outcome: PassOutcome, now_s: float) -> None:
        self.played.ended |= {name(request): now_s for request in outcome.ended}
        self.played.moves += [f"{name(move.request)} {move.source}>{move.target}" for move in outcome.moves]
        running = self.scheduler.running
        slots = [request.slot for request in running]
        if self.scheduler.layout.name == "paged":
            assert slots == [request.lane for request in running]
        else:
            assert slots == list(range(len(running)))
        lanes = [request.lane for request in running]
        assert len(set(lanes)) == len(lanes)


def _write_down(planned: PlannedPass, played: Played, *, chunked: bool) -> None:
    played.passes.append(planned)
    if planned.preemptions:
        played.table.append(f"{planned.step} ! {''.join(name(p.request) for p in planned.preemptions)}")
    words = [name(r) if i in planned.live else name(r).upper() for i, r in enumerate(planned.rows)]
    if chunked:
        decoding = "".join(words[: planned.num_decode_rows])
        pieces = [f"{name(c.request)}{c.start}+{c.tokens}{'.' * c.is_last}" for c in planned.chunks]
        words = [" ".join([*([decoding] if decoding else []), *pieces])]
    played.table.append(f"{planned.step} {planned.kind.value[0].upper()} {''.join(words)}")


def reserved_for_later(held: KVHeld) -> int:
    """Positions that a layout holds for future tokens."""
    return held.reserved - held.used - held.padding - held.dead - held.fragment

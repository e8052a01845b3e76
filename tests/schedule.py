"""Plays a scheduler with a clock of its own, one second a pass, and writes down its step table.

Requests are called a, b, c … by their ids. A line of the table reads `step kind rows`, as in `3 D aBc`: the decode pass
of step 3 over the rows a, b and c in slot order, b being dead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.core.passes import PassKind, PlannedPass
from engine.core.request import Request, RequestSpec, TextPrompt
from engine.core.scheduler import Scheduler


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


def play(scheduler: Scheduler, *, eos: Mapping[str, int] | None = None, max_passes: int = 10_000) -> Played:
    """Run to the end. `eos` says with which of its tokens, from 1 on, a request ends its sequence."""
    played, now_s = Played(), 0.0
    while not scheduler.is_done:
        assert len(played.passes) < max_passes, "the scheduler does not come to an end"
        scheduler.submit_arrived(now_s)
        for request in scheduler.admit(now_s):
            assert request.lane is not None
            played.admitted[name(request)], played.lanes[name(request)] = now_s, request.lane
        if not scheduler.running:
            wake_s = scheduler.wake_s(now_s)
            assert wake_s is not None
            assert wake_s > now_s
            now_s = wake_s
            continue
        for kind in (PassKind.PREFILL, PassKind.DECODE):
            planned = scheduler.plan(kind)
            if planned is not None:
                now_s += 1.0
                _pass(scheduler, planned, played, now_s, eos or {})
    return played


def _pass(scheduler: Scheduler, planned: PlannedPass, played: Played, now_s: float, eos: Mapping[str, int]) -> None:
    rows = [name(r) if i in planned.live else name(r).upper() for i, r in enumerate(planned.rows)]
    played.table.append(f"{planned.step} {planned.kind.value[0].upper()} {''.join(rows)}")
    played.passes.append(planned)
    at_eos = [i for i in planned.live if eos.get(name(planned.rows[i])) == planned.rows[i].num_scheduled + 1]
    outcome = scheduler.complete(planned, at_eos)
    played.ended |= {name(request): now_s for request in outcome.ended}
    played.moves += [f"{name(move.request)} {move.source}>{move.target}" for move in outcome.moves]
    assert [request.slot for request in scheduler.running] == list(range(len(scheduler.running)))
    lanes = [request.lane for request in scheduler.running]
    assert len(set(lanes)) == len(lanes)

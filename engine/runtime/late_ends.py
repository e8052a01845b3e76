"""An end of sequence that is known one pass late: what the pass already under way computes for its rows is discarded.

The pass keeps its rows, since it computes them, but they are dead rows of it: nobody waits for their tokens. The rows
leave the engine with that pass, not with the one that said the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.core.passes import Move, PassKind, PassOutcome, PlannedPass
from engine.core.request import Request
from engine.runtime.passes_in_flight import InFlight


def merge_outcomes(
    outcome: PassOutcome,
    *,
    ended: Sequence[Request] = (),
    released: Sequence[Request] = (),
    moves: Sequence[Move] = (),
) -> PassOutcome:
    """`outcome` and what became known later; nobody ends or leaves twice."""
    return PassOutcome(
        ended=_joined(outcome.ended, ended),
        released=_joined(outcome.released, released),
        moves=(*outcome.moves, *moves),
    )


def discard(flight: InFlight, ended: Sequence[Request], late: PassOutcome) -> None:
    """Mark the rows of `ended` as dead rows of the pass in flight, with which they leave the engine."""
    assert flight.outcome is not None
    flight.planned = without(flight.planned, ended)
    outcome = replace(flight.outcome, ended=tuple(r for r in flight.outcome.ended if r not in ended))
    flight.outcome = merge_outcomes(outcome, released=late.released, moves=late.moves)


def without(planned: PlannedPass, ended: Sequence[Request]) -> PlannedPass:
    """`planned` with the rows of `ended` dead: their positions are waste, and what they hold is held for nothing."""
    gone = set(ended)
    live = tuple(i for i in planned.live if planned.rows[i] not in gone)
    lengths = [r.num_prompt_tokens + len(r.output_ids) for r in ended]  # the end of the sequence has not landed yet
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

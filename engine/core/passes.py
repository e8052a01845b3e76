"""What one forward pass is: which rows it runs, how wide it is, and how much of it is waste.

The scheduler plans a pass, the runner (or the simulator) carries it out, the recorder logs it. These frozen values are
the whole contract between the three.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.core.request import Request


class PassKind(StrEnum):
    PREFILL = "prefill"
    DECODE = "decode"
    MIXED = "mixed"  # decode rows and prefill chunks in one forward


@dataclass(frozen=True, slots=True, kw_only=True)
class PassShape:
    """The columns that a pass attends over, and what they hold.

    `computed_positions` = real + `padding_positions` + `dead_positions`. A padded or slot-shaped pass computes rows x
    width positions; a packed prefill computes just its real tokens, and a paged decode each row's true length.
    """

    width: int
    masked: bool
    computed_positions: int
    padding_positions: int
    dead_positions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Tokens [start, start + tokens) of a request (its prompt, then its output), computed in one pass.

    `is_last` when nothing of it is left to compute after this pass: only then does the row yield a token. `recomputed`
    of the tokens had been computed once before and were lost to a preemption.
    """

    request: Request
    start: int
    tokens: int
    is_last: bool
    recomputed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEvent:
    """A block of the KV pool changed hands: it became place `table_index` of a request's block table, or left it."""

    block_id: int
    request_id: int
    table_index: int
    allocated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """A running request lost its `blocks` blocks and waits again; `tokens` positions have to be computed again.

    `request` keeps its place at the front of the queue. `lane` is the one it left.
    """

    request: Request
    lane: int
    blocks: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KVHeld:
    """Token positions that the layout holds allocated, by what is in them once the pass is done.

    `reserved` is all of them. `used` holds tokens of running requests, `padding` their padding columns, `dead` whatever
    rows that ended still hold, `fragment` the unfilled end of each last block. The rest of `reserved` is kept for
    tokens to come.
    """

    reserved: int
    used: int
    padding: int = 0
    dead: int = 0
    fragment: int = 0

    @property
    def room(self) -> int:
        return self.reserved - self.used - self.padding - self.dead - self.fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPass:
    """One forward pass, decided. `live` lists the places in `rows` whose request still runs.

    `rows` are the requests that yield a token in this pass. Of a prefill they are the newly admitted ones; of a decode
    pass all that run, in physical slot order; of a mixed pass the decoding ones first, then those whose last chunk this
    is. `chunks` (paged layouts only) lists what is prefilled, in the order in which it is packed: chunks that are not
    the last yield no token, and their requests are not in `rows`. `tokens` counts the new tokens computed, the
    padding of a padded batch among them.

    `block_events` and `preemptions` are what became of the KV pool since the pass before, in order.
    """

    index: int
    step: int
    kind: PassKind
    rows: tuple[Request, ...]
    live: tuple[int, ...]
    shape: PassShape
    prompt_tokens: int
    queue_depth: int
    tokens: int
    kv: KVHeld
    chunks: tuple[Chunk, ...] = ()
    block_events: tuple[BlockEvent, ...] = ()
    preemptions: tuple[Preemption, ...] = ()

    @property
    def num_decode_rows(self) -> int:
        """How many of `rows` decode; they stand first. Of a prefill without chunks (slots, padded) there are none."""
        if self.kind is PassKind.DECODE:
            return len(self.rows)
        return len(self.rows) - sum(c.is_last for c in self.chunks) if self.chunks else 0

    @property
    def partial_chunks(self) -> tuple[Chunk, ...]:
        """The chunks whose request has more to compute: they yield no token."""
        return tuple(c for c in self.chunks if not c.is_last)

    @property
    def prefilled_slots(self) -> tuple[int, ...]:
        """The physical slots of the requests that the pass prefills, in its order, before any of them moves."""
        if self.kind is PassKind.DECODE:
            return ()
        requests = [c.request for c in self.chunks] if self.chunks else self.rows
        return tuple(-1 if r.slot is None else r.slot for r in requests)

    @property
    def live_requests(self) -> tuple[Request, ...]:
        return tuple(self.rows[i] for i in self.live)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The row in physical slot `source` now lives in slot `target`: its keys and values have to follow."""

    request: Request
    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOutcome:
    """What a pass changed: the requests that ended, those that left the engine, and the rows that moved up.

    A request that ended but was not released stays in its row as a dead row (static batching).
    """

    ended: tuple[Request, ...]
    released: tuple[Request, ...]
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTiming:
    """Seconds on the run's clock. `issue_s` is the CPU's time to issue the pass (None where the CPU runs it itself).

    `device_s` is the device's time from the pass's first kernel to its last, by its own events: the pauses in which it
    waits for the next kernel to be issued are in it.

    `produced_s` is when the device had the tokens, `delivered_s` when the host could hand them to a client.

    `bucket_tokens` is how many tokens the pass computed with the padding of its CUDA graph's bucket; None where the
    pass was not captured.
    """

    start_s: float
    end_s: float
    issue_s: float | None
    device_s: float
    produced_s: float
    delivered_s: float
    bucket_tokens: int | None = None

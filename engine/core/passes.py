"""One forward pass: which rows it runs, how wide it is, and how much of it is waste.

The scheduler plans a pass, the runner (or the simulator) executes it, the recorder logs it. These frozen values are the
entire contract between the three.
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
    width positions, a packed prefill only its real tokens, a paged decode each row's true length.
    """

    width: int
    masked: bool
    computed_positions: int
    padding_positions: int
    dead_positions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Tokens [start, start + tokens) of a request (its prompt, then its output), computed in one pass.

    `is_last`: the request has nothing left to prefill after this pass. Only then does the row yield a token.
    `recomputed` counts tokens that were computed before and lost to a preemption.
    """

    request: Request
    start: int
    tokens: int
    is_last: bool
    recomputed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEvent:
    """A KV block was allocated to a request, as entry `table_index` of its block table, or freed."""

    block_id: int
    request_id: int
    table_index: int
    allocated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """A running request lost its `blocks` blocks and waits again; `tokens` positions must be recomputed.

    The request goes to the front of the queue. `lane` is the lane that it left.
    """

    request: Request
    lane: int
    blocks: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KVHeld:
    """Token positions that the layout has allocated, by what they hold after the pass.

    `reserved` is the total. `used` holds tokens of running requests, `padding` their padding columns, `dead` what ended
    rows still hold, `fragment` the unfilled end of each last block. The remainder is reserved for future tokens.
    """

    reserved: int
    used: int
    padding: int = 0
    dead: int = 0
    fragment: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPass:
    """One planned forward pass. `live` lists the indices in `rows` whose request still runs.

    `rows` are the requests that yield a token in this pass: the newly admitted ones of a prefill; all running ones of a
    decode pass, in physical slot order; in a mixed pass the decode rows, then the requests whose last chunk runs.
    `chunks` (paged layouts only) lists the prefill chunks in packed order. A chunk that is not the last yields no
    token, and its request is not in `rows`. `tokens` counts the new tokens computed, padding of a padded batch
    included.

    `block_events` and `preemptions` list the changes of the KV pool since the previous pass, in order.
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
        """How many of `rows` decode; they come first. 0 for a prefill without chunks (slots, padded)."""
        if self.kind is PassKind.DECODE:
            return len(self.rows)
        return len(self.rows) - sum(c.is_last for c in self.chunks) if self.chunks else 0

    @property
    def partial_chunks(self) -> tuple[Chunk, ...]:
        """The chunks that are not a request's last; they yield no token."""
        return tuple(c for c in self.chunks if not c.is_last)

    @property
    def prefilled_slots(self) -> tuple[int, ...]:
        """The physical slots of the requests that the pass prefills, in pass order, before any row moves."""
        if self.kind is PassKind.DECODE:
            return ()
        requests = [c.request for c in self.chunks] if self.chunks else self.rows
        return tuple(-1 if r.slot is None else r.slot for r in requests)

    @property
    def live_requests(self) -> tuple[Request, ...]:
        return tuple(self.rows[i] for i in self.live)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A row moves from physical slot `source` to `target`; its keys and values must move too."""

    request: Request
    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOutcome:
    """The result of a pass: the requests that ended, those that left the engine, and the rows that moved.

    A request that ended but was not released stays as a dead row (static batching).
    """

    ended: tuple[Request, ...]
    released: tuple[Request, ...]
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTiming:
    """Seconds on the run's clock. `issue_s` is the CPU's time to issue the pass (None where the CPU runs it itself).

    `device_s` is the time between the pass's first and last kernel by the device's own events. It includes pauses in
    which the device waits for the next kernel to be issued.

    `produced_s` is when the device had the tokens, `delivered_s` when the host could send them to a client.

    `bucket_tokens` is the number of tokens computed, padding of the CUDA graph's bucket included; None if the pass was
    not captured.
    """

    start_s: float
    end_s: float
    issue_s: float | None
    device_s: float
    produced_s: float
    delivered_s: float
    bucket_tokens: int | None = None

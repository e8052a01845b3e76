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


@dataclass(frozen=True, slots=True, kw_only=True)
class PassShape:
    """The columns that a pass attends over, and what they hold.

    `computed_positions` = real + `padding_positions` + `dead_positions`. A padded or slot-shaped pass computes rows x
    width positions; a packed prefill computes just its real tokens.
    """

    width: int
    masked: bool
    computed_positions: int
    padding_positions: int
    dead_positions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPass:
    """One forward pass, decided. `live` lists the places in `rows` whose token someone still waits for.

    `newcomers` are the requests admitted in this step (prefill passes only); `rows` of a decode pass are in physical
    slot order. KV counts are in token positions: `kv_reserved` is what the layout holds allocated, `kv_used` what
    requests still running have filled once the pass is done.
    """

    index: int
    step: int
    kind: PassKind
    rows: tuple[Request, ...]
    live: tuple[int, ...]
    shape: PassShape
    prompt_tokens: int
    queue_depth: int
    kv_reserved: int
    kv_used: int

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
    """What a pass changed: who got its last token, who left the engine, and which rows moved to close the gaps.

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

    `produced_s` is when the device had the tokens, `delivered_s` when the host could hand them to a reader.
    """

    start_s: float
    end_s: float
    issue_s: float | None
    device_s: float
    produced_s: float
    delivered_s: float

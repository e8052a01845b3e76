"""What a batch size would cost, rebuilt from bytes: a decode step, a reader's rate, the end of "free", memory's wall.

    bytes of a step = weights + batch x sequence x KV bytes of a position;   seconds = bytes / achieved read rate

Every row decodes at the same length; a step's arithmetic counts too, and takes over where it takes longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.errors import FieldError
from engine.hardware.roofline import Ceilings, ModelShape, decode_stats, pass_bytes, pass_flop
from engine.hardware.step_cost import Resource, RooflineCost, roofline_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A model with sequences of `sequence_tokens` each, decoding under `ceilings` in a memory of `memory_bytes`.

    `utilization` is the share of the memory that may be used; `execution` is `eager` or `graph`.
    """

    shape: ModelShape
    ceilings: Ceilings
    sequence_tokens: int
    memory_bytes: int
    utilization: float = 1.0
    execution: str = "graph"

    def __post_init__(self) -> None:
        if self.sequence_tokens < 1:
            raise FieldError("sequence", f"sequence length {self.sequence_tokens}: use 1 token or more")
        if not 0 < self.utilization <= 1:
            raise FieldError("memory", f"utilization {self.utilization}: use a share above 0, up to 1")

    @property
    def cost(self) -> RooflineCost:
        return roofline_cost(self.shape, self.ceilings, self.execution)

    @property
    def sequence_bytes(self) -> int:
        """What one sequence's cached keys and values take, and what a step reads of them."""
        return self.sequence_tokens * self.shape.kv_position_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRow:
    """One batch size. `tokens_per_s_per_request` is what one reader sees, `tokens_per_s` all of them together.

    `held_bytes` are weights and cache; `fits` says whether the memory holds them.
    """

    batch_size: int
    weight_bytes: int
    kv_bytes: int
    step_bytes: float
    step_flop: int
    step_s: float
    bound: Resource
    tokens_per_s_per_request: float
    tokens_per_s: float
    held_bytes: int
    fits: bool


def step_bytes(case: WhatIf, batch_size: int) -> float:
    """Bytes that one decode step reads."""
    return pass_bytes(case.shape, decode_stats(batch_size, case.sequence_tokens))


def step_s(case: WhatIf, batch_size: int) -> float:
    """Seconds of one decode step: the largest of reading, computing and launching."""
    return case.cost.pass_s(decode_stats(batch_size, case.sequence_tokens))


def free_until(case: WhatIf) -> float:
    """The batch size at which a step reads as much cache as weights: up to about there, a row more is nearly free."""
    return case.shape.weight_bytes / case.sequence_bytes


def memory_wall(case: WhatIf) -> int:
    """The most sequences whose cache fits beside the weights; 0 where not even the weights fit."""
    room = case.memory_bytes * case.utilization - case.shape.weight_bytes
    return max(0, int(room // case.sequence_bytes))


def compute_bound_from(case: WhatIf) -> float | None:
    """The batch size from which computing takes longer than reading; None where it never does.

    Both grow with the batch: where a row's cache takes longer to read than a row takes to compute, reading stays ahead.
    """
    one, two = (decode_stats(b, case.sequence_tokens) for b in (1, 2))
    flop_a_row = pass_flop(case.shape, two) - pass_flop(case.shape, one)
    row_s = flop_a_row / case.ceilings.flop_per_s - case.sequence_bytes / case.ceilings.read_bytes_per_s
    return case.shape.weight_bytes / case.ceilings.read_bytes_per_s / row_s if row_s > 0 else None


def launch_bound_until(case: WhatIf) -> float:
    """The batch size up to which a step only waits for its launches; 0 where it never does."""
    launch_s = case.cost.issue_s
    spare_bytes = launch_s * case.ceilings.read_bytes_per_s - case.shape.weight_bytes
    flop_a_row = pass_flop(case.shape, decode_stats(1, case.sequence_tokens))
    return max(0.0, min(spare_bytes / case.sequence_bytes, launch_s * case.ceilings.flop_per_s / flop_a_row))


def what_if_row(case: WhatIf, batch_size: int) -> WhatIfRow:
    """One line of the table. ValueError for a batch of less than one row."""
    if batch_size < 1:
        raise ValueError(f"batch size {batch_size}: use 1 or more")
    facts = decode_stats(batch_size, case.sequence_tokens)
    seconds = case.cost.pass_s(facts)
    held = case.shape.weight_bytes + batch_size * case.sequence_bytes
    return WhatIfRow(
        batch_size=batch_size,
        weight_bytes=case.shape.weight_bytes,
        kv_bytes=batch_size * case.sequence_bytes,
        step_bytes=pass_bytes(case.shape, facts),
        step_flop=pass_flop(case.shape, facts),
        step_s=seconds,
        bound=case.cost.bound(facts),
        tokens_per_s_per_request=1 / seconds,
        tokens_per_s=batch_size / seconds,
        held_bytes=held,
        fits=held <= case.memory_bytes * case.utilization,
    )


def what_if_table(case: WhatIf, batch_sizes: Sequence[int]) -> list[WhatIfRow]:
    """A row a batch size, in the order given."""
    return [what_if_row(case, b) for b in batch_sizes]


# How fast people read, against how fast tokens come: the batch size at which one reader's rate falls below reading.

WORDS_PER_TOKEN = 0.75
WORDS_PER_MINUTE = 240
MOST = 1 << 24


def reading_tokens_per_s(words_per_minute: float) -> float:
    """The rate of tokens at which somebody reads along."""
    return words_per_minute / 60 / WORDS_PER_TOKEN


def words_per_s(tokens_per_s: float) -> float:
    return tokens_per_s * WORDS_PER_TOKEN


def readable_until(case: WhatIf, tokens_per_s: float) -> int:
    """The largest batch whose step still gives each of its readers so many tokens a second; 0 where none does."""
    low, high = 0, MOST  # a step takes longer with every row
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if step_s(case, middle) * tokens_per_s <= 1 else (low, middle)
    return low

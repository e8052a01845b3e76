"""Estimates by batch size: time of a decode step, rate per request, memory limit, and when reading limits the user.

    bytes of a step = weights + batch x sequence x KV bytes per position;   seconds = bytes / achieved read rate

All rows decode at the same length. FLOP and launches count too: the slowest of the three determines the step. A step of
a mixture of experts reads more of its weights in a larger batch (`ModelShape.weight_bytes_read`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.core.errors import FieldError
from engine.hardware.machine_memory import usable_bytes
from engine.hardware.roofline import Ceilings, ModelShape, decode_stats, pass_bytes, pass_flop, require_window
from engine.hardware.step_cost import Resource, RooflineCost, roofline_cost
from engine.hardware.tensor_parallel import Link

WORDS_PER_TOKEN = 0.75
WORDS_PER_MINUTE = 240  # the usual silent reading speed of English
MAX_BATCH = 1 << 24
BISECTIONS = 60  # of MAX_BATCH: far below a thousandth of a row


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A model with sequences of `sequence_tokens` each, decoding under `ceilings` in a memory of `memory_bytes`.

    `utilization` is the share of the memory that may be used; `execution` is `eager` or `graph`. `ceilings` and memory
    are those of all `gpus` GPUs together, which share the model over `link`.
    """

    shape: ModelShape
    ceilings: Ceilings
    sequence_tokens: int
    memory_bytes: int
    utilization: float = 1.0
    execution: str = "graph"
    gpus: int = 1
    link: Link | None = None

    def __post_init__(self) -> None:
        if self.sequence_tokens < 1:
            raise FieldError("sequence", f"sequence length {self.sequence_tokens}: use 1 token or more")
        if not 0 < self.utilization <= 1:
            raise FieldError("memory", f"utilization {self.utilization}: use a share above 0, up to 1")

        require_window(self.shape, self.sequence_tokens, "sequence")

    @property
    def usable_bytes(self) -> int:
        return usable_bytes(self.memory_bytes, self.utilization)

    @property
    def cost(self) -> RooflineCost:
        return roofline_cost(
            self.shape, self.ceilings.times(1 / self.gpus), self.execution, gpus=self.gpus, link=self.link
        )

    @property
    def sequence_bytes(self) -> int:
        """Bytes of one sequence's cached keys and values, all of which a step reads."""
        return self.sequence_tokens * self.shape.kv_position_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRow:
    """One batch size. `tokens_per_s_per_request` is the rate of one request, `tokens_per_s` the total.

    `held_bytes` are weights and cache; `fits` tells whether they fit the memory.
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
    """Bytes one decode step reads."""
    return pass_bytes(case.shape, decode_stats(batch_size, case.sequence_tokens))


def step_s(case: WhatIf, batch_size: int) -> float:
    """Seconds of one decode step: the maximum of reading, computing and launching."""
    return case.cost.pass_s(decode_stats(batch_size, case.sequence_tokens))


def free_until(case: WhatIf) -> float:
    """The batch size up to about which another row is nearly free: while launches limit the step, and else until a step
    reads as much cache as weights, or computes for longer than it reads."""
    computing = compute_bound_from(case)
    by_work = min(cache_equals_weights(case), math.inf if computing is None else computing)
    return max(launch_bound_until(case), by_work)


def cache_equals_weights(case: WhatIf) -> float:
    """The batch size at which a step reads as much cache as weights."""
    return _rows_where(case, lambda weight_bytes: weight_bytes / case.sequence_bytes)


def _rows_where(case: WhatIf, rows_by_weights: Callable[[float], float]) -> float:
    """The batch size B that equals `rows_by_weights` of the bytes of weights that a step of B rows reads."""
    shape = case.shape
    if not shape.experts:
        return rows_by_weights(shape.weight_bytes)
    low, high = 0.0, float(MAX_BATCH)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_below = middle < rows_by_weights(shape.weight_bytes_read(middle))
        low, high = (middle, high) if is_below else (low, middle)
    return low


def memory_wall(case: WhatIf) -> int:
    """The largest number of sequences whose cache fits beside the weights; 0 if the weights do not fit."""
    available_bytes = case.usable_bytes - case.shape.weight_bytes
    return max(0, available_bytes // case.sequence_bytes)


def compute_bound_from(case: WhatIf) -> float | None:
    """The batch size from which computing takes longer than reading; None if it never does.

    Both grow with the batch. If a row takes longer to read than to compute, steps stay bandwidth-bound.
    """
    one, two = (decode_stats(b, case.sequence_tokens) for b in (1, 2))
    flop_per_row = pass_flop(case.shape, two) - pass_flop(case.shape, one)
    row_s = flop_per_row / case.ceilings.flop_per_s - case.sequence_bytes / case.ceilings.read_bytes_per_s
    if row_s <= 0:
        return None
    return _rows_where(case, lambda weight_bytes: weight_bytes / case.ceilings.read_bytes_per_s / row_s)


def launch_bound_until(case: WhatIf) -> float:
    """The batch size up to which launches limit the step; 0 if they never do."""
    launch_s = case.cost.issue_s
    read_bytes = launch_s * case.ceilings.read_bytes_per_s
    by_reading = _rows_where(case, lambda weight_bytes: (read_bytes - weight_bytes) / case.sequence_bytes)
    flop_per_row = pass_flop(case.shape, decode_stats(1, case.sequence_tokens))
    return max(0.0, min(by_reading, launch_s * case.ceilings.flop_per_s / flop_per_row))


def what_if_row(case: WhatIf, batch_size: int) -> WhatIfRow:
    """One row of the table. ValueError for a batch below 1."""
    if batch_size < 1:
        raise ValueError(f"batch size {batch_size}: use 1 or more")
    stats = decode_stats(batch_size, case.sequence_tokens)
    seconds = case.cost.pass_s(stats)
    held = case.shape.weight_bytes + batch_size * case.sequence_bytes
    return WhatIfRow(
        batch_size=batch_size,
        weight_bytes=case.shape.weight_bytes,
        kv_bytes=batch_size * case.sequence_bytes,
        step_bytes=pass_bytes(case.shape, stats),
        step_flop=pass_flop(case.shape, stats),
        step_s=seconds,
        bound=case.cost.bound(stats),
        tokens_per_s_per_request=1 / seconds,
        tokens_per_s=batch_size / seconds,
        held_bytes=held,
        fits=held <= case.usable_bytes,
    )


def what_if_table(case: WhatIf, batch_sizes: Sequence[int]) -> list[WhatIfRow]:
    """One row per batch size, in the given order."""
    return [what_if_row(case, b) for b in batch_sizes]


def reading_tokens_per_s(words_per_minute: float) -> float:
    """The token rate at which a user reads along."""
    return words_per_minute / 60 / WORDS_PER_TOKEN


def words_per_s(tokens_per_s: float) -> float:
    return tokens_per_s * WORDS_PER_TOKEN


def readable_until(case: WhatIf, tokens_per_s: float) -> int:
    """The largest batch that still gives each request that token rate; 0 if none does."""
    low, high = 0, MAX_BATCH  # step time grows with every row
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if step_s(case, middle) * tokens_per_s <= 1 else (low, middle)
    return low

"""The memory a run needs, computed before it runs, and the batch size and term at which memory ends.

The shapes match what the engines allocate (kv_layout, pool_size), so a run with `--capacity-gib` on a CPU ends where
this predicts. Only lengths count, not time: all requests are assumed to wait from the start, which gives the largest
possible prefill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from engine.core.config import SETTINGS, RunConfig
from engine.core.errors import EngineOutOfMemory, FieldError
from engine.core.kv_layout import blocks_of
from engine.core.option import Choices, Option
from engine.core.presets import PRESETS
from engine.core.request import Length, Request
from engine.memory.memory_model import ModelDimensions, PassMemory, Shortage, pass_memory

_BLOCK_SIZE, _STEP_TOKENS = SETTINGS["block_size"], SETTINGS["max_num_batched_tokens"]
LOGITS = Option(
    default="copied",
    label="Logits",
    help="copied: last positions with an fp32 copy; last: without the copy (greedy runs); all: all positions, copied",
    flags=("--logits",),
    takes=Choices(("copied", "last", "all")),
    group="engine",
)
MAX_BATCH = 65_536
MAX_PROMPT_TOKENS = 131_072
MAX_POINTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineShape:
    """The engine settings that determine memory. `sampled_in_fp32`: each step makes an fp32 copy of the logits."""

    engine: str = "static"
    block_size: int = _BLOCK_SIZE.default
    max_num_batched_tokens: int = _STEP_TOKENS.default
    sampled_in_fp32: bool = True
    logits_of_all: bool = False

    def __post_init__(self) -> None:
        SETTINGS["engine"].check(self.engine)
        _BLOCK_SIZE.check(self.block_size)
        _STEP_TOKENS.check(self.max_num_batched_tokens)

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        """By a run's configuration: the lab's engines keep only the last logits, and do not copy them when greedy."""
        return cls(
            engine=config.engine,
            block_size=config.block_size,
            max_num_batched_tokens=config.max_num_batched_tokens,
            sampled_in_fp32=not config.sampling.is_greedy,
        )

    def rows(self, slots: int) -> int:
        """Rows at once: `slots`, unless the engine has a number of its own."""
        return PRESETS[self.engine].slots or slots


def run_memory(model: ModelDimensions, shape: EngineShape, slots: int, lengths: Sequence[Length]) -> PassMemory:
    """The memory of the largest pass of these requests in `slots` slots, weights and KV included."""
    rows = min(shape.rows(slots), len(lengths))
    return pass_memory(
        model,
        kv_positions=kv_positions(shape, slots, lengths),
        tokens=largest_pass_tokens(shape, slots, lengths),
        rows=rows,
        sampled_in_fp32=shape.sampled_in_fp32,
        logits_of_all=shape.logits_of_all,
    )


def kv_positions(shape: EngineShape, slots: int, lengths: Sequence[Length]) -> int:
    """Positions the KV layout allocates: the buffer of a padded batch, all slots, or the blocks of all rows."""
    if not lengths:
        return 0
    return PRESETS[shape.engine].layout.most_positions(lengths, shape.rows(slots), shape.block_size)


def largest_pass_tokens(shape: EngineShape, slots: int, lengths: Sequence[Length], *, preempted: bool = False) -> int:
    """New tokens of the largest pass: a prefill of as many prompts as there are slots.

    A padded prefill is as wide as its longest prompt; a step of the chunked engine is limited by its token budget. A
    `preempted` request is prefilled again together with its generated tokens.
    """
    preset, slots = PRESETS[shape.engine], shape.rows(slots)
    tokens = preset.layout.prefill_tokens(lengths, slots, preempted=preempted)
    return min(tokens, max(shape.max_num_batched_tokens, slots)) if preset.is_chunked else tokens


PoolLimit = Callable[[bool], int | None]
"""The limit of a KV pool in bytes, None without one; lower if requests can be preempted and prefilled again."""


def blocks_that_fit(wanted: int, block_bytes: int, limit_bytes: PoolLimit) -> int:
    """The number of blocks of a pool: `wanted`, with which no request is preempted, or as many as fit the limit."""
    limit = limit_bytes(False)
    if limit is None or wanted * block_bytes <= limit:
        return wanted
    return max(0, min(wanted, (limit_bytes(True) or 0) // block_bytes))


def require_lone_request(
    requests: Sequence[Request], num_blocks: int, block_size: int, block_bytes: int, limit_bytes: PoolLimit
) -> None:
    """EngineOutOfMemory if the largest request exceeds the whole pool and would wait forever."""
    longest = max(requests, key=lambda r: r.length.positions, default=None)
    needed = 0 if longest is None else blocks_of(longest.length, block_size)
    if longest is None or needed <= num_blocks:
        return
    limit = limit_bytes(True)
    raise EngineOutOfMemory(
        asked_bytes=needed * block_bytes,
        free_bytes=None if limit is None else max(0, limit),
        shape=f"request {longest.request_id}: {longest.length.positions:,} tokens in {needed:,} blocks of "
        f"{block_size} positions, {num_blocks:,} available",
        where="KV pool",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGrid:
    """A grid of prompt lengths and batch sizes; at each point all rows have equal requests."""

    prompt_tokens: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    budget_tokens: int
    capacity_bytes: int
    pool_bytes: int | None = None
    shape: EngineShape = EngineShape()

    def __post_init__(self) -> None:
        _require(
            "prompts",
            bool(self.prompt_tokens and self.batch_sizes),
            "name at least one prompt length and one batch size",
        )
        for tokens in self.prompt_tokens:
            _require("prompts", 1 <= tokens <= MAX_PROMPT_TOKENS, f"prompts p{tokens}: use p1 to p{MAX_PROMPT_TOKENS}")
        for size in self.batch_sizes:
            _require("batch_size", 1 <= size <= MAX_BATCH, f"batch-size {size}: use 1 to {MAX_BATCH:,}")
        _require(
            "budget",
            1 <= self.budget_tokens <= MAX_PROMPT_TOKENS,
            f"budget {self.budget_tokens}: use 1 to {MAX_PROMPT_TOKENS} new tokens",
        )
        points = len(self.prompt_tokens) * len(self.batch_sizes)
        _require(
            "batch_size", points <= MAX_POINTS, f"{points:,} configurations: use fewer batch sizes or prompt lengths"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPoint:
    """One configuration: its memory terms, and the failing allocation if it does not fit.

    For a paged layout `fits` means that all requests run at once; otherwise requests wait or are preempted.
    """

    prompt_tokens: int
    batch_size: int
    need: PassMemory
    shortage: Shortage | None

    @property
    def fits(self) -> bool:
        return self.shortage is None

    def to_dict(self) -> dict[str, Any]:
        """A flat object: lengths, whether it fits, the failing allocation, and the bytes of each term."""
        shortage = self.shortage
        return {
            "prompt_tokens": self.prompt_tokens,
            "batch_size": self.batch_size,
            "fits": self.fits,
            "failing_term": None if shortage is None else shortage.term,
            "asked_bytes": None if shortage is None else shortage.asked_bytes,
            "free_bytes": None if shortage is None else shortage.free_bytes,
            **asdict(self.need),
            "total_bytes": self.need.total_bytes,
        }


def memory_points(model: ModelDimensions, grid: MemoryGrid) -> list[MemoryPoint]:
    """All points of the grid: by prompt length, batch sizes in the given order."""
    return [memory_point(model, grid, tokens, size) for tokens in grid.prompt_tokens for size in grid.batch_sizes]


def memory_point(model: ModelDimensions, grid: MemoryGrid, prompt_tokens: int, batch_size: int) -> MemoryPoint:
    length = Length(prompt_tokens=prompt_tokens, budget_tokens=grid.budget_tokens)
    need = run_memory(model, grid.shape, batch_size, [length] * batch_size)
    return MemoryPoint(
        prompt_tokens=prompt_tokens,
        batch_size=batch_size,
        need=need,
        shortage=need.shortage(grid.capacity_bytes, grid.pool_bytes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """Where memory ends for one prompt length.

    `largest` is the largest batch size that fits, on the grid or not (0: not even one row; None: all up to MAX_BATCH
    fit). `first_failing` is the grid's smallest point that does not fit, None if all fit.
    """

    prompt_tokens: int
    largest: int | None
    first_failing: MemoryPoint | None

    def to_dict(self) -> dict[str, Any]:
        """A flat object: the largest batch that fits, and the grid's first point that does not."""
        failing = None if self.first_failing is None else self.first_failing.to_dict()
        names = ("failing_term", "asked_bytes", "free_bytes")
        return {
            "prompt_tokens": self.prompt_tokens,
            "largest_batch_size": self.largest,
            "first_failing_batch_size": None if failing is None else failing["batch_size"],
            **{name: None if failing is None else failing[name] for name in names},
        }


def walls(model: ModelDimensions, grid: MemoryGrid) -> list[Wall]:
    """One wall per prompt length of the grid."""
    return [_wall(model, grid, tokens) for tokens in grid.prompt_tokens]


def _wall(model: ModelDimensions, grid: MemoryGrid, prompt_tokens: int) -> Wall:
    points = (memory_point(model, grid, prompt_tokens, size) for size in sorted(grid.batch_sizes))
    return Wall(
        prompt_tokens=prompt_tokens,
        largest=_largest(model, grid, prompt_tokens),
        first_failing=next((point for point in points if not point.fits), None),
    )


def _largest(model: ModelDimensions, grid: MemoryGrid, prompt_tokens: int) -> int | None:
    """The largest batch size that fits, by bisection: every term grows with the batch."""

    def fits(size: int) -> bool:
        return memory_point(model, grid, prompt_tokens, size).fits

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
        if high > MAX_BATCH:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _require(field: str, holds: bool, message: str) -> None:
    if not holds:
        raise FieldError(field, message)

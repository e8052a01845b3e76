"""An engine's name as two axes: a policy (which rows run this step) and a KV layout (where keys and values live)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.block_manager import BlockManager, watermark_blocks
from engine.core.chunked_scheduler import ChunkedScheduler
from engine.core.config import RunConfig
from engine.core.kv_layout import PaddedLayout, SlotLayout
from engine.core.paged_scheduler import PagedScheduler, blocks_of
from engine.core.request import Request
from engine.core.scheduler import ContinuousScheduler, Scheduler, StaticScheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """`policy` and `kv_layout` are what the run log records; `shows` is what a reader learns from it."""

    name: str
    policy: str
    kv_layout: str
    shows: str


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="serial",
            policy="one request at a time",
            kv_layout="slots",
            shows="the cached one-row baseline: what a request costs when it has the machine to itself",
        ),
        Preset(
            name="static",
            policy="batch runs to its slowest member",
            kv_layout="padded",
            shows="padding, dead slots and waiting for a batch one may not join",
        ),
        Preset(
            name="continuous",
            policy="admit and evict every step",
            kv_layout="slots",
            shows="no dead slots; what is left is the width of the widest row, and the stall of each admission",
        ),
        Preset(
            name="paged",
            policy="admit and evict every step",
            kv_layout="paged",
            shows="no padding left: each row is read at its true length; what is left is the stall of each admission",
        ),
        Preset(
            name="chunked",
            policy="a token budget a step, decode first",
            kv_layout="paged",
            shows="bounded stalls: prompts are read in chunks, beside the rows that decode",
        ),
    )
}


def make_scheduler(config: RunConfig, requests: Sequence[Request], num_blocks: int | None = None) -> Scheduler:
    """The scheduler of `config.engine` over `requests`, its layout sized for them.

    `num_blocks` of the pool are read by the paged layouts alone; None for as many as `blocks_for` says.
    """
    if config.engine == "static":
        return StaticScheduler(requests, config.num_slots, PaddedLayout(), config.form)
    if PRESETS[config.engine].kv_layout == "paged":
        pool = BlockManager(blocks_for(config, requests) if num_blocks is None else num_blocks, config.block_size)
        if config.engine == "paged":
            return PagedScheduler(requests, config.num_slots, pool)
        return ChunkedScheduler(requests, config.num_slots, pool, config.max_num_batched_tokens)
    return ContinuousScheduler(requests, config.num_slots, SlotLayout(config.num_slots, slot_width(requests)))


def slot_width(requests: Sequence[Request]) -> int:
    """Columns that hold any of the requests from its prompt to its last token."""
    return max((r.num_prompt_tokens + r.spec.budget_tokens for r in requests), default=1)


def blocks_for(config: RunConfig, requests: Sequence[Request]) -> int:
    """The least blocks with which nobody is ever preempted, nor waits for anything but a slot."""
    return blocks_without_waiting([blocks_of(r, config.block_size) for r in requests], config.num_slots)


def blocks_without_waiting(blocks: Sequence[int], slots: int) -> int:
    """The same of requests that need so many `blocks` each from their prompt to their last token."""
    largest = sorted(blocks, reverse=True)[:slots]
    needed = num_blocks = sum(largest)
    while len(largest) > 1 and num_blocks - watermark_blocks(num_blocks) < needed:
        num_blocks += 1  # one that runs alone may use the watermark up
    return num_blocks

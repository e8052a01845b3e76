"""An engine's name as two axes: a policy (which rows run this step) and a KV layout (where keys and values live)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.chunked_scheduler import ChunkedScheduler
from engine.core.config import RunConfig
from engine.core.continuous_scheduler import ContinuousScheduler
from engine.core.kv_layout import KVLayout, PaddedLayout, PagedLayout, SlotLayout
from engine.core.paged_scheduler import PagedScheduler
from engine.core.passes import PassKind
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from engine.core.static_scheduler import StaticScheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """`policy` and `kv_layout` are what the run log records; `shows` is what a user learns from it."""

    name: str
    scheduler: type[Scheduler]
    layout: type[KVLayout]
    policy: str
    shows: str

    @property
    def kv_layout(self) -> str:
        return self.layout.name

    @property
    def has_blocks(self) -> bool:
        """Whether rows share a pool of blocks, so that its size is a setting and requests may be preempted."""
        return self.layout.has_blocks

    @property
    def is_chunked(self) -> bool:
        """Whether a pass may hold decode rows and pieces of prompts, up to a token budget."""
        return PassKind.MIXED in self.scheduler.kinds


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="serial",
            scheduler=ContinuousScheduler,
            layout=SlotLayout,
            policy="one request at a time",
            shows="the cached one-row baseline: what a request costs when it has the machine to itself",
        ),
        Preset(
            name="static",
            scheduler=StaticScheduler,
            layout=PaddedLayout,
            policy="batch runs to its slowest member",
            shows="padding, dead slots and waiting for a batch one may not join",
        ),
        Preset(
            name="continuous",
            scheduler=ContinuousScheduler,
            layout=SlotLayout,
            policy="admit and evict every step",
            shows="no dead slots; what is left is the width of the widest row, and the stall of each admission",
        ),
        Preset(
            name="paged",
            scheduler=PagedScheduler,
            layout=PagedLayout,
            policy="admit and evict every step",
            shows="no padding left: each row is read at its true length; what is left is the stall of each admission",
        ),
        Preset(
            name="chunked",
            scheduler=ChunkedScheduler,
            layout=PagedLayout,
            policy="a token budget a step, decode first",
            shows="bounded stalls: prompts are read in chunks, beside the rows that decode",
        ),
    )
}


def make_scheduler(config: RunConfig, requests: Sequence[Request], num_blocks: int | None = None) -> Scheduler:
    """The scheduler of `config.engine` over `requests`, its layout sized for them.

    Only the paged layouts use `num_blocks`; None for as many blocks as `kv_layout.blocks_for` gives.
    """
    preset = PRESETS[config.engine]
    return preset.scheduler.for_run(config, requests, preset.layout.for_run(config, requests, num_blocks))

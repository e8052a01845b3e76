"""The engines by name. Each combines a policy (which rows run in a step) with a KV layout (how KV is stored)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.core.errors import FieldError
from engine.core.kv_layout import EngineSettings, KVLayout, PaddedLayout, PagedLayout, SlotLayout
from engine.core.passes import PassKind
from engine.core.request import Request
from engine.core.schedulers.chunked_scheduler import ChunkedScheduler
from engine.core.schedulers.continuous_scheduler import ContinuousScheduler
from engine.core.schedulers.paged_scheduler import PagedScheduler
from engine.core.schedulers.scheduler import Scheduler
from engine.core.schedulers.static_scheduler import StaticScheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One engine. The run log records `policy` and `kv_layout`; `shows` is what the engine demonstrates.

    `meaning` is its entry in the glossary.
    """

    name: str
    scheduler: type[Scheduler]
    layout: type[KVLayout]
    policy: str
    meaning: str
    shows: str
    slots: int | None = None  # rows at once, whatever the setting; None: the setting
    calibrate_with: str = ""  # the engine of the same layout whose measured passes time this one; empty: itself

    def __post_init__(self) -> None:
        object.__setattr__(self, "calibrate_with", self.calibrate_with or self.name)

    @property
    def kv_layout(self) -> str:
        return self.layout.name

    @property
    def has_blocks(self) -> bool:
        """Whether rows share a block pool, whose size is a setting and which may cause preemptions."""
        return self.layout.has_blocks

    @property
    def forms_batches(self) -> bool:
        """Whether a batch runs to its slowest request, so that `form` and `returns` apply."""
        return issubclass(self.scheduler, StaticScheduler)

    @property
    def is_chunked(self) -> bool:
        """Whether a pass may mix decode rows and prompt chunks, up to a token budget."""
        return PassKind.MIXED in self.scheduler.kinds


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="serial",
            scheduler=ContinuousScheduler,
            layout=SlotLayout,
            slots=1,
            calibrate_with="continuous",
            policy="one request at a time",
            meaning="The engine that runs one request at a time: the baseline without batching.",
            shows="the baseline: the cost of one request at a time, with a KV cache",
        ),
        Preset(
            name="static",
            scheduler=StaticScheduler,
            layout=PaddedLayout,
            policy="batch runs to its slowest member",
            meaning="The engine that forms a batch once and runs it until its slowest request has ended.",
            shows="padding, dead slots, and requests that wait for the batch to end",
        ),
        Preset(
            name="continuous",
            scheduler=ContinuousScheduler,
            layout=SlotLayout,
            policy="admit and evict every step",
            meaning="The engine in which requests join and leave at every step.",
            shows="no dead slots; what remains is padding to the widest row, and a stall at each admission",
        ),
        Preset(
            name="paged",
            scheduler=PagedScheduler,
            layout=PagedLayout,
            policy="admit and evict every step",
            meaning="Continuous batching with KV memory in blocks. Each row is read at its true length, without "
            "padding.",
            shows="no padding: each row is read at its true length; what remains is a stall at each admission",
        ),
        Preset(
            name="chunked",
            scheduler=ChunkedScheduler,
            layout=PagedLayout,
            calibrate_with="paged",
            policy="a token budget a step, decode first",
            meaning="The paged engine with a token budget per step: decode rows come first, and prompts are "
            "prefilled in chunks with the rest.",
            shows="bounded stalls: prompts are prefilled in chunks, together with decode rows",
        ),
    )
}

ENGINES = tuple(PRESETS)


def parse_engines(text: str, also: Collection[str] = ()) -> tuple[str, ...]:
    """Engines in the given order, such as `static,continuous`, or one name of `also`. ValueError for anything else."""
    names = tuple(part.strip() for part in text.split(","))
    unknown = next((name for name in names if name not in ENGINES), None)
    if unknown is not None and not (len(names) == 1 and unknown in also):
        rule = ", or ".join((*also, f"some of {', '.join(ENGINES)}"))
        raise FieldError("engines", f"engines {unknown!r:.80}: use {rule}")
    if len(set(names)) < len(names):
        raise FieldError("engines", f"engines {text!r:.80}: name each once")
    return names


def logged_slots(engine: object, setting: object) -> object:
    """Rows at once in a logged run: its engine's own number, or its `slots` setting. The engine may be unknown."""
    preset = PRESETS.get(engine) if isinstance(engine, str) else None
    return setting if preset is None or preset.slots is None else preset.slots


def make_scheduler(config: EngineSettings, requests: Sequence[Request], num_blocks: int | None = None) -> Scheduler:
    """The scheduler of `config.engine`, with a KV layout sized for `requests`.

    Only the paged layouts use `num_blocks`; None means as many as `kv_layout.blocks_for` calculates.
    """
    preset = PRESETS[config.engine]
    return preset.scheduler.for_run(config, requests, preset.layout.for_run(config, requests, num_blocks))

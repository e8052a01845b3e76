"""KV layouts as arithmetic: how many positions are reserved, how wide a pass is, and how much of it is padding.

The runtime's KV caches and the simulator both follow these shapes. Lengths count the columns that a row attends over in
the current pass, including its new token.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import attrgetter
from typing import ClassVar, Protocol, Self

from engine.core.block_manager import BlockManager, blocks_for_tokens, blocks_without_waiting
from engine.core.form_rule import FormRule
from engine.core.passes import Chunk, KVHeld, PassKind, PassShape, PlannedPass
from engine.core.request import Length, Request

# Mapped over hundreds of rows each step; several times faster than a loop.
_num_computed_tokens = attrgetter("num_computed_tokens")


class EngineSettings(Protocol):
    """The settings of a run that the policies and KV layouts read; `RunConfig` has them."""

    @property
    def engine(self) -> str: ...
    @property
    def num_slots(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def form(self) -> FormRule: ...
    @property
    def max_num_batched_tokens(self) -> int: ...


class KVLayout(ABC):
    """How rows share the KV cache. `reserved` and `held` are in token positions.

    An instance tracks one run. The class methods estimate before a run, for requests of given lengths that all wait
    from the start: how much memory is allocated, and how large the largest prefill is.
    """

    name: ClassVar[str]
    has_blocks: ClassVar[bool] = False  # rows share a block pool, so requests may wait for blocks or be preempted

    @classmethod
    @abstractmethod
    def for_run(cls, config: EngineSettings, requests: Sequence[Request], num_blocks: int | None) -> Self:
        """The layout of a run. `num_blocks` is the size of its block pool; None for as many blocks as it can use."""

    @classmethod
    @abstractmethod
    def most_positions(cls, lengths: Sequence[Length], slots: int, block_size: int) -> int:
        """The most positions allocated for these requests (at least one)."""

    @classmethod
    def prefill_tokens(cls, lengths: Sequence[Length], slots: int, *, preempted: bool) -> int:
        """New tokens of the largest prefill. A `preempted` request prefills its generated tokens again, too."""
        return sum(sorted((e.positions if preempted else e.prompt_tokens for e in lengths), reverse=True)[:slots])

    @classmethod
    def row_width(cls, lengths: Sequence[Length]) -> int:
        """Columns that hold any row from its prompt to its last token."""
        return max((each.positions for each in lengths), default=1)

    @classmethod
    def run_buffer(cls, lengths: Sequence[Length], slots: int) -> tuple[int, int] | None:
        """Rows and columns of the buffer that is kept for the whole run; None if there is none."""
        return None

    @classmethod
    def batch_buffer(cls, planned: PlannedPass) -> tuple[int, int] | None:
        """Rows and columns of the buffer that this prefill allocates; None if there is none."""
        return None

    @property
    @abstractmethod
    def reserved(self) -> int: ...

    def admit(self, admitted: Sequence[Request]) -> None:  # noqa: B027 - most layouts have nothing to do
        """Account for newly admitted requests."""

    @abstractmethod
    def shape(self, kind: PassKind, rows: Sequence[Request], live: Sequence[int]) -> PassShape: ...

    @abstractmethod
    def held(self, running: Sequence[Request], used: int) -> KVHeld: ...

    def release_all(self) -> None:  # noqa: B027 - most layouts have nothing to do
        """Reset after every row has left."""


def decode_widths(rows: Sequence[Request]) -> tuple[int, int, int]:
    """The smallest, the largest and the total number of columns that rows attend over in their next decode pass.

    A row attends over its computed tokens and its newest token, whose keys and values that pass writes.
    """
    computed = list(map(_num_computed_tokens, rows))
    return min(computed) + 1, max(computed) + 1, sum(computed) + len(computed)


class SlotLayout(KVLayout):
    """`slots` rows of one fixed width. Each row fills its slot from column 0 and keeps its own length.

    A decode pass spans every column up to the widest live row. A prefill packs the prompts' real tokens end to end.
    """

    name = "slots"

    def __init__(self, slots: int, width: int) -> None:
        self.slots = slots
        self.width = width

    @classmethod
    def for_run(cls, config: EngineSettings, requests: Sequence[Request], num_blocks: int | None) -> Self:
        return cls(config.num_slots, slot_width(requests))

    @classmethod
    def most_positions(cls, lengths: Sequence[Length], slots: int, block_size: int) -> int:
        return slots * cls.row_width(lengths)

    @classmethod
    def run_buffer(cls, lengths: Sequence[Length], slots: int) -> tuple[int, int] | None:
        return slots, cls.row_width(lengths)

    @property
    def reserved(self) -> int:
        return self.slots * self.width

    def held(self, running: Sequence[Request], used: int) -> KVHeld:
        return KVHeld(reserved=self.reserved, used=used)

    def admit(self, admitted: Sequence[Request]) -> None:
        assert all(r.length.positions <= self.width for r in admitted)

    def shape(self, kind: PassKind, rows: Sequence[Request], live: Sequence[int]) -> PassShape:
        if kind is PassKind.PREFILL:
            prompt_tokens = sum(r.num_prompt_tokens for r in rows)
            width = max(r.num_prompt_tokens for r in rows)
            return PassShape(
                width=width, masked=False, computed_positions=prompt_tokens, padding_positions=0, dead_positions=0
            )
        narrowest, width, real = decode_widths(rows)
        computed = width * len(rows)
        return PassShape(
            width=width,
            masked=narrowest < width,
            computed_positions=computed,
            padding_positions=computed - real,
            dead_positions=0,
        )


class PaddedLayout(KVLayout):
    """One buffer a batch: rows x (longest prompt + longest budget), prompts left-padded to the longest.

    All rows share one column counter. A batch of equally long prompts has no padding and needs no mask.
    """

    name = "padded"

    def __init__(self) -> None:
        self.rows = 0
        self.prompt_width = 0
        self.buffer_width = 0
        self.uniform = True
        self._pads: list[int] = []  # columns before each row's prompt

    @classmethod
    def for_run(cls, config: EngineSettings, requests: Sequence[Request], num_blocks: int | None) -> Self:
        return cls()

    @classmethod
    def most_positions(cls, lengths: Sequence[Length], slots: int, block_size: int) -> int:
        return min(slots, len(lengths)) * cls.row_width(lengths)

    @classmethod
    def prefill_tokens(cls, lengths: Sequence[Length], slots: int, *, preempted: bool) -> int:
        return min(slots, len(lengths)) * max((each.prompt_tokens for each in lengths), default=0)

    @classmethod
    def row_width(cls, lengths: Sequence[Length]) -> int:
        """The width of the widest possible batch."""
        longest_prompt = max((each.prompt_tokens for each in lengths), default=1)
        return longest_prompt + max((each.budget_tokens for each in lengths), default=1)

    @classmethod
    def batch_buffer(cls, planned: PlannedPass) -> tuple[int, int] | None:
        rows = len(planned.rows)
        return rows, planned.kv.reserved // rows

    @property
    def reserved(self) -> int:
        return self.rows * self.buffer_width

    def admit(self, admitted: Sequence[Request]) -> None:
        lengths = [r.num_prompt_tokens for r in admitted]
        self.rows = len(admitted)
        self.prompt_width = max(lengths)
        self.buffer_width = self.prompt_width + max(r.spec.budget_tokens for r in admitted)
        self.uniform = min(lengths) == self.prompt_width
        self._pads = [self.prompt_width - length for length in lengths]

    def held(self, running: Sequence[Request], used: int) -> KVHeld:
        live = [pad for r, pad in zip(running, self._pads, strict=True) if r.finish_reason is None]
        return KVHeld(
            reserved=self.reserved,
            used=used,
            padding=sum(live),
            dead=(len(running) - len(live)) * self.buffer_width,
        )

    def release_all(self) -> None:
        self.rows = self.prompt_width = self.buffer_width = 0
        self.uniform = True

    def shape(self, kind: PassKind, rows: Sequence[Request], live: Sequence[int]) -> PassShape:
        # All live rows have generated the same number of tokens.
        generated = 0 if kind is PassKind.PREFILL else rows[live[0]].num_scheduled
        width = self.prompt_width + generated
        padding = sum(map(self._pads.__getitem__, live))
        return PassShape(
            width=width,
            masked=not self.uniform,
            computed_positions=width * len(rows),
            padding_positions=padding,
            dead_positions=width * (len(rows) - len(live)),
        )


class PagedLayout(KVLayout):
    """Blocks of one pool, listed in each request's block table. A row is read at its true length, without padding.

    The only waste is the unfilled end of each request's last block.
    """

    name = "paged"
    has_blocks = True

    def __init__(self, blocks: BlockManager) -> None:
        self.blocks = blocks

    @classmethod
    def for_run(cls, config: EngineSettings, requests: Sequence[Request], num_blocks: int | None) -> Self:
        return cls(BlockManager(blocks_for(config, requests) if num_blocks is None else num_blocks, config.block_size))

    @classmethod
    def most_positions(cls, lengths: Sequence[Length], slots: int, block_size: int) -> int:
        return blocks_without_waiting([blocks_of(each, block_size) for each in lengths], slots) * block_size

    @property
    def reserved(self) -> int:
        return self.blocks.num_allocated * self.blocks.block_size

    def held(self, running: Sequence[Request], used: int) -> KVHeld:
        reserved = self.reserved
        return KVHeld(reserved=reserved, used=used, fragment=reserved - used)

    def shape(self, kind: PassKind, rows: Sequence[Request], live: Sequence[int]) -> PassShape:
        if kind is PassKind.DECODE:
            return self.packed(rows, ())
        tokens = [r.num_tokens for r in rows]
        return _unpadded(max(tokens), sum(tokens))

    def packed(self, decoding: Sequence[Request], chunks: Sequence[Chunk]) -> PassShape:
        """The shape of a pass over `decoding` rows, one token each, followed by the tokens of `chunks`."""
        width = computed = 0
        if decoding:
            _, width, computed = decode_widths(decoding)
        for chunk in chunks:
            width = max(width, chunk.start + chunk.tokens)
            computed += chunk.tokens
        return _unpadded(width, computed)


def _unpadded(width: int, computed: int) -> PassShape:
    return PassShape(width=width, masked=False, computed_positions=computed, padding_positions=0, dead_positions=0)


def slot_width(requests: Sequence[Request]) -> int:
    """Columns that hold any of the requests, prompt to last token."""
    return max((r.length.positions for r in requests), default=1)


def blocks_of(length: Length, block_size: int) -> int:
    """Blocks that a request needs in all. The keys and values of its last token are never read, so never stored."""
    return blocks_for_tokens(length.positions - 1, block_size)


def blocks_for(config: EngineSettings, requests: Sequence[Request]) -> int:
    """The fewest blocks with which no request is preempted or waits for blocks."""
    return blocks_without_waiting([blocks_of(r.length, config.block_size) for r in requests], config.num_slots)

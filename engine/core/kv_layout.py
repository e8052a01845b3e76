"""Where keys and values live, as arithmetic: how wide each pass is and how much of what it computes is padding.

The runtime's KV caches follow these shapes; so can a simulator. Lengths count the columns that a row attends over in
the pass at hand, its own new token included.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

from engine.core.block_manager import BlockManager
from engine.core.passes import Chunk, KVHeld, PassKind, PassShape
from engine.core.request import Request

_num_computed = attrgetter("num_computed")  # mapped over hundreds of rows a step: several times faster than a loop


class KVLayout(Protocol):
    """How rows share the KV cache. `reserved` and what is `held` are in token positions."""

    name: str

    @property
    def reserved(self) -> int: ...

    def admit(self, newcomers: Sequence[Request]) -> None: ...

    def shape(self, kind: PassKind, rows: Sequence[Request], live: Sequence[int]) -> PassShape: ...

    def held(self, running: Sequence[Request], used: int) -> KVHeld: ...

    def release_all(self) -> None: ...


def decode_widths(rows: Sequence[Request]) -> tuple[int, int, int]:
    """The least, the largest and all columns together that the rows attend over in their next decode pass.

    A row sees what it has computed and its newest token, whose keys and values that pass writes.
    """
    computed = list(map(_num_computed, rows))
    return min(computed) + 1, max(computed) + 1, sum(computed) + len(computed)


class SlotLayout:
    """`slots` rows of one fixed width; each row fills its own slot from column 0 and keeps its own length.

    A decode pass spans every column up to the widest live row. A prefill packs the newcomers' real tokens end to end.
    """

    name = "slots"

    def __init__(self, slots: int, width: int) -> None:
        self.slots = slots
        self.width = width

    @property
    def reserved(self) -> int:
        return self.slots * self.width

    def held(self, running: Sequence[Request], used: int) -> KVHeld:
        return KVHeld(reserved=self.reserved, used=used)

    def admit(self, newcomers: Sequence[Request]) -> None:
        assert all(r.num_prompt_tokens + r.spec.budget_tokens <= self.width for r in newcomers)

    def release_all(self) -> None:
        """The buffer is kept for the run; nothing to give back."""

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


class PaddedLayout:
    """One buffer a batch: rows x (longest prompt + longest budget), prompts left-padded to the longest.

    All rows share one column counter. A batch of equal prompts has no padding and takes the unmasked path.
    """

    name = "padded"

    def __init__(self) -> None:
        self.rows = 0
        self.prompt_width = 0
        self.buffer_width = 0
        self.uniform = True
        self._pads: list[int] = []  # columns before each row's prompt

    @property
    def reserved(self) -> int:
        return self.rows * self.buffer_width

    def admit(self, newcomers: Sequence[Request]) -> None:
        lengths = [r.num_prompt_tokens for r in newcomers]
        self.rows = len(newcomers)
        self.prompt_width = max(lengths)
        self.buffer_width = self.prompt_width + max(r.spec.budget_tokens for r in newcomers)
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
        # Rows that still run have all said as much.
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


class PagedLayout:
    """Blocks of one pool, listed by each request's table. A row is read at its true length, so nothing is padding.

    What a table holds and does not use is the unfilled end of its last block.
    """

    name = "paged"

    def __init__(self, blocks: BlockManager) -> None:
        self.blocks = blocks

    @property
    def reserved(self) -> int:
        return self.blocks.num_allocated * self.blocks.block_size

    def held(self, running: Sequence[Request], used: int) -> KVHeld:
        reserved = self.reserved
        return KVHeld(reserved=reserved, used=used, fragment=reserved - used)

    def admit(self, newcomers: Sequence[Request]) -> None:
        """The scheduler gives out blocks itself: a newcomer without them is not admitted."""

    def release_all(self) -> None:
        """Blocks go back with each request; nothing else to give back."""

    def shape(self, kind: PassKind, rows: Sequence[Request], live: Sequence[int]) -> PassShape:
        if kind is PassKind.DECODE:
            return self.packed(rows, ())
        tokens = [r.num_tokens for r in rows]
        return _unpadded(max(tokens), sum(tokens))

    def packed(self, decoding: Sequence[Request], chunks: Sequence[Chunk]) -> PassShape:
        """The shape of a pass over `decoding` rows, one token each, and the tokens of `chunks`, end to end."""
        width = computed = 0
        if decoding:
            _, width, computed = decode_widths(decoding)
        for chunk in chunks:
            width = max(width, chunk.start + chunk.tokens)
            computed += chunk.tokens
        return _unpadded(width, computed)


def _unpadded(width: int, computed: int) -> PassShape:
    return PassShape(width=width, masked=False, computed_positions=computed, padding_positions=0, dead_positions=0)

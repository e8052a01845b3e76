"""Where keys and values live, as arithmetic: how wide each pass is and how much of what it computes is padding.

The runtime's KV caches follow these shapes; so can a simulator. Lengths count the columns that a row attends over in
the pass at hand, its own new token included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.core.passes import KVHeld, PassKind, PassShape
from engine.core.request import Request


class KVLayout(Protocol):
    """How rows share the KV cache. `reserved` and what is `held` are in token positions."""

    name: str

    @property
    def reserved(self) -> int: ...

    def admit(self, newcomers: Sequence[Request]) -> None: ...

    def shape(self, kind: PassKind, rows: Sequence[Request], live: Sequence[int]) -> PassShape: ...

    def held(self, running: Sequence[Request], used: int) -> KVHeld: ...

    def release_all(self) -> None: ...


def decode_length(request: Request) -> int:
    """Columns that a running request attends over in its next decode pass: the prompt and every token so far."""
    return request.num_prompt_tokens + request.num_scheduled


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
        lengths = [decode_length(r) for r in rows]
        width = max(lengths)
        computed = width * len(rows)
        return PassShape(
            width=width,
            masked=min(lengths) < width,
            computed_positions=computed,
            padding_positions=computed - sum(lengths),
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

    @property
    def reserved(self) -> int:
        return self.rows * self.buffer_width

    def admit(self, newcomers: Sequence[Request]) -> None:
        lengths = [r.num_prompt_tokens for r in newcomers]
        self.rows = len(newcomers)
        self.prompt_width = max(lengths)
        self.buffer_width = self.prompt_width + max(r.spec.budget_tokens for r in newcomers)
        self.uniform = min(lengths) == self.prompt_width

    def held(self, running: Sequence[Request], used: int) -> KVHeld:
        live = [r for r in running if r.finish_reason is None]
        return KVHeld(
            reserved=self.reserved,
            used=used,
            padding=sum(self.prompt_width - r.num_prompt_tokens for r in live),
            dead=(len(running) - len(live)) * self.buffer_width,
        )

    def release_all(self) -> None:
        self.rows = self.prompt_width = self.buffer_width = 0
        self.uniform = True

    def shape(self, kind: PassKind, rows: Sequence[Request], live: Sequence[int]) -> PassShape:
        generated = 0 if kind is PassKind.PREFILL else max(rows[i].num_scheduled for i in live)
        width = self.prompt_width + generated
        padding = sum(self.prompt_width - rows[i].num_prompt_tokens for i in live)
        return PassShape(
            width=width,
            masked=not self.uniform,
            computed_positions=width * len(rows),
            padding_positions=padding,
            dead_positions=width * (len(rows) - len(live)),
        )

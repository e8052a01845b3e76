"""Runs planned passes on a device: builds the inputs, runs the model, samples, keeps state for the next pass.

One runner per layout. Each row's last token (and, for slots, its length) stays on the device, so a decode pass uploads
nothing. Shapes: B rows, T tokens, W columns, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from engine.core.passes import Move, PassKind, PlannedPass
from engine.core.request import slot_of
from engine.runtime.kv.attention import KVPass, PackedPrefill, PaddedDecode, PaddedPrefill, Segment, SlotDecode
from engine.runtime.kv.kv_cache import KVCache, KVShape
from engine.runtime.sampler import Sampler
from engine.runtime.upload import upload

PAD_TOKEN_ID = 0  # masked, so any valid id works


class ModelRunner(ABC):
    """Runs passes over one KV cache. `model` is a causal LM with the lab's attention installed."""

    name: str

    def __init__(self, model: Any, kv_shape: KVShape, sampler: Sampler, pool_bytes: int | None = None) -> None:
        self.model = model
        self.kv_shape = kv_shape
        self.sampler = sampler
        self.pool_bytes = pool_bytes
        self.cache: KVCache | None = None
        self.num_blocks: int | None = None  # of the pool, if the layout is paged
        self.bucket_tokens: int | None = None  # of the last pass, if it ran as a captured graph

    @property
    def device(self) -> torch.device:
        return self.kv_shape.device

    @property
    def kv_bytes(self) -> int:
        return 0 if self.cache is None else self.cache.num_bytes

    def capture(self, should_stop: Callable[[], bool]) -> None:  # noqa: B027 - an eager runner has nothing to do
        """Capture graphs before the first pass."""

    @torch.inference_mode()
    def run(self, planned: PlannedPass) -> Tensor:
        """Issue one pass. Returns (B,) sampled tokens on the device, one per row."""
        return self._prefill(planned) if planned.kind is PassKind.PREFILL else self._decode(planned)

    @torch.inference_mode()
    def move(self, moves: Sequence[Move]) -> None:
        """Move the last rows into freed slots. Only the slots layout moves rows."""
        assert not moves

    @abstractmethod
    def release_all(self) -> None:
        """Called when no row is left."""

    @abstractmethod
    def _prefill(self, planned: PlannedPass) -> Tensor: ...

    @abstractmethod
    def _decode(self, planned: PlannedPass) -> Tensor: ...

    def _logits(self, token_ids: Tensor, position_ids: Tensor, kv_pass: KVPass, keep: int | Tensor) -> Tensor:
        """(B, T) tokens to (B or 1, n, V) logits of only the positions in `keep`: the last n, or the given ones."""
        output = self.model(
            input_ids=token_ids,
            position_ids=position_ids,
            attention_mask=None,
            use_cache=False,
            logits_to_keep=keep,
            kv_pass=kv_pass,
        )
        logits = output.logits
        assert isinstance(logits, Tensor)
        return logits

    def _ids(self, values: Sequence[Any]) -> Tensor:
        return upload(values, torch.long, self.device)

    def _mask(self, visible: Tensor) -> Tensor:
        """From booleans (True: visible) to an additive mask in the model's dtype, once per pass, not per layer."""
        mask = torch.zeros(visible.shape, dtype=self.kv_shape.dtype, device=self.device)
        return mask.masked_fill_(~visible, -torch.inf)


class SlotRunner(ModelRunner):
    """Rows in slots of one fixed width, each with its own length; live rows stay contiguous at the front."""

    name = "slots"

    def __init__(
        self, model: Any, kv_shape: KVShape, sampler: Sampler, slots: int, width: int, pool_bytes: int | None = None
    ) -> None:
        super().__init__(model, kv_shape, sampler, pool_bytes)
        self.cache: KVCache = KVCache(kv_shape, slots, width, pool_bytes)
        self.last_ids = torch.zeros(slots, dtype=torch.long, device=self.device)
        self.lengths = torch.zeros(slots, dtype=torch.long, device=self.device)
        self._rows = torch.arange(slots, device=self.device)
        self._columns = torch.arange(width, device=self.device)

    def _prefill(self, planned: PlannedPass) -> Tensor:
        lengths = [r.num_prompt_tokens for r in planned.rows]
        ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
        slots = [slot_of(r) for r in planned.rows]
        segments = [Segment(end - length, end, slot) for end, length, slot in zip(ends, lengths, slots, strict=True)]
        token_ids = self._ids([[token for r in planned.rows for token in r.prompt_ids]])
        position_ids = self._ids([[position for length in lengths for position in range(length)]])
        last = self._ids([end - 1 for end in ends])
        logits = self._logits(token_ids, position_ids, PackedPrefill(self.cache, segments), last)
        sampled = self.sampler.sample(logits[0], planned.rows)
        where = self._ids(slots)
        self.last_ids[where] = sampled
        self.lengths[where] = self._ids(lengths)
        return sampled

    def _decode(self, planned: PlannedPass) -> Tensor:
        count, width = len(planned.rows), planned.shape.width
        lengths = self.lengths[:count]
        mask = None
        if planned.shape.masked:
            mask = self._mask(self._columns[:width] <= lengths[:, None])[:, None, None]
        kv_pass = SlotDecode(self.cache, lengths, self._rows[:count], width, mask)
        logits = self._logits(self.last_ids[:count, None], lengths[:, None], kv_pass, 1)
        sampled = self.sampler.sample(logits[:, -1], planned.rows)
        self.last_ids[:count] = sampled
        self.lengths[:count] += 1
        return sampled

    @torch.inference_mode()
    def move(self, moves: Sequence[Move]) -> None:
        for move in moves:
            request = move.request
            # The newest token is sampled but not cached yet: the next pass writes its keys.
            self.cache.move(move.source, move.target, request.num_prompt_tokens + request.num_scheduled - 1)
            self.last_ids[move.target] = self.last_ids[move.source]
            self.lengths[move.target] = self.lengths[move.source]

    def release_all(self) -> None:
        """Slots are kept for the whole run."""


class PaddedRunner(ModelRunner):
    """A batch of rows left-padded to the longest prompt, all at the same column; one cache per batch."""

    name = "padded"

    def __init__(self, model: Any, kv_shape: KVShape, sampler: Sampler, pool_bytes: int | None = None) -> None:
        super().__init__(model, kv_shape, sampler, pool_bytes)
        self._column = 0
        self._pads = torch.zeros(0, dtype=torch.long, device=self.device)  # (B,) padding columns before each prompt
        self._visible: Tensor | None = None  # (B, W) columns that hold real tokens; None for a uniform batch
        self._last_ids = self._pads

    def _prefill(self, planned: PlannedPass) -> Tensor:
        rows, width = planned.rows, planned.shape.width
        buffer_width = width + max(r.spec.budget_tokens for r in rows)
        self.cache = KVCache(self.kv_shape, len(rows), buffer_width, self.pool_bytes)
        pads = [width - r.num_prompt_tokens for r in rows]
        self._pads = self._ids(pads)
        token_ids = self._ids([[PAD_TOKEN_ID] * pad + r.prompt_ids for pad, r in zip(pads, rows, strict=True)])
        columns = torch.arange(buffer_width, device=self.device)
        position_ids = (columns[:width] - self._pads[:, None]).clamp(min=0)
        self._visible = columns >= self._pads[:, None] if planned.shape.masked else None
        logits = self._logits(token_ids, position_ids, PaddedPrefill(self.cache, self._prefill_mask(width)), 1)
        self._column = width
        self._last_ids = self.sampler.sample(logits[:, -1], rows)
        return self._last_ids

    def _prefill_mask(self, width: int) -> Tensor | None:
        """Causal and without padding. A padding position sees only itself, so that its softmax is defined."""
        if self._visible is None:
            return None
        causal = torch.ones(width, width, dtype=torch.bool, device=self.device).tril()
        itself = torch.eye(width, dtype=torch.bool, device=self.device)
        return self._mask((causal & self._visible[:, None, :width]) | itself)[:, None]

    def _decode(self, planned: PlannedPass) -> Tensor:
        assert self.cache is not None
        width = self._column + 1
        assert width == planned.shape.width
        mask = None if self._visible is None else self._mask(self._visible[:, :width])[:, None, None]
        position_ids = (self._column - self._pads)[:, None]
        kv_pass = PaddedDecode(self.cache, self._column, mask)
        logits = self._logits(self._last_ids[:, None], position_ids, kv_pass, 1)
        self._column = width
        self._last_ids = self.sampler.sample(logits[:, -1], planned.rows)
        return self._last_ids

    def release_all(self) -> None:
        self.cache = None
        self._visible = None

"""Runs passes of any KV layout as replayed CUDA graphs: one copy of integers in, one launch, one copy of tokens out.

Every layout uses one pool (see `rows`). A pass is padded to the size of its captured bucket; padding computes, but
reads and writes no KV. A prefill above the largest bucket is launched kernel by kernel, through the same code. Greedy
sampling is part of the graph; other sampling runs after it.

Shapes: T tokens, B rows, S slots, N blocks per table, L layers, P pool positions, V vocabulary.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.core.passes import Move, PassKind, PlannedPass
from engine.runtime.graph.fused_decoder import Attend, FusedDecoder, FusedLayer
from engine.runtime.graph.ladder import bucket_for, row_buckets, token_buckets
from engine.runtime.graph.pass_inputs import (
    DeviceInputs,
    Sections,
    decode_sections,
    fill_decode,
    fill_packed,
    packed_sections,
)
from engine.runtime.graph.rows import NOWHERE, PoolRows
from engine.runtime.kernels.argmax import argmax
from engine.runtime.kernels.paged_decode import paged_decode
from engine.runtime.kernels.paged_prefill import paged_prefill
from engine.runtime.kernels.rotary import rotate_and_store
from engine.runtime.kernels.tiles import SEGMENT_COLUMNS, TILE_TOKENS, captured_splits
from engine.runtime.kernels.tokens import embed_tokens, keep_tokens, write_tables
from engine.runtime.kv.kv_cache import KVPool, KVShape
from engine.runtime.model_runner import ModelRunner
from engine.runtime.sampler import Sampler
from engine.runtime.upload import upload_together


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable garbage collection: freeing a tensor or a graph during a capture breaks the capture."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CapturedPass:
    """A graph, the integers it reads, and its (B, V) logits if a sampler runs after it."""

    graph: torch.cuda.CUDAGraph
    sections: Sections
    views: dict[str, Tensor]
    logits: Tensor | None

    def replay(self) -> Tensor | None:
        self.graph.replay()
        return self.logits


class GraphRunner(ModelRunner):
    """Runs `model` through `decoder`, with its KV in `rows` of one pool, on a GPU with `processors` SMs.

    Passes that `capture` has not captured are launched kernel by kernel.
    """

    def __init__(
        self,
        model: Any,
        decoder: FusedDecoder,
        kv_shape: KVShape,
        sampler: Sampler,
        rows: PoolRows,
        processors: int,
        pool_bytes: int | None = None,
    ) -> None:
        super().__init__(model, kv_shape, sampler, pool_bytes)
        self.name = f"graph {rows.layout.name}"
        self.decoder = decoder
        self.rows = rows
        self.processors = processors
        self.num_blocks = rows.scheduled_blocks
        self.pool = KVPool(kv_shape, rows.num_blocks, rows.block_size, pool_bytes, text=rows.shape_text)
        self.last_ids = torch.zeros(rows.slots + 1, dtype=torch.long, device=self.device)
        self.tables = torch.zeros(rows.slots + 1, rows.table_width, dtype=torch.int32, device=self.device)
        self.tables[: rows.slots] = torch.from_numpy(rows.tables.ids)
        self.row_buckets = row_buckets(rows.slots)
        self.sampled = torch.zeros(self.row_buckets[-1], dtype=torch.long, device=self.device)
        self.token_buckets = token_buckets(rows.max_packed_tokens)
        self.captured: dict[tuple[str, int], CapturedPass] = {}
        self._logits_for_sampler: Tensor | None = None
        if not sampler.config.is_greedy:
            size = (self.row_buckets[-1], decoder.lm_head.shape[0])
            self._logits_for_sampler = torch.empty(size, dtype=kv_shape.dtype, device=self.device)
        self._inputs = DeviceInputs(self._largest(), self.device)
        self._large: DeviceInputs | None = None

    @property
    def kv_bytes(self) -> int:
        return self.pool.num_bytes

    @torch.inference_mode()
    def capture(self, should_stop: Callable[[], bool]) -> None:
        """Capture every bucket, largest first, so that smaller ones reuse its memory."""
        wanted = [("packed", b) for b in reversed(self.token_buckets)] + [
            ("decode", b) for b in reversed(self.row_buckets)
        ]
        memory_pool = None
        with gc_disabled():
            for kind, bucket in wanted:
                if should_stop():
                    return
                captured = self._capture(kind, bucket, memory_pool)
                memory_pool = captured.graph.pool()
                self.captured[kind, bucket] = captured

    def _capture(self, kind: str, bucket: int, memory_pool: Any) -> CapturedPass:
        sections = decode_sections(bucket) if kind == "decode" else self._packed_sections(bucket)
        views = self._inputs.views(sections)
        issue = self._issue_decode if kind == "decode" else self._issue_packed
        self._blank_inputs(sections)
        issue(views)  # once before: compilation and algorithm selection must not happen during the capture
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=memory_pool, capture_error_mode="thread_local"):
            logits = issue(views)
        return CapturedPass(graph=graph, sections=sections, views=views, logits=logits)

    def _blank_inputs(self, sections: Sections) -> None:
        """Write the inputs of a pass with only padding, which must not touch the KV of any row."""
        fill = self._inputs.fill(sections)
        for name, array in fill.items():
            array[:] = {"slot_mapping": NOWHERE, "places": NOWHERE, "tiles": -1}.get(name, 0)
            if name in ("slots", "token_slots", "keep_slots"):
                array[:] = self.rows.slots  # one past the last slot: the slot of padding rows
        self._inputs.send(sections)

    @torch.inference_mode()
    def run(self, planned: PlannedPass) -> Tensor:
        """Issue one pass. Returns (B,) sampled tokens on the device, one per row."""
        return self._decode(planned) if planned.kind is PassKind.DECODE else self._prefill(planned)

    def _prefill(self, planned: PlannedPass) -> Tensor:
        segments = self.rows.segments(planned)
        tokens = planned.num_decode_rows + sum(len(s.ids) for s in segments)
        self._send_tables(planned)
        captured = self._captured_for("packed", tokens, self.token_buckets)
        sections = self._packed_sections(tokens) if captured is None else captured.sections
        inputs = self._inputs if captured is not None else self._large_inputs(sections)
        fill_packed(inputs.fill(sections), planned, segments, self.rows, TILE_TOKENS)
        inputs.send(sections)
        views = inputs.views(sections) if captured is None else captured.views
        logits = self._issue_packed(views) if captured is None else captured.replay()
        return self._picked(planned, logits, views["keep_slots"])

    def _decode(self, planned: PlannedPass) -> Tensor:
        captured = self._captured_for("decode", len(planned.rows), self.row_buckets)
        sections = decode_sections(len(planned.rows)) if captured is None else captured.sections
        fill_decode(self._inputs.fill(sections), planned, self.rows)
        self._inputs.send(sections)
        views = self._inputs.views(sections) if captured is None else captured.views
        logits = self._issue_decode(views) if captured is None else captured.replay()
        return self._picked(planned, logits, views["slots"])

    def _captured_for(self, kind: str, size: int, buckets: Sequence[int]) -> CapturedPass | None:
        """The graph for a pass of `size`; None if there is none and the pass is launched kernel by kernel."""
        bucket = bucket_for(size, buckets)
        captured = None if bucket is None else self.captured.get((kind, bucket))
        self.bucket_tokens = None if captured is None else bucket
        return captured

    def _picked(self, planned: PlannedPass, logits: Tensor | None, slots: Tensor) -> Tensor:
        count = len(planned.rows)
        if logits is not None and count:
            sampled = self.sampler.sample(logits[:count], planned.rows)
            keep_tokens(sampled, slots[:count], self.last_ids, self.sampled)
        return self.sampled[:count]

    def _issue_decode(self, views: dict[str, Tensor]) -> Tensor | None:
        write_tables(self.tables, views["slots"], views["places"], views["blocks"])
        hidden = embed_tokens(views["ids"], views["slots"], self.last_ids, self.decoder.embedding)
        splits = self._num_splits(views["slots"].shape[0])
        logits = self.decoder.logits(hidden, self._attend(views, splits, packed=False), None)
        return self._pick(logits, views["slots"])

    def _issue_packed(self, views: dict[str, Tensor]) -> Tensor | None:
        hidden = embed_tokens(views["ids"], views["token_slots"], self.last_ids, self.decoder.embedding)
        splits = self._num_splits(max(1, views["slots"].shape[0]))
        logits = self.decoder.logits(hidden, self._attend(views, splits, packed=True), views["keep"])
        return self._pick(logits, views["keep_slots"])

    def _pick(self, logits: Tensor, slots: Tensor) -> Tensor | None:
        """Greedy: pick inside the graph. Otherwise copy the logits for the sampler, to one buffer for all graphs."""
        if self._logits_for_sampler is not None:
            return self._logits_for_sampler[: logits.shape[0]].copy_(logits)
        keep_tokens(argmax(logits), slots, self.last_ids, self.sampled)
        return None

    def _attend(self, views: dict[str, Tensor], splits: int, *, packed: bool) -> Attend:
        pool, decoder, tables, block_size = self.pool, self.decoder, self.tables, self.rows.block_size
        segments = views["segments"].view(-1, SEGMENT_COLUMNS) if packed else None
        tiles = views["tiles"].view(-1, 2) if packed else None

        def attend(layer: FusedLayer, qkv: Tensor) -> Tensor:
            keys, values = pool.keys[layer.index], pool.values[layer.index]
            query = rotate_and_store(
                qkv,
                decoder.cos,
                decoder.sin,
                views["positions"],
                views["slot_mapping"],
                keys,
                values,
                decoder.num_heads,
                layer.q_norm,
                layer.k_norm,
                layer.eps,
            )
            rows = views["slots"].shape[0]
            out = torch.empty_like(query)
            if rows:
                paged_decode(
                    query[:rows], keys, values, tables, views["slots"], views["starts"], views["context_lens"],
                    views["read_ends"], block_size, layer.scale, splits, output=out[:rows],
                )  # fmt: skip
            if segments is not None and tiles is not None:
                paged_prefill(query, keys, values, tables, segments, tiles, block_size, layer.scale, output=out)
            return out.view(out.shape[0], -1)

        return attend

    def _num_splits(self, rows: int) -> int:
        return captured_splits(rows, self.decoder.num_kv_heads, self.rows.width, self.processors)

    def _packed_sections(self, tokens: int) -> Sections:
        rows = min(tokens, self.rows.slots)
        return packed_sections(tokens, rows if self.rows.is_mixed else 0, rows, rows, TILE_TOKENS)

    def _largest(self) -> int:
        packed = self._packed_sections(self.token_buckets[-1]).total
        return max(packed, decode_sections(self.row_buckets[-1]).total)

    def _large_inputs(self, sections: Sections) -> DeviceInputs:
        if self._large is None or self._large.on_device.shape[0] < sections.total:
            self._large = DeviceInputs(2 * sections.total, self.device)
        return self._large

    def _send_tables(self, planned: PlannedPass) -> None:
        """Write new blocks to the tables on the device."""
        found = self.rows.new_blocks(planned)
        if found is not None and found[0].size:
            slots, places, blocks = upload_together(found, torch.int32, self.device)
            write_tables(self.tables, slots, places, blocks)

    @torch.inference_mode()
    def move(self, moves: Sequence[Move]) -> None:
        width = self.rows.width
        for move in moves:
            length = int(self.rows.cached[move.source])
            for buffer in (self.pool.keys, self.pool.values):
                source, target = move.source * width, move.target * width
                buffer[:, target : target + length] = buffer[:, source : source + length]
            self.last_ids[move.target] = self.last_ids[move.source]
            self.rows.move(move.source, move.target)

    def release_all(self) -> None:
        """The pool lives for the whole run."""

"""Attention over block tables: gathered on a CPU, and by the kernels, against attention by hand on a mixed pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.core.passes import Chunk, PlannedPass
from engine.core.request import Request
from engine.runtime.kv.attention import KVPass
from engine.runtime.kv.kv_cache import KVPool, KVShape
from engine.runtime.kv.paged_attention import GatherAttention
from engine.runtime.kv.paged_inputs import BlockTables, PackedInputs, pack
from tests.runtime.kv.test_paged_inputs import planned, request
from tests.support.triton_here import DEVICE, importing_kernels

with importing_kernels():
    from engine.runtime.kv.kernel_attention import KernelAttention

HEADS, KV_HEADS, WIDTH, BLOCK = 6, 2, 16, 4
SCALE = 0.3


def requests() -> list[Request]:
    """Two that decode at one length, one at another, and three that are read in chunks; blocks in no order."""
    return [
        request(0, 9, slot=3, blocks=[11, 2, 7], output=[1, 2]),
        request(1, 5, slot=0, blocks=[4, 9], output=[3]),
        request(2, 10, slot=5, blocks=[1, 13, 6], output=[4]),
        request(3, 7, slot=1, blocks=[8, 3]),
        request(4, 9, slot=2, blocks=[5, 0, 10]),
        request(5, 6, slot=4, blocks=[12, 14]),
    ]


def mixed(asked: list[Request]) -> PlannedPass:
    """A whole prompt, a chunk after five tokens, and a last chunk of one token."""
    chunks = [
        Chunk(request=asked[3], start=0, tokens=7, is_last=True),
        Chunk(request=asked[4], start=5, tokens=3, is_last=False),
        Chunk(request=asked[5], start=5, tokens=1, is_last=True),
    ]
    return planned([*asked[:3], asked[3], asked[5]], chunks)


def make_pool(device: torch.device) -> KVPool:
    """Every position holds different numbers; positions that must not be read are NaN."""
    shape = KVShape(layers=2, kv_heads=KV_HEADS, head_dim=WIDTH, dtype=torch.float32, device=device)
    pool = KVPool(shape, 15, BLOCK)
    generator = torch.Generator().manual_seed(1)
    for buffer in (pool.keys, pool.values):
        buffer.copy_(torch.randn(buffer.shape, generator=generator))
    unread = [7 * BLOCK + 3, 9 * BLOCK + 2, 10 * BLOCK + 1]
    for buffer in (pool.keys, pool.values):
        buffer[:, unread] = torch.nan
    return pool


def prepare(how: str, work: PlannedPass) -> tuple[KVPass, KVPool, PackedInputs]:
    pool = make_pool(DEVICE if how == "kernels" else torch.device("cpu"))
    tables = BlockTables(slots=6, blocks_per_row=3, block_size=BLOCK)
    inputs = pack(work, tables)
    attention = GatherAttention(pool, tables) if how == "gathered" else KernelAttention(pool, tables, processors=8)
    kv_pass, given = attention.prepare(inputs)
    assert given.row_slots.tolist() == [3, 0, 5, 1, 4]
    assert given.logits_indices.tolist() == [0, 1, 2, 9, 13]
    return kv_pass, pool, inputs


def by_hand(pool: KVPool, planned: PlannedPass, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """(T, H, E), token by token, over copies of the layer that hold this pass's keys and values."""
    tokens = [(r, r.num_tokens - 1) for r in planned.rows[:3]]
    tokens += [(c.request, c.start + i) for c in planned.chunks for i in range(c.tokens)]

    def place(r: Request, column: int) -> int:
        return r.block_table[column // BLOCK] * BLOCK + column % BLOCK

    keys, values = pool.keys[1].cpu().clone(), pool.values[1].cpu().clone()
    for i, (r, column) in enumerate(tokens):
        keys[place(r, column)], values[place(r, column)] = key[0, :, i], value[0, :, i]
    attended = []
    for i, (r, column) in enumerate(tokens):
        seen = [place(r, c) for c in range(column + 1)]
        k, v = (x[seen].repeat_interleave(HEADS // KV_HEADS, dim=1) for x in (keys, values))
        weights = (torch.einsum("he,che->hc", query[0, :, i], k) * SCALE).softmax(dim=-1)
        attended.append(torch.einsum("hc,che->he", weights, v))
    return torch.stack(attended)


@pytest.mark.parametrize("how", ["gathered", "kernels"])
def test_a_mixed_pass_attends_over_each_rows_own_columns(how: str) -> None:
    work = mixed(requests())
    kv_pass, pool, _ = prepare(how, work)
    generator = torch.Generator().manual_seed(2)
    query, key, value = (torch.randn(1, n, 14, WIDTH, generator=generator) for n in (HEADS, KV_HEADS, KV_HEADS))
    expected = by_hand(pool, work, query, key, value)
    attended = kv_pass.attend(1, *(x.to(pool.keys.device) for x in (query, key, value)), SCALE)
    assert attended.shape == (1, 14, HEADS, WIDTH)
    torch.testing.assert_close(attended[0].cpu(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("how", ["gathered", "kernels"])
def test_what_a_pass_computed_is_kept_where_its_tables_say(how: str) -> None:
    work = mixed(requests())
    kv_pass, pool, inputs = prepare(how, work)
    before = pool.keys.clone()
    key = torch.arange(14 * KV_HEADS * WIDTH, dtype=torch.float32).view(1, KV_HEADS, 14, WIDTH).to(pool.keys.device)
    kv_pass.attend(0, torch.zeros(1, HEADS, 14, WIDTH, device=key.device), key, key + 1, SCALE)
    written = inputs.slot_mapping.tolist()
    assert torch.equal(pool.keys[0, written], key[0].transpose(0, 1))
    assert torch.equal(pool.values[0, written], key[0].transpose(0, 1) + 1)
    others = sorted(set(range(60)) - set(written))
    torch.testing.assert_close(pool.keys[0, others], before[0, others], rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(pool.keys[1], before[1], rtol=0, atol=0, equal_nan=True)


def test_a_kernel_pass_sends_tables_what_is_new_alone() -> None:
    pool, tables = make_pool(DEVICE), BlockTables(slots=6, blocks_per_row=3, block_size=BLOCK)
    attention = KernelAttention(pool, tables, processors=8)
    asked = requests()
    attention.prepare(pack(planned(asked[:2]), tables))
    assert attention.tables.tolist() == [[4, 9, 0], [0] * 3, [0] * 3, [11, 2, 7], [0] * 3, [0] * 3]
    asked[1].block_table.append(12)
    inputs = pack(planned(asked[:3]), tables)
    assert inputs.table_blocks.tolist() == [12, 1, 13, 6]
    attention.prepare(inputs)
    assert attention.tables.tolist() == tables.ids.tolist()

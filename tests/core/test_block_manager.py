"""The block pool: which ids are allocated, when there are enough, and that no block is held twice."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.block_manager import BlockManager, blocks_for_tokens, watermark_blocks
from engine.core.request import FinishReason, Request
from tests.support.schedule import requests


def holders(count: int) -> list[Request]:
    """Requests of 4 prompt tokens and a budget of 100."""
    return requests([100] * count)


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (32, 2), (33, 3)])
def test_a_block_is_allocated_for_its_first_position(tokens: int, blocks: int) -> None:
    assert blocks_for_tokens(tokens, 16) == blocks


@pytest.mark.parametrize(("num_blocks", "kept"), [(0, 0), (1, 1), (100, 1), (101, 2), (1000, 10)])
def test_the_watermark_is_one_percent_rounded_up(num_blocks: int, kept: int) -> None:
    assert watermark_blocks(num_blocks) == kept


def test_the_lowest_blocks_come_first_and_a_freed_table_in_its_own_order() -> None:
    a, b, c = holders(3)
    pool = BlockManager(8, 4)
    pool.allocate(a, 9)
    pool.allocate(b, 4)
    assert (a.block_table, b.block_table, pool.num_free) == ([0, 1, 2], [3], 4)
    pool.free(a)
    assert (a.block_table, pool.num_free) == ([], 7)
    # Blocks used before come first.
    pool.allocate(c, 13)
    assert c.block_table == [0, 1, 2, 4]
    pool.free(b)
    pool.free(c)
    pool.allocate(a, 20)
    assert a.block_table == [0, 1, 2, 4, 3]


def test_a_table_grows_when_its_last_block_is_full() -> None:
    (a,) = holders(1)
    pool = BlockManager(3, 4)
    pool.allocate(a, 4)
    pool.append(a, 4)
    assert a.block_table == [0]
    pool.append(a, 5)
    assert a.block_table == [0, 1]
    pool.append(a, 8)
    assert a.block_table == [0, 1]
    # A smaller number frees nothing.
    pool.append(a, 1)
    assert (a.block_table, pool.num_free, pool.num_allocated) == ([0, 1], 1, 2)


def test_an_admission_leaves_the_watermark_and_a_running_request_may_use_it() -> None:
    a, b = holders(2)
    pool = BlockManager(5, 4)  # a watermark of one block
    pool.allocate(a, 4)
    assert pool.can_allocate(12)
    assert not pool.can_allocate(13)
    pool.allocate(b, 12)
    assert not pool.can_allocate(1)
    pool.append(a, 8)
    assert pool.num_free == 0
    pool.append(a, 8)
    with pytest.raises(AssertionError, match="1 blocks needed, 0 free"):
        pool.append(b, 13)


def test_an_empty_pool_may_be_filled_to_the_last_block() -> None:
    (a,) = holders(1)
    pool = BlockManager(5, 4)
    assert pool.can_allocate(20)
    assert not pool.can_allocate(21)
    pool.allocate(a, 20)
    assert pool.num_free == 0


def test_several_tables_grow_by_a_block_each() -> None:
    a, b, c = holders(3)
    pool = BlockManager(6, 2)
    pool.allocate(a, 2)
    pool.allocate(b, 4)
    pool.append_one_each([b, a])
    assert (a.block_table, b.block_table, pool.num_free) == ([0, 4], [1, 2, 3], 1)
    pool.append_one_each([])
    with pytest.raises(AssertionError, match="2 blocks needed, 1 free"):
        pool.append_one_each([a, c])


def test_too_few_free_blocks_fail() -> None:
    a, b = holders(2)
    pool = BlockManager(2, 4)
    pool.allocate(a, 5)
    with pytest.raises(AssertionError, match="1 blocks needed, 0 free"):
        pool.append(a, 9)
    with pytest.raises(AssertionError, match="request 0 holds blocks already"):
        pool.allocate(a, 1)
    assert (a.block_table, b.block_table) == ([0, 1], [])


def test_events_list_each_change_once_and_in_order() -> None:
    a, b = holders(2)
    pool = BlockManager(4, 4)
    pool.allocate(a, 5)
    pool.append(a, 9)
    pool.append_one_each([b])
    events = [(e.block_id, e.request_id, e.table_index, e.allocated) for e in pool.drain_events()]
    assert events == [(0, 0, 0, True), (1, 0, 1, True), (2, 0, 2, True), (3, 1, 0, True)]
    pool.free(a)
    events = [(e.block_id, e.request_id, e.table_index, e.allocated) for e in pool.drain_events()]
    assert events == [(0, 0, 0, False), (1, 0, 1, False), (2, 0, 2, False)]
    assert pool.drain_events() == ()


class Broken:
    """A pool of 4 blocks of 4 positions, two requests in it, about to be broken."""

    def __init__(self) -> None:
        self.a, self.b = holders(2)
        self.pool = BlockManager(4, 4)
        self.pool.allocate(self.a, 4)
        self.pool.allocate(self.b, 4)
        self.a.num_computed_tokens = self.b.num_computed_tokens = 4
        self.pool.check_invariants([self.a, self.b])

    def complaint(self) -> str:
        with pytest.raises(AssertionError) as failed:
            self.pool.check_invariants([self.a, self.b])
        return str(failed.value).splitlines()[0]


def test_invariants_find_a_block_with_two_owners() -> None:
    broken = Broken()
    broken.b.block_table[0] = 0
    assert broken.complaint() == "block 0 is held 2 times"


def test_invariants_find_a_block_that_is_owned_and_free() -> None:
    broken = Broken()
    broken.pool._free.append(1)
    assert broken.complaint() == "block 1 is held 2 times"


def test_invariants_find_a_lost_block() -> None:
    broken = Broken()
    broken.pool._free.remove(3)
    assert broken.complaint() == "2 held and 1 free blocks do not add up to 4"


def test_invariants_find_a_block_of_another_pool() -> None:
    broken = Broken()
    broken.b.block_table[0] = 4
    assert broken.complaint() == "block 4 is outside this pool of 4"


def test_invariants_find_a_table_that_is_too_short() -> None:
    broken = Broken()
    broken.a.num_computed_tokens = 5
    assert broken.complaint() == "request 0 has computed 5 positions but holds 1 blocks"


def test_invariants_find_a_table_that_is_too_long() -> None:
    broken = Broken()
    broken.pool.append(broken.a, 5)
    assert broken.complaint() == "request 0 of 4 tokens holds 2 blocks"
    broken.a.num_scheduled = 1
    broken.pool.check_invariants([broken.a, broken.b])


def test_invariants_find_a_request_that_ended_and_kept_its_blocks() -> None:
    broken = Broken()
    broken.a.finish_reason = FinishReason.BUDGET
    assert broken.complaint() == "request 0 has ended and holds 1 blocks"


@settings(max_examples=150, deadline=None)
@given(num_blocks=st.integers(1, 40), block_size=st.sampled_from([1, 2, 4, 16]), seed=st.integers(0, 2**32))
def test_random_operations_leave_every_block_owned_once_or_free(num_blocks: int, block_size: int, seed: int) -> None:
    draw = random.Random(seed)
    pool, made = BlockManager(num_blocks, block_size), holders(6)
    owners: dict[int, tuple[int, int]] = {}  # block -> request, index in its table: from the events only
    for _ in range(120):
        request = draw.choice(made)
        _random_operation(pool, request, draw)
        pool.check_invariants(made)
        for event in pool.drain_events():
            held = event.request_id, event.table_index
            assert owners.pop(event.block_id, held) == held
            if event.allocated:
                owners[event.block_id] = held
        tables = {block: (r.request_id, i) for r in made for i, block in enumerate(r.block_table)}
        assert owners == tables
        assert pool.num_free == num_blocks - len(tables)


def _random_operation(pool: BlockManager, request: Request, draw: random.Random) -> None:
    if request.block_table and draw.random() < 0.3:
        pool.free(request)
        request.num_computed_tokens = request.num_scheduled = 0
        return
    tokens = request.num_computed_tokens + draw.randint(1, 3 * pool.block_size)
    if not request.block_table and pool.can_allocate(tokens):
        free = pool.num_free
        pool.allocate(request, tokens)
        assert pool.num_free >= watermark_blocks(pool.num_blocks) or free == pool.num_blocks
    elif request.block_table and blocks_for_tokens(tokens, pool.block_size) - len(request.block_table) <= pool.num_free:
        pool.append(request, tokens)
    else:
        assert blocks_for_tokens(tokens, pool.block_size) > pool.num_free - watermark_blocks(pool.num_blocks)
        return
    request.num_computed_tokens = tokens
    request.num_scheduled = max(0, tokens - request.num_prompt_tokens)

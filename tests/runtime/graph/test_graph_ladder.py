"""The sizes at which passes are captured, and the slots and blocks of a run as arrays."""

from __future__ import annotations

import numpy as np
import pytest

from engine.runtime.graph.ladder import MAX_CAPTURED_TOKENS, bucket_for, row_buckets, token_buckets
from engine.runtime.graph.rows import OwnRows


def test_rows_have_fine_steps_first() -> None:
    assert row_buckets(1) == (1,)
    assert row_buckets(3) == (1, 2, 4)
    assert row_buckets(40) == (1, 2, 4, 8, 16, 24, 32, 40)
    assert row_buckets(100)[-3:] == (80, 96, 112)
    assert row_buckets(512)[-2:] == (480, 512)
    assert row_buckets(600)[-2:] == (576, 640)


def test_tokens_stop_where_a_pass_hides_its_own_launches() -> None:
    assert token_buckets(10) == (16,)
    assert token_buckets(100) == (16, 32, 64, 96, 128)
    assert token_buckets(10**6)[-1] == MAX_CAPTURED_TOKENS
    assert bucket_for(MAX_CAPTURED_TOKENS + 1, token_buckets(10**6)) is None


@pytest.mark.parametrize("size", [513, 1000, 1025, 3000, 4097, 8192])
def test_at_most_a_fifth_of_a_large_bucket_is_padding(size: int) -> None:
    bucket = bucket_for(size, token_buckets(8192))
    assert bucket is not None
    assert bucket >= size
    assert bucket - size <= bucket / 5


def test_rows_of_their_own_lie_one_after_the_other() -> None:
    rows = OwnRows(slots=3, table_width=2, block_size=4)
    assert rows.tables.ids.tolist() == [[0, 1], [2, 3], [4, 5]]
    slots, columns = np.array([0, 1, 2], dtype=np.int32), np.array([3, 4, 7], dtype=np.int32)
    assert rows.tables.slot_mapping(slots, columns).tolist() == [3, 12, 23]

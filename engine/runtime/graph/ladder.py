"""The bucket sizes at which passes are captured. A pass runs in the smallest bucket that holds it, padded to its size.

Steps are fine for small passes, where a row costs most, and coarse for large ones: from 512 tokens on, at most a fifth
is padding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

MAX_CAPTURED_TOKENS = 8192  # larger passes hide their launches


def row_buckets(max_rows: int) -> tuple[int, ...]:
    """Decode rows: 1, 2, 4, 8, by 8 to 64, by 16 to 256, by 32 to 512, by 64 on; the last holds `max_rows`."""
    return _ladder((1, 2, 4, 8), ((8, 64), (16, 256), (32, 512), (64, max(max_rows, 512) + 64)), max_rows)


def token_buckets(max_tokens: int) -> tuple[int, ...]:
    """Tokens of a prefill or mixed pass: 16, 32, by 32 to 128, by 64 to 512, by 128 to 1024, then by 256 and 512."""
    steps = ((32, 128), (64, 512), (128, 1024), (256, 4096), (512, MAX_CAPTURED_TOKENS))
    return _ladder((16, 32), steps, min(max_tokens, MAX_CAPTURED_TOKENS))


def bucket_for(size: int, buckets: Sequence[int]) -> int | None:
    """The smallest bucket that holds `size`; None if the largest is too small."""
    place = bisect_left(buckets, size)
    return buckets[place] if place < len(buckets) else None


def _ladder(first: tuple[int, ...], steps: Sequence[tuple[int, int]], largest: int) -> tuple[int, ...]:
    sizes = list(first)
    for step, end in steps:
        while sizes[-1] < end:
            sizes.append(sizes[-1] + step - sizes[-1] % step)
    last = bucket_for(largest, sizes)
    return tuple(s for s in sizes if last is None or s <= last)

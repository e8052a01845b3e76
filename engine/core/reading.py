"""How fast people read, against how fast tokens come: the batch size at which one reader's rate falls below reading.

An English word is about four thirds of a token; people read some 240 words of plain prose a minute (Brysbaert 2019, a
review of 190 studies: 238). Skimming is several times faster, code and tables are slower.
"""

from __future__ import annotations

from engine.core.what_if import WhatIf, step_s

WORDS_PER_TOKEN = 0.75
WORDS_PER_MINUTE = 240
MOST = 1 << 24


def reading_tokens_per_s(words_per_minute: float) -> float:
    """The rate of tokens at which somebody reads along."""
    return words_per_minute / 60 / WORDS_PER_TOKEN


def words_per_s(tokens_per_s: float) -> float:
    return tokens_per_s * WORDS_PER_TOKEN


def readable_until(case: WhatIf, tokens_per_s: float) -> int:
    """The largest batch whose step still gives each of its readers so many tokens a second; 0 where none does."""
    low, high = 0, MOST  # a step takes longer with every row
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if step_s(case, middle) * tokens_per_s <= 1 else (low, middle)
    return low

"""Run ids: short, unique, and in alphabetical order of their making, so that a plain listing is a history.

Nine characters of milliseconds since 1970 (enough until the year 3084) and three drawn at random, in Crockford's base
32, whose alphabet leaves out i, l, o and u. Two ids made in one millisecond by one machine differ with 32,767 chances
in 32,768; they carry no order between each other.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
TIME_CHARACTERS = 9
RANDOM_CHARACTERS = 3


def new_run_id() -> str:
    """Twelve lower-case characters."""
    return run_id_at(time.time_ns() // 1_000_000)


def run_id_at(time_ms: int) -> str:
    """An id for that many milliseconds since 1970."""
    drawn = secrets.randbelow(32**RANDOM_CHARACTERS)
    return _base32(time_ms, TIME_CHARACTERS) + _base32(drawn, RANDOM_CHARACTERS)


def _base32(number: int, characters: int) -> str:
    assert 0 <= number < 32**characters
    return "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(characters)))


# The moment now, as run logs and experiments write it.


def utc_now() -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")

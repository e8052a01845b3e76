"""Run ids and the current time. A run id is short and unique; ids sort by the time when they were made.

An id is nine characters of milliseconds since 1970 (enough until the year 3084) and three random ones, in Crockford's
base 32, whose alphabet leaves out i, l, o and u. Two ids of the same millisecond are equal with a probability of 1 in
32,768, and their order is random.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
TIME_CHARACTERS = 9
RANDOM_CHARACTERS = 3


def new_run_id() -> str:
    """A run id for now: twelve lower-case characters."""
    return run_id_at(time.time_ns() // 1_000_000)


def run_id_at(time_ms: int) -> str:
    """A run id for `time_ms` milliseconds since 1970."""
    drawn = secrets.randbelow(32**RANDOM_CHARACTERS)
    return _base32(time_ms, TIME_CHARACTERS) + _base32(drawn, RANDOM_CHARACTERS)


def _base32(number: int, characters: int) -> str:
    assert 0 <= number < 32**characters
    return "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(characters)))


def current_time() -> datetime:
    """The current time, in UTC."""
    return datetime.now(UTC)


def utc_now() -> str:
    """The current time as run logs and experiments write it: ISO 8601 in UTC, to the millisecond."""
    return current_time().isoformat(timespec="milliseconds")

"""The moment now, as run logs and experiments write it."""

from datetime import UTC, datetime


def utc_now() -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")

"""How numbers and foreign text are written on every page: three significant digits, the unit beside the value.

Times arrive in seconds, memory in bytes, shares between 0 and 1. What was not measured (None or NaN) is a dash, never a
zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

MISSING = "–"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|<>~$:&-])")


def is_missing(value: float | None) -> bool:
    """True for a value that was not measured: None, NaN, or pandas' own NA."""
    if value is None:
        return True
    try:
        return math.isnan(value)
    except TypeError:
        return True


def number(value: float | None, digits: int = 3) -> str:
    """`digits` significant digits, with thousands separators: 0.0521, 5.21, 52.1, 5,210. Whole counts: use `count`."""
    if value is None or is_missing(value):
        return MISSING
    if value == 0:
        return "0"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    rounded = float(f"{value:.{digits - 1}e}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


def count(value: float | None) -> str:
    """A whole number in full, with thousands separators."""
    return MISSING if value is None or is_missing(value) else f"{round(value):,}"


def seconds(value: float | None) -> str:
    """A time with the unit that reads best: 850 µs, 52.1 ms, 5.21 s, 312 s; ∞ without bound."""
    if value is None or is_missing(value):
        return MISSING
    if math.isinf(value):
        return number(value)
    size = abs(float(f"{value:.2e}"))
    if size == 0 or size >= 1:
        return f"{number(value)} s"
    if size >= 1e-3:
        return f"{number(value * 1e3)} ms"
    return f"{number(value * 1e6)} µs"


def rate(value: float | None, what: str = "tok") -> str:
    """Something a second: 312 tok/s."""
    return MISSING if value is None or is_missing(value) else f"{number(value)} {what}/s"


def share(value: float | None) -> str:
    """A share between 0 and 1 as a percentage: 43.8 %."""
    return MISSING if value is None or is_missing(value) else f"{number(value * 100)} %"


def ratio(value: float | None) -> str:
    """How many times: 1.92x."""
    return MISSING if value is None or is_missing(value) else f"{number(value)}x"


def size(value: float | None) -> str:
    """Bytes in binary units: 512 B, 93.1 MiB, 2.88 GiB."""
    if value is None or is_missing(value):
        return MISSING
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{count(amount) if unit == 'B' else number(amount)} {unit}"
        amount /= 1024
    return f"{number(amount)} TiB"


def plural(amount: int, noun: str, plural_noun: str | None = None) -> str:
    """`1 request`, `8 requests`, `2 batches`."""
    return f"{amount:,} {noun if amount == 1 else plural_noun or noun + 's'}"


def plain(text: str) -> str:
    """Foreign text (a prompt, an answer, an error) that Markdown must show as it is, on one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """A command that may hold foreign text, as code within Markdown, where nothing is escaped: no backtick ends it."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1] if words else ""

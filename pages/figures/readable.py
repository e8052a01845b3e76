"""Numbers as a person reads them: three significant digits, a unit, and no false precision."""

from __future__ import annotations

import math


def three_digits(value: float) -> str:
    """Three significant digits, thousands grouped, trailing zeros dropped: 0.01234 -> 0.0123, 123456 -> 123,000."""
    if not math.isfinite(value):
        return "unknown"
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    if digits <= 0 or rounded == int(rounded):
        return f"{rounded:,.0f}"
    text = f"{rounded:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def seconds_text(value_s: float) -> str:
    """A duration in the unit that suits it: 0.0312 -> 31.2 ms, 2.5 -> 2.5 s, 0 -> 0 s; ∞ for one without bound."""
    if value_s == math.inf:
        return "∞"
    if not math.isfinite(value_s):
        return "unknown"
    if value_s == 0:
        return "0 s"
    if abs(value_s) < 0.9995:
        return f"{three_digits(value_s * 1000)} ms"
    return f"{three_digits(value_s)} s"


def share_text(share: float) -> str:
    """A share of one as a percentage: 0.4375 -> 43.8 %. A trace is never rounded to nothing, nor nearly all to all."""
    if not math.isfinite(share):
        return "unknown"
    if 0 < share < 0.0005:
        return "under 0.1 %"
    if 0.9995 <= share < 1:
        return "over 99.9 %"
    return f"{three_digits(share * 100)} %"


def count_text(count: float, noun: str, plural: str | None = None) -> str:
    """A whole count with its noun: 1 request, 4,096 positions. Counts are exact below a million."""
    number = f"{count:,.0f}" if abs(count) < 1_000_000 else f"{three_digits(count / 1e6)} M"
    return f"{number} {noun if count == 1 else plural or noun + 's'}"
